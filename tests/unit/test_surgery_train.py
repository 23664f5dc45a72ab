"""Training slices: step for step what masked full matrices give, and nothing kept below the first treated layer."""

import numpy as np
import pytest
import torch

from headviz.data.inputs import Inputs
from headviz.models.architectures import family_of, geometry
from headviz.models.attention import probe
from headviz.models.loading import Loaded
from headviz.surgery.layouts import treat
from headviz.surgery.meter import Meter
from headviz.surgery.slices import frozen_hash, sliced
from headviz.surgery.train import NotFiniteError, Trainer, rate_at, windows_of
from headviz.types import ModelRef, Recipe, Silent
from tests.naive_surgery import Naive, head_places, masks_for
from tests.tiny import build, tokens

METER = Meter(Silent(), 0)
RECIPE = Recipe(rate=3e-3, batch=2, accumulate=2, warmup=2, clip=0.1)


def loaded_of(model):
    ref = ModelRef(source="bundled", name="tiny", revision="0" * 64, dtype="float32")
    return Loaded(ref, model, None, geometry(model.config), family_of(model.config), "cpu")


def windows(N=7, T=11, lengths=None):
    ids, counts = tokens(lengths or [T] * N)
    padded = torch.where(torch.arange(ids.shape[1]) < counts[:, None], ids, -1)
    N = len(counts)
    return Inputs(
        padded.numpy().astype(np.int32), counts.numpy().astype(np.int32), tuple(map(str, range(N))),
        np.arange(N, dtype=np.int32), np.zeros(N, bool),
    )  # fmt: skip


CASES = {  # treated heads, the naive way's places by hand
    "bloom": ((0, 1), (1, 0), (1, 3)),
    "llama": ((1, 2), (1, 3)),  # a whole KV group of two query heads
}


def naive_masks(model, case, heads):
    shape = geometry(model.config)
    where = "transformer.h.{}.self_attention" if case == "bloom" else "model.layers.{}.self_attn"
    output = "dense" if case == "bloom" else "o_proj"
    found = {}
    for layer in sorted({layer for layer, _ in heads}):
        rows, columns = {}, []
        for head in [head for at, head in heads if at == layer]:
            D = shape.head_dim
            for name, some in head_places(case, head, shape.heads, shape.kv_heads, D).items():
                rows.setdefault(name, []).extend(some)
            columns += range(head * D, (head + 1) * D)
        found |= masks_for(model, where.format(layer), output, rows, columns)
    return found


def put(naive, slices, shape):
    """The slices' numbers into the naive way's matrices."""
    with torch.no_grad():
        for name, parameter in slices.named().items():
            layer, projection, part = name.split(".")
            full = next(
                key
                for key in naive.masks
                if f".{layer}." in key
                and key.endswith(f"{projection}.{'bias' if part == 'bias' else 'weight'}")
            )
            matrix, mask = naive.parameters[full], naive.masks[full]
            matrix[mask] = parameter.flatten()


def taken(naive, slices, what):
    """name → (the slice's numbers or gradient, the same numbers out of the naive way's matrices)."""
    for name, parameter in slices.named().items():
        layer, projection, part = name.split(".")
        full = next(
            key
            for key in naive.masks
            if f".{layer}." in key and key.endswith(f"{projection}.{'bias' if part == 'bias' else 'weight'}")
        )
        matrix = naive.parameters[full]
        whole = matrix if what == "data" else matrix.grad
        ours = parameter if what == "data" else parameter.grad
        yield name, ours.detach().flatten(), whole.detach()[naive.masks[full]]


@pytest.mark.parametrize("case", CASES)
def test_gradients_and_updates_are_those_of_masked_full_matrices(case):
    heads = CASES[case]
    texts, steps = windows(), 6
    model = build(case, torch.float64)
    full = build(case, torch.float64)
    naive = Naive(full, naive_masks(full, case, heads))
    stock = {name: parameter.detach().clone() for name, parameter in naive.parameters.items()}
    loaded = loaded_of(model)
    digest = frozen_hash(model)
    with sliced(model, treat(heads, loaded.geometry)) as slices:
        slices.reinitialise(0, 1, RECIPE)
        put(naive, slices, loaded.geometry)
        begun = {name: parameter.detach().clone() for name, parameter in naive.parameters.items()}
        trainer = Trainer(loaded, slices, RECIPE, steps, texts, seed=4)
        for step in range(steps):
            with probe(model, want=()) as watching:
                loss, norm, _ = trainer.one_step(watching, METER)
            chosen = windows_of(step, 4, 7, 4)
            batches = [torch.from_numpy(texts.tokens[chosen[at : at + 2]]).long() for at in (0, 2)]
            theirs = naive.step(batches, rate_at(step, steps, RECIPE), RECIPE.clip)
            assert (loss, norm) == pytest.approx(theirs, rel=1e-10)
            assert norm > RECIPE.clip
            for name, ours, whole in taken(naive, slices, "grad"):
                assert torch.allclose(ours, whole, rtol=1e-8, atol=1e-13), (step, name)
            for name, ours, whole in taken(naive, slices, "data"):
                assert torch.allclose(ours, whole, rtol=1e-9, atol=1e-12), (step, name)
        moved = [not torch.equal(begun[name], parameter) for name, parameter in naive.parameters.items()]
        assert all(moved)
    for name, parameter in naive.parameters.items():
        rest = ~naive.masks[name]
        assert torch.equal(parameter.detach()[rest], stock[name][rest])
    assert frozen_hash(model) == digest


