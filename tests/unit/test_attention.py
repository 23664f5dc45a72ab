"""What the probe does to a model (nothing that stays), and the paths that statistics can take."""

import numpy as np
import pytest
import torch

from headviz.errors import BadInput, Cancelled, SelfCheckFailed, UnknownName
from headviz.models import blocks, fused, gate, selfcheck
from headviz.models.alibi import with_coordinates
from headviz.models.architectures import family_of
from headviz.models.attention import attention_modules, probe
from headviz.models.blocks import Attention
from headviz.models.bloom import BloomAttention
from headviz.models.slopes import alibi_slopes
from headviz.models.statistics import STATISTICS, Rows, norm, output_weight, roots
from headviz.types import Silent
from tests import tiny

EVERYTHING = frozenset({"sink", "entropy"})
each_case = pytest.mark.parametrize("case", tiny.CASES)


def snapshot(model):
    """What must be the same afterwards: modules by identity, weights by bits, names of attention, hooks."""
    return (
        {name: id(module) for name, module in model.named_modules()},
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
        {id(m.config): m.config._attn_implementation for m in model.modules() if hasattr(m, "config")},
        {name: set(vars(module)) for name, module in model.named_modules()},
        {
            name: len(module._forward_hooks) + len(module._forward_pre_hooks)
            for name, module in model.named_modules()
        },
    )


def assert_untouched(model, before):
    after = snapshot(model)
    assert after[0] == before[0]
    assert all(torch.equal(after[1][name], tensor) for name, tensor in before[1].items())
    assert after[1].keys() == before[1].keys()
    assert after[2:] == before[2:]


@each_case
def test_model_is_the_same_after_use_and_after_an_exception(case):
    model = tiny.build(case)
    before = snapshot(model)
    ids, lengths = tiny.tokens([9, 5])
    with torch.no_grad(), probe(model) as watching:
        meanwhile = snapshot(model)
        assert (meanwhile[0], meanwhile[2]) != (before[0], before[2])  # it does touch the model meanwhile
        watching.run(ids, lengths)
    assert_untouched(model, before)
    with pytest.raises(ZeroDivisionError), probe(model):
        raise ZeroDivisionError
    assert_untouched(model, before)
    with (
        pytest.raises(ValueError, match="in a layer"),
        torch.no_grad(),
        probe(model, observe=_fail) as watching,
    ):
        watching.run(ids, lengths)
    assert_untouched(model, before)


def _fail(*_):
    raise ValueError("in a layer")


def test_bloom_gets_its_own_modules_back():
    model = tiny.build("bloom")
    originals = attention_modules(model, family_of(model.config))
    names = set(model.state_dict())
    with probe(model):
        assert all(type(m) is BloomAttention for m in attention_modules(model, family_of(model.config)))
        assert set(model.state_dict()) == names
    back = attention_modules(model, family_of(model.config))
    assert all(now is then for now, then in zip(back, originals, strict=True))


@each_case
def test_logits_are_those_of_stock_eager_attention(case):
    model = tiny.build(case)
    ids, _ = tiny.tokens([40, 40])
    with torch.no_grad():
        stock = model(ids).logits
        with probe(model):
            ours = model(ids).logits
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=2e-5)


@each_case
def test_a_later_token_changes_nothing_earlier(case):
    model = tiny.build(case)
    ids, _ = tiny.tokens([24])
    changed = ids.clone()
    changed[0, 17] = (changed[0, 17] + 7) % tiny.VOCABULARY
    with torch.no_grad(), probe(model):
        first, second = model(ids).logits[0], model(changed).logits[0]
    torch.testing.assert_close(first[:17], second[:17], rtol=0, atol=1e-5)
    assert (first[17:] - second[17:]).abs().max() > 1e-3


@each_case
def test_a_closed_gate_is_the_same_as_zero_columns_of_the_output_projection(case):
    model, pruned = tiny.build(case), tiny.build(case)
    family = family_of(model.config)
    D = _head_dim(model)
    weight = getattr(attention_modules(pruned, family)[1], family.output).weight
    (weight if case.startswith("gpt2") else weight.T)[D : 2 * D] = 0  # layer 1, head 1
    ids, _ = tiny.tokens([20, 20])
    H = model.config.num_attention_heads
    with torch.no_grad():
        with probe(model):
            whole = model(ids).logits
        with probe(model, gates=gate.without([(1, 1)], tiny.LAYERS, H)):
            gated = model(ids).logits
        with probe(pruned):
            zeroed = pruned(ids).logits
    assert (gated - zeroed).abs().max() == 0
    assert (gated - whole).abs().max() > 1e-3


