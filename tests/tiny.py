"""Tiny random fp32 models, and proposers that draft well, badly, or at random."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import transformers

from lookahead.draft import EMPTY, Draft
from lookahead.plugins.hf_arguments import cache_name
from lookahead.stats import StepRecord

VOCABULARY = 64
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
WINDOW = {"sliding_window": 12}


def llama() -> transformers.PreTrainedModel:
    return build(transformers.LlamaConfig(**COMMON))


def gpt2() -> transformers.PreTrainedModel:
    return build(
        transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1
        )
    )


def mistral() -> transformers.PreTrainedModel:
    """Every layer looks back 12 tokens only."""
    return build(transformers.MistralConfig(**COMMON, **WINDOW))


def gemma3() -> transformers.PreTrainedModel:
    """Windows of 12 tokens and full attention in turn."""
    layers = ["sliding_attention", "full_attention"]
    return build(transformers.Gemma3TextConfig(**COMMON, **WINDOW, head_dim=8, layer_types=layers))


def lfm2() -> transformers.PreTrainedModel:
    """Short convolutions and full attention in turn: a state, but one that can be cropped."""
    return build(transformers.Lfm2Config(**COMMON, layer_types=["conv", "full_attention"]))


def mamba2() -> transformers.PreTrainedModel:
    """Recurrent only."""
    return build(
        transformers.Mamba2Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            state_size=16,
            num_heads=4,
            head_dim=16,
            n_groups=2,
            chunk_size=8,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def falcon_h1() -> transformers.PreTrainedModel:
    """A recurrent hybrid: a state and full attention in every layer."""
    sizes = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 16}
    return build(transformers.FalconH1Config(**COMMON, **sizes, mamba_chunk_size=8, head_dim=8))


def mamba1() -> transformers.PreTrainedModel:
    """Recurrent, with a block forward that is not exact in transformers."""
    config = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
    return build(transformers.MambaConfig(**config, bos_token_id=0, eos_token_id=1, pad_token_id=0))


def t5() -> transformers.PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return build(
        transformers.T5Config(**sizes, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0),
        transformers.T5ForConditionalGeneration,
    )


MODELS: dict[str, Callable[[], transformers.PreTrainedModel]] = {
    builder.__name__: builder for builder in (llama, gpt2, mistral, gemma3, lfm2, mamba2, falcon_h1)
}

slow = partial(pytest.param, marks=pytest.mark.slow)
"""A case of a longer matrix."""


def build(config: transformers.PretrainedConfig, cls: type | None = None) -> transformers.PreTrainedModel:
    """A model with weights large enough that its text is not one token for ever."""
    torch.manual_seed(0)
    model = cls(config) if cls else transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "conv" not in name:
                parameter.normal_(std=0.25)
    return model.eval()


def as_argument(cache: Any, model: Any) -> dict[str, Any]:
    """A cache under the name that the model's forward, and `generate`, know it by in this version of transformers."""
    return {cache_name(inspect.signature(model.forward).parameters): cache}


def cache_of(outputs: Any) -> Any:
    """The cache that a forward or `generate` returned."""
    return outputs[cache_name(outputs)]


def prompt(length: int = 24, seed: int = 1) -> torch.Tensor:
    """Random tokens, the first half repeated, so that lookup has something to find."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randint(2, VOCABULARY, (1, length // 2), generator=generator)
    return torch.cat([half, half], dim=1)


def taking_at_once(verifier: Callable[[Draft, Any], Iterable[int]]) -> Callable[..., list[int]]:
    """A verifier that yields its tokens, as the loop calls one: it writes until a token ends the text."""

    def confirm(draft: Draft, choose: Callable[[int], int], ends: Callable[[int], bool]) -> list[int]:
        tokens: list[int] = []
        for token in verifier(draft, choose):
            tokens.append(token)
            if ends(token):
                break
        return tokens

    return confirm


class Scripted:
    """A proposer that knows the right continuation and spoils its draft at a given depth."""

    def __init__(self, continuation: Sequence[int], length: int, wrong_at: int | None) -> None:
        self.continuation, self.length, self.wrong_at, self.seen = list(continuation), length, wrong_at, 0
        self.committed: list[int] = []

    def extend(self, tokens: Sequence[int]) -> None:
        self.committed.extend(tokens)

    def propose(self, room: int) -> Draft:
        done = len(self.committed)
        tokens = self.continuation[done : done + min(room, self.length)]
        if self.wrong_at is not None and self.wrong_at < len(tokens):
            tokens[self.wrong_at] = (tokens[self.wrong_at] + 1) % VOCABULARY
        return Draft(tuple(tokens)) if tokens else EMPTY

    def observe(self, step: StepRecord) -> None:
        pass

    def finish(self) -> None:
        pass


class Random:
    """A proposer that drafts anything, of any length."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def extend(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, room: int) -> Draft:
        length = min(room, int(torch.randint(0, 9, (1,), generator=self.generator)))
        tokens = torch.randint(0, VOCABULARY, (length,), generator=self.generator)
        return Draft(tuple(tokens.tolist())) if length else EMPTY

    def observe(self, step: StepRecord) -> None:
        pass

    def finish(self) -> None:
        pass
