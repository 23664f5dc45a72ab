"""What an ablation changed, on the same questions or texts before and after: change, interval, and what may be claimed.

Accuracies and changes are fractions (−0.01 is one point lost); losses and log-probabilities are in nats. Intervals are
95%, [low, high]; `bound_low` and `bound_high` are the one-sided 95% bounds that claims of tolerance rest on. Letters:
n questions, N inputs, K clusters (documents).
"""

from headviz.analysis.paired.accuracy import PairedChange, SubjectChange, paired_change
from headviz.analysis.paired.claims import (
    AtChance,
    RandomBand,
    Verdict,
    among_random,
    at_chance,
    chance_level,
    questions_needed,
    within_tolerance,
)
from headviz.analysis.paired.intervals import holm, share_interval
from headviz.analysis.paired.kl import answer_kl
from headviz.analysis.paired.many import ManyChanges, paired_means, sums_of
from headviz.analysis.paired.means import MeanChange, paired_mean

__all__ = [
    "AtChance",
    "ManyChanges",
    "MeanChange",
    "PairedChange",
    "RandomBand",
    "SubjectChange",
    "Verdict",
    "among_random",
    "answer_kl",
    "at_chance",
    "chance_level",
    "holm",
    "paired_change",
    "paired_mean",
    "paired_means",
    "questions_needed",
    "share_interval",
    "sums_of",
    "within_tolerance",
]
