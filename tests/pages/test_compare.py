"""The compare page over stored scores: map, movers, distances, several models, stability, downloads."""

import dataclasses
import json

import numpy as np
import pytest

from headviz.analysis import ablation, thresholdfile
from headviz.data import corpora, docstrings, reading
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import ModelRef, ScoreRequest, plain
from headviz.ui.compare import published, take
from headviz.ui.compare.others import labels
from headviz.ui.compare.work import Work
from tests.fakes import fake_table
from tests.pages.conftest import default_request, figure, open_app, put, said


def answer(request: ScoreRequest, table):
    """Put scores into the store as the answer to a request."""
    made = dataclasses.replace(
        table.provenance, request={"kind": "score", **plain(request)}, digest=job_digest(request)
    )
    table = dataclasses.replace(table, provenance=made)
    local.store().put(job_digest(request), table)
    return table


def moved(table, by=0.4, at=(3, 7)):
    """The same scores, one head of AHON (LN) larger on every input and all others hardly."""
    rng = np.random.default_rng(5)
    values = np.array(table.values)
    where = table.metrics.index("ahon_ln")
    values[where] += rng.normal(0, 1e-4, values[where].shape).astype(np.float32)
    values[where][:, at[0], at[1]] += by
    return dataclasses.replace(table, values=values)


def with_dtype(request: ScoreRequest, dtype: str) -> ScoreRequest:
    return dataclasses.replace(request, model=dataclasses.replace(request.model, dtype=dtype))


def swapped(request: ScoreRequest) -> ScoreRequest:
    return with_dtype(request, "float32" if request.model.dtype == "bfloat16" else "bfloat16")


@pytest.fixture
def pair(home, table):
    """What a first visit compares, in the store: the bundled model in both number formats."""
    left = default_request()
    answer(left, table)
    answer(swapped(left), moved(table))
    return left


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/compare.py")
    return app.run()


def test_a_first_visit_scores_the_model_in_both_number_formats(home, no_worker):
    app = open_page()
    assert not app.exception
    asked = [job.request for job in local.list_jobs()]
    assert {one.model.dtype for one in asked} == {"float32", "bfloat16"}
    assert "Waiting" in str(app.get("progress")[0].proto.text)


def test_the_sentence_the_map_and_the_movers(pair, no_worker):
    app = open_page()
    assert not app.exception
    told = app.markdown[0].value
    assert "AHON (LN): SmolLM2-135M-Instruct, " in told
    assert "two halves of one model by up to" in told
    assert "the distribution shows **no change**" in told, "one head of 270 does not move the distribution"
    assert "Most moved: L03.H07 +0.400 × layer mean [" in told
    assert "head by head, 1 of 270 (0.370%) changed beyond chance" in told
    hover = next(t for t in figure(app, "change_map")["data"] if t["name"] == "heads")["text"]
    assert "change +0.400 × layer mean" in hover[3 * 9 + 7]
    bars = figure(app, "movers")["data"][0]
    assert bars["customdata"][0] == [3, 7]
    assert figure(app, "distributions")
    assert figure(app, "yardstick")
    assert "need not be related" in said(app)
    assert local.list_jobs() == []


def test_a_model_compared_with_itself_has_distance_0_and_no_change(pair, no_worker):
    app = open_page(other_dtype=pair.model.dtype)
    assert not app.exception
    told = app.markdown[0].value
    assert "is 0 spreads, resampled [0, 0], from" in told
    assert "This is one model compared with itself: distance 0, and all 270 heads have a change of 0." in told
    drawn = next(t for t in figure(app, "change_map")["data"] if t["name"] == "scores")
    assert set(np.ravel(_numbers(drawn["z"])).tolist()) == {0.0}


def _numbers(packed):
    """plotly writes arrays as base64 where it can."""
    if isinstance(packed, dict):
        import base64

        flat = np.frombuffer(base64.b64decode(packed["bdata"]), np.dtype(packed["dtype"]))
        return flat.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else flat
    return np.array(packed, float)


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        ("scores", "heads can trade places"),
        ("layers", "a single layer has none"),
        ("movers", "the same inputs in both"),
        ("take", "python -m headviz compare"),
    ],
)
def test_every_panel_opens(pair, no_worker, differs, words):
    app = open_page(differs=differs)
    assert not app.exception
    assert words in said(app) + "".join(code.value for code in app.code)
    assert local.list_jobs() == []


def test_a_head_that_is_picked_is_told_and_its_bar_named(pair, no_worker):
    app = open_page(head="L03.H07")
    assert not app.exception
    assert "Picked on every page: **L03.H07**" in said(app)
    assert "<b>L03.H07</b>" in figure(app, "movers")["layout"]["yaxis"]["ticktext"]


