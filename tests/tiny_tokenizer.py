"""A small real tokenizer (byte-level BPE trained on a few sentences), with and without BOS, EOS and chat template."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

TEXT = "the head looks at the first token and the head does nothing . A value has a norm , and so has an output . "
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<user>{{ message['content'] | trim }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<bot>{% endif %}"
)
NO_BOS_TEMPLATE = TEMPLATE.removeprefix("{{ bos_token }}")


def make(*, adds_bos=True, has_bos=True, appends_eos=False, template=None):
    """A PreTrainedTokenizerFast. `adds_bos`: whether it puts <s> first itself; `appends_eos`: and </s> last."""
    from transformers import PreTrainedTokenizerFast

    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    specials = ["<pad>", "<s>", "</s>", "<user>", "<bot>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([TEXT * 4], trainer)
    single = ("<s> " if adds_bos and has_bos else "") + "$A" + (" </s>" if appends_eos else "")
    inner.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", inner.token_to_id("<s>")), ("</s>", inner.token_to_id("</s>"))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>" if has_bos else None,
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<user>", "<bot>"],
    )
    tokenizer.chat_template = template
    return tokenizer
