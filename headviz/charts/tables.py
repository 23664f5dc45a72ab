"""Results → tables: percentiles, the ranking, the long table, and the one line of provenance used everywhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from headviz.analysis.metrics import inactive
from headviz.charts import fmt
from headviz.charts.scales import Row
from headviz.types import Geometry, HeadPattern, Provenance, ScoreTable, head_name

LONG_COLUMNS = ("layer", "head", "metric", "mean", "std", "p05", "p50", "p95")


def inactive_mask(values: np.ndarray, row: Row, threshold: float) -> np.ndarray:
    """Which values count as inactive: strictly above the threshold where high means inactive, else strictly below.

    NaN is never inactive. Any shape in, the same shape out, bool.
    """
    return inactive(np.asarray(values), row.id, threshold)


def percentiles(values: np.ndarray) -> np.ndarray:
    """Percentile of each value among all defined ones, 0..100: share that is smaller, ties counted half.

    Same shape; NaN stays NaN. A single value is at 50.
    """
    values = np.asarray(values, np.float64)
    known = np.sort(values[~np.isnan(values)])
    below = np.searchsorted(known, values, "left")
    through = np.searchsorted(known, values, "right")
    place = 50.0 * (below + through) / max(known.size, 1)
    return np.where(np.isnan(values), np.nan, place)


def ranks(values: np.ndarray, row: Row) -> np.ndarray:
    """1 for the most inactive head, then on; ties by layer, then head. (L, H) float, NaN where the value is."""
    flat = np.asarray(values, np.float64).ravel()
    key = -flat if row.inactive == "high" else flat
    order = np.argsort(key, kind="stable")  # NaN sorts last
    place = np.empty(flat.size)
    place[order] = np.arange(1, flat.size + 1)
    place[np.isnan(flat)] = np.nan
    return place.reshape(np.shape(values))


def kv_group(geometry: Geometry) -> np.ndarray:
    """(H,) number of the KV head that each query head reads."""
    return np.arange(geometry.heads) // (geometry.heads // geometry.kv_heads)


def inactive_share(table: ScoreTable, row: Row, threshold: float) -> np.ndarray:
    """(L, H) share of the inputs in which a head is inactive, among those where its score is defined; NaN if none."""
    values = table.per_input(row.id)  # (N, L, H)
    known = (~np.isnan(values)).sum(0)
    hits = inactive_mask(values, row, threshold).sum(0)
    return np.divide(hits, known, out=np.full(hits.shape, np.nan), where=known > 0)


def ranking(table: ScoreTable, row: Row, threshold: float | None = None) -> pd.DataFrame:
    """One line a head, the most inactive first, what is not defined last.

    Columns: name (L03.H07), layer, head, kv_group, value (mean over inputs, in the score's unit), percentile (0..100),
    rank (1 = most inactive); and, with a threshold, inactive (by the mean) and inactive_share (of inputs, 0..1).
    """
    mean = table.mean(row.id)
    L, H = mean.shape
    layer, head = (x.ravel() for x in np.indices((L, H)))
    frame = pd.DataFrame(
        {
            "name": [head_name(i, j) for i, j in zip(layer, head)],
            "layer": layer,
            "head": head,
            "kv_group": kv_group(table.geometry)[head],
            "value": mean.ravel(),
            "percentile": percentiles(mean).ravel(),
            "rank": pd.array(ranks(mean, row).ravel(), dtype="Float64").astype("Int64"),
        }
    )
    if threshold is not None:
        frame["inactive"] = inactive_mask(mean, row, threshold).ravel()
        frame["inactive_share"] = inactive_share(table, row, threshold).ravel()
    return frame.sort_values("rank", kind="stable", na_position="last").reset_index(drop=True)


def long_frame(table: ScoreTable) -> pd.DataFrame:
    """One line a (metric, layer, head): mean, std (population), p05, p50, p95 over inputs, NaN inputs left out.

    Columns as in `LONG_COLUMNS`; K·L·H lines in the order of the table's metrics, then layer, then head.
    """
    parts = []
    _, N, L, H = table.values.shape
    layer, head = (x.ravel() for x in np.indices((L, H)))
    for k, metric in enumerate(table.metrics):
        values = table.values[k].reshape(N, L * H).astype(np.float64)
        known = ~np.isnan(values).all(0)
        stats = np.full((5, L * H), np.nan)
        if known.any():
            seen = values[:, known]
            stats[0, known], stats[1, known] = np.nanmean(seen, 0), np.nanstd(seen, 0)
            stats[2:, known] = np.nanpercentile(seen, (5, 50, 95), axis=0)
        parts.append(
            pd.DataFrame(
                {"layer": layer, "head": head, "metric": metric, **dict(zip(LONG_COLUMNS[3:], stats))}
            )
        )
    return pd.concat(parts, ignore_index=True)


def long_csv(table: ScoreTable, *, provenance: bool = True) -> str:
    """`long_frame` as CSV, 9 significant digits; the first line is `# ` and the caption unless `provenance` is False."""
    note = f"# {caption(table.provenance, table)}\n" if provenance else ""
    return note + long_frame(table).to_csv(index=False, float_format="%.9g", lineterminator="\n")


def caption(provenance: Provenance, result: ScoreTable | HeadPattern | None = None) -> str:
    """model@revision · dtype · data, inputs × tokens · seed · seconds · code version · request: one line for all uses.

    What was scored comes from `result` (how many inputs the text had), else from the request.
    """
    model = provenance.request["model"]
    data = provenance.request.get("data") or provenance.request.get("text")
    dtype = model["dtype"] + (
        "" if model.get("quantization", "none") == "none" else f", {model['quantization']}"
    )
    if data is None:  # scores of the prompts of questions
        asked = provenance.request["questions"]
        what, seed = f"prompts of {asked['source']}@{asked['revision'][:7]}", asked["seed"]
    else:
        what, seed = _data(data), data["seed"]
    parts = [
        f"{model['name']}@{model['revision'][:7]}",
        dtype,
        f"{what}, {_amount(data or {}, provenance, result)}",
    ]
    parts.append(f"seed {seed}")
    parts.append(fmt.duration(provenance.seconds))
    if version := provenance.versions.get("headviz"):
        parts.append(f"headviz {version}")
    parts.append(f"request {provenance.digest[:12]}")
    return " · ".join(parts)


def _data(data: Mapping) -> str:
    name = data["corpus"]
    if data.get("dataset"):
        name = "/".join(x for x in (data["dataset"], data["config"], data["split"], data["column"]) if x)
    notes = [] if data["part"] == "all" or data["corpus"] == "own" else [data["part"]]
    if data["bos"] != "tokenizer":
        notes.append(f"BOS {data['bos']}")
    if data["chat"]:
        notes.append("chat template")
    return f"{name}@{data['revision'][:7]}" + (f" ({', '.join(notes)})" if notes else "")


def _amount(data: Mapping, provenance: Provenance, result: ScoreTable | HeadPattern | None) -> str:
    if isinstance(result, ScoreTable):
        low, high = int(result.lengths.min()), int(result.lengths.max())
        span = f"{high}" if low == high else f"{low}–{high}"
        return f"{len(result.lengths):,} × {span} tokens"
    if isinstance(result, HeadPattern):
        return f"input {provenance.request.get('input', 0)}, {len(result.pieces)} tokens"
    return f"{data['inputs']:,} × {data['tokens']} tokens"
