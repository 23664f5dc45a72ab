"""What a measurement says, against plain transformers: one prompt at a time, heads taken out by hand, full log_softmax."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import answering, means, measure, switching
from headviz.analysis.gradient import run_gradient
from headviz.analysis.headmap import run_map
from headviz.analysis.measure import run_measure
from headviz.analysis.metrics import METRICS
from headviz.codec import pack, unpack
from headviz.data import corpora, own_text
from headviz.data.questions import import_questions, read_questions, resolve_questions
from headviz.errors import BadInput, Cancelled, Failure, UnknownName
from headviz.models.architectures import FAMILIES, family_of, geometry
from headviz.models.loading import Loaded
from headviz.settings import Settings
from headviz.types import Ablation, GradientRequest, MapRequest, MeasureRequest, ModelRef, Silent
from tests import reference, tiny, tiny_tokenizer
from tests.checkpoints import Recorder

MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
OFF = ((0, 1), (1, 0), (1, 2))
CASES = ["llama", "opt", "bloom", "mistral-window"]


class Bench:
    """A tiny model, its questions and its text."""

    def __init__(self, home, case, dtype=torch.float32):
        self.settings = Settings(home=home)
        model = tiny.build(case, dtype, vocab_size=330, max_position_embeddings=1024)
        self.loaded = Loaded(
            MODEL, model, tiny_tokenizer.make(), geometry(model.config), family_of(model.config), "cpu"
        )
        self.loaded.self_check = {}
        self.watch = Silent()
        self.threads = 1
        rows = [
            {"question": f"the head looks at {i}" + " and the token" * (i % 3), "subject": subject,
             "choices": ["a norm", "the first token", "nothing .", "an output"][: 4 - (i == 3)],
             "answer": i % 3, "split": "dev" if i < 1 else "test"}
            for subject in ("heads", "tokens") for i in range(5)
        ]  # fmt: skip
        self.revision = import_questions("\n".join(map(json.dumps, rows)).encode(), "q.jsonl", self.settings)
        text = own_text.import_text((tiny_tokenizer.TEXT * 3).encode(), "t.txt", settings=self.settings)
        self.text = corpora.resolve(
            "own", revision=text.revision, inputs=5, tokens=24, settings=self.settings
        )

    def model(self, _ref):
        return self.loaded

    def questions(self, **changes):
        return resolve_questions(
            "own", **({"revision": self.revision, "shots": 1, "settings": self.settings} | changes)
        )

    def ask(self, ablation=None, **changes):
        request = MeasureRequest(
            model=MODEL, questions=self.questions(**changes), ablation=ablation or Ablation()
        )
        return run_measure(request, self)

    def losses(self, ablation=None):
        return run_measure(MeasureRequest(model=MODEL, text=self.text, ablation=ablation or Ablation()), self)


@pytest.fixture(params=CASES)
def bench(request, tmp_path):
    return Bench(tmp_path, request.param)


@pytest.fixture
def llama(tmp_path):
    return Bench(tmp_path, "llama")


# ------------------------------------------------------------------------------------------- the slow versions


@contextmanager
def by_hand(model, heads, fill=None):
    """The stock model with these heads' slices of W_O's input replaced: by zeros, or by fill (L, H, 2, D)."""
    family, shape = FAMILIES[model.config.model_type], geometry(model.config)
    D, handles = shape.head_dim, []
    for number, layer in enumerate(model.get_submodule(family.layers)):

        def replace(_module, args, number=number):
            x = args[0].clone()  # (1, T, H·D)
            for layer_, head in heads:
                if layer_ == number:
                    at = slice(head * D, (head + 1) * D)
                    x[..., at] = 0.0 if fill is None else fill[number, head, 1].to(x)
                    if fill is not None:
                        x[:, 0, at] = fill[number, head, 0].to(x)
            return (x, *args[1:])

        module = getattr(getattr(layer, family.attention), family.output)
        handles.append(module.register_forward_pre_hook(replace))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def prompt(item, example, scoring):
    def question(one):
        if scoring == "text":
            return f"Question: {one.question.strip()}\nAnswer:"
        listed = "".join(f"\n{'ABCD'[i]}. {choice}" for i, choice in enumerate(one.choices))
        return f"{one.question.strip()}{listed}\nAnswer:"

    def answer(one, i):
        return "ABCD"[i] if scoring == "letter" else one.choices[i]

    opening = (
        f"The following are multiple choice questions (with answers) about {item.subject}.\n\n"
        if scoring == "letter"
        else ""
    )
    shown = f"{question(example)} {answer(example, example.answer)}\n\n"
    return opening + shown + question(item), [f" {answer(item, i)}" for i in range(len(item.choices))]


def slow_answers(bench, ref, off_of=None, fill=None):
    """(Q, C) log-probabilities, and the heads that were off in each forward pass."""
    questions = read_questions(ref, bench.settings, Silent())
    model, tokenizer = bench.loaded.model, bench.loaded.tokenizer
    table, sets = np.full((len(questions.items), 4), np.nan), []
    for q, item in enumerate(questions.items):
        before, answers = prompt(item, questions.examples[item.subject][0], ref.scoring)
        start = len(tokenizer(before, add_special_tokens=False)["input_ids"])
        for c, answer in enumerate(answers):
            ids = torch.tensor([tokenizer(before + answer, add_special_tokens=False)["input_ids"]])
            heads = off_of(model, ids[0, :-1]) if off_of else ()
            sets.append(heads)
            with torch.no_grad(), by_hand(model, heads, fill):
                scores = model(ids).logits[0].double().log_softmax(-1)
            table[q, c] = sum(scores[i - 1, ids[0, i]].item() for i in range(start, ids.shape[1]))
    return table, sets


def rule(metric, threshold, fill=None, turned=False):
    """The paper's rule, layer by layer: earlier layers are switched off already when a layer is looked at."""

    def off_of(model, ids):
        chosen = []
        for layer in range(tiny.LAYERS):
            with by_hand(model, tuple(chosen), fill):
                score = reference.scores(model, ids)[metric][layer]
            high = (METRICS[metric].inactive == "high") != turned
            chosen += [(layer, h) for h, x in enumerate(score) if (x > threshold if high else x < threshold)]
        return tuple(chosen)

    return off_of


