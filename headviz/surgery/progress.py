"""The folder of a repair: written while it runs, read by pages at any moment, gone on from after a kill.

    HEADVIZ_HOME/repairs/<digest>/
      lock                         held by whoever works on it, until the last of them is gone
      stock.safetensors            the model before surgery, on the texts of the plan
      <arm>-<seed>-<pass>/         one run
        run.json                   its heads
        curve.jsonl                a line an evaluated step
        maps-<step>.safetensors    mass, entropy and norms of all heads then
        last.safetensors           slices, optimiser and step: what a run goes on from; slices alone when it has ended
        best.safetensors           slices at the step with the lowest loss on the select part
        losses.safetensors         losses on the report part and the other domain, when it has ended
        end.json                   why it ended
        frozen.json                first pass only: hash of all frozen numbers in the process where the last pass of the chain ended
      tests.json                   single heads of the repair arm, when every run has ended

It outlives the job's folder: a repair that was cancelled goes on from here when it is asked for again. Every file is
written whole. No torch here.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headviz.settings import Settings
from headviz.surgery.meter import Meter, write_whole
from headviz.types import HeadTest, RepairRequest, RepairRun, RepairStock
from headviz.types.repairs import Heads

log = logging.getLogger(__name__)

MAPS = ("mass", "entropy", "output_norm", "full_norm")
LOSSES = ("report_best", "report_last", "other_best", "other_last")
_STOCK, _RUN, _CURVE, _LOSSES, _END, _FROZEN, _TESTS = (
    "stock.safetensors",
    "run.json",
    "curve.jsonl",
    "losses.safetensors",
    "end.json",
    "frozen.json",
    "tests.json",
)
LOCK = "lock"
LAST, BEST = "last.safetensors", "best.safetensors"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One evaluated step, as a line of the curve; the fields are those of `RepairRun`, NaN where not defined."""

    step: int
    train_loss: float
    select: float
    rate: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True, kw_only=True)
class SoFar:
    """What there is of a repair now.

    stock:   None until the model before surgery was measured
    runs:    in the plan's order, those without an evaluated step left out; several may be unfinished, as runs go side by side
    running: (arm, seed, pass, last evaluated step) of every unfinished run
    tests:   single heads of the repair arm; empty until all runs have ended and they were tested, and without that arm
    """

    stock: RepairStock | None
    runs: tuple[RepairRun, ...]
    running: tuple[tuple[str, int, int, int], ...]
    tests: tuple[HeadTest, ...] = ()


def folder(settings: Settings, digest: str) -> Path:
    """Where the repair with this digest is kept; it need not be there."""
    return settings.home / "repairs" / digest


def run_folder(place: Path, arm: str, seed: int, number: int) -> Path:
    """Where one run of the repair in `place` is kept."""
    return place / f"{arm}-{seed}-{number}"


def so_far(settings: Settings, digest: str, request: RepairRequest) -> SoFar:
    """What there is of the repair at this moment; cheap, and never an error for a file that is being written."""
    place = folder(settings, digest)
    runs, running = [], []
    for arm in request.arms:
        for seed in request.seeds:
            for number in range(1, request.passes + 1):
                found = read_run(run_folder(place, arm, seed, number))
                if found is None:
                    continue
                runs.append(found)
                if not found.ended:
                    running.append((arm, seed, number, int(found.step[-1])))
    return SoFar(
        stock=read_stock(place), runs=tuple(runs), running=tuple(running), tests=read_tests(place) or ()
    )


# --------------------------------------------------------------------------------------------------------- reading


def read_stock(place: Path) -> RepairStock | None:
    arrays = _arrays(place / _STOCK)
    names = {field.name for field in fields(RepairStock)}
    if arrays is None or set(arrays) != names:
        return None
    return RepairStock(**arrays | {"select": float(arrays["select"])})


def read_run(run: Path) -> RepairRun | None:
    """The run in this folder as far as it is; None before its first evaluated step."""
    begun, end = _json(run / _RUN), _json(run / _END)
    found = [(point, maps) for point in read_points(run) if (maps := _maps(run, point.step)) is not None]
    if begun is None or not found:
        return None
    points, maps = zip(*found)
    losses = (_arrays(run / _LOSSES) if end else None) or {name: np.zeros(0) for name in LOSSES}
    select = np.array([point.select for point in points])
    columns = {
        name: np.array([getattr(point, name) for point in points])
        for name in ("train_loss", "rate", "gradient_norm", "tokens_per_second")
    }
    return RepairRun(
        arm=begun["arm"],
        seed=begun["seed"],
        number=begun["number"],
        heads=tuple((layer, head) for layer, head in begun["heads"]),
        step=np.array([point.step for point in points], np.int32),
        select=select,
        **columns,
        **{name: np.stack([one[name] for one in maps]) for name in MAPS},
        best=points[int(np.argmin(select))].step,
        ended=end["ended"] if end else "",
        **losses,
    )