def test_windows_of_unequal_length_count_by_their_tokens():
    model = build("llama", torch.float64)
    loaded, texts = loaded_of(model), windows(lengths=[11, 5, 8, 11, 3])
    with sliced(model, treat(((0, 0), (0, 1)), loaded.geometry)) as slices:
        found = []
        for batch, accumulate in ((1, 4), (4, 1), (2, 2)):
            recipe = Recipe(batch=batch, accumulate=accumulate, rate=1e-3)
            trainer = Trainer(loaded, slices, recipe, 4, texts, seed=0)
            with probe(model, want=()) as watching:
                loss, norm, seen = trainer.one_step(watching, METER)
            found.append((loss, norm))
        assert found[0] == pytest.approx(found[1], rel=1e-12)
        assert found[0] == pytest.approx(found[2], rel=1e-12)
        chosen = windows_of(0, 4, 5, 0)
        assert seen == texts.lengths[chosen].sum()
        total = 0.0
        for row in chosen:
            n = int(texts.lengths[row])
            ids = torch.from_numpy(texts.tokens[row, :n]).long()[None]
            with torch.inference_mode(), probe(model, want=()):
                logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
            total += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
        assert found[0][0] == pytest.approx(total / (texts.lengths[chosen] - 1).sum(), rel=1e-9)


@pytest.mark.parametrize("case", ["bloom", "llama", "gpt2"])
def test_without_output_queries_keys_and_values_have_no_gradient_in_the_first_step(case):
    model = build(case)
    loaded = loaded_of(model)
    recipe = Recipe(rate=1e-2, warmup=0, batch=2, accumulate=1)
    with sliced(model, treat(((0, 2), (0, 3)), loaded.geometry)) as slices:
        slices.reinitialise(0, 1, recipe)
        begun = slices.state()
        trainer = Trainer(loaded, slices, recipe, 10, windows(), seed=0)
        with probe(model, want=()) as watching:
            trainer.one_step(watching, METER)
            for name, parameter in slices.named().items():
                assert bool(parameter.grad.any()) == name.endswith("columns"), name
            still = slices.state()
            trainer.one_step(watching, METER)
        for name, tensor in slices.state().items():
            assert torch.equal(still[name], begun[name]) != name.endswith("columns"), name
            assert not torch.equal(tensor, begun[name]), name


def test_losses_fall_and_the_frozen_model_stays():
    model = build("bloom")
    loaded, digest = loaded_of(model), frozen_hash(build("bloom"))
    recipe = Recipe(rate=2e-2, batch=4, accumulate=1, warmup=0)
    with sliced(model, treat(((0, 1), (1, 2)), loaded.geometry)) as slices:
        slices.reinitialise(0, 1, recipe)
        trainer = Trainer(loaded, slices, recipe, 40, windows(), seed=0)
        first = trainer.train_until(10, METER)
        last = trainer.train_until(40, METER)
    assert last.train_loss < first.train_loss
    assert last.gradient_norm > 0
    assert last.tokens_per_second > 0
    assert frozen_hash(model) == digest


@pytest.mark.parametrize("case", ["bloom", "llama"])
def test_recomputing_activations_gives_the_same_gradients(case):
    model = build(case, torch.float64)
    loaded = loaded_of(model)
    found = []
    with sliced(model, treat(((0, 0), (0, 1), (1, 3)), loaded.geometry)) as slices:
        begun = slices.state()
        for again in (False, True):
            slices.load(begun)
            recipe = Recipe(rate=1e-2, batch=2, accumulate=2, checkpointing=again)
            trainer = Trainer(loaded, slices, recipe, 8, windows(), seed=0)
            trainer.train_until(4, METER)
            found.append(slices.state())
        assert all(torch.allclose(found[0][name], found[1][name], rtol=1e-12) for name in begun)
        assert any(not torch.equal(found[0][name], begun[name]) for name in begun)
    assert not any("forward" in module.__dict__ for module in model.modules())


def kept_for_the_way_back(model, heads, checkpointing=False, T=24):
    """(bytes that one forward pass keeps, whether each layer's output wants a gradient)."""
    loaded, kept, wants = loaded_of(model), {}, []
    recipe = Recipe(batch=1, accumulate=1, checkpointing=checkpointing)
    parameters = set()

    def note(tensor):
        if tensor.data_ptr() not in parameters:
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    def wanted(_module, _given, output):
        wants.append((output[0] if isinstance(output, tuple) else output).requires_grad)

    layers = model.get_submodule(loaded.family.layers)
    with sliced(model, treat(heads, loaded.geometry)) as slices:
        parameters |= {parameter.data_ptr() for parameter in model.parameters()}
        handles = [layer.register_forward_hook(wanted) for layer in layers]
        trainer = Trainer(loaded, slices, recipe, 2, windows(N=2, T=T), seed=0)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            trainer.train_until(1, METER)
        for handle in handles:
            handle.remove()
    return sum(kept.values()), wants[: len(layers)]


