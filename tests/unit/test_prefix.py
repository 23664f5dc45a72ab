"""Packed inputs and shared beginnings give what whole prompts give, one at a time."""

import pytest
import torch

from headviz.analysis.packs import common_prefix, packs
from headviz.data.prompts import Read, Row
from headviz.models import gate
from headviz.models.architectures import geometry
from headviz.models.attention import probe
from headviz.models.head import logits, logprobs
from headviz.models.prefix import packed
from headviz.types import Silent
from tests import tiny

LENGTHS = [40, 33, 22, 30]
NEVER = {
    "mistral-window",
    "gemma2",
    "gemma3_text",
    "bloom",
    "bloom-six-heads",
    "mpt",
    "mpt-six-heads",
    "falcon",
    "falcon-one-key",
    "falcon-groups",
}  # more than plain causal attention
OFF = ((0, 1), (1, 0), (1, 2))
P = 20


def make_rows():
    ids, _ = tiny.tokens(LENGTHS)
    return [ids[0, :P].tolist() + ids[i, P:n].tolist() for i, n in enumerate(LENGTHS)]


def make_means(model):
    shape = geometry(model.config)
    draw = torch.Generator().manual_seed(3)
    return torch.randn(shape.layers, shape.heads, 2, shape.head_dim, generator=draw)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("replace", ["nothing", "zero", "mean"])
@pytest.mark.parametrize("case", tiny.CASES)
def test_packed_is_whole_prompts_one_by_one(case, replace):
    model, rows = tiny.build(case), make_rows()
    shape = geometry(model.config)
    gates = None if replace == "nothing" else gate.without([x for x in OFF if x[1] < shape.heads], shape.layers, shape.heads)  # fmt: skip
    means = make_means(model) if replace == "mean" else None
    if gates is None:
        alone = [model(torch.tensor([row])).logits[0] for row in rows]
    else:
        with probe(model, want=(), gates=gates, means=means) as watching:
            alone = [logits(model, watching.hidden(torch.tensor([row]))[0]) for row in rows]
    with packed(model, gates=gates, watch=Silent(), means=means) as watching:
        whole = logits(model, watching.pack(rows))
        shared = watching.prefix(rows[0][:P], max(LENGTHS))
        assert (shared is None) == (case in NEVER)
        if shared is not None:
            tails = logits(model, watching.pack([row[P:] for row in rows], shared))
    near = {"atol": 1e-4, "rtol": 0}
    torch.testing.assert_close(whole.log_softmax(-1), torch.cat(alone).log_softmax(-1), **near)
    if shared is not None:
        expected = torch.cat([one[P:] for one in alone]).log_softmax(-1)
        torch.testing.assert_close(tails.log_softmax(-1), expected, **near)


def test_a_long_sliding_window_does_no_harm_and_a_short_one_is_noticed():
    model = tiny.build("mistral-window", sliding_window=35)
    with packed(model, watch=Silent()) as watching:
        assert watching.prefix(list(range(3, 23)), 35) is not None
        assert watching.prefix(list(range(3, 23)), 36) is None


def test_positions_that_stretch_with_the_text_are_never_shared():
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    model = tiny.build("llama", rope_parameters=rope, max_position_embeddings=64)
    with packed(model, watch=Silent()) as watching:
        assert watching.alone
        assert watching.prefix([3, 4, 5], 9) is None


def test_a_bf16_model_stays_near():
    model, rows = tiny.build("llama", torch.bfloat16), make_rows()
    alone = torch.cat([model(torch.tensor([row])).logits[0, P:] for row in rows]).float()
    with packed(model, watch=Silent()) as watching:
        found = logits(
            model, watching.pack([row[P:] for row in rows], watching.prefix(rows[0][:P], max(LENGTHS)))
        )
    assert (found - alone).abs().max() < 0.2
    assert (found - alone).abs().mean() < 0.02


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_log_probabilities_by_chunks_are_a_full_log_softmax(monkeypatch, chunk):
    monkeypatch.setattr("headviz.models.head._ELEMENTS", chunk * tiny.VOCABULARY)
    model = tiny.build("gemma2")  # soft-caps its final logits
    ids, _ = tiny.tokens([20])
    full = model(ids).logits[0].float().log_softmax(-1)
    with probe(model, want=()) as watching:
        hidden = watching.hidden(ids)[0]
    which, targets = torch.tensor([0, 0, 3, 7, 8, 19, 19]), torch.tensor([5, 6, 7, 8, 9, 10, 11])
    found = logprobs(model, hidden, targets, which)
    torch.testing.assert_close(found, full[which, targets], atol=1e-5, rtol=0)
    every = logprobs(model, hidden[:-1], ids[0, 1:])
    torch.testing.assert_close(every, full[:-1].gather(1, ids[0, 1:, None])[:, 0], atol=1e-5, rtol=0)