# --------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize("scoring", ["letter", "text"])
@pytest.mark.parametrize("replace", ["nothing", "zero", "mean"])
def test_static_sets_against_stock_transformers(bench, scoring, replace):
    mean = replace == "mean"
    ablation = (
        Ablation()
        if replace == "nothing"
        else Ablation(mode="static", heads=OFF, replace=replace, means_on=bench.text if mean else None)
    )
    found = bench.ask(ablation, scoring=scoring)
    fill = means.head_means(bench.loaded, bench.text, bench) if mean else None
    heads = () if replace == "nothing" else OFF
    expected, _ = slow_answers(bench, bench.questions(scoring=scoring), lambda *_: heads, fill)
    np.testing.assert_allclose(found.logprob, expected, atol=1e-4, rtol=0)
    assert np.isnan(found.logprob).sum() == 2  # two questions have three choices
    np.testing.assert_allclose(found.off_share, len(heads) / 8)
    assert found.off_sets == {}
    assert found.subjects == ("heads", "tokens")
    assert found.index.tolist() == [0, 1, 2, 3] * 2
    assert found.answer.tolist() == [1, 2, 0, 1] * 2


def test_the_answer_does_not_depend_on_packs_or_prefixes(llama, monkeypatch):
    static = Ablation(mode="static", heads=OFF)
    usual = llama.ask(static).logprob
    for name, value in (("_TOKENS", {"cpu": 1}), ("_WORTH", 10**9)):
        monkeypatch.setattr(f"headviz.analysis.packs.{name}", value)
        np.testing.assert_allclose(llama.ask(static).logprob, usual, atol=2e-5, rtol=0)


def test_lengths_count_answer_tokens(llama):
    found = llama.ask(scoring="text")
    tokenizer = llama.loaded.tokenizer
    expected = [len(tokenizer(f" {x}", add_special_tokens=False)["input_ids"]) for x in ("a norm", "the first token")]  # fmt: skip
    assert found.length[0, :2].tolist() == expected
    assert found.length[2, 3] == 0