def read_points(run: Path) -> list[Point]:
    """The evaluated steps of a run, in order; a line that cannot be read is passed over."""
    try:
        text = (run / _CURVE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[Point] = []
    for line in text.splitlines():
        try:
            tree = json.loads(line)
            point = Point(**{name: math.nan if value is None else value for name, value in tree.items()})
        except (ValueError, TypeError, AttributeError):
            continue
        if not found or point.step > found[-1].step:
            found.append(point)
    return found


def read_tests(place: Path) -> tuple[HeadTest, ...] | None:
    """The single heads that were tested; None where they were not yet, or where the file cannot be read."""
    try:
        return tuple(
            HeadTest(**{name: math.nan if value is None else value for name, value in row.items()})
            for row in _json(place / _TESTS)["tests"]
        )
    except (TypeError, KeyError, AttributeError):
        return None


def read_frozen(place: Path, arm: str, seed: int) -> str:
    """sha256 of the frozen numbers in the process that ended this arm with this seed; empty where it kept none."""
    return (_json(run_folder(place, arm, seed, 1) / _FROZEN) or {}).get("sha256", "")


def ended(run: Path) -> str:
    """Why a run ended; empty where it has not, or is not there."""
    return (_json(run / _END) or {}).get("ended", "")


# --------------------------------------------------------------------------------------------------------- writing


def write_stock(place: Path, stock: RepairStock, meter: Meter) -> None:
    arrays = {field.name: np.asarray(getattr(stock, field.name)) for field in fields(stock)}
    write_whole(place / _STOCK, _packed(arrays), meter)


def write_tests(place: Path, tests: Iterable[HeadTest], meter: Meter) -> None:
    """Keep the single heads; a number that is not defined (p of one document) becomes null."""
    rows = [_without_nan(test) for test in tests]
    write_whole(place / _TESTS, json.dumps({"tests": rows}).encode(), meter)


def begin_run(run: Path, arm: str, seed: int, number: int, heads: Heads, meter: Meter) -> None:
    tree = {"arm": arm, "seed": seed, "number": number, "heads": [list(head) for head in heads]}
    write_whole(run / _RUN, json.dumps(tree).encode(), meter)


def add_point(run: Path, point: Point, maps: Mapping[str, np.ndarray], meter: Meter) -> None:
    """Keep an evaluated step: maps (L, H) first, then the line that says they are there."""
    write_whole(run / _map_name(point.step), _packed(maps), meter)
    _write_points(run, [*read_points(run), point], meter)


def drop_after(run: Path, step: int, meter: Meter) -> None:
    """Forget the evaluated steps after `step`: the run goes on from there and comes to them again."""
    kept = [point for point in read_points(run) if point.step <= step]
    _write_points(run, kept, meter)


def end_run(run: Path, why: str, losses: Mapping[str, np.ndarray], meter: Meter) -> None:
    """A run is over. losses: the arrays of LOSSES."""
    write_whole(run / _LOSSES, _packed(losses), meter)
    write_whole(run / _END, json.dumps({"ended": why}).encode(), meter)


def write_frozen(place: Path, arm: str, seed: int, sha256: str, meter: Meter) -> None:
    """The last pass of this arm with this seed is over, and the model without slices has this hash in the process that ran it."""
    write_whole(run_folder(place, arm, seed, 1) / _FROZEN, json.dumps({"sha256": sha256}).encode(), meter)


def _write_points(run: Path, points: list[Point], meter: Meter) -> None:
    lines = [f"{json.dumps(_without_nan(point))}\n" for point in points]
    write_whole(run / _CURVE, "".join(lines).encode(), meter)


def _without_nan(row: Point | HeadTest) -> dict[str, Any]:
    """Its fields; JSON has no NaN."""
    return {name: None if value != value else value for name, value in asdict(row).items()}


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    return save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def _map_name(step: int) -> str:
    return f"maps-{step:06d}.safetensors"


def _maps(run: Path, step: int) -> dict[str, np.ndarray] | None:
    arrays = _arrays(run / _map_name(step))
    return arrays if arrays is not None and set(arrays) == set(MAPS) else None


def _arrays(path: Path) -> dict[str, np.ndarray] | None:
    try:
        return load(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError):
        log.warning("%s cannot be read", path.name)
        return None


def _json(path: Path) -> dict[str, Any] | None:
    try:
        tree = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None
