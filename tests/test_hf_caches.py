"""Whatever is drafted, after every step the cache is that of a fresh prefill of the committed text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import MODELS, Scripted, as_argument, cache_of, gemma3, gpt2, llama, mistral, prompt, slow
from transformers.cache_utils import QuantizedLayer, StaticLayer
from transformers.generation.stopping_criteria import StoppingCriteria

from lookahead.draft import EMPTY, Draft
from lookahead.plugins import hf, hf_call
from lookahead.plugins.hf_target import HFTarget

NEW = 30
SETTINGS = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}
STATIC = ("llama", "gpt2", "mistral", "gemma3", "lfm2", "falcon_h1")


@cache
def model_of(name: str) -> Any:
    return hf.enable(MODELS[name]())


@cache
def plain_of(name: str) -> torch.Tensor:
    return model_of(name).generate(prompt(), lookup=False, **SETTINGS)


class Steps(Scripted):
    """Drafts of the right tokens, each step with a length and a depth of its own from which they are wrong."""

    def __init__(self, continuation: list[int], steps: list[tuple[int, int]]) -> None:
        super().__init__(continuation, 0, None)
        self.steps: Iterator[tuple[int, int]] = iter(steps)

    def propose(self, room: int) -> Draft:
        self.length, self.wrong_at = next(self.steps, (0, 0))
        return super().propose(room) if self.length else EMPTY


def tensors(layer: Any, length: int) -> Iterator[torch.Tensor]:
    """Yield what a layer holds of a text of some length."""
    if getattr(layer, "keys", None) is not None:
        places = slice(None)
        if isinstance(layer, StaticLayer):
            places = slice(min(length, layer.max_cache_len))
        elif layer.is_sliding:
            places = slice(1 - layer.sliding_window, None)
        yield from (layer.keys[:, :, places], layer.values[:, :, places])
    for name in ("conv_states", "recurrent_states"):
        for index, state in getattr(layer, name, {}).items():
            if state is not None:
                yield state[..., -layer.conv_kernel_size[index] :] if name == "conv_states" else state


@contextmanager
def every_commit(check: Callable[[HFTarget], None]) -> Iterator[None]:
    commit = HFTarget.commit

    def checked(self: HFTarget, emitted: Any) -> None:
        commit(self, emitted)
        check(self)

    with patch.object(HFTarget, "commit", checked):
        yield


def is_a_fresh_prefill(model: Any, static: bool) -> Callable[[HFTarget], None]:
    def check(target: HFTarget) -> None:
        length = target._rollback.cached
        config = model.config.get_text_config(decoder=True)
        fresh = transformers.StaticCache(config, max_cache_len=prompt().shape[1] + NEW - 1) if static else None
        with torch.no_grad():
            inputs = {"input_ids": target._text.input_ids[:, :length], **as_argument(fresh, model)}
            fresh = cache_of(model(**inputs, use_cache=True))
        for ours, expected in zip(target.cache.layers, fresh.layers, strict=True):
            for mine, wanted in zip(tensors(ours, length), tensors(expected, length), strict=True):
                torch.testing.assert_close(mine, wanted, atol=1e-4, rtol=1e-4)

    return check


STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=24)
FEW = settings(max_examples=max(6, settings.default.max_examples // 20), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", MODELS)
@FEW
@given(steps=STEPS)
def test_a_dynamic_cache_is_that_of_the_committed_text(name, steps) -> None:
    assert_it_is_a_fresh_prefill(name, steps, {}, static=False)


@pytest.mark.parametrize("name", STATIC)
@FEW
@given(steps=STEPS)
def test_a_static_cache_is_that_of_the_committed_text(name, steps) -> None:
    assert_it_is_a_fresh_prefill(name, steps, {"cache_implementation": "static"}, static=True)


def assert_it_is_a_fresh_prefill(name: str, steps: list[tuple[int, int]], options: Any, static: bool) -> None:
    model, plain = model_of(name), plain_of(name)
    drafts = Steps(plain[0, prompt().shape[1] :].tolist(), steps)
    with patch.object(hf_call, "_proposers", lambda *_: [drafts]), every_commit(is_a_fresh_prefill(model, static)):
        assert torch.equal(model.generate(prompt(), lookup=True, **SETTINGS, **options), plain)
    assert not hf.stats(model).plain_reason


QUANTIZED = {"quanto": {"nbits": 4}, "hqq": {"nbits": 4}, "fp8": {}}


@pytest.mark.parametrize("backend", [slow("quanto"), "hqq", "fp8"])  # quanto compiles for a minute
@pytest.mark.parametrize("residual", [5, slow(8), slow(128)])
@pytest.mark.parametrize("wrong_at", [None, slow(0), slow(1), 2, slow(3), slow(6)])
def test_a_quantized_cache_packs_its_tokens_when_plain_generation_does(backend, residual, wrong_at) -> None:
    model = model_of("llama")
    packing = {} if backend == "fp8" else {"q_group_size": 8, "residual_length": residual}
    config = {"backend": backend, **QUANTIZED[backend], **packing}
    options = SETTINGS | {"cache_implementation": "quantized", "cache_config": config}
    plain = model.generate(prompt(), lookup=False, **options)
    script = Scripted(plain[0, prompt().shape[1] :].tolist(), 7, wrong_at)
    with patch.object(hf_call, "_proposers", lambda *_: [script]):
        assert torch.equal(model.generate(prompt(), lookup=True, **options), plain)
    assert hf.stats(model).draft_tokens > 0


def test_a_quantized_cache_that_claims_to_crop_is_left_to_plain_generation() -> None:
    model = model_of("llama")
    options = SETTINGS | {"cache_implementation": "quantized", "cache_config": {"backend": "hqq", "q_group_size": 8}}
    plain = model.generate(prompt(), lookup=False, **options)
    with patch.object(QuantizedLayer, "is_croppable", True):
        assert torch.equal(model.generate(prompt(), lookup=True, **options), plain)
    assert "quantized" in hf.stats(model).plain_reason


@pytest.mark.parametrize(
    ("name", "kind"), [*product(["llama", "gemma3"], ["offloaded", "offloaded_static"]), ("falcon_h1", "offloaded")]
)
def test_an_offloaded_cache_is_rolled_back(name, kind) -> None:
    """Transformers moves its layers on streams of a GPU: with stand-ins for these it moves them on a CPU as well."""
    model = model_of(name)
    options = SETTINGS | {"cache_implementation": kind}
    script = Scripted(plain_of(name)[0, prompt().shape[1] :].tolist(), 7, 3)
    streams = patch("torch.Stream", MagicMock), patch("torch.cuda.default_stream", MagicMock())
    with streams[0], streams[1], patch.object(hf_call, "_proposers", lambda *_: [script]):
        plain = model.generate(prompt(), lookup=False, **options)
        assert torch.equal(model.generate(prompt(), lookup=True, **options), plain)
    assert hf.stats(model).draft_tokens > 0


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "falcon_h1"])
@pytest.mark.parametrize("chunk", [5, slow(16)])
def test_a_prompt_may_be_read_in_chunks(name, chunk) -> None:
    model, plain = model_of(name), plain_of(name)
    for wrong_at in (None, 2):
        script = Scripted(plain[0, prompt().shape[1] :].tolist(), 7, wrong_at)
        with patch.object(hf_call, "_proposers", lambda *_, script=script: [script]):
            text = model.generate(prompt(), lookup=True, prefill_chunk_size=chunk, **SETTINGS)
        assert torch.equal(text, model.generate(prompt(), lookup=False, prefill_chunk_size=chunk, **SETTINGS))


def turns(model: Any, made: Any, lookup: Any, all_ids: bool) -> list[torch.Tensor]:
    """Two turns on one cache of the user's; the second passes the whole text, or only what is new."""
    cache = as_argument(made, model)
    first = model.generate(prompt(), **cache, lookup=lookup, **SETTINGS)
    question = torch.cat([first, prompt(10, seed=5)], dim=1)
    new = question if all_ids else question[:, first.shape[1] - 1 :]
    mask = torch.ones_like(question)
    return [first, model.generate(new, attention_mask=mask, **cache, lookup=lookup, **SETTINGS)]