def _head_dim(model):
    config = model.config
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


@each_case
def test_an_open_gate_changes_nothing_and_a_gate_can_differ_by_input(case):
    model = tiny.build(case)
    ids, _ = tiny.tokens([20, 20])
    H = model.config.num_attention_heads
    with torch.no_grad():
        with probe(model):
            free = model(ids).logits
        with probe(model, gates=gate.static(torch.ones(tiny.LAYERS, H))):
            assert torch.equal(model(ids).logits, free)

        def second_input_only(layer, statistics):
            assert statistics["sink"].shape == (2, H)  # of this very forward pass
            factors = torch.ones(2, H)
            factors[1, 0] = 0
            return factors

        with probe(model, gates=second_input_only):
            mixed = model(ids).logits
        with probe(model, gates=gate.without([(0, 0), (1, 0)], tiny.LAYERS, H)):
            both = model(ids).logits
    assert torch.equal(mixed[0], free[0])
    torch.testing.assert_close(mixed[1], both[1], rtol=0, atol=1e-6)
    assert not torch.equal(free[1], both[1])


def test_a_probe_does_not_concern_another_model():
    watched, other = tiny.build("llama"), tiny.build("llama", seed=5)
    ids, _ = tiny.tokens([12])
    with torch.no_grad():
        alone = other(ids).logits
        with probe(watched) as watching:
            watching.run(ids)
            before = watching.statistics()["sink"]
            assert torch.equal(other(ids).logits, alone)
            assert np.array_equal(watching.statistics()["sink"], before)


def test_a_second_probe_on_the_same_model_is_refused_and_the_first_goes_on():
    model = tiny.build("llama")
    ids, _ = tiny.tokens([12])
    with torch.no_grad(), probe(model) as watching:
        with pytest.raises(RuntimeError, match="already under a probe"), probe(model):
            pass
        assert watching.run(ids)["sink"].shape == (1, tiny.LAYERS, 4)


def test_left_padding_is_refused_and_right_padding_is_not():
    model = tiny.build("llama")
    ids, _ = tiny.tokens([6])
    with torch.no_grad(), probe(model):
        model(ids, attention_mask=torch.tensor([[1, 1, 1, 1, 0, 0]]))
        with pytest.raises(BadInput, match="padded on the left"):
            model(ids, attention_mask=torch.tensor([[0, 0, 1, 1, 1, 1]]))


def test_ready_made_masks_and_dropout_are_refused():
    model = tiny.build("llama", attention_dropout=0.5)
    ids, _ = tiny.tokens([4])
    with torch.no_grad(), probe(model):
        with pytest.raises(BadInput, match="ready-made attention mask"):
            model(ids, attention_mask=torch.zeros(1, 1, 4, 4))
        model.train()
        with pytest.raises(BadInput, match="evaluation mode"):
            model(ids)


@pytest.mark.parametrize("case", ["llama", "bloom", "mpt", "falcon-groups", "mistral-window", "gpt2"])
def test_with_a_cache_queries_see_all_earlier_keys(case):
    model = tiny.build(case)
    ids, _ = tiny.tokens([21])
    with torch.no_grad(), probe(model):
        whole = model(ids, use_cache=False).logits
        start = model(ids[:, :14], use_cache=True)
        rest = model(ids[:, 14:], cache=start.cache)
    torch.testing.assert_close(rest.logits, whole[:, 14:], rtol=0, atol=2e-5)


def test_unknown_statistic_is_named():
    with (
        pytest.raises(UnknownName, match=r"'sinks'.*Did you mean 'sink'"),
        probe(tiny.build("llama"), want={"sinks"}),
    ):
        pass


def test_scores_without_entropy_make_no_second_call(monkeypatch):
    calls = []
    run = fused.run
    monkeypatch.setattr(fused, "run", lambda *a: calls.append(a) or run(*a))
    ids, _ = tiny.tokens([12])
    with torch.no_grad():
        with probe(tiny.build("llama"), want=set(STATISTICS) - {"entropy"}) as watching:
            watching.run(ids)
        assert len(calls) == tiny.LAYERS
        with probe(tiny.build("llama"), want={"entropy"}) as watching:
            watching.run(ids)
        assert len(calls) == 3 * tiny.LAYERS


