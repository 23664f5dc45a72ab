"""Our prompts, predictions and log-probabilities against lm-evaluation-harness itself, on the bundled model."""

from pathlib import Path

import numpy as np
import pytest

from headviz.analysis.measure import run_measure
from headviz.data.questions import read_questions, resolve_questions
from headviz.jobs.resources import Resources
from headviz.models import catalog
from headviz.settings import Settings
from headviz.types import Ablation, MeasureRequest, Silent
from tests import harness

MMLU = Path(__file__).parents[2].parent / "shared" / "data" / "mmlu"


@pytest.mark.skipif(not harness.INSTALLED, reason="lm_eval is not installed: see requirements-bench.txt")
@pytest.mark.skipif(not MMLU.is_dir(), reason="the MMLU files are not beside this checkout")
@pytest.mark.filterwarnings("ignore")  # the harness and what it imports warn about themselves
def test_the_same_questions_get_the_same_log_probabilities(tmp_path):
    here = Settings(home=tmp_path, mmlu=MMLU, device="cpu")
    resources = Resources(here, 1)
    model = catalog.resolve("smollm2", dtype="float32", settings=here)
    ref = resolve_questions("mmlu", subjects=["anatomy", "marketing"], per_subject=2, settings=here)
    ours = run_measure(MeasureRequest(model=model, questions=ref, ablation=Ablation()), resources)
    loaded = resources.model(model)
    asked = harness.requests(read_questions(ref, here, Silent()), ref.shots, tmp_path)
    found = harness.model(loaded.model, loaded.tokenizer, 2).loglikelihood(asked, disable_tqdm=True)
    theirs = np.array([one[0] for one in found]).reshape(-1, 4)
    np.testing.assert_allclose(ours.logprob, theirs, atol=1e-4, rtol=0)
    assert ours.logprob.argmax(1).tolist() == theirs.argmax(1).tolist()
