"""The suite notices what it is there for: each fault, put in on purpose, makes claims of it fail."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conformance import claims
from test_hf_arguments import (
    test_a_stateful_processor_sees_exactly_plains_calls as the_processor_claim,
)
from test_hf_arguments import (
    test_criteria_and_streamer_get_the_same_calls_in_the_same_order as the_criteria_claim,
)
from test_hf_caches import (
    assert_it_is_a_fresh_prefill,
)
from test_hf_caches import (
    test_a_returned_cache_holds_all_but_the_last_token_wherever_the_text_ends as the_returned_cache_claim,
)
from tiny import falcon_h1, llama, mamba2, mistral, taking_at_once

from lookahead import decoding
from lookahead.draft import Draft
from lookahead.plugins import hf, hf_batch, hf_trust
from lookahead.plugins.hf_batch import HFBatchTarget
from lookahead.plugins.hf_cache import CropRollback, SnapshotRollback
from lookahead.plugins.hf_noise import Noise
from lookahead.plugins.hf_output import HFOutput, HFRow
from lookahead.plugins.hf_packed import PackedRows
from lookahead.plugins.hf_target import HFTarget

Fault = Callable[..., Any]


def forgetting(keep: Fault) -> Fault:
    """Settle forwards, but for the first that has read tokens which were rejected."""
    faults = iter([True])

    def faulty(self: Any, read: int, kept: int) -> None:
        if read > kept and next(faults, False):
            self.cached = kept
        else:
            keep(self, read, kept)

    return faulty


def twice(method: Fault) -> Fault:
    def faulty(self: Any, *args: Any) -> Any:
        method(self, *args)
        return method(self, *args)

    return faulty


def not_cropped() -> Any:
    return patch.object(CropRollback, "keep", forgetting(CropRollback.keep))


def not_restored() -> Any:
    return patch.object(SnapshotRollback, "keep", forgetting(SnapshotRollback.keep))


@pytest.mark.parametrize("builder", [llama, mistral])
def test_a_cache_that_forgets_one_crop_is_noticed(builder) -> None:
    model = hf.enable(builder())
    claims.lookup(model)  # where it is asked for, the self-check has passed
    with not_cropped(), pytest.raises(AssertionError):
        claims.greedy(model)


def test_a_cache_that_can_not_crop_fails_the_self_check() -> None:
    model = hf.enable(llama())
    with (
        patch.object(CropRollback, "keep", lambda self, read, kept: None),
        patch.object(hf_trust, "EXACT", frozenset()),
    ):
        assert "not exact" in claims.greedy(model)


@pytest.mark.parametrize("builder", [falcon_h1, mamba2])
def test_a_cache_that_forgets_one_restoration_is_noticed(builder) -> None:
    model = hf.enable(builder())
    claims.lookup(model)
    with not_restored(), pytest.raises((AssertionError, RuntimeError)):
        claims.greedy(model)


@pytest.mark.parametrize(("name", "fault"), [("llama", not_cropped), ("gemma3", not_cropped), ("mamba2", not_restored)])
def test_it_is_noticed_in_the_cache_too(name, fault) -> None:
    with fault(), pytest.raises((AssertionError, RuntimeError)):
        assert_it_is_a_fresh_prefill(name, [(7, 2)] * 12, {}, static=False)


def test_a_state_that_is_kept_by_reference_is_noticed() -> None:
    """Recurrent layers write in place: a snapshot must be a copy."""
    model = hf.enable(mamba2())
    claims.lookup(model)
    with patch("lookahead.plugins.hf_cache._hold", lambda value, in_place: value), pytest.raises(AssertionError):
        claims.greedy(model)


def test_holes_that_the_mask_shows_are_noticed() -> None:
    def everything(self: HFBatchTarget, counts: list[int], width: int) -> torch.Tensor:
        return leading(self, [max(counts)] * len(counts), width)

    leading = HFBatchTarget._leading
    with patch.object(HFBatchTarget, "_leading", everything), pytest.raises(AssertionError):
        claims.batch(hf.enable(llama()))


def test_rows_that_are_not_aligned_are_noticed() -> None:
    def as_the_first(layer: Any, rows: torch.Tensor, places: torch.Tensor, filled: int) -> None:
        move(layer, rows, places[:1].expand_as(places), filled)

    move = hf_batch._move
    with patch.object(hf_batch, "_move", as_the_first), pytest.raises(AssertionError):
        claims.batch(hf.enable(mistral()))


def test_packed_tokens_that_come_to_another_row_are_noticed() -> None:
    def shifted(self: PackedRows, states: torch.Tensor) -> torch.Tensor:
        return apart(self, states).roll(1, dims=0)

    apart = PackedRows.apart
    with patch.object(PackedRows, "apart", shifted), pytest.raises(AssertionError):
        claims.batch(hf.enable(llama()))


def one_too_many(draft: Draft, choose: Callable[[int], int]) -> Iterator[int]:
    """Accept the first draft token that the target did not choose."""
    for node, wanted in enumerate(draft.tokens):
        own = choose(node)
        yield wanted
        if own != wanted:
            break
    yield choose(len(draft))


def one_too_few(draft: Draft, choose: Callable[[int], int]) -> Iterator[int]:
    """Take the token behind a rejection from the position after it."""
    for node, wanted in enumerate(draft.tokens):
        if choose(node) != wanted:
            yield choose(node + 1)
            return
        yield wanted
    yield choose(len(draft))


@pytest.mark.parametrize("verifier", [one_too_many, one_too_few])
@pytest.mark.parametrize("claim", [claims.greedy, claims.sampled, claims.batch])
def test_a_verifier_that_miscounts_is_noticed(verifier, claim) -> None:
    with patch.object(decoding, "confirm", taking_at_once(verifier)), pytest.raises(AssertionError):
        claim(hf.enable(llama()))


def test_a_processor_that_is_called_twice_is_noticed() -> None:
    with patch.object(HFRow, "choose", twice(HFRow.choose)), pytest.raises(AssertionError):
        the_processor_claim(hf.enable(llama()))


def test_criteria_that_are_asked_twice_are_noticed() -> None:
    with patch.object(HFRow, "_stops", twice(HFRow._stops)), pytest.raises(AssertionError):
        the_criteria_claim(hf.enable(llama()), 500)


def test_a_token_that_is_streamed_before_the_criteria_are_asked_is_noticed() -> None:
    def eager(self: HFOutput, row: int, token: int) -> bool:
        self._streamer.put(torch.tensor([token]))
        return self.rows[row].emit(token)

    with patch.object(HFOutput, "emit", eager), pytest.raises(AssertionError):
        the_criteria_claim(hf.enable(llama()), 500)


def test_a_random_number_too_many_is_noticed() -> None:
    with patch.object(HFRow, "choose", twice(HFRow.choose)), pytest.raises(AssertionError):
        claims.sampled(hf.enable(llama()))


def test_rows_that_share_their_random_numbers_are_noticed() -> None:
    def shared(self: Noise, probs: torch.Tensor, row: int, step: int) -> int:
        return Noise_choose(self, probs, 0, step)

    Noise_choose = Noise.choose
    with patch.object(Noise, "choose", shared), pytest.raises(AssertionError):
        claims.batch(hf.enable(llama()))


def test_an_unread_token_in_the_returned_cache_is_noticed() -> None:
    def claim() -> None:
        for end_at in (9, 10, 11, 12):
            the_returned_cache_claim("falcon_h1", end_at)

    claim()
    with patch.object(HFTarget, "__exit__", lambda *_: None), pytest.raises(AssertionError):
        claim()