# -------------------------------------------------------------------------------------------------------- plans


def row(tokens, question=0, subject="a", cut=False, answers=1):
    return Row(tuple(tokens), subject, (Read(question, 0, tuple(range(answers))),), cut)


SHAPE = geometry(tiny.build("llama").config)


def plan(rows, **more):
    return packs(rows, SHAPE, "cpu", 1 << 40, **more)


def test_the_common_beginning_is_found_in_token_ids():
    assert common_prefix([(1, 2, 3, 4), (1, 2, 9), (1, 2, 3)]) == 2
    assert common_prefix([(1, 2, 3), (1, 2, 3)]) == 2  # the last token must still run
    assert common_prefix([(1, 2, 3), (1, 2, 3, 4)], spare=2) == 1
    assert common_prefix([(1,), (2,)]) == 0


def numbers(pack):
    return [[number for branch in group for number in branch.rows] for group in pack.groups]


def test_every_row_runs_once_and_cut_rows_run_whole():
    same = list(range(30))
    rows = [row([*same, i], i) for i in range(5)] + [row([*same, 1], 5, cut=True)]
    rows += [row([7, 8], 6, "b"), row([9], 7, "b")]
    found = plan(rows)
    assert [pack.prefix for pack in found] == [30, 0]
    assert sorted(n for pack in found for group in numbers(pack) for n in group) == list(range(8))
    assert set(numbers(found[1])[0]) == {5, 6, 7}
    assert [pack.prefix for pack in plan(rows, share=False)] == [0]
    assert all(len(group) == 1 for pack in plan(rows, alone=True) for group in numbers(pack))


def test_rows_of_one_question_share_a_trunk():
    rows = [
        row([1, 2, *tail], q)
        for q in (0, 1)
        for tail in ([5 + q] * 9 + [3], [5 + q] * 9 + [4, 4], [5 + q] * 9)
    ]
    (found,) = plan(rows)
    assert found.prefix == 2
    assert [(b.rows, b.trunk, b.size) for b in found.groups[0]] == [((0, 1, 2), 9, 12), ((3, 4, 5), 9, 12)]


def test_packs_keep_to_their_room():
    rows = [row([*range(100), *[i] * 700], i) for i in range(200, 207)]
    (found,) = plan(rows)
    assert found.prefix == 100
    assert [len(group) for group in found.groups] == [1, 2, 2, 2]  # a first figure soon
    tight = packs(rows, SHAPE, "cpu", 1)
    assert all(len(group) == 1 for group in tight[0].groups)


@pytest.mark.parametrize("case", sorted(set(tiny.CASES) - NEVER))
def test_answers_that_go_on_from_one_question(case):
    """Two questions with three answers each, in one pass after a shared beginning; each whole on its own."""
    model, shape = tiny.build(case), geometry(tiny.build(case).config)
    ids = tiny.tokens([60])[0][0].tolist()
    start, first, second = ids[:20], ids[20:31], ids[31:38]
    ends = [ids[38:40], ids[40:45], ids[45:46]]
    gates, means = (
        gate.without([x for x in OFF if x[1] < shape.heads], shape.layers, shape.heads),
        make_means(model),
    )
    with probe(model, want=(), gates=gates, means=means) as watching:
        alone = {
            (n, i): watching.hidden(torch.tensor([start + question + end]))[0, 20:]
            for n, question in enumerate((first, second)) for i, end in enumerate(ends)
        }  # fmt: skip
    with packed(model, gates=gates, watch=Silent(), means=means) as watching:
        shared = watching.prefix(start, 60)
        found = watching.pack([first, *ends, second, *ends], shared, [None, 0, 0, 0, None, 4, 4, 4])
    near, at = {"atol": 1e-4, "rtol": 1e-4}, 0
    for n, question in enumerate((first, second)):
        torch.testing.assert_close(found[at : at + len(question)], alone[n, 0][: len(question)], **near)
        at += len(question)
        for i, end in enumerate(ends):
            torch.testing.assert_close(found[at : at + len(end)], alone[n, i][len(question) :], **near)
            at += len(end)
