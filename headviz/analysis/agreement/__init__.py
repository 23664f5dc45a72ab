"""Where two scores agree about which heads are inactive, and where they do not.

Every comparison is over the heads that both scores are defined for, and says how many were left out. "First" is most
inactive, whichever direction a score has. Letters: L layers, H query heads, n heads compared, K scores.
"""

from headviz.analysis.agreement.chance import Chance, chance
from headviz.analysis.agreement.curve import Agreement, agreement
from headviz.analysis.agreement.disputes import Dispute, Verdict, disputes
from headviz.analysis.agreement.matrix import TWELVE, Matrices, clustered, matrices, overlap_share
from headviz.analysis.agreement.quadrants import (
    GROUPS,
    Group,
    Quadrants,
    budget,
    group_names,
    quadrants_at,
    quadrants_of,
)
from headviz.analysis.agreement.scored import Scored, scored, shared, spearman, take

__all__ = [
    "GROUPS",
    "TWELVE",
    "Agreement",
    "Chance",
    "Dispute",
    "Group",
    "Matrices",
    "Quadrants",
    "Scored",
    "Verdict",
    "agreement",
    "budget",
    "chance",
    "clustered",
    "disputes",
    "group_names",
    "matrices",
    "overlap_share",
    "quadrants_at",
    "quadrants_of",
    "scored",
    "shared",
    "spearman",
    "take",
]
