"""The kinds of job, one row each. No torch: what runs is named by a string that only the worker imports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.errors import BadInput, lookup
from headviz.types import (
    SCHEMA,
    BandsRequest,
    CheckpointRequest,
    DistanceRequest,
    GenerateRequest,
    GradientRequest,
    MapRequest,
    MeasureRequest,
    PatternRequest,
    PromptScoreRequest,
    RepairedRequest,
    RepairRequest,
    Request,
    ScoreRequest,
    SinkRequest,
    build,
    digest,
    plain,
)

LANES: dict[str, str] = {
    "live": "one warm worker, for what somebody waits for",
    "repair": "a process beside it that trains, one plan after the other, and leaves",
}


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    run:     "module:function", called as function(request, resources) -> result, in the worker
    version: of the method; with another one the same request is another job, and old results are not found
    lane:    a row of LANES: which worker of a device takes it
    result:  names of the types in types.RESULTS that an answer may have, with " | " between them
    """

    kind: str
    request: type
    run: str
    result: str
    version: int
    lane: str
    title: str

    def takes(self, result: object) -> bool:
        """Whether `result` is an answer to this kind of request."""
        return type(result).__name__ in self.result.split(" | ")


KINDS: dict[str, Kind] = {
    row.kind: row
    for row in (
        Kind(
            kind="score",
            request=ScoreRequest,
            run="headviz.analysis.scoring:run_score",
            result="ScoreTable",
            version=METHOD_VERSIONS["score"],
            lane="live",
            title="Score every head",
        ),
        Kind(
            kind="prompt-score",
            request=PromptScoreRequest,
            run="headviz.analysis.prompt_scores:run_prompt_score",
            result="ScoreTable",
            version=METHOD_VERSIONS["prompt-score"],
            lane="live",
            title="Score every head on questions",
        ),
        Kind(
            kind="pattern",
            request=PatternRequest,
            run="headviz.analysis.scoring:run_pattern",
            result="HeadPattern",
            version=METHOD_VERSIONS["pattern"],
            lane="live",
            title="Attention pattern of one head",
        ),
        Kind(
            kind="sinks",
            request=SinkRequest,
            run="headviz.analysis.sinks:run_sinks",
            result="SinkPlaces",
            version=METHOD_VERSIONS["sinks"],
            lane="live",
            title="Attention by position",
        ),
        Kind(
            kind="bands",
            request=BandsRequest,
            run="headviz.analysis.band_masses:run_bands",
            result="Bands",
            version=METHOD_VERSIONS["bands"],
            lane="live",
            title="Attention on the first token",
        ),
        Kind(
            kind="distance",
            request=DistanceRequest,
            run="headviz.analysis.band_masses:run_distance",
            result="AttentionByDistance",
            version=METHOD_VERSIONS["distance"],
            lane="live",
            title="Attention of one head by distance",
        ),
        Kind(
            kind="measure",
            request=MeasureRequest,
            run="headviz.analysis.measure:run_measure",
            result="QuestionScores | TextLosses",
            version=METHOD_VERSIONS["measure"],
            lane="live",
            title="Measure with heads off",
        ),
        Kind(
            kind="gradient",
            request=GradientRequest,
            run="headviz.analysis.gradient:run_gradient",
            result="HeadGradients",
            version=METHOD_VERSIONS["gradient"],
            lane="live",
            title="Order heads by their gradient",
        ),
        Kind(
            kind="map",
            request=MapRequest,
            run="headviz.analysis.headmap:run_map",
            result="HeadLosses",
            version=METHOD_VERSIONS["map"],
            lane="live",
            title="Switch off each head alone",
        ),
        Kind(
            kind="generate",
            request=GenerateRequest,
            run="headviz.analysis.generating:run_generate",
            result="Generation",
            version=METHOD_VERSIONS["generate"],
            lane="live",
            title="Go on from a prompt",
        ),
        Kind(
            kind="checkpoint",
            request=CheckpointRequest,
            run="headviz.analysis.checkpoint:run_checkpoint",
            result="CheckpointReport",
            version=METHOD_VERSIONS["checkpoint"],
            lane="live",
            title="Write a checkpoint",
        ),
        Kind(
            kind="repair",
            request=RepairRequest,
            run="headviz.surgery.repair:run_repair",
            result="RepairReport",
            version=METHOD_VERSIONS["repair"],
            lane="repair",
            title="Repair heads",
        ),
        Kind(
            kind="repaired",
            request=RepairedRequest,
            run="headviz.surgery.merge:run_repaired",
            result="RepairedCheckpoint",
            version=METHOD_VERSIONS["repaired"],
            lane="live",
            title="Write a repaired checkpoint",
        ),
    )
}


def job_digest(request: Request) -> str:
    """Name of the job and key of its result, 64 hex digits. Raises BadInput for a field of the wrong type, or NaN."""
    return _digest_of(_Written(request, lookup(KINDS, request.kind, "kind of job").version))


class _Written:
    """A request by how it is written: 16 and 16.0 are equal to Python, and only one of them is right where it stands."""

    def __init__(self, request: Request, version: int) -> None:
        self.request, self.version = request, version
        self._key = (type(request), version, repr(request))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4096)
def _digest_of(written: _Written) -> str:
    """A page asks for the digests of the same fifty requests at every click; each takes half a millisecond."""
    return digest(_typed(written.request), written.version)


def spec(request: Request) -> dict[str, Any]:
    """What `job_digest` is the sha256 of, as JSON types: the request and all that decides how it is answered."""
    version = lookup(KINDS, request.kind, "kind of job").version
    return {
        "schema": SCHEMA,
        "kind": request.kind,
        "method_version": version,
        "request": plain(_typed(request)),
    }


def _typed(request: Request) -> Request:
    """The request as its spec would be read: 1 where a float is due is 1.0, or it would have two digests."""
    return build(type(request), plain(request))


def read_spec(given: str | bytes | dict[str, Any]) -> Request:
    """The request in a spec, as `spec` writes it. Raises BadInput with what is wrong with it."""
    tree = given
    if not isinstance(given, dict):
        try:
            tree = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"This is no request of headviz: it is not JSON ({error}).") from None
    wanted = {"schema", "kind", "method_version", "request"}
    if not isinstance(tree, dict) or set(tree) != wanted:
        raise BadInput(
            f"This is no request of headviz: it must be a JSON object with {', '.join(sorted(wanted))}."
        )
    if tree["schema"] != SCHEMA:
        raise BadInput(f"This request has schema {tree['schema']!r}; this headviz reads {SCHEMA}.")
    row = lookup(KINDS, tree["kind"] if isinstance(tree["kind"], str) else repr(tree["kind"]), "kind of job")
    if tree["method_version"] != row.version:
        raise BadInput(
            f"This request is for version {tree['method_version']!r} of {row.kind!r}; this headviz computes version "
            f"{row.version}. Ask again from the page or the command line."
        )
    return build(row.request, tree["request"])