@pytest.mark.parametrize("case", ["bloom", "llama"])
def test_nothing_is_kept_below_the_first_treated_layer(case):
    model = build(case, num_hidden_layers=6)
    low, wants_low = kept_for_the_way_back(model, ((0, 0), (0, 1)))
    high, wants_high = kept_for_the_way_back(model, ((4, 0), (4, 1)))
    assert wants_low == [True] * 6
    assert wants_high == [False] * 4 + [True] * 2
    assert high < 0.5 * low
    again, _ = kept_for_the_way_back(model, ((0, 0), (0, 1)), checkpointing=True)
    assert again < 0.6 * low


def test_all_logits_never_exist_at_once(monkeypatch):
    monkeypatch.setattr("headviz.surgery.train._LOGITS", 61 * 4)  # four tokens at a time
    monkeypatch.setattr("headviz.surgery.train._FEWEST", 1)
    model = build("bloom", torch.float64)
    loaded, most = loaded_of(model), []
    head = model.get_output_embeddings()
    handle = head.register_forward_hook(lambda _m, given, _o: most.append(given[0].shape[0]))
    with sliced(model, treat(((0, 1),), loaded.geometry)) as slices, probe(model, want=()) as watching:
        recipe = Recipe(batch=2, accumulate=1)
        small = Trainer(loaded, slices, recipe, 4, windows(), seed=0).one_step(watching, METER)
        assert max(most) == 4
        monkeypatch.undo()
        whole = Trainer(loaded, slices, recipe, 4, windows(), seed=0).one_step(watching, METER)
        assert max(most) == 10
    handle.remove()
    assert small == pytest.approx(whole, rel=1e-12)


def test_rates():
    paper = Recipe(rate=1.0, warmup=100)
    assert [rate_at(step, 1980, paper) for step in (0, 50, 100)] == [0.0, 0.5, 1.0]
    assert rate_at(1040, 1980, paper) == pytest.approx(0.5)
    assert rate_at(1979, 1980, paper) < 1e-5
    assert rate_at(10, 40, paper) == 1.0  # a quarter of the steps at most
    assert rate_at(5, 40, paper) == 0.5
    assert rate_at(39, 40, Recipe(rate=1.0, schedule="constant")) == 1.0
    assert rate_at(0, 3, paper) == 1.0  # no room for a warm-up


def test_every_window_is_read_once_an_epoch_in_an_order_of_its_own():
    seen = np.concatenate([windows_of(step, 3, 7, 5) for step in range(14)])
    epochs = seen.reshape(6, 7)
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 3
    assert windows_of(3, 3, 7, 5).tolist() == seen[9:12].tolist()
    assert windows_of(0, 7, 7, 6).tolist() != windows_of(0, 7, 7, 5).tolist()


def test_a_loss_that_is_not_finite_stops_before_the_step():
    model = build("bloom")
    loaded = loaded_of(model)
    with sliced(model, treat(((0, 1),), loaded.geometry)) as slices:
        trainer = Trainer(loaded, slices, Recipe(batch=1, accumulate=1), 10, windows(), seed=0)
        trainer.train_until(3, METER)
        with torch.no_grad():
            slices.named()["0.dense.columns"][0, 0] = torch.nan
        with pytest.raises(NotFiniteError, match="loss was not finite at step 4") as caught:
            trainer.train_until(10, METER)
        assert caught.value.step == 4
        assert trainer.step == 3


@pytest.mark.parametrize(
    ("dtype", "master"), [(torch.bfloat16, "float32"), (torch.float32, "float32"), (torch.bfloat16, "model")]
)
def test_going_on_from_a_state_gives_the_same_bits(dtype, master):
    recipe = Recipe(rate=1e-2, batch=2, accumulate=2, warmup=2)
    ends = []
    for broken in (False, True):
        model = build("llama", dtype)
        loaded = loaded_of(model)
        with sliced(model, treat(((0, 0), (1, 2), (1, 3)), loaded.geometry), master) as slices:
            slices.reinitialise(0, 1, recipe)
            trainer = Trainer(loaded, slices, recipe, 8, windows(), seed=2)
            trainer.train_until(3, METER)
            if broken:
                kept = {name: tensor.clone() for name, tensor in trainer.state().items()}
                slices.reinitialise(9, 1, recipe)
                trainer = Trainer(loaded, slices, recipe, 8, windows(), seed=2)
                trainer.load(kept, 3)
            trainer.train_until(8, METER)
            ends.append({name: tensor.clone() for name, tensor in trainer.state().items()})
    assert len(ends[0]) == 3 * len(slices.named())
    assert all(torch.equal(ends[0][name], tensor) for name, tensor in ends[1].items())
