"""Panel: take it away: the table of heads with their groups, and the costs."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import streamlit as st

from headviz.analysis import groupcosts
from headviz.analysis.agreement import spearman
from headviz.charts import tables
from headviz.data import corpora
from headviz.jobs.kinds import spec
from headviz.types import head_name, plain
from headviz.ui.disagreement.work import Work

COLUMNS = ("name", "layer", "head", "kv_group", "first", "second", "first_rank", "second_rank", "group")


def panel(work: Work) -> None:
    left, middle, right = st.columns(3)
    rows = head_rows(work)
    _save(left, "Heads (CSV)", heads_csv(work, rows), "headviz-disagreement.csv", "text/csv", "A row a head: both values, both ranks (1 is the most inactive), and its group.")  # fmt: skip
    _save(middle, "Heads and agreement (JSON)", _json(tree(work, rows)), "headviz-disagreement.json", "application/json", "The same rows, thresholds, groups, and agreement at this budget, with the request that made them.")  # fmt: skip
    costs = cost_tree(work)
    _save(right, "Costs (JSON)", _json(costs), "headviz-group-costs.json", "application/json", "What each group costs, with intervals and every random draw.", disabled=not costs)  # fmt: skip
    st.dataframe(rows, hide_index=True, height=420, column_config=_columns(work))


def _save(where, label: str, data: str, name: str, mime: str, help: str, disabled: bool = False) -> None:
    where.download_button(
        label,
        data,
        file_name=name,
        mime=mime,
        help=help,
        on_click="ignore",
        width="stretch",
        disabled=disabled,
    )


def _columns(work: Work) -> dict[str, Any]:
    number = {"format": "%.4g"}
    return {
        "first": st.column_config.NumberColumn(work.a.row.symbol, help=work.a.row.help, **number),
        "second": st.column_config.NumberColumn(work.b.row.symbol, help=work.b.row.help, **number),
        "first_rank": st.column_config.NumberColumn(
            f"{work.a.row.symbol} rank", help="1 is the most inactive head."
        ),
        "second_rank": st.column_config.NumberColumn(
            f"{work.b.row.symbol} rank", help="1 is the most inactive head."
        ),
        "kv_group": st.column_config.NumberColumn(
            "KV group", help="Query heads that share one key and value head."
        ),
    }


def head_rows(work: Work) -> list[dict[str, Any]]:
    """A row a head, by layer and head; None where a value is not defined."""
    groups = {
        head: work.quadrants.names[group]
        for group in work.quadrants.masks
        for head in work.quadrants.heads(group)
    }
    ranks = [tables.ranks(side.values, side.row) for side in (work.a, work.b)]
    kv = tables.kv_group(work.table.geometry)
    rows = []
    for (layer, head), group in sorted(groups.items()):
        numbers = [float(side.values[layer, head]) for side in (work.a, work.b)]
        places = [float(rank[layer, head]) for rank in ranks]
        values = [None if math.isnan(x) else x for x in numbers]
        at = [None if math.isnan(x) else int(x) for x in places]
        rows.append(
            dict(
                zip(
                    COLUMNS,
                    (head_name(layer, head), layer, head, int(kv[head]), *values, *at, group),
                    strict=True,
                )
            )
        )
    return rows


def heads_csv(work: Work, rows: list[dict[str, Any]]) -> str:
    """The rows under the scores' own names, after a line of provenance."""
    out = io.StringIO()
    out.write(f"# {tables.caption(work.table.provenance, work.table)}\n")
    writer = csv.writer(out, lineterminator="\n")
    a, b = work.a.row.id, work.b.row.id
    writer.writerow(["name", "layer", "head", "kv_group", a, b, f"{a}_rank", f"{b}_rank", "group"])
    for row in rows:
        writer.writerow([row[name] for name in COLUMNS])
    return out.getvalue()


def tree(work: Work, rows: list[dict[str, Any]]) -> dict[str, Any]:
    rho, left_out = spearman(work.a.urgency, work.b.urgency)
    inside = 1 <= work.count <= work.curve.k.size
    return {
        "provenance": plain(work.table.provenance),
        "scores": [work.a.row.id, work.b.row.id],
        "share": work.share,
        "thresholds": list(work.quadrants.thresholds),
        "groups": {
            group: {"name": work.quadrants.names[group], "count": count}
            for group, count in work.quadrants.counts().items()
        },
        "agreement": work.curve.at(work.count) if inside else None,
        "rank_correlation": {"rho": rho, "left_out": left_out},
        "heads": rows,
    }


def cost_tree(work: Work) -> dict[str, Any]:
    """Empty where nothing is measured yet."""
    if work.costs is None or not work.costs.costs:
        return {}
    return {
        "chosen_on": corpora.describe(work.plan.chosen_on),
        "measured_on": corpora.describe(work.plan.text or work.plan.questions),
        "requests": [spec(request) for request in work.requests],
        **groupcosts.report(work.costs, work.quadrants, work.plan),
    }


def _json(what: Any) -> str:
    """What is not defined is null in JSON, which has no NaN."""

    def nulled(item: Any) -> Any:
        if isinstance(item, dict):
            return {name: nulled(value) for name, value in item.items()}
        if isinstance(item, list | tuple):
            return [nulled(value) for value in item]
        return None if isinstance(item, float) and math.isnan(item) else item

    return json.dumps(nulled(what), indent=1, ensure_ascii=False, allow_nan=False)
