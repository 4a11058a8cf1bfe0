"""A tokenizer of single bytes with a chat template, a tiny model for it, and a way to make it write a given text."""

from typing import Any

import torch
import transformers
from tiny import COMMON, build
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = ["<bos>", "<eos>", "<turn>"]
TEMPLATE = "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<eos>{% endfor %}<turn>assistant{{ '\n' }}"
TEA = "Tea is made from the leaves of an evergreen shrub. It is drunk hot."
COFFEE = "Coffee is made from roasted beans. It is drunk hot."
QUESTION = "What is coffee made from?"


def byte_tokenizer(template: str | None = TEMPLATE) -> transformers.PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate([*CONTROL, *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<bos>", eos_token="<eos>", extra_special_tokens=["<turn>"]
    )
    tokenizer.chat_template = template
    return tokenizer


def byte_llama(context: int = 1024) -> Any:
    return build(transformers.LlamaConfig(**{**COMMON, "vocab_size": 259, "max_position_embeddings": context}))


class Written(transformers.LogitsProcessor):
    """Makes the model write a text, and end it."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        self.prompt: int | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.prompt is None:
            self.prompt = input_ids.shape[1]
        scores = scores.clone()
        scores[:, self.ids[input_ids.shape[1] - self.prompt]] = 1e4
        return scores