@pytest.mark.parametrize(
    ("metric", "threshold", "turned"),
    [("awft_ln", 1.1, False), ("ahon_ln", 0.9, False), ("lthon_ln", 0.9, False), ("awft_ln", 0.9, True), ("ahon_ln", 1.1, True)],
)  # fmt: skip
@pytest.mark.parametrize("case", ["llama", "bloom"])
def test_the_papers_rule_against_layer_by_layer_loops(tmp_path, case, metric, threshold, turned):
    bench = Bench(tmp_path, case)
    ablation = Ablation(mode="per-input", metric=metric, threshold=threshold, turned=turned)
    found = bench.ask(ablation, per_subject=1)
    slow = rule(metric, threshold, turned=turned)
    expected, sets = slow_answers(bench, bench.questions(per_subject=1), slow)
    np.testing.assert_allclose(found.logprob, expected, atol=1e-3, rtol=0)
    per_question = [{s for s in sets[4 * q : 4 * q + 4]} for q in range(len(expected))]  # noqa: C416
    assert any(sets)
    if all(len(one) == 1 for one in per_question):  # letters share one pass
        shares = [len(next(iter(one))) / 8 for one in per_question]
        np.testing.assert_allclose(found.off_share, shares, atol=1e-6)
        assert found.off_sets["distinct"] == len(set(sets))


def test_the_rule_fills_with_means_too(llama):
    ablation = Ablation(
        mode="per-input", metric="ahon_ln", threshold=0.9, replace="mean", means_on=llama.text
    )
    fill = means.head_means(llama.loaded, llama.text, llama)
    expected, _ = slow_answers(llama, llama.questions(per_subject=1), rule("ahon_ln", 0.9, fill), fill)
    np.testing.assert_allclose(llama.ask(ablation, per_subject=1).logprob, expected, atol=1e-3, rtol=0)


def test_a_threshold_that_selects_nothing_is_the_baseline(bench):
    nothing = Ablation(mode="per-input", metric="ahon", threshold=-1.0)
    found = bench.ask(nothing)
    np.testing.assert_allclose(found.logprob, bench.ask().logprob, atol=2e-5, rtol=0)
    assert not found.off_share.any()
    assert found.off_sets["overlap_within"] == 1.0


def test_an_empty_static_set_changes_no_bit(bench):
    np.testing.assert_array_equal(bench.ask(Ablation(mode="static")).logprob, bench.ask().logprob)
    np.testing.assert_array_equal(bench.losses(Ablation(mode="static")).loss, bench.losses().loss)


def test_random_heads_come_from_the_seed_and_not_from_the_batch(llama, monkeypatch):
    some = Ablation(mode="random-per-input", rate=0.4, seed=5)
    one = llama.ask(some)
    monkeypatch.setattr("headviz.analysis.batches._TOKENS", {"cpu": 1})
    again = llama.ask(some)
    np.testing.assert_array_equal(one.off_share, again.off_share)
    np.testing.assert_allclose(one.logprob, again.logprob, atol=2e-5, rtol=0)
    assert not np.array_equal(one.off_share, llama.ask(Ablation(mode="random-per-input", rate=0.4)).off_share)
    rates = [switching.drawn(1, i, 0.3, 30, 9).mean() for i in range(200)]
    assert abs(np.mean(rates) - 0.3) < 0.01


def test_the_model_is_left_as_it_was(bench):
    model = bench.loaded.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modules = dict(model.named_modules())
    for ablation in (
        Ablation(mode="static", heads=OFF, replace="mean", means_on=bench.text),
        Ablation(mode="per-input", metric="awft", threshold=0.1),
    ):
        bench.ask(ablation, per_subject=1)
        bench.losses(ablation)
    after = model.state_dict()
    assert set(after) == set(before)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert dict(model.named_modules()) == modules
    assert model.config._attn_implementation == "eager"


# -------------------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("replace", ["nothing", "zero", "mean"])
def test_losses_against_stock_transformers(bench, replace, monkeypatch):
    monkeypatch.setattr("headviz.models.head._ELEMENTS", 7 * 330)  # seven positions at a time
    fill = means.head_means(bench.loaded, bench.text, bench) if replace == "mean" else None
    heads = () if replace == "nothing" else OFF
    ablation = (
        Ablation(mode="static", heads=heads, replace=replace, means_on=bench.text if replace == "mean" else None)
        if heads
        else Ablation()
    )  # fmt: skip
    found = bench.losses(ablation)
    inputs = measure.build_inputs(bench.text, bench.loaded.tokenizer, bench.settings, Silent())
    table = np.full((len(inputs.lengths), inputs.tokens.shape[1] - 1), np.nan)
    for i, n in enumerate(inputs.lengths):
        ids = torch.from_numpy(inputs.tokens[i, :n].astype(np.int64))[None]
        with torch.no_grad(), by_hand(bench.loaded.model, heads, fill):
            scores = bench.loaded.model(ids).logits[0].double().log_softmax(-1)
        table[i, : n - 1] = [-scores[t, ids[0, t + 1]].item() for t in range(n - 1)]
    np.testing.assert_allclose(found.loss, np.nansum(table, 1), atol=1e-3, rtol=0)
    np.testing.assert_allclose(found.by_position, np.nanmean(table, 0), atol=1e-4, rtol=0)
    assert found.predicted.tolist() == (inputs.lengths - 1).tolist()
    assert found.documents == inputs.documents


