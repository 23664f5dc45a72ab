"""How far apart the scores of two or more models are. numpy, and scipy where it is needed.

Letters: N inputs, L layers, H query heads, K documents, M models. Changes are b − a, in the score's own unit.
"""

from headviz.analysis.distance.change import HeadChanges, head_changes, same_inputs
from headviz.analysis.distance.depth import DepthProfile, depth_profile
from headviz.analysis.distance.pair import Comparison, Distance, Yardstick, compare, different_shape
from headviz.analysis.distance.several import Distances, distances
from headviz.analysis.distance.spread import in_spreads, pooled_spread, w1

__all__ = [
    "Comparison",
    "DepthProfile",
    "Distance",
    "Distances",
    "HeadChanges",
    "Yardstick",
    "compare",
    "depth_profile",
    "different_shape",
    "distances",
    "head_changes",
    "in_spreads",
    "pooled_spread",
    "same_inputs",
    "w1",
]
