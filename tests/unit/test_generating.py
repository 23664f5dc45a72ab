"""What a model goes on with, against plain transformers: `generate` on the stock model, and on one with W_O columns zero."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import ablation, means
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet
from headviz.analysis.generating import run_generate
from headviz.analysis.side_by_side import difference_sentence, first_difference, sides
from headviz.codec import pack, unpack
from headviz.data import corpora, own_text
from headviz.describe import describe
from headviz.errors import BadInput, Cancelled, Failure
from headviz.models.architectures import family_of, geometry
from headviz.models.attention import attention_modules
from headviz.models.loading import Loaded
from headviz.settings import Settings
from headviz.types import Ablation, DataRef, GenerateRequest, ModelRef, Silent
from tests import tiny, tiny_tokenizer
from tests.checkpoints import Recorder

MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
OFF = ((0, 1), (1, 0), (1, 2))
PROMPT = "the head looks at the first token and the head"
ELASTIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}


class Desk:
    """A tiny model that never ends a text by itself, and its tokenizer."""

    def __init__(self, home, case="llama", tokenizer=None, **changes):
        self.settings = Settings(home=home)
        model = tiny.build(case, **({"vocab_size": 330} | changes))
        model.generation_config.eos_token_id = None
        made = tokenizer or tiny_tokenizer.make()
        self.loaded = Loaded(MODEL, model, made, geometry(model.config), family_of(model.config), "cpu")
        self.watch = Silent()
        self.threads = 1

    def model(self, _ref):
        return self.loaded

    def write(self, ablation=None, prompt=PROMPT, new_tokens=24, **more):
        request = GenerateRequest(
            model=MODEL, prompt=prompt, new_tokens=new_tokens, ablation=ablation or Ablation(), **more
        )
        return run_generate(request, self)

    def heads(self):
        return tuple(pair for pair in OFF if pair[1] < self.loaded.geometry.heads)


def plain(model, prompt, new_tokens=24):
    """(new ids, logits of each step) of transformers' own greedy decoding."""
    out = model.generate(
        torch.tensor(prompt[None].astype(np.int64)),
        do_sample=False,
        max_new_tokens=new_tokens,
        return_dict_in_generate=True,
        output_logits=True,
        pad_token_id=0,
    )
    return out.sequences[0, len(prompt) :].tolist(), torch.cat(out.logits).double()


def with_zero_columns(case, heads, **changes):
    """Another model with the same weights, but zero where W_O reads these heads."""
    pruned = tiny.build(case, **({"vocab_size": 330} | changes))
    pruned.generation_config.eos_token_id = None
    family, D = family_of(pruned.config), geometry(pruned.config).head_dim
    modules = attention_modules(pruned, family)
    for layer, head in heads:
        weight = getattr(modules[layer], family.output).weight
        (weight if case.startswith("gpt2") else weight.T)[head * D : (head + 1) * D] = 0
    return pruned


@pytest.mark.parametrize("case", tiny.CASES)
def test_stock_is_what_transformers_generates(tmp_path, case):
    desk = Desk(tmp_path, case)
    found = desk.write()
    ids, scores = plain(desk.loaded.model, found.prompt)
    assert found.tokens.tolist() == ids
    log = scores.log_softmax(-1)
    np.testing.assert_allclose(found.logprob, log.max(-1).values, atol=1e-4)
    np.testing.assert_allclose(found.entropy, torch.special.entr(log.exp()).sum(-1), atol=1e-3)
    assert found.stop == "length"
    assert found.provenance.notes == ()
    assert set(found.provenance.self_check) == {"awft", "entropy", "value_norm", "output_norm"}


@pytest.mark.parametrize("case", tiny.CASES)
def test_heads_off_is_a_model_whose_output_columns_are_zero(tmp_path, case):
    desk = Desk(tmp_path, case)
    heads = desk.heads()
    found = desk.write(Ablation(mode="static", heads=heads))
    ids, scores = plain(with_zero_columns(case, heads), found.prompt)
    assert found.tokens.tolist() == ids
    np.testing.assert_allclose(found.logprob, scores.log_softmax(-1).max(-1).values, atol=1e-4)
    assert not np.allclose(found.logprob, desk.write().logprob, rtol=0.02, atol=0)