def test_a_cancel_is_heard_within_a_layer():
    class Impatient(Silent):
        layers = 0

        def check(self):
            self.layers += 1
            if self.layers == 2:
                raise Cancelled("somebody asked to stop")

    watch, ids = Impatient(), tiny.tokens([8])[0]
    model = tiny.build("bloom")
    before = snapshot(model)
    with pytest.raises(Cancelled), torch.no_grad(), probe(model, watch=watch) as watching:
        watching.run(ids)
    assert watch.layers == 2
    assert_untouched(model, before)


# ------------------------------------------------------------------------------- paths, on tensors of their own


def draw(B=2, H=6, G=2, T=70, D=16, dtype=torch.float32, size=1.5):
    seed = torch.Generator().manual_seed(3)
    return tuple((size * torch.randn(B, n, T, D, generator=seed)).to(dtype) for n in (H, G, G))


def naive(q, k, v, ask):
    """Weights (B, H, T, K) and outputs in float64, with the whole matrix."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * ask.scale
    if ask.softcap:
        s = ask.softcap * torch.tanh(s / ask.softcap)
    T, K = s.shape[-2:]
    i, j = torch.arange(K - T, K)[:, None], torch.arange(K)
    if ask.slopes is not None:
        s = s + ask.slopes.double()[:, None, None] * j
    seen = j <= i if ask.window is None else (j <= i) & (j > i - ask.window)
    p = s.masked_fill(~seen, -torch.inf).softmax(-1)
    return p, p @ v


SLOPES = torch.tensor(alibi_slopes(6))
ASKS = {
    "plain": Attention(0.25),
    "alibi": Attention(0.25, slopes=SLOPES),
    "window": Attention(0.25, window=7),
    "softcap": Attention(0.25, softcap=2.0),
    "all of it": Attention(0.25, window=9, softcap=2.0, slopes=SLOPES),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("elements", [1 << 23, 6000])
def test_blocks_are_exact(ask, elements, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK_ELEMENTS", elements)  # one block, and many
    q, k, v = draw()
    p, o = naive(q, k, v, ask)
    got = blocks.attend(q, k, v, ask, EVERYTHING)
    torch.testing.assert_close(got.output.double(), o, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.sink.double(), p[..., 0], rtol=0, atol=1e-6)
    torch.testing.assert_close(got.entropy.double(), torch.special.entr(p).sum(-1), rtol=0, atol=1e-5)
    torch.testing.assert_close(blocks.weights_of(q, k, ask).double(), p, rtol=0, atol=1e-6)
    tail = blocks.attend(q[:, :, -5:], k, v, ask, EVERYTHING)  # fewer queries than keys: the last ones
    torch.testing.assert_close(tail.output, got.output[:, :, -5:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ask", [ASKS["plain"], ASKS["alibi"]], ids=["plain", "alibi"])
@pytest.mark.parametrize(
    ("dtype", "native", "near"),
    [
        (torch.float64, True, 1e-6),
        (torch.float32, True, 1e-5),
        (torch.bfloat16, False, 1e-5),  # statistics in float32 where the processor has no AMX
        (torch.bfloat16, True, 0.02),
        (torch.float16, True, 0.003),
    ],
)
def test_fused_statistics_are_exact(ask, dtype, native, near, monkeypatch):
    monkeypatch.setattr(fused, "low_precision_pays", lambda: native)
    q, k, v = draw(T=300, dtype=dtype)
    p, o = naive(q, k, v, ask)
    got = fused.attend("cpu-flash", q, k, v, ask, EVERYTHING)
    assert got.output.dtype == (dtype if native else torch.float32)
    rows = Rows(None, 2, 300, q.device)
    error = (rows.mean(got.sink.double()) - rows.mean(p[..., 0])).abs().max()
    assert error < min(near, 2e-4)  # the log-sum-exp is float32 whatever the activations are
    error = (rows.mean(got.entropy.double()) - rows.mean(torch.special.entr(p).sum(-1))).abs().max()
    assert error < near
    assert (got.output.double() - o).abs().mean() < near
    assert got.entropy.min() >= 0
    assert got.sink.max() <= 1


def test_entropy_of_a_head_that_looks_at_one_token_is_never_below_zero(monkeypatch):
    monkeypatch.setattr(fused, "low_precision_pays", lambda: True)
    q, k, v = draw(T=300, dtype=torch.bfloat16, size=8)
    got = fused.attend("cpu-flash", q, k, v, ASKS["plain"], EVERYTHING)
    assert got.entropy.median() < 0.05
    assert got.entropy.min() == 0


def test_alibi_entropy_in_bf16_holds_at_late_positions(monkeypatch):
    """An expected position in bf16 would be off by whole tokens, times the slope: that call is made in float32."""
    monkeypatch.setattr(fused, "low_precision_pays", lambda: True)
    q, k, v = draw(B=1, T=1500, dtype=torch.bfloat16, size=0.5)
    p, _ = naive(q, k, v, ASKS["alibi"])
    got = fused.attend("cpu-flash", q, k, v, ASKS["alibi"], EVERYTHING)
    assert (got.entropy.double() - torch.special.entr(p).sum(-1)).abs().max() < 0.02


def test_alibi_coordinates_hold_late_positions_in_bf16():
    slopes, T = torch.tensor(alibi_slopes(16)), 2048
    q, k, _ = draw(B=1, H=16, G=16, T=T, D=8, dtype=torch.bfloat16)
    wide_q, wide_k = with_coordinates(q, k, slopes, 0.25)
    assert wide_q.shape[-1] % 8 == 0
    bias = 0.25 * (
        wide_q.double() @ wide_k.double().transpose(-1, -2) - q.double() @ k.double().transpose(-1, -2)
    )
    bias = bias - bias.diagonal(dim1=-2, dim2=-1)[..., None]  # a constant of the row changes no softmax
    wanted = slopes.double()[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None])
    near = (torch.arange(T) - torch.arange(T)[:, None]).abs() < 64
    assert ((bias - wanted).abs() * near).max() < 0.01


def test_blocks_take_over_where_the_fused_operation_is_wrong_or_refuses(monkeypatch):
    q, k, _ = draw()
    assert fused.choose(q, k, ASKS["plain"]) == fused.choose(q, k, ASKS["alibi"]) == "cpu-flash"
    assert fused.choose(q, k, Attention(0.25, window=70)) == "cpu-flash"
    assert fused.choose(q, k, Attention(0.25, window=69)) is None
    assert fused.choose(q, k, ASKS["softcap"]) is None
    assert fused.choose(q[:, :, -3:], k, ASKS["plain"]) is None
    assert fused.choose(q.to("meta"), k.to("meta"), ASKS["plain"]) is None  # a device without a kernel

    model, ids = tiny.build("llama"), tiny.tokens([30])[0]
    with torch.no_grad(), probe(model) as watching:
        usual = watching.run(ids)
    assert watching.kernels == {"cpu-flash"}
    assert not watching.in_blocks
    monkeypatch.setitem(fused.KERNELS, "cpu-flash", _refusing())
    with torch.no_grad(), probe(model) as watching:
        slow = watching.run(ids)
    assert watching.in_blocks == {0, 1}
    for name, number in usual.items():
        np.testing.assert_allclose(slow[name], number, rtol=1e-4, atol=1e-5)


def _refusing():
    def call(*_):
        raise RuntimeError("no kernel for these tensors")

    return fused.Kernel(operation="mul", device="cpu", dtypes=(torch.float32,), call=call)


def test_running_out_of_memory_is_no_reason_for_blocks(monkeypatch):
    def call(*_):
        raise torch.OutOfMemoryError("the device is full")

    full = fused.Kernel(operation="mul", device="cpu", dtypes=(torch.float32,), call=call)
    monkeypatch.setitem(fused.KERNELS, "cpu-flash", full)
    with pytest.raises(torch.OutOfMemoryError):
        fused.attend("cpu-flash", *draw(), ASKS["plain"], EVERYTHING)


@pytest.mark.parametrize("name", ["cuda-flash", "cuda-efficient"])
def test_kernels_of_a_gpu_get_whole_heads_and_padded_sizes(name, monkeypatch):
    """No GPU here: their operations are imitated, as torch documents their shapes, on the CPU."""
    kernel = fused.KERNELS[name]
    cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def imitation(q, k, v, *_, scale):
        assert q.shape[1] == k.shape[1] == v.shape[1]
        assert q.shape[-1] % kernel.multiple == 0
        output, normaliser = cpu(q, k, v, 0.0, True, scale=scale)
        if name == "cuda-efficient":  # rounds the rows of the log-sum-exp up to a multiple of 32
            normaliser = torch.nn.functional.pad(normaliser, (0, -q.shape[2] % 32), value=torch.nan)
        return output, normaliser, None, None

    monkeypatch.setattr(torch.ops.aten, kernel.operation, imitation)
    q, k, v = draw(D=10)
    usual = fused.attend("cpu-flash", q, k, v, ASKS["plain"], EVERYTHING)
    got = fused.attend(name, q, k, v, ASKS["plain"], EVERYTHING)
    torch.testing.assert_close(got.output, usual.output)
    torch.testing.assert_close(got.sink, usual.sink)
    torch.testing.assert_close(got.entropy, usual.entropy)
    torch.testing.assert_close(
        got.output, fused.attend("cpu-flash", q, k, v, ASKS["plain"], frozenset()).output
    )


def test_kernels_are_chosen_by_device_and_precision():
    assert fused.kernel_for("cuda", torch.bfloat16, 128) == "cuda-flash"
    assert fused.kernel_for("cuda", torch.float32, 128) == "cuda-efficient"
    assert fused.kernel_for("cuda", torch.float64, 128) is None
    assert fused.kernel_for("cuda", torch.bfloat16, 512) == "cuda-efficient"
    assert (
        fused.kernel_for("cuda", torch.bfloat16, 128, {"cuda-flash"}) == "cuda-efficient"
    )  # older GPUs refuse
    assert fused.kernel_for("cuda", torch.bfloat16, 128, {"cuda-flash", "cuda-efficient"}) is None
    assert fused.kernel_for("mps", torch.float32, 64) is None


def test_norms_after_the_output_projection_need_only_its_triangular_root():
    projection = torch.nn.Linear(12, 30)
    o = torch.randn(5, 3, 7, 4)  # (B, H, T, D)
    root = roots(projection, 3, 4)
    slices = projection.weight.view(30, 3, 4).permute(1, 2, 0)  # (H, D, M)
    torch.testing.assert_close(norm(o @ root.transpose(-1, -2)), norm(o @ slices))
    narrow = torch.nn.Linear(12, 3)
    slices = narrow.weight.view(3, 3, 4).permute(1, 2, 0)
    torch.testing.assert_close(norm(o @ roots(narrow, 3, 4).transpose(-1, -2)), norm(o @ slices))


def test_the_matrix_of_a_projection_is_found_however_it_is_stored():
    from transformers.pytorch_utils import Conv1D

    linear, conv = torch.nn.Linear(6, 9), Conv1D(9, 6)
    torch.nn.init.normal_(conv.bias)
    assert output_weight(linear, 6) is linear.weight
    torch.testing.assert_close(output_weight(conv, 6), conv.weight.T)

    class Packed(torch.nn.Module):  # as a quantised layer: the stored numbers are no matrix
        def forward(self, x):
            return linear(x)

    torch.testing.assert_close(output_weight(Packed(), 6), linear.weight)


# ------------------------------------------------------------------------------------------------ self-check


@each_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_self_check_passes_and_reports_its_errors(case, dtype):
    errors = selfcheck.self_check(tiny.build(case, dtype), tiny.tokens([200])[0][0])
    assert set(errors) == {"awft", "entropy", "value_norm", "output_norm"}
    assert all(0 <= error <= selfcheck.TOLERANCES[dtype][name] for name, error in errors.items())


@pytest.mark.parametrize(
    ("which", "name"), [("sink", "awft"), ("entropy", "entropy"), ("output", "output_norm")]
)
@pytest.mark.parametrize("wrong", [lambda x: x * 1.1, lambda x: x * torch.nan], ids=["ten percent", "NaN"])
def test_self_check_stops_when_the_fast_path_is_wrong(which, name, wrong, monkeypatch):
    right = fused.attend

    def broken(*arguments):
        answer = right(*arguments)
        return blocks.Attended(**(vars(answer) | {which: wrong(getattr(answer, which))}))

    monkeypatch.setattr(fused, "attend", broken)
    with pytest.raises(SelfCheckFailed, match=rf"{name} .*at most.*No score is given"):
        selfcheck.self_check(tiny.build("llama"), tiny.tokens([64])[0][0])


def test_self_check_reads_at_most_512_tokens_and_allows_short_inputs_more():
    seen = []
    model = tiny.build("llama", max_position_embeddings=1024)
    model.base_model.register_forward_pre_hook(
        lambda _m, _a, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    selfcheck.self_check(model, tiny.tokens([600])[0][0])
    assert seen == [(1, 512)]
    bf16 = selfcheck.TOLERANCES[torch.bfloat16]
    assert selfcheck.tolerances(torch.bfloat16, 64) == bf16
    assert selfcheck.tolerances(torch.bfloat16, 4)["entropy"] == pytest.approx(4 * bf16["entropy"])
