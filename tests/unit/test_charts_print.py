"""Print figures and the script that redraws them."""

import re
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest

from headviz.analysis.metrics import METRICS
from headviz.charts import export, multiples, redraw, tables
from headviz.errors import UnknownName
from tests.fakes import fake_table

TABLE = fake_table(L=6, H=4, G=2, N=3, nan=True)
TWELVE = multiples.paper_order(TABLE.metrics, METRICS)
THRESHOLDS = {"awft": 0.3, "ahon_ln": 0.8}


def draw(metrics="awft", table=TABLE, **more) -> bytes:
    return export.print_figure(table, metrics, METRICS, **{"thresholds": THRESHOLDS, **more})


def pdf_text(data: bytes) -> bytes:
    """The file with its compressed streams opened."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.S)
    opened = []
    for stream in streams:
        try:
            opened.append(zlib.decompress(stream))
        except zlib.error:
            opened.append(stream)
    return data + b"".join(opened)


@pytest.mark.parametrize(("layout", "width"), [("column", 3.25), ("page", 6.75), ("slide", 10.0)])
@pytest.mark.parametrize("metrics", ["awft", TWELVE], ids=["one", "twelve"])
def test_pdf_has_the_width_and_embeds_its_fonts(layout, width, metrics):
    data = draw(metrics, layout=layout)
    box = [float(x) for x in re.search(rb"/MediaBox \[ ?([\d. ]+)\]", data)[1].split()]
    assert box[2] / 72 == pytest.approx(width, abs=0.001)
    assert box[3] / 72 <= 8.51
    if layout == "slide":
        assert box[2] / box[3] == pytest.approx(16 / 9, abs=0.001)
    text = pdf_text(data)
    assert b"/FontFile2" in text  # TrueType program embedded (fonttype 42)
    assert b"/Type3" not in text
    assert b"CreationDate" not in data


@pytest.mark.parametrize("layout", export.LAYOUTS)
def test_svg_has_the_width_and_needs_no_font(layout):
    text = draw(layout=layout, format="svg").decode()
    assert f'width="{export.LAYOUTS[layout][0] * 72:g}pt"' in text
    assert "<text" not in text
    assert "<dc:date>" not in text


@pytest.mark.parametrize("format", export.FORMATS)
def test_the_same_table_gives_the_same_bytes(format):
    assert draw(TWELVE, format=format) == draw(TWELVE, format=format)
    assert draw(format=format) != draw("ahon", format=format)


def test_drawing_from_threads_gives_the_same_bytes_and_leaves_the_settings_alone():
    before = dict(matplotlib.rcParams)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: draw(), range(4)))
    assert len(set(made)) == 1
    assert dict(matplotlib.rcParams) == before


def test_the_caption_holds_the_provenance_and_goes_into_the_metadata():
    text = export.print_caption(TABLE, ["awft", "aeqd_ln"], METRICS, thresholds=THRESHOLDS)
    line = tables.caption(TABLE.provenance, TABLE)
    hits = int((TABLE.mean("awft") > 0.3).sum())
    for part in (
        line,
        f"AWFT > 0.300, {hits} of 24",
        "AEQD (LN) is not defined (the layer's mean entropy is 0)",
    ):
        assert part in text
    svg = draw(["awft", "aeqd_ln"], format="svg").decode()
    assert TABLE.provenance.digest in svg
    assert "request 0123456789ab" in svg
    pdf = pdf_text(draw(["awft", "aeqd_ln"]))
    assert b"/Subject" in pdf
    assert TABLE.provenance.digest.encode() in pdf


def test_inactive_heads_are_marked_and_undefined_cells_hatched():
    svg = draw(format="svg").decode()
    strokes = sum(part.count("<path") for part in re.findall(r'<g id="inactive">(.*?)</g>', svg, re.S))
    assert strokes == (TABLE.mean("awft") > 0.3).sum() > 0
    assert '<g id="inactive">' not in draw(format="svg", thresholds={}).decode()
    assert "<pattern" in draw("aeqd_ln", format="svg").decode()
    assert "<pattern" not in svg


def test_unknown_layouts_formats_and_scores_are_refused():
    for wrong in ({"layout": "poster"}, {"format": "png"}, {"metrics": "awtf"}):
        with pytest.raises(UnknownName):
            draw(**wrong)


@pytest.mark.parametrize("metric", ["awft", "aeqd_ln"])
def test_the_script_redraws_from_the_csv_beside_it(tmp_path, metric):
    folder = tmp_path / 'it\'s a "folder"'
    folder.mkdir()
    (folder / "scores.csv").write_text(tables.long_csv(TABLE), encoding="utf-8")
    script = redraw.redraw_script(TABLE, METRICS[metric], threshold=0.5)
    assert tables.caption(TABLE.provenance, TABLE) in script
    assert "headviz." not in re.sub(r"headviz \d", "", script)
    # a line more than the script has: what it is about to draw is what the table holds
    saved = f"{script}\nnp.save(here / 'values.npy', values)\n"
    (folder / "redraw.py").write_text(saved, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-I", str(folder / "redraw.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / f"{metric}.pdf").read_bytes().startswith(b"%PDF")
    np.testing.assert_allclose(np.load(folder / "values.npy"), TABLE.mean(metric), rtol=1e-6)
