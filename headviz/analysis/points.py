"""Measured points of accuracy against share of heads switched off, read from a CSV."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from headviz.analysis.metrics import METRICS
from headviz.errors import BadData

RANDOM = "random"
MEAN = ", mean"  # after a score: its heads were replaced by their mean, not by zero

# head_type of the first paper's code → our id
HEAD_TYPES: dict[str, str] = {
    "Dormant": "awft",
    "NormalizedDormant": "awft_ln",
    "Entropy": "aeqd",
    "NormalizedEntropy": "aeqd_ln",
    "ValueVectorMagnitudeFirstToken": "ftvvn",
    "ValueVectorMagnitudeNormalizedFirstToken": "ftvvn_ln",
    "ValueVectorAvgMagnitude": "avvn",
    "ValueVectorAvgNormalizedMagnitude": "avvn_ln",
    "HeadOutputMagnitudeLastToken": "lthon",
    "HeadOutputMagnitudeNormalizedLastToken": "lthon_ln",
    "HeadOutputMagnitudeNormalizedHeadLastToken": "lthon_hn",
    "UnnormalizedHONOR": "ahon",
    "HONOR": "ahon_ln",
    "Random": RANDOM,
}
_IDS = {
    **{name.lower(): id_ for name, id_ in HEAD_TYPES.items()},
    **{row.symbol.lower(): id_ for id_, row in METRICS.items()},
    **{id_: id_ for id_ in METRICS},
}

# what may head a column, best first, and what a number there is worth as a fraction (None: see `_accuracies`)
_SCORE = ("score", "metric", "head_type")
_SHARE = {"share": 1.0, "share_off": 1.0, "share_percent": 0.01, "pct_zeroed": 0.01}
_ACCURACY = {"acc_percent": 0.01, "accuracy_percent": 0.01, "acc": None, "accuracy": None}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement. share: heads off, 0..1, as achieved; accuracy: 0..1; threshold: NaN where the file has none."""

    model: str
    score: str
    share: float
    accuracy: float
    threshold: float = math.nan


def score_id(name: str) -> str:
    """Our id for a score's id, symbol or head_type in any case; a name that is none of these stays as it is."""
    return _IDS.get(name.strip().lower(), name.strip())


def apart(score: str) -> tuple[str, str]:
    """(score, `zero` or `mean`) of a curve's name."""
    return (score.removesuffix(MEAN), "mean") if score.endswith(MEAN) else (score, "zero")


def read_points(source: str | Path | bytes) -> tuple[Point, ...]:
    """Points of a CSV file (a path, or its bytes), in the file's order.

    Columns: `model`; `score`, `metric` or `head_type`; the share of heads off as `share` or `share_off` (fraction), or
    `share_percent` or `pct_zeroed` (percent); the accuracy as `acc_percent` or `accuracy_percent`, or as `acc` or
    `accuracy`: then the whole file is percent if any number is above 1, else fractions, and a file with numbers above 1
    beside numbers in 0..1 (0 itself aside) is refused, because some of it might be either. Optional: `threshold`, `task`
    (one only), `replace`: what stood in for the heads; where that is `mean`, the curve is "ahon_ln, mean", apart from that
    of zero. Others are ignored; of two columns for one thing the first named here is read.

    Raises BadData, one sentence: no such file, not a CSV, a column missing, no rows, not a number, out of range.
    """
    table = list(_rows(source))
    if not table:
        raise BadData("The CSV has no columns: it is empty.")
    header = {name.strip().lower(): i for i, name in enumerate(table[0][1])}
    score = _column(header, _SCORE, "score")
    share = _column(header, tuple(_SHARE), "share of heads switched off")
    accuracy = _column(header, tuple(_ACCURACY), "accuracy")
    model = _column(header, ("model",), "model")
    rows = table[1:]
    if not rows:
        raise BadData("The CSV has columns but no rows, so there are no points.")
    if short := next((line for line, cells in rows if len(cells) < len(table[0][1])), None):
        raise BadData(f"Line {short} of the CSV has fewer cells than there are columns.")
    if "task" in header and len(tasks := sorted({cells[header["task"]] for _, cells in rows})) > 1:
        raise BadData(f"The CSV mixes tasks ({', '.join(tasks[:4])}): keep the rows of one.")
    read = {
        name: [_number(cells[header[name]], name, line) for line, cells in rows] for name in (share, accuracy)
    }
    worth = _ACCURACY[accuracy] or _worth(read[accuracy], accuracy)
    shares = _fractions(read[share], _SHARE[share], share, rows)
    accuracies = _fractions(read[accuracy], worth, accuracy, rows)
    thresholds = [_optional(cells, header.get("threshold")) for _, cells in rows]
    after = [_replaced(cells, header.get("replace"), line) for line, cells in rows]
    return tuple(
        Point(
            model=cells[header[model]].strip(),
            score=score_id(cells[header[score]]) + after[i],
            share=shares[i],
            accuracy=accuracies[i],
            threshold=thresholds[i],
        )
        for i, (_, cells) in enumerate(rows)
    )


def _rows(source: str | Path | bytes) -> list[tuple[int, list[str]]]:
    """(line, cells) of every line that is not empty."""
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except OSError as error:
        raise BadData(f"Cannot read {source}: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"The points are not a CSV in UTF-8: {error}.") from None


def _column(header: dict[str, int], names: tuple[str, ...], meaning: str) -> str:
    for name in names:
        if name in header:
            return name
    ways = " or ".join(repr(name) for name in names)
    raise BadData(f"The CSV has no column for the {meaning}: {ways}. It has: {', '.join(header)}.")


def _number(cell: str, column: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadData(f"Line {line} of the CSV: {cell!r} in column {column!r} is not a number.")
    return value


def _optional(cells: list[str], column: int | None) -> float:
    """A threshold, or NaN: nothing but "is it zero" depends on it."""
    try:
        return math.nan if column is None else float(cells[column])
    except ValueError:
        return math.nan


def _replaced(cells: list[str], column: int | None, line: int) -> str:
    """What a score's name ends with: nothing for zero, or where the file does not say."""
    said = "" if column is None else cells[column].strip().lower()
    if said not in ("", "zero", "mean"):
        raise BadData(
            f"Line {line} of the CSV: {cells[column]!r} in column 'replace' is neither zero nor mean."
        )
    return MEAN if said == "mean" else ""


def _worth(values: list[float], column: str) -> float:
    """0.01 if the numbers are percent, 1 if they are fractions."""
    if max(values) <= 1:
        return 1.0
    if small := [value for value in values if 0 < value <= 1]:
        raise BadData(
            f"Column {column!r} holds numbers above 1 and {small[0]:g}, so some could be percent and some fractions: "
            "name it 'acc_percent', or make all of them fractions."
        )
    return 0.01


def _fractions(
    values: list[float], worth: float, column: str, rows: list[tuple[int, list[str]]]
) -> list[float]:
    fractions = [value / 100 if worth == 0.01 else value for value in values]
    for fraction, value, (line, _) in zip(fractions, values, rows):
        if not 0 <= fraction <= 1:
            hint = (
                " Percent go into a column 'share_percent'."
                if column.startswith("share") and worth == 1
                else ""
            )
            top = "100 (percent)" if worth == 0.01 else "1 (a fraction)"
            raise BadData(f"Line {line} of the CSV: {column} is {value:g}, outside 0 to {top}.{hint}")
    return fractions