@pytest.mark.parametrize("builder", [llama, gpt2, mistral, gemma3])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("all_ids", [True, False], ids=["whole text", "new tokens"])
def test_a_cache_of_the_users_goes_on_in_the_next_turn(builder, kind, all_ids) -> None:
    model = model_of(builder.__name__)

    def fresh() -> Any:
        if kind == "static":
            return transformers.StaticCache(model.config, max_cache_len=120)
        return transformers.DynamicCache(config=model.config)

    for ours, plain in zip(*(turns(model, fresh(), lookup, all_ids) for lookup in (True, False)), strict=True):
        assert torch.equal(ours, plain)
    assert not hf.stats(model).plain_reason


class EndsAt(StoppingCriteria):
    """Ends a text at a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), input_ids.shape[1] >= self.length)


def ended(model: Any, made: Callable[[], Any], end_at: int, **inputs: Any) -> None:
    """Plain generation ends just before the cache is full or positions end; no draft reaches beyond."""
    start = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
    options = SETTINGS | {"max_new_tokens": 200, "stopping_criteria": [EndsAt(start + end_at)]}
    plain = model.generate(**inputs, **as_argument(made(), model), lookup=False, **options)
    script = Scripted([*plain[0, start:].tolist(), *range(40)], 20, None)
    with patch.object(hf_call, "_proposers", lambda *_: [script]):
        assert torch.equal(model.generate(**inputs, **as_argument(made(), model), lookup=True, **options), plain)
    assert plain.shape[1] == start + end_at
    assert hf.stats(model).draft_tokens > 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("end_at", [9, 10, 11, 12])
def test_a_returned_cache_holds_all_but_the_last_token_wherever_the_text_ends(name, end_at) -> None:
    """With drafts wrong at depth 3 a text may end behind an accepted token, or with the token of a rejection."""
    model, start = model_of(name), prompt().shape[1]
    options = SETTINGS | {"stopping_criteria": [EndsAt(start + end_at)], "return_dict_in_generate": True}
    plain = model.generate(prompt(), lookup=False, **options)
    script = Scripted(plain_of(name)[0, start:].tolist(), 7, 3)
    with patch.object(hf_call, "_proposers", lambda *_: [script]):
        ours = model.generate(prompt(), lookup=True, **options)
    assert torch.equal(ours.sequences, plain.sequences)
    for mine, wanted in zip(cache_of(ours).layers, cache_of(plain).layers, strict=True):
        for state, expected in zip(tensors(mine, start + end_at), tensors(wanted, start + end_at), strict=True):
            torch.testing.assert_close(state, expected, atol=1e-4, rtol=1e-4)
        assert getattr(mine, "record_past", None) == getattr(wanted, "record_past", None)


def test_a_static_cache_of_the_users_is_never_overfilled() -> None:
    model = model_of("llama")
    ended(model, lambda: transformers.StaticCache(model.config, max_cache_len=50), 24, input_ids=prompt())


def test_positions_that_the_cache_holds_already_count_towards_their_end() -> None:
    model = model_of("gpt2")

    def begun() -> Any:
        made = transformers.DynamicCache(config=model.config)
        with torch.no_grad():
            model(input_ids=prompt(80), use_cache=True, **as_argument(made, model))
        return made

    ids, mask = prompt(6, seed=4)[:, :5], torch.ones(1, 85, dtype=torch.long)
    ended(model, begun, 40, input_ids=ids, attention_mask=mask)


def test_positions_of_embeddings_count_towards_their_end() -> None:
    model = model_of("gpt2")
    embeds = model.get_input_embeddings()(prompt(100)).detach()
    ended(model, lambda: None, 26, inputs_embeds=embeds)


def test_a_cache_that_is_no_cache_of_transformers_is_left_to_plain_generation() -> None:
    class Own(transformers.DynamicCache):
        """A cache with a state that we do not know."""

    model = model_of("llama")
    text = model.generate(prompt(), **as_argument(Own(config=model.config), model), lookup=True, **SETTINGS)
    assert torch.equal(text, plain_of("llama"))
    assert "Own" in hf.stats(model).plain_reason
