"""From a folder of weights to a file of scores, by the command line and by the library: every family, nothing faked."""

import numpy as np
import pandas as pd
import pytest

import headviz
from headviz.analysis.metrics import METRICS
from headviz.cli import main
from headviz.models.architectures import FAMILIES
from headviz.settings import settings
from tests.checkpoints import save

PROSE = "attention heads differ. some of them do nothing at all, and nobody noticed it for years.\n\n" * 6


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(PROSE)
    return file


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_from_a_named_folder(family, text, tmp_path, monkeypatch):
    save(tmp_path / "models" / f"tiny-{family}", family)
    monkeypatch.setenv("HEADVIZ_MODELS", str(tmp_path / "models"))
    settings.cache_clear()
    out = tmp_path / "scores.parquet"
    asked = ["score", "--model", f"tiny-{family}", "--dtype", "float32", "--text", str(text)]
    assert main([*asked, "--inputs", "3", "--tokens", "24", "--quiet", "--out", str(out)]) == 0
    frame = pd.read_parquet(out)
    assert set(frame.metric) == set(METRICS)
    assert np.isfinite(frame["mean"]).all()
    assert frame[frame.metric == "awft"]["mean"].between(0, 1).all()
    layers = frame[frame.metric == "ahon_ln"].groupby("layer")["mean"].mean()
    assert np.allclose(layers, 1, atol=1e-5)


def test_the_library_and_the_command_line_agree(text, tmp_path):
    folder = save(tmp_path / "tiny", "llama")
    out = tmp_path / "scores.csv"
    asked = ["score", "--model", str(folder), "--dtype", "float32", "--text", str(text), "--inputs", "3"]
    assert main([*asked, "--tokens", "24", "--quiet", "--out", str(out)]) == 0
    model = headviz.load(str(folder), dtype="float32")
    table = headviz.score_heads(model, texts=[PROSE.strip()], inputs=3, tokens=24)
    frame = pd.read_csv(out)
    for metric in ("awft", "aeqd", "ahon_ln", "fullout"):
        assert np.allclose(frame[frame.metric == metric]["mean"], table.mean(metric).ravel(), rtol=1e-5)


def test_a_result_cannot_be_written_to(text, tmp_path):
    model = headviz.load(str(save(tmp_path / "tiny", "gpt2")), dtype="float32")
    table = headviz.score_heads(model, texts=[PROSE], inputs=1, tokens=8)
    with pytest.raises(ValueError, match="read-only"):
        table.values[0] = 1


def test_one_token_has_no_relative_entropy_and_says_why(tmp_path):
    model = headviz.load(str(save(tmp_path / "tiny", "llama")), dtype="float32")
    table = headviz.score_heads(model, texts=["a"], inputs=1, tokens=1)
    assert (table.mean("aeqd") == 0).all()
    assert (table.mean("awft") == 1).all()
    assert np.isnan(table.mean("aeqd_ln")).all()
    assert table.reasons["aeqd_ln"]


def test_texts_and_text_together_are_refused(tmp_path):
    with pytest.raises(headviz.HeadvizError, match="not both"):
        headviz.score_heads("smollm2", texts=["a"], text="0" * 64)