def local_model(monkeypatch, name: str, refs: dict):
    """`name` resolves without being on this machine."""
    real = catalog.resolve

    def resolve(wanted, **more):
        if wanted in refs:
            return dataclasses.replace(
                refs[wanted], dtype=more["dtype"] if more["dtype"] != "auto" else "float32"
            )
        return real(wanted, **more)

    monkeypatch.setattr("headviz.ui.compare.others.catalog.resolve", resolve)


@pytest.fixture
def strangers(pair, monkeypatch, table):
    """Two more models in the store: one of another shape, and a copy of the first with another name."""
    refs = {
        name: ModelRef(source="local", name=name, revision=digit * 64, dtype="float32")
        for name, digit in (("small", "1"), ("copy", "2"))
    }
    local_model(monkeypatch, "small", refs)
    made = {}
    for name, scores in (("small", fake_table(L=12, H=6, G=2, seed=3)), ("copy", moved(table))):
        ref = dataclasses.replace(refs[name], dtype=pair.model.dtype)
        made[name] = ScoreRequest(model=ref, data=pair.data)
        answer(made[name], scores)
    return made


def test_other_shapes_give_distributions_and_profiles_and_say_why(strangers, no_worker):
    app = open_page(against="small")
    assert not app.exception
    assert "so there is no map of changes" in said(app)
    assert "heads cannot be matched" in app.markdown[0].value
    names = {t["name"] for t in figure(app, "profiles")["data"]}
    assert {"SmolLM2-135M-Instruct", "small"} <= names
    with pytest.raises(AssertionError, match="no chart 'change_map'"):
        figure(app, "change_map")
    for differs in ("movers", "layers", "take", "scores"):
        again = open_page(against="small", differs=differs)
        assert not again.exception


def test_more_than_two_have_a_matrix_and_a_choice(strangers, no_worker):
    app = open_page(against="small,copy", pair=2)
    assert not app.exception
    drawn = figure(app, "matrix")
    numbers = [note["text"] for note in drawn["layout"]["annotations"] if note.get("name") == "distance"]
    assert len(numbers) == 9
    assert numbers[0] == numbers[4] == numbers[8] == "0"
    assert "copy is" in app.markdown[0].value
    app.selectbox(key="pair").set_value(1).run()
    assert "small is" in app.markdown[0].value


def test_a_model_that_cannot_be_had_is_one_sentence_and_the_rest_goes_on(strangers, no_worker):
    app = open_page(against="copy,../secret")
    assert not app.exception
    assert "../secret is left out" in said(app)
    assert figure(app, "change_map")


def test_what_is_not_small_waits_for_a_click(strangers, no_worker, monkeypatch):
    local.store().prune(digests=(job_digest(strangers["copy"]),))
    app = open_page(against="copy")
    assert not app.exception
    assert "1 model is not scored on this text yet" in said(app)
    assert local.list_jobs() == []
    next(b for b in app.button if b.label == "Score and compare").click().run()
    assert [job.kind for job in local.list_jobs()] == ["score"]


def test_a_link_names_models_of_the_hub_by_their_commit(pair, no_worker, monkeypatch):
    commit = "c" * 40
    ref = ModelRef(source="hub", name="org/one", revision=commit, dtype="float32")
    local_model(monkeypatch, "org/one", {"org/one": ref})
    app = open_page(against="org/one,smollm2,../secret")
    assert not app.exception
    assert pinned_in(app) == {"against": ["org/one,smollm2,../secret", f"org/one@{commit},smollm2,../secret"]}
    assert pinned_in(open_page()) == {}


def pinned_in(app) -> dict:
    """What the copy-link button of the page writes instead of what stands in the address bar."""
    parts = [
        json.loads(part.proto.json) for part in app.get("bidi_component") if "copy_link" in part.proto.id
    ]
    return parts[0]["pinned"]


def test_names_tell_models_apart():
    left = default_request()
    assert labels([left]) == ["SmolLM2-135M-Instruct"]
    assert labels([left, left]) == ["SmolLM2-135M-Instruct (1)", "SmolLM2-135M-Instruct (2)"]
    other = dataclasses.replace(left, data=dataclasses.replace(left.data, bos="always"))
    assert [one.rpartition(", ")[2] for one in labels([left, other])] == ["BOS tokenizer", "BOS always"]


# ------------------------------------------------------------------------------------------------- take away


def work_of(pair, table) -> Work:
    requests = dict(zip(labels([pair, swapped(pair)]), [pair, swapped(pair)]))
    tables = dict(zip(requests, [table, moved(table)]))
    first, other = requests
    return Work(requests, tables, first, other)


def test_downloads_hold_what_the_command_line_writes(pair, table):
    work = work_of(pair, table)
    tree = json.loads(take.as_json(work))
    assert set(tree) == {"models", "data", "provenance", "scores"}
    score = tree["scores"]["ahon_ln"]
    assert set(score) == {"distances", "comparisons"}
    assert score["comparisons"][0]["changes"]["movers"][0]["head"] == "L03.H07"
    lines = take.as_csv(work, "ahon_ln").splitlines()
    assert lines[0].startswith("# ahon_ln of SmolLM2-135M-Instruct, ")
    assert lines[1] == "head,before,after,change,low,high,p_holm"
    assert lines[2].startswith("L03.H07,")
    assert len(lines) == 2 + 270


