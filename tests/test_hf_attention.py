"""A block of tokens attends as transformers lets it attend, without copying the cache once for every query head."""

import threading
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import VOCABULARY, as_argument, build, cache_of, llama, prompt
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache, LlamaConfig
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lookahead.plugins import hf, hf_attention
from lookahead.plugins.hf_attention import attend_stacked, grouped_attention, stacked_mask, takes_packed_rows
from lookahead.plugins.hf_growth import GROWTH, start_growing, stop_growing


@given(
    rows=st.integers(1, 3),
    groups=st.integers(1, 3),
    shared=st.integers(1, 4),
    tokens=st.integers(1, 6),
    past=st.integers(0, 9),
    additive=st.booleans(),
    per_head=st.booleans(),
    scaling=st.sampled_from([None, 0.3]),
)
def test_heads_of_a_group_attend_as_if_each_had_a_copy(
    rows, groups, shared, tokens, past, additive, per_head, scaling
) -> None:
    torch.manual_seed(tokens)
    heads, length = groups * shared, past + tokens
    query = torch.randn(rows, heads, tokens, 8)
    key, value = torch.randn(2, rows, groups, length, 8)
    mask = torch.rand(rows, heads if per_head else 1, tokens, length) < 0.6
    mask |= torch.eye(tokens, length, dtype=torch.bool).flip(1)
    mask = torch.zeros(mask.shape).masked_fill(~mask, -1e9) if additive else mask
    copied = (states.repeat_interleave(shared, dim=1) for states in (key, value))
    expected = scaled_dot_product_attention(query, *copied, attn_mask=mask, scale=scaling).transpose(1, 2)
    stacked = stacked_mask(mask, heads, groups, query.dtype)
    torch.testing.assert_close(attend_stacked(query, key, value, stacked, scaling), expected)


