"""Requests and results: frozen dataclasses over numpy arrays. No torch here, so that pages can read them.

A request says everything that its answer depends on. Its canonical JSON is the cache key, the job's id, the spec
that the command line runs, and the provenance under a figure. Device, threads, versions and times are provenance,
never identity. Letters: N inputs, T tokens, L layers, H query heads, G KV heads, D head size, M model size.
"""

from __future__ import annotations

from headviz.types.canonical import (
    SCHEMA,
    build,
    canonical,
    digest,
    plain,
)
from headviz.types.carried import Geometry, Provenance
from headviz.types.checkpoints import CheckpointReport, SavedFile, Speed
from headviz.types.repairs import (
    Arm,
    HeadTest,
    Recipe,
    RepairedCheckpoint,
    RepairedRequest,
    RepairReport,
    RepairRequest,
    RepairRun,
    RepairStock,
)
from headviz.types.requests import (
    BOS_POLICIES,
    DTYPES,
    PARTS,
    QUANTIZATIONS,
    Ablation,
    BandsRequest,
    Bos,
    CheckpointRequest,
    DataRef,
    DistanceRequest,
    Dtype,
    GenerateRequest,
    GradientRequest,
    MapRequest,
    MeasureRequest,
    ModelRef,
    PatternRequest,
    PromptScoreRequest,
    QuestionsRef,
    ScoreRequest,
    SinkRequest,
)
from headviz.types.results import (
    AttentionByDistance,
    Bands,
    Generation,
    HeadGradients,
    HeadLosses,
    HeadPattern,
    QuestionScores,
    ScoreTable,
    SinkPlaces,
    TextLosses,
)
from headviz.types.tables import RESULTS, Request, Result
from headviz.types.watch import (
    Silent,
    Watch,
)

__all__ = [
    "BOS_POLICIES",
    "DTYPES",
    "PARTS",
    "QUANTIZATIONS",
    "RESULTS",
    "SCHEMA",
    "Ablation",
    "Arm",
    "AttentionByDistance",
    "Bands",
    "BandsRequest",
    "Bos",
    "CheckpointReport",
    "CheckpointRequest",
    "DataRef",
    "DistanceRequest",
    "Dtype",
    "GenerateRequest",
    "Generation",
    "Geometry",
    "GradientRequest",
    "HeadGradients",
    "HeadLosses",
    "HeadPattern",
    "HeadTest",
    "MapRequest",
    "MeasureRequest",
    "ModelRef",
    "PatternRequest",
    "PromptScoreRequest",
    "Provenance",
    "QuestionScores",
    "QuestionsRef",
    "Recipe",
    "RepairReport",
    "RepairRequest",
    "RepairRun",
    "RepairStock",
    "RepairedCheckpoint",
    "RepairedRequest",
    "Request",
    "Result",
    "SavedFile",
    "ScoreRequest",
    "ScoreTable",
    "Silent",
    "SinkPlaces",
    "SinkRequest",
    "Speed",
    "TextLosses",
    "Watch",
    "build",
    "canonical",
    "digest",
    "head_name",
    "plain",
]


def head_name(layer: int, head: int) -> str:
    """`L03.H07`: zero-based, the same everywhere."""
    return f"L{layer:02d}.H{head:02d}"
