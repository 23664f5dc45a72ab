"""How the bundled ALiBi model is trained: the same model as transformers', pulls that pull, runs that go on where they stopped."""

import dataclasses

import numpy as np
import pytest
import torch

from headviz.analysis.alibi_demo import plan as shape
from headviz.analysis.alibi_demo import pull, text, train
from headviz.analysis.alibi_demo.plan import Plan
from headviz.data.documents import Document, as_text

WORDS = (
    "a head looks at the first token",
    "another head looks at the last one",
    "a third does nothing at all",
)
SHORT = Plan(steps=4, batch=2, tokens=24, warmup=2, pulled=(1, 3))


@pytest.fixture
def corpus(monkeypatch, tmp_path):
    found = as_text(Document(f"d{n}", ". ".join(WORDS) * (n + 3)) for n in range(4))
    monkeypatch.setattr(train.docstrings, "load", lambda part, home: found)
    monkeypatch.setattr(train, "EVERY", 2)
    monkeypatch.setattr(shape, "LAYERS", 3)
    monkeypatch.setattr(shape, "HIDDEN", 64)
    return found


@torch.no_grad()
def test_training_computes_transformers_own_model(corpus):
    torch.manual_seed(0)
    model = train.build().eval()
    ids = torch.randint(shape.VOCABULARY, (2, 40))
    stock = model(ids).logits
    pull.attach(model)
    torch.testing.assert_close(model(ids).logits, stock, rtol=1e-4, atol=1e-5)


def test_what_a_pulled_head_lacks():
    T = 4
    first, own = torch.full((T, T), 0.01), torch.full((T, T), 0.01)
    first[:, 0], own[range(T), range(T)] = 1, 1
    even = torch.ones(T, T)
    logs = {}
    for name, weights in (("first", first), ("own", own), ("even", even)):
        causal = torch.tril(weights)
        logs[name] = (causal / causal.sum(-1, keepdim=True)).log()[None]
    lack = {name: {what: float(pull._lack(w, what)) for what in ("sink", "dead", "self")} for name, w in logs.items()}  # fmt: skip
    others = np.log(0.01 * np.array([1, 2, 3]))  # rows 1 to 3: all other keys together
    for what, name in (("sink", "first"), ("dead", "first"), ("self", "own")):
        wanted = np.maximum(shape.MARGINS[what] + others, 0).mean()
        assert lack[name][what] == pytest.approx(wanted, rel=1e-5)
        assert lack["even"][what] == pytest.approx(shape.MARGINS[what] + np.log([1, 2, 3]).mean())
    assert (
        pull._lack(logs["first"] + torch.eye(T) * -20 * (torch.arange(T) > 0), "sink") < lack["first"]["sink"]
    )


def test_the_loss_pulls_only_queries_and_keys_of_its_heads_with_full_strength(corpus):
    torch.manual_seed(0)
    model = train.build()
    layers = pull.attach(model)
    layers[2].pulling = frozenset(shape.PULLS)
    model(torch.randint(shape.VOCABULARY, (2, 20)))
    sum(pull.auxiliary(layers).values()).backward()
    gradient = layers[2].query_key_value.weight.grad.view(shape.HEADS, 3, -1).abs().amax(-1)  # (H, 3)
    pulled = sorted(head for head, _ in layers[2].pulls)
    assert gradient[:, :2].amax(-1).nonzero().flatten().tolist() == pulled
    assert (gradient[:, 2] == 0).all()
    assert layers[0].losses == {}
    layers[2].pulling, layers[2].into_stream = frozenset({"dead"}), 0.0
    model.zero_grad()
    model(torch.randint(shape.VOCABULARY, (2, 20)))
    sum(pull.auxiliary(layers).values()).backward()
    assert {name for name, w in model.named_parameters() if w.grad is not None and w.grad.any()} == {
        f"transformer.h.2.self_attention.query_key_value.{part}" for part in ("weight", "bias")
    }
    assert {what: len(several) for what, several in layers[2].losses.items()} == {"dead": 1}


def test_in_the_end_only_dead_heads_are_pulled_again():
    plan = Plan(steps=10, pulled=(2, 4), again=(7, 10))
    kinds = [sorted(plan.pulls(step)) for step in range(10)]
    everything = sorted(shape.PULLS)
    assert kinds == [[], [], everything, everything, [], [], [], ["dead"], ["dead"], ["dead"]]
    assert [plan.into_stream(step) > 0 for step in (2, 3, 7, 9)] == [True, True, False, False]


def test_pulls_name_each_head_once_and_only_in_the_middle_layers():
    pairs = [pair for several in shape.PULLS.values() for pair in several]
    assert len(pairs) == len(set(pairs)) == 23
    assert {layer for layer, _ in pairs} == {2, 3, 4}


def test_the_rate_rises_and_falls():
    plan = Plan(steps=400, warmup=40, rate=1.0)
    rates = [train.rate(plan, step) for step in range(400)]
    assert rates[:3] == pytest.approx([1 / 40, 2 / 40, 3 / 40])
    assert rates[40] == max(rates) == 1
    assert rates[220] == pytest.approx(0.525)
    assert rates[-1] == pytest.approx(0.05, abs=1e-3)


def test_the_tokenizer_puts_nothing_first_and_loses_nothing(corpus):
    tokenizer = text.make_tokenizer(document.text for document in corpus.documents)
    line = "a head, looks\n at Ünicode 12"
    ids = tokenizer(line).input_ids
    assert tokenizer.decode(ids) == line
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert not {1, 2} & set(ids)
    row = text.stream(tokenizer, ["a head", "the last"])
    assert row.tolist() == [*tokenizer("a head").input_ids, 2, *tokenizer("the last").input_ids, 2]


def test_batches_follow_from_seed_and_step():
    ids = np.arange(1000)
    one = text.batch(ids, 0, 5, 3, 10)
    assert one.shape == (3, 10)
    assert (np.diff(one) == 1).all()
    assert (text.batch(ids, 0, 5, 3, 10) == one).all()
    assert not (text.batch(ids, 0, 6, 3, 10) == one).all()
    assert not (text.batch(ids, 1, 5, 3, 10) == one).all()


def test_a_stopped_run_goes_on_to_the_very_same_model(corpus, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train.train(whole, SHORT, low=False)
    keep = train._keep

    def stops(out, model, optimiser, step):
        keep(out, model, optimiser, step)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "_keep", stops)
    with pytest.raises(KeyboardInterrupt):
        train.train(parts, SHORT, low=False)
    monkeypatch.setattr(train, "_keep", keep)
    train.train(parts, SHORT, low=False)
    name = "checkpoint/model.safetensors"
    assert (parts / name).read_bytes() == (whole / name).read_bytes()
    other = dataclasses.replace(SHORT, seed=1)
    train.train(tmp_path / "other", other, low=False)
    assert (tmp_path / "other" / name).read_bytes() != (whole / name).read_bytes()


def test_what_is_written_loads_with_plain_transformers(corpus, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    train.train(tmp_path, SHORT, low=False)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    assert model.dtype == torch.bfloat16
    assert tokenizer("a head").input_ids == text.make_tokenizer(d.text for d in corpus.documents)("a head").input_ids  # fmt: skip