def packed_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that fills with the tokens of every block that is attended to without copies."""
    widths: list[int] = []

    def counted(query: torch.Tensor, *arguments: Any) -> torch.Tensor:
        widths.append(query.shape[2])
        return attend_stacked(query, *arguments)

    monkeypatch.setattr(hf_attention, "attend_stacked", counted)
    return widths


def test_steps_of_several_tokens_use_it_and_plain_generation_never_does(monkeypatch) -> None:
    model, widths = hf.enable(llama()), packed_calls(monkeypatch)
    ids = prompt(24)
    plain = model.generate(ids, max_new_tokens=24, lookup=False)
    assert not widths
    assert torch.equal(model.generate(ids, max_new_tokens=24, lookup={"draft_per_match": 4}), plain)
    assert max(widths) > 1


def test_other_threads_are_left_alone(monkeypatch) -> None:
    model, widths = llama(), packed_calls(monkeypatch)
    cache = cache_of(model(prompt(12), use_cache=True))

    def read_a_block() -> None:
        model(prompt(4), attention_mask=torch.ones(1, 16), **as_argument(cache, model))

    with grouped_attention():
        other = threading.Thread(target=read_a_block)
        other.start()
        other.join()
    assert not widths


@pytest.mark.parametrize("way", ["register", "set"])
def test_another_attention_that_the_user_registers_is_used_for_every_step(way, monkeypatch) -> None:
    """Also when it comes after ours, and in batches."""
    model, calls, widths = hf.enable(llama()), [], packed_calls(monkeypatch)
    ids = torch.cat([prompt(24), prompt(24, seed=2)])
    model.generate(ids[:1], max_new_tokens=4, lookup={"draft_per_match": 4})

    def mine(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return sdpa_attention_forward(*arguments, **options)

    if way == "set":
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._local_mapping, "sdpa", mine)
    else:
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", mine)
    widths.clear()
    for batch in (ids[:1], ids):
        plain = model.generate(batch, max_new_tokens=12, eos_token_id=None, lookup=False)
        assert torch.equal(
            model.generate(batch, max_new_tokens=12, eos_token_id=None, lookup={"draft_per_match": 4}), plain
        )
        assert hf.stats(model).draft_tokens
    assert not widths
    assert calls


def test_the_rows_of_a_compiled_model_are_read_padded() -> None:
    model = hf.enable(llama())
    ids = torch.cat([prompt(24), prompt(24, seed=2), prompt(24, seed=3)])
    options = {"max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(ids, lookup=False, **options)
    assert takes_packed_rows(model)
    model.forward = torch.compile(model.forward, backend="eager", dynamic=True)
    assert not takes_packed_rows(model)
    assert torch.equal(model.generate(ids, lookup={"draft_per_match": 4}, **options), plain)
    assert hf.stats(model).draft_tokens


def test_the_layers_of_a_step_share_one_mask(monkeypatch) -> None:
    """As many masks are made as forwards read blocks, however many layers there are."""
    made, read = [], []

    def counted(*arguments: Any) -> torch.Tensor:
        made.append(1)
        return stacked_mask(*arguments)

    monkeypatch.setattr(hf_attention, "stacked_mask", counted)
    widths = packed_calls(monkeypatch)
    model = hf.enable(llama())
    model.register_forward_pre_hook(lambda _, __, kwargs: read.append(kwargs["input_ids"].shape[1]), with_kwargs=True)
    model.generate(prompt(24), max_new_tokens=24, lookup={"draft_per_match": 4})
    assert len(made) == sum(width > 1 for width in read[1:])
    assert len(widths) == len(made) * model.config.num_hidden_layers > len(made)


def test_scores_that_a_position_bias_changes_are_left_to_transformers(monkeypatch) -> None:
    widths = packed_calls(monkeypatch)
    query, key = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8)
    mask, bias = torch.ones(1, 1, 3, 5, dtype=torch.bool), torch.randn(1, 4, 3, 5)
    module = llama().model.layers[0].self_attn
    with grouped_attention():
        biased, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, key, mask, position_bias=bias)
        plain, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, key, mask)
    assert widths == [3]
    assert not torch.allclose(biased, plain)


@given(
    steps=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 6), st.booleans()), max_size=12), first=st.integers(1, 5)
)
def test_a_growing_layer_holds_what_a_dynamic_layer_holds(steps, first) -> None:
    """Appended to, cropped, and replaced by whoever moves its rows."""
    caches = [DynamicCache() for _ in range(2)]
    start = torch.randn(2, 2, 3, first, 4)
    for cache in caches:
        cache.update(*start, 0)
    start_growing(caches[1])
    for added, removed, replaced in steps:
        states = torch.randn(2, 2, 3, added, 4)
        read = [cache.update(*states, 0) for cache in caches]
        assert all(torch.equal(*both) for both in zip(*read, strict=True))
        for cache in caches:
            cache.crop(-min(removed, added))
            if replaced:
                cache.layers[0].keys = cache.layers[0].keys.flip(0)
    assert torch.equal(caches[0].layers[0].keys, caches[1].layers[0].keys)
    assert torch.equal(caches[0].layers[0].values, caches[1].layers[0].values)
    stop_growing(caches[1])
    (layer,) = caches[1].layers
    assert type(layer) is DynamicLayer
    assert layer.keys.untyped_storage().nbytes() == layer.keys.numel() * layer.keys.element_size()


def test_a_layer_is_copied_once_in_so_many_tokens() -> None:
    cache, places = DynamicCache(), set()
    cache.update(*torch.randn(2, 1, 1, 5, 4), 0)
    start_growing(cache)
    for _ in range(3 * GROWTH):
        keys, _ = cache.update(*torch.randn(2, 1, 1, 1, 4), 0)
        places.add(keys.data_ptr())
    assert len(places) <= 4


def test_a_returned_cache_is_an_ordinary_one() -> None:
    model = hf.enable(
        build(LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2))
    )
    output = model.generate(
        prompt(24), max_new_tokens=16, lookup={"draft_per_match": 4}, return_dict_in_generate=True, use_cache=True
    )
    assert {type(layer) for layer in cache_of(output).layers} == {DynamicLayer}
    assert hf.stats(model).draft_tokens