@pytest.mark.parametrize("case", ["llama", "bloom", "mistral-window", "gpt2"])
def test_means_stand_in_at_their_positions(tmp_path, case):
    """Against whole passes over the growing text, with the means put in by hand; the first position has its own."""
    desk = Desk(tmp_path, case)
    kept = own_text.import_text((tiny_tokenizer.TEXT * 3).encode(), "t.txt", settings=desk.settings)
    text = corpora.resolve("own", revision=kept.revision, inputs=5, tokens=24, settings=desk.settings)
    found = desk.write(Ablation(mode="static", heads=OFF, replace="mean", means_on=text))
    fill, model = means.head_means(desk.loaded, text, desk), desk.loaded.model
    row = found.prompt.tolist()
    with filled(model, fill):
        for token, logprob in zip(found.tokens.tolist(), found.logprob, strict=True):
            with torch.no_grad():
                log = model(torch.tensor([row]), use_cache=False).logits[0, -1].double().log_softmax(-1)
            assert int(log.argmax()) == token
            assert float(log[token]) == pytest.approx(logprob, abs=1e-4)
            row.append(token)


class filled:  # noqa: N801
    """The stock model with the slices of W_O's input replaced by means (L, H, 2, D)."""

    def __init__(self, model, fill):
        self.modules = attention_modules(model, family_of(model.config))
        self.output, self.fill, self.D = family_of(model.config).output, fill, fill.shape[-1]

    def __enter__(self):
        def hook(number):
            def replace(_module, args):
                x = args[0].clone()  # (1, T, H·D)
                for layer, head in OFF:
                    if layer == number:
                        at = slice(head * self.D, (head + 1) * self.D)
                        x[..., at] = self.fill[layer, head, 1]
                        x[:, 0, at] = self.fill[layer, head, 0]
                return (x, *args[1:])

            return replace

        modules = enumerate(self.modules)
        self.handles = [getattr(m, self.output).register_forward_pre_hook(hook(i)) for i, m in modules]

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


def test_positions_that_stretch_are_run_from_the_start(tmp_path):
    desk = Desk(tmp_path, "llama", rope_parameters=ELASTIC, max_position_embeddings=64)
    found = desk.write(new_tokens=30)
    row = found.prompt.tolist()
    for token in found.tokens.tolist():
        with torch.no_grad():
            scores = desk.loaded.model(torch.tensor([row]), use_cache=False).logits[0, -1]
        assert int(scores.argmax()) == token
        row.append(token)
    assert "run again for each token" in found.provenance.notes[0]


def test_the_model_is_left_as_it_was(tmp_path):
    for case in ("llama", "bloom"):
        desk = Desk(tmp_path, case)
        model = desk.loaded.model
        before = {name: value.clone() for name, value in model.state_dict().items()}
        modules = dict(model.named_modules())
        desk.write(Ablation(mode="static", heads=OFF))
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        assert dict(model.named_modules()) == modules
        assert model.config._attn_implementation == "eager"
        assert desk.loaded.self_check is None, "a short prompt must not stand for the check on long inputs"


# ------------------------------------------------------------------------------------------- prompts and ends


def test_a_text_ends_where_the_model_ends_it(tmp_path):
    desk = Desk(tmp_path)
    whole = desk.write()
    last = whole.tokens.tolist()[5]
    first = whole.tokens.tolist().index(last)
    for named in (last, [3, last]):
        desk.loaded.model.generation_config.eos_token_id = named
        found = desk.write()
        assert found.stop == "end"
        assert found.tokens.tolist() == whole.tokens.tolist()[: first + 1]
        assert len(found.pieces) == len(found.logprob) == first + 1


def test_the_tokenizers_eos_counts_where_the_model_names_none(tmp_path):
    desk = Desk(tmp_path)
    first = desk.write().tokens[0]
    desk.loaded.tokenizer.eos_token = desk.loaded.tokenizer.convert_ids_to_tokens(int(first))
    assert desk.write().stop == "end"


def test_prompts_are_dressed_as_asked(tmp_path):
    desk = Desk(tmp_path, tokenizer=tiny_tokenizer.make(template=tiny_tokenizer.TEMPLATE))
    as_text = desk.write(new_tokens=1)
    assert as_text.prompt_pieces[0] == "<s>"
    assert "".join(as_text.prompt_pieces[1:]) == PROMPT
    assert desk.write(new_tokens=1, bos="never").prompt.tolist() == as_text.prompt.tolist()[1:]
    turn = desk.write(new_tokens=1, chat=True)
    assert "".join(turn.prompt_pieces) == f"<s><user>{PROMPT}</s><bot>"


def test_tokens_that_the_tokenizer_does_not_know_have_a_name(tmp_path):
    """Embeddings are often padded: some rows stand for no token."""
    desk = Desk(tmp_path, vocab_size=400)
    bias = torch.nn.Parameter(torch.zeros(400), requires_grad=False)
    bias[399] = 1e6
    desk.loaded.model.get_output_embeddings().bias = bias
    found = desk.write(new_tokens=2)
    assert found.pieces == ("<399>", "<399>")
    unpack(pack(found))