# ------------------------------------------------------------------------------------------------- stability


@pytest.fixture
def texts(pair, built_train, monkeypatch):
    """Scores of the model on two corpora at two lengths; a second corpus costs nothing to build."""
    monkeypatch.setitem(
        reading.INSTALLED, "stdlib-code", lambda part, folder: docstrings.load("held-out", folder)
    )
    model, seed = pair.model, 0
    for corpus in ("docstrings", "stdlib-code"):
        for tokens in (128, 512):
            data = corpora.resolve(corpus, tokens=tokens, settings=settings())
            seed += 1
            answer(ScoreRequest(model=model, data=data), fake_table(seed=0 if tokens == 128 else seed))
    return pair


def test_stability_shows_threshold_and_heads_together(texts, no_worker):
    app = open_page(differs="stable")
    assert not app.exception
    words = said(app)
    assert "To select 20.0% on 4 texts, **AHON (LN)**: threshold × " in words
    assert "(Jaccard)" in words
    assert "no evidence of a good score" in words
    drawn = figure(app, "stability")
    points = next(t for t in drawn["data"] if t["name"] == "scores")
    named = [note["text"] for note in drawn["layout"]["annotations"] if note.get("name") == "score"]
    assert len(points["customdata"]) == len(set(named)) == 12
    assert local.list_jobs() == []
    assert "20.0% is the usual share: how many heads can go within tolerance is not measured" in words
    app.segmented_control(key="share_by").set_value("share").run()
    app.number_input(key="share").set_value(0.0).run()
    assert not app.exception


def test_stability_takes_the_largest_share_within_tolerance_where_it_is_measured(
    texts, plan, table, no_worker
):
    put(plan, None, 0.0)
    for share, cost in ((0.05, 0.01), (0.10, 0.09)):
        here = ablation.with_share(plan, share)
        put(here, ablation.chosen(here, table), cost)
    app = open_page(differs="stable")
    assert not app.exception
    # 14 and 27 of 270 heads were off; a straight line from .01 to .09 nats crosses .05 halfway between: 7.59%
    assert "To select 7.59% on 4 texts" in said(app)
    assert (
        "7.59% is the largest share that AHON (LN) keeps within 0.05 nats, zero in their place, measured on"
        in said(app)
    )
    app = open_page(differs="stable", share_by="share", share=30)
    assert "To select 30.0% on 4 texts" in said(app)


def test_stability_asks_for_what_is_missing_only_when_it_is_looked_at(pair, built_train, no_worker):
    open_page()
    assert local.list_jobs() == []
    app = open_page(differs="stable", texts="docstrings", lengths="64,128")
    assert not app.exception
    assert sorted(job.request.data.tokens for job in local.list_jobs()) == [64, 128]
    app = open_page(differs="stable", texts="docstrings", lengths="64")
    assert "Choose two data sets, or two lengths" in said(app)


def thresholds(**changed) -> bytes:
    """The paper's example, in its file's layout."""
    row = {
        "Dormant": [0, 0.5, 0.3, 0.077, 0.05, 0.04, 0.03],
        "NormalizedHONOR": [0, 0.3, 0.4, 0.457, 0.5, 0.6, 0.7],
    }
    tree = {"mmlu": {"allenai_OLMo-2-1124-7B-Instruct": row}} | changed
    return json.dumps(tree).encode()


def test_published_thresholds_give_a_sentence_and_a_wrong_file_an_error(pair, built_train, no_worker):
    app = open_page(differs="stable", texts="docstrings", lengths="64")
    assert "no link holds it. Who opens a link to this page gives the file again" in said(app)
    upload = app.get("file_uploader")[0]
    upload.set_value(("thresholds.json", b"{]", "application/json")).run()
    assert not app.exception
    assert "The thresholds are no JSON" in said(app)
    upload = app.get("file_uploader")[0]
    upload.set_value(("thresholds.json", thresholds(), "application/json")).run()
    assert not app.exception
    assert "allenai_OLMo-2-1124-7B-Instruct at 15.0%: " in said(app)
    assert "0.0770, × 1.00" in said(app)


def test_the_papers_sentence():
    rows = thresholdfile.read_thresholds(
        json.dumps(
            {
                task: {"allenai_OLMo-2-1124-7B-Instruct": {"Dormant": [0] * 3 + [awft] + [0] * 3}}
                for task, awft in (("mmlu", 0.077), ("piqa", 0.265), ("winogrande", 0.109))
            }
        ).encode()
    )
    table = [published._row(rows, rows[0].model, "awft", 0.15)]
    assert (
        published.sentence(table, "OLMo-2", 0.15) == "OLMo-2 at 15.0%: **AWFT** 0.0770, 0.265, 0.109, × 3.44."
    )
