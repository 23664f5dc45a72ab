"""Results → files to take away. Every file carries its provenance."""

from __future__ import annotations

import io
import json
import zipfile

from headviz.charts import redraw
from headviz.charts.scales import Row
from headviz.charts.tables import caption, long_csv, long_frame
from headviz.errors import lookup
from headviz.types import ScoreTable, plain


def encode(table: ScoreTable, ending: str) -> bytes:
    """The long table (layer, head, metric, mean, std, p05, p50, p95) as `.csv`, `.json` or `.parquet`.

    CSV:     nothing but the table, so that every reader takes it; `provenance_json` belongs beside it
    JSON:    {"provenance": …, "rows": [{…}]}; what is not defined is null
    Parquet: the provenance is the schema's metadata under `headviz`
    Raises UnknownName for another ending.
    """
    return lookup({".csv": _csv, ".json": _json, ".parquet": _parquet}, ending, "file ending")(table)


def provenance_json(table: ScoreTable) -> str:
    """What the numbers come from, and a caption, as JSON text."""
    return json.dumps(_provenance(table), indent=2, ensure_ascii=False) + "\n"


def redraw_bundle(table: ScoreTable, row: Row, threshold: float | None) -> bytes:
    """A zip of the script that redraws the map of `row`, its CSV, and the provenance."""
    return _zip(
        {
            "redraw.py": redraw.redraw_script(table, row, threshold=threshold),
            redraw.CSV_NAME: long_csv(table),
            "provenance.json": provenance_json(table),
        }
    )


def csv_bundle(table: ScoreTable) -> bytes:
    """A zip of the long table as CSV and its provenance, for which a CSV has no place."""
    return _zip({"scores.csv": long_csv(table, provenance=False), "provenance.json": provenance_json(table)})


def _zip(texts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in texts.items():
            bundle.writestr(zipfile.ZipInfo(name), text)  # a fixed date: the same table gives the same file
    return out.getvalue()


def _provenance(table: ScoreTable) -> dict:
    return {"caption": caption(table.provenance, table), **plain(table.provenance), "reasons": table.reasons}


def _csv(table: ScoreTable) -> bytes:
    return long_csv(table, provenance=False).encode()


def _json(table: ScoreTable) -> bytes:
    rows = json.loads(long_frame(table).to_json(orient="records", double_precision=10))
    return (json.dumps({"provenance": _provenance(table), "rows": rows}, ensure_ascii=False) + "\n").encode()


def _parquet(table: ScoreTable) -> bytes:
    import pyarrow
    import pyarrow.parquet

    made = pyarrow.Table.from_pandas(long_frame(table), preserve_index=False)
    note = json.dumps(_provenance(table), ensure_ascii=False).encode()
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        made.replace_schema_metadata({**(made.schema.metadata or {}), b"headviz": note}), out
    )
    return out.getvalue()