def test_a_models_own_settings_are_named_where_they_would_matter(tmp_path):
    desk = Desk(tmp_path)
    desk.loaded.model.generation_config.repetition_penalty = 1.1
    assert "repetition_penalty 1.1" in desk.write(new_tokens=1).provenance.notes[0]


RULE = Ablation(mode="per-input", metric="ahon_ln", threshold=0.5)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"prompt": " \n"}, "prompt is empty"),
        ({"prompt": "a \udcff"}, "broken byte"),
        ({"new_tokens": 0}, "Between 1 and 256"),
        ({"new_tokens": 257}, "Between 1 and 256"),
        ({"ablation": RULE}, "input by input"),
        ({"ablation": Ablation(mode="static", heads=((9, 0),))}, "another model"),
        ({"chat": True}, "no chat template"),
        ({"prompt": "token " * 240, "new_tokens": 256}, "ask for at most"),
        ({"prompt": "token " * 400}, "no room for a new one"),
    ],
)
def test_bad_input_gets_a_sentence(tmp_path, more, says):
    with pytest.raises(BadInput, match=says):
        Desk(tmp_path).write(**more)


def test_no_bos_token_gets_a_sentence(tmp_path):
    desk = Desk(tmp_path, tokenizer=tiny_tokenizer.make(has_bos=False))
    with pytest.raises(BadInput, match="no BOS"):
        desk.write(bos="always")


def test_broken_weights_get_a_sentence(tmp_path):
    desk = Desk(tmp_path)
    desk.loaded.model.get_output_embeddings().weight[5] = torch.nan
    with pytest.raises(Failure, match="not finite"):
        desk.write()


# ------------------------------------------------------------------------------------------------ being a job


def test_it_counts_up_token_by_token_and_hears_a_cancel(tmp_path):
    desk = Desk(tmp_path)
    desk.watch = Recorder()
    desk.write(new_tokens=5)
    assert [step[1:3] for step in desk.watch.steps if step[3] == "tokens"] == [*((i, 5) for i in range(6))]

    class Impatient(Silent):
        def step(self, doing, done=0, total=0, unit=""):
            if done == 2:
                raise Cancelled("somebody asked to stop")

    desk.watch = Impatient()
    with pytest.raises(Cancelled):
        desk.write()


def test_it_survives_the_store(tmp_path):
    found = Desk(tmp_path).write(new_tokens=4)
    again = unpack(pack(found))
    assert again.pieces == found.pieces
    assert again.provenance == found.provenance
    np.testing.assert_array_equal(again.logprob, found.logprob)


def test_a_job_says_what_it_is_about():
    asked = GenerateRequest(
        model=MODEL, prompt="Once upon\na time " * 9, ablation=Ablation(mode="static", heads=((0, 1),))
    )
    said = describe(asked)
    assert said.startswith("1 head off (L00.H01), zero · ")
    assert said.endswith("“Once upon a time Once upon a time Once u…” · 40 new tokens")


# ----------------------------------------------------------------------------------------------- side by side


def test_random_heads_are_those_that_are_measured():
    shape = geometry(tiny.build("llama").config)
    text = DataRef(corpus="docstrings", revision="a" * 64)
    plan = Plan(model=MODEL, chosen_on=text, metric="awft", share=0.3, text=text, draws=3, replace="mean")
    off = HeadSet(heads=OFF, geometry=shape)
    found = sides(plan, off)
    assert found["stock"] == (Ablation(),)
    assert found["off"] == (Ablation(mode="static", heads=OFF, replace="mean", means_on=text),)
    for kind, measured in ablation.controls(plan, off).items():
        assert found[kind] == (measured[0].ablation,)
        assert len(found[kind][0].heads) == 3
    assert list(sides(plan, HeadSet(heads=(), geometry=shape))) == ["stock"]


def test_the_first_difference():
    def text(*tokens):
        return SimpleNamespace(tokens=np.array(tokens), pieces=tuple(f" w{token}" for token in tokens))

    one = text(1, 2, 3)
    assert first_difference(one, text(1, 2, 3)) is None
    assert difference_sentence(one, text(1, 2, 3)) == "all 3 tokens are the same"
    assert first_difference(one, text(1, 5, 3)) == 1
    assert difference_sentence(one, text(1, 5, 3)) == "the first difference is token 2: ' w2' became ' w5'"
    assert first_difference(one, text(1, 2)) == 2
    assert difference_sentence(one, text(1, 2)) == "the first difference is token 3: ' w3' became nothing"
