"""Rows laid end to end are read as padded rows are, and cost what their own tokens cost."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import Scripted, gemma3, gpt2, llama, prompt

from lookahead.plugins import hf, hf_call
from lookahead.plugins.hf_packed import PackedRows, packed_block, reading_packed

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
