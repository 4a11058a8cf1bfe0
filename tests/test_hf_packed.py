"""Rows laid end to end are read as padded rows are, and cost what their own tokens cost."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import Scripted, gemma3, gpt2, llama, prompt
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lookahead.plugins import hf, hf_call, hf_packed
from lookahead.plugins.hf_attention import grouped_attention
from lookahead.plugins.hf_packed import LongRows, PackedRows, near_width, packed_block, reading_packed

NEW = 24


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_rows_come_apart_and_together_again(lengths) -> None:
    block = PackedRows.of(lengths, torch.device("cpu"))
    tokens = torch.randn(1, 3, sum(lengths), 4)
    apart = block.apart(tokens)
    assert apart.shape == (len(lengths), 3, max(lengths), 4)
    for row, part in enumerate(tokens.split(lengths, dim=2)):
        assert torch.equal(apart[row, :, : lengths[row]], part[0])
        assert not apart[row, :, lengths[row] :].any()
    assert torch.equal(block.together(apart.transpose(1, 2)), tokens.transpose(1, 2))


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), past=st.integers(0, 9), width=st.integers(1, 41))
def test_long_rows_attend_in_parts_as_they_would_at_once(lengths, past, width) -> None:
    torch.manual_seed(past)
    device, longest = torch.device("cpu"), max(lengths)
    query, (key, value) = torch.randn(1, 4, sum(lengths), 8), torch.randn(2, len(lengths), 2, past + longest, 8)
    seen = torch.rand(len(lengths), 1, longest, past + longest) < 0.6
    mask = seen | torch.eye(longest, past + longest, dtype=torch.bool)
    block = PackedRows.of(lengths, device)
    ways = [replace(block, long=None), block]
    if width < longest:
        ways.append(replace(block, long=LongRows.beyond(lengths, width, device)))
    module = llama().model.layers[0].self_attn
    outputs = []
    for way in ways:
        with grouped_attention(), reading_packed(way):
            outputs.append(ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, mask)[0])
    assert outputs[0].shape == (1, sum(lengths), 4, 8)
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0])


def test_one_long_row_attends_alone_and_many_attend_together() -> None:
    assert near_width([2, 2, 1, 30, 2, 1, 2, 2]) == 2
    assert near_width([30, 28, 29, 30]) == 30
    assert near_width([1, 3]) == 3


def test_a_layout_is_for_its_own_reading_only() -> None:
    block = PackedRows.of([2, 1], torch.device("cpu"))

    def interrupted() -> None:
        with reading_packed(block):
            assert packed_block() is block
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert packed_block() is None


def reads(model: Any, depths: list[int | None], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the shapes that the model read while its rows accepted drafts up to these depths; check its tokens."""
    ids = torch.cat([prompt(20, seed=row) for row in range(len(depths))])
    options = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(ids, lookup=False, **options)
    scripts = [
        Scripted(text[20:].tolist(), 0 if depth is None else 5, depth)
        for text, depth in zip(plain, depths, strict=True)
    ]
    shapes: list[tuple[int, ...]] = []
    handle = model.register_forward_pre_hook(
        lambda _, __, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    with monkeypatch.context() as patch:
        patch.setattr(hf_call, "_proposers", lambda *_: scripts)
        assert torch.equal(model.generate(ids, lookup=True, **options), plain)
    handle.remove()
    return shapes[1:]


@pytest.mark.parametrize("builder", [llama, gpt2])
def test_long_drafts_of_some_rows_change_no_token(builder, monkeypatch) -> None:
    """As long as is needed for attention in parts."""
    monkeypatch.setattr(hf_packed, "_CALL", 0)
    layouts = []
    beyond = LongRows.beyond
    monkeypatch.setattr(LongRows, "beyond", lambda *parts: layouts.append(parts) or beyond(*parts))
    reads(hf.enable(builder()), [None, 5, 2, None], monkeypatch)
    assert layouts


@pytest.mark.parametrize("builder", [llama, gpt2])
def test_one_rows_draft_costs_the_others_nothing(builder, monkeypatch) -> None:
    shapes = reads(hf.enable(builder()), [None, 5, None], monkeypatch)
    assert shapes[0] == (1, 3 + 5)
    assert {rows for rows, _ in shapes} <= {1, 2}


def test_rows_with_equal_drafts_are_read_side_by_side(monkeypatch) -> None:
    assert reads(hf.enable(llama()), [2, 2, 2], monkeypatch)[0] == (3, 6)


def test_windows_are_read_padded(monkeypatch) -> None:
    assert reads(hf.enable(gemma3()), [None, 5, None], monkeypatch)[0] == (3, 6)


def test_attention_of_another_kind_is_read_padded(monkeypatch) -> None:
    model = hf.enable(llama())
    model.set_attn_implementation("eager")
    assert reads(model, [None, 5, None], monkeypatch)[0] == (3, 6)
