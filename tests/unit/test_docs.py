"""The docs: every relative link leads somewhere, every score and corpus is named, and no path of a machine stands there."""

import re
from pathlib import Path

import pytest

from headviz.analysis.metrics import METRICS
from headviz.cli import main
from headviz.data.corpora import CORPORA
from headviz.models.architectures import FAMILIES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readme_names_every_score_corpus_and_family():
    text = (ROOT / "README.md").read_text()
    base = {name.removesuffix("_ln") for name in METRICS}
    assert [name for name in base if f"`{name}" not in text] == []
    assert [name for name in CORPORA if name not in ("hub", "own") and f"`{name}`" not in text] == []
    assert [name for name in FAMILIES if name.removesuffix("_text") not in text] == []


def test_every_column_of_a_file_of_points_is_named_where_such_a_file_is_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["tolerance", "--help"])
    for text in (capsys.readouterr().out, (ROOT / "README.md").read_text()):
        told = " ".join(text.split())
        for column in ("model", "score", "head_type", "share", "pct_zeroed", "acc", "replace"):
            assert column in told, column
        assert re.search("zero`? or `?mean", told)