def test_means_are_those_of_a_loop(bench):
    """Head outputs are what goes into W_O."""
    found = means.head_means(bench.loaded, bench.text, bench)
    model, shape = bench.loaded.model, bench.loaded.geometry
    family = FAMILIES[model.config.model_type]
    inputs = measure.build_inputs(bench.text, bench.loaded.tokenizer, bench.settings, Silent())
    for number, layer in enumerate(model.get_submodule(family.layers)):
        caught = []
        module = getattr(getattr(layer, family.attention), family.output)
        handle = module.register_forward_pre_hook(lambda _m, args, caught=caught: caught.append(args[0][0]))
        for i, n in enumerate(inputs.lengths):
            with torch.no_grad():
                model(torch.from_numpy(inputs.tokens[i, :n].astype(np.int64))[None])
        handle.remove()
        outputs = [x.double().view(len(x), shape.heads, shape.head_dim) for x in caught]
        first = torch.stack([x[0] for x in outputs]).mean(0)
        rest = torch.cat([x[1:] for x in outputs]).mean(0)
        torch.testing.assert_close(found[number, :, 0].double(), first, atol=1e-5, rtol=0)
        torch.testing.assert_close(found[number, :, 1].double(), rest, atol=1e-5, rtol=0)
    assert means.head_means(bench.loaded, bench.text, bench) is found


# ------------------------------------------------------------------------------------------------ being a job


def test_results_survive_the_store(llama):
    for result in (llama.ask(), llama.losses(), llama.losses(Ablation(mode="random-per-input", rate=0.5))):
        again = unpack(pack(result))
        assert again.provenance == result.provenance
        assert again.off_sets == result.off_sets
        np.testing.assert_array_equal(again.off_share, result.off_share)


def test_the_page_can_count_up(llama):
    llama.watch = Recorder()
    llama.ask()
    steps = [step for step in llama.watch.steps if step[3] == "questions"]
    assert [step[1] for step in steps] == [0, 4, 8]
    assert "accuracy so far 0." in steps[-1][0] or "accuracy so far 1." in steps[-1][0]
    llama.losses()
    assert "nats a token so far" in llama.watch.steps[-1][0]


@pytest.mark.parametrize("ablation", [Ablation(), Ablation(mode="per-input", metric="awft", threshold=0.1)])
def test_a_cancel_is_heard_within_a_layer(llama, ablation):
    class Impatient(Silent):
        layers = 0

        def check(self):
            self.layers += 1
            if self.layers == 2:
                raise Cancelled("somebody asked to stop")

    llama.watch = Impatient()
    with pytest.raises(Cancelled):
        llama.ask(ablation)
    assert llama.watch.layers == 2


@pytest.mark.parametrize(
    ("ablation", "error", "says"),
    [
        (Ablation(mode="static", heads=((2, 0),)), BadInput, r"L02\.H00.*2 layers of 4 heads.*another model"),
        (Ablation(mode="static", heads=((0, 4),)), BadInput, r"L00\.H04"),
        (Ablation(mode="static", heads=((1, 0), (0, 0))), BadInput, "sorted by layer"),
        (Ablation(mode="none", heads=((0, 0),)), BadInput, "goes with the mode static"),
        (Ablation(mode="per-input", metric="awt"), UnknownName, "Did you mean 'awft'"),
        (Ablation(mode="random-per-input", rate=1.2), BadInput, "between 0 and 1, not at 1.2"),
        (Ablation(mode="static", heads=((0, 0),), replace="mean"), BadInput, "needs text"),
    ],
)
def test_ablations_of_another_model_get_a_sentence(llama, ablation, error, says):
    with pytest.raises(error, match=says):
        llama.ask(ablation)


