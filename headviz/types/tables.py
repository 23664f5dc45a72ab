"""What can be asked, and what can be answered: all requests and all results."""

from __future__ import annotations

from headviz.types.checkpoints import CheckpointReport
from headviz.types.repairs import RepairedCheckpoint, RepairedRequest, RepairReport, RepairRequest
from headviz.types.requests import (
    BandsRequest,
    CheckpointRequest,
    DistanceRequest,
    GenerateRequest,
    GradientRequest,
    MapRequest,
    MeasureRequest,
    PatternRequest,
    PromptScoreRequest,
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

Request = (
    ScoreRequest
    | PromptScoreRequest
    | PatternRequest
    | SinkRequest
    | BandsRequest
    | DistanceRequest
    | MeasureRequest
    | GradientRequest
    | MapRequest
    | GenerateRequest
    | CheckpointRequest
    | RepairRequest
    | RepairedRequest
)

Result = (
    ScoreTable
    | HeadPattern
    | SinkPlaces
    | Bands
    | AttentionByDistance
    | QuestionScores
    | TextLosses
    | HeadGradients
    | HeadLosses
    | Generation
    | CheckpointReport
    | RepairReport
    | RepairedCheckpoint
)

RESULTS: dict[str, type] = {cls.__name__: cls for cls in Result.__args__}
