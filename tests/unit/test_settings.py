"""HEADVIZ_* variables: read once, checked aloud."""

from pathlib import Path

import pytest

from headviz.errors import BadInput, UnknownName
from headviz.settings import VARIABLES, parse_size, read_settings

ROOT = Path(__file__).parents[2]


def test_nothing_set_is_all_defaults():
    got = read_settings({"PATH": "/bin"})
    assert got.device == "auto"
    assert got.store_limit is None
    assert got.home.is_absolute()


def test_every_variable_is_read(tmp_path):
    got = read_settings(
        {
            "HEADVIZ_HOME": str(tmp_path / "a"),
            "HEADVIZ_MODELS": str(tmp_path / "b"),
            "HEADVIZ_DATA": str(tmp_path / "c"),
            "HEADVIZ_MMLU": str(tmp_path / "d"),
            "HEADVIZ_DEVICE": "cpu",
            "HEADVIZ_THREADS": "3",
            "HEADVIZ_SIDE_BY_SIDE": "2",
            "HEADVIZ_IDLE_MINUTES": "0.5",
            "HEADVIZ_STORE_LIMIT": "1.5GB",
        }
    )
    assert (got.home.name, got.models.name, got.data.name, got.mmlu.name) == tuple("abcd")
    assert (got.device, got.threads, got.side_by_side) == ("cpu", 3, 2)
    assert (got.idle_minutes, got.store_limit) == (0.5, 1_500_000_000)


def test_a_misspelt_variable_is_refused():
    with pytest.raises(UnknownName, match="Did you mean 'HEADVIZ_HOME'"):
        read_settings({"HEADVIZ_HOMES": "/tmp"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADVIZ_THREADS", "many"),
        ("HEADVIZ_THREADS", "0"),
        ("HEADVIZ_SIDE_BY_SIDE", "0"),
        ("HEADVIZ_IDLE_MINUTES", "-1"),
        ("HEADVIZ_STORE_LIMIT", "big"),
    ],
)
def test_a_bad_value_names_the_variable(name, value):
    with pytest.raises(BadInput, match=name):
        read_settings({name: value})


@pytest.mark.parametrize(("text", "size"), [("500MB", 5e8), ("20 gb", 2e10), ("7", 7), ("3k", 3000)])
def test_sizes(text, size):
    assert parse_size(text, "X") == size


def test_the_readme_names_every_variable():
    text = (ROOT / "README.md").read_text()
    assert [name for name in VARIABLES if name not in text] == []