def test_one_of_questions_and_text(llama):
    for both in ({}, {"questions": llama.questions(), "text": llama.text}):
        with pytest.raises(BadInput, match="give one of the two"):
            run_measure(MeasureRequest(model=MODEL, ablation=Ablation(), **both), llama)


def test_broken_weights_get_a_sentence(llama):
    llama.loaded.model.get_output_embeddings().weight[5] = torch.nan
    for run in (llama.ask, llama.losses):
        with pytest.raises(Failure, match="not finite"):
            run()


def test_overlap_against_a_loop():
    draw = np.random.default_rng(0)
    off = draw.random((7, 2, 3)) < 0.4
    off[0] = off[1] = False
    group = np.array([0, 0, 1, 1, 1, 2, 0])
    found = switching.overlap(off, group)
    sets = [frozenset(np.flatnonzero(one.ravel())) for one in off]
    pairs = {True: [], False: []}
    for i in range(7):
        for j in range(i):
            either = sets[i] | sets[j]
            pairs[group[i] == group[j]].append(len(sets[i] & sets[j]) / len(either) if either else 1.0)
    assert found["distinct"] == len(set(sets))
    assert found["overlap_within"] == pytest.approx(np.mean(pairs[True]))
    assert found["overlap_between"] == pytest.approx(np.mean(pairs[False]))


def test_prompts_over_the_context_lose_their_beginning_and_say_so(llama):
    llama.loaded.model.config.max_position_embeddings = 60
    found = llama.ask()
    assert "prompts are longer than the model's context and lost their beginning" in found.provenance.notes[0]
    assert np.isfinite(found.logprob[:, :3]).all()


def test_answers_are_read_in_order():
    """Two answers of one row, and a row between them."""
    read = SimpleNamespace
    rows = [
        read(reads=(read(question=0, choice=0, targets=(1, 2)), read(question=0, choice=1, targets=(1, 3)))),
        read(reads=(read(question=1, choice=0, targets=(4,)),)),
    ]
    model = tiny.build("llama")
    hidden = torch.randn(9, model.config.hidden_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = answering.read_answers(SimpleNamespace(model=model), hidden, rows, [[2, 3], [8]])
        full = model.lm_head(hidden).log_softmax(-1)
    expected = [full[2, 1], full[3, 2], full[2, 1], full[3, 3], full[8, 4]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_gradient_order_is_an_answer_too(llama):
    result = run_gradient(GradientRequest(model=MODEL, data=llama.text), llama)
    assert result.values.shape == (2, 4)
    assert (result.values > 0).all()
    np.testing.assert_array_equal(unpack(pack(result)).values, result.values)


@pytest.mark.parametrize("case", ["llama", "bloom", "gemma2", "gpt2"])
@pytest.mark.parametrize("replace", ["zero", "mean"])
def test_each_head_alone_is_what_its_own_measurement_says(tmp_path, case, replace):
    bench = Bench(tmp_path, case)
    model = bench.loaded.model
    modules = dict(model.named_modules())
    on = bench.text if replace == "mean" else None
    found = run_map(MapRequest(model=MODEL, text=bench.text, replace=replace, means_on=on), bench)
    for layer, head in ((0, 0), (0, 3), (1, 2)):
        alone = bench.losses(Ablation(mode="static", heads=((layer, head),), replace=replace, means_on=on))
        np.testing.assert_allclose(found.loss[:, layer, head], alone.loss, atol=1e-4, rtol=0)
    np.testing.assert_array_equal(found.baseline, bench.losses().loss)
    expected = (found.loss.sum(0) - found.baseline.sum()) / found.predicted.sum()
    np.testing.assert_allclose(found.change(), expected)
    assert dict(model.named_modules()) == modules
    np.testing.assert_array_equal(unpack(pack(found)).loss, found.loss)


def test_a_cancelled_map_puts_every_layer_back(llama):
    class Impatient(Silent):
        def step(self, doing, done=0, total=0, unit=""):
            if unit == "passes" and done == 6:
                raise Cancelled("somebody asked to stop")

    layers = list(llama.loaded.model.model.layers)
    llama.watch = Impatient()
    with pytest.raises(Cancelled):
        run_map(MapRequest(model=MODEL, text=llama.text), llama)
    assert all(one is other for one, other in zip(layers, llama.loaded.model.model.layers, strict=True))
