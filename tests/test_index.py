"""SuffixIndex answers what brute force answers, whatever the text, the chunks and the size of its arrays."""

import copy
from unittest import mock

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveIndex

from lookahead import index as index_module
from lookahead.index import MAX_TOKEN, Match, SuffixIndex

NO_MATCH = Match(0, -1, -1, 0)
LONG = 1_500 if numba.config.DISABLE_JIT else 200_000
ALPHABETS = [[7], [0, 1], [3, 5, 9], [0, MAX_TOKEN - 1, MAX_TOKEN]]


@st.composite
def edits(draw):
    """Operations on an index: append new tokens or a copy of earlier text, end the document, skip positions."""
    token = st.sampled_from(draw(st.sampled_from(ALPHABETS)))
    operation = st.one_of(
        st.tuples(st.just("extend"), st.lists(token, min_size=1, max_size=7)),
        st.tuples(st.just("copy"), st.tuples(st.integers(0, 60), st.integers(1, 25))),
        st.tuples(st.just("end"), st.none()),
        st.tuples(st.just("skip"), st.integers(1, 4)),
    )
    return draw(st.lists(operation, max_size=12))


def apply(index, operation, argument):
    if operation == "extend":
        index.extend(argument)
    elif operation == "end":
        index.end_document()
    elif operation == "skip":
        index.skip(argument)
    else:
        start, length = argument
        copied = [int(token) for token in index.tokens[start : start + length] if token != -1]
        if copied:
            index.extend(copied)


def assert_same_answers(index, naive):
    assert index.longest_match() == naive.longest_match()
    assert index.matches() == naive.matches()
    assert index.tokens.tolist() == naive.tokens
    assert len(index) == len(naive)


def tiny_arrays():
    """Arrays that start with a few rows and grow by one."""
    return mock.patch.multiple(
        index_module, _MIN_ROWS=1, _GROWTH=1.0, _TABLE_GROWTH=1.0, _STATES_PER_TOKEN=0.0, _SLOTS_PER_TOKEN=0.0
    )


@given(operations=edits(), max_match=st.sampled_from([1, 2, 3, 5, 1024]))
@settings(deadline=None)
def test_every_query_after_every_operation_agrees_with_brute_force(operations, max_match):
    index, naive = SuffixIndex(max_match=max_match), NaiveIndex(max_match=max_match)
    for operation, argument in operations:
        apply(index, operation, argument)
        apply(naive, operation, argument)
        assert_same_answers(index, naive)


@given(operations=edits(), max_match=st.sampled_from([2, 1024]))
@settings(max_examples=50, deadline=None)
def test_growing_one_row_at_a_time_changes_no_answer(operations, max_match):
    with tiny_arrays():
        index, naive = SuffixIndex(max_match=max_match), NaiveIndex(max_match=max_match)
        for operation, argument in operations:
            apply(index, operation, argument)
            apply(naive, operation, argument)
            assert_same_answers(index, naive)


@given(operations=edits(), length=st.integers(0, 40), data=st.data())
@settings(deadline=None)
def test_the_continuation_of_every_position_agrees_with_brute_force(operations, length, data):
    index, naive = SuffixIndex(), NaiveIndex()
    for operation, argument in [*operations, ("extend", [4])]:
        apply(index, operation, argument)
        apply(naive, operation, argument)
    end = data.draw(st.integers(0, len(naive) - 1))
    copied = index.continuation(end, length)
    assert copied.tolist() == naive.continuation(end, length)
    assert copied.dtype == np.int32


@given(text=st.lists(st.integers(0, 2), min_size=1, max_size=150), data=st.data())
@settings(deadline=None)
def test_chunks_do_not_matter(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)))) | {len(text)})
    chunked = SuffixIndex()
    for start, stop in zip([0, *cuts], cuts, strict=False):
        chunked.extend(text[start:stop])
    assert_same_answers(chunked, NaiveIndex(text))
    assert chunked.matches() == SuffixIndex(text).matches()


def test_a_new_index_has_no_match():
    index = SuffixIndex()
    assert (index.longest_match(), index.matches(), len(index), index.tokens.tolist()) == (NO_MATCH, [], 0, [])


def test_no_match_crosses_a_boundary():
    index = SuffixIndex([1, 2])
    index.end_document()
    index.extend([3, 1, 2])
    assert index.longest_match() == Match(length=2, latest=1, first=1, count=1)
    index.extend([3])
    assert index.longest_match() == Match(length=1, latest=3, first=3, count=1)


def test_a_document_that_was_seen_as_a_whole_matches_as_a_whole():
    index = SuffixIndex([1, 2, 3])
    index.end_document()
    index.extend([1, 2, 3])
    assert index.longest_match() == Match(length=3, latest=2, first=2, count=1)
    assert index.continuation(2, 5).tolist() == []


def test_ending_a_document_twice_or_at_the_start_does_nothing():
    index = SuffixIndex()
    index.end_document()
    index.extend([1])
    index.end_document()
    index.end_document()
    assert index.tokens.tolist() == [1, -1]
    assert index.longest_match() == NO_MATCH


def test_a_continuation_runs_over_its_own_end_with_the_period_of_its_distance():
    index = SuffixIndex([1, 2, 3, 1, 2, 3])
    assert index.continuation(index.longest_match().latest, 8).tolist() == [1, 2, 3, 1, 2, 3, 1, 2]


def test_a_continuation_is_a_copy():
    index = SuffixIndex([1, 2, 3])
    index.continuation(0, 2)[:] = 9
    assert index.tokens.tolist() == [1, 2, 3]


def test_the_tokens_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        SuffixIndex([1, 2, 3]).tokens[0] = 9


def test_one_token_repeated_is_reported_up_to_max_match():
    index = SuffixIndex(np.full(LONG, 5))
    assert index.longest_match() == Match(1024, LONG - 2, 1023, LONG - 1024)
    index.extend([6])
    assert index.longest_match() == NO_MATCH
    index.extend([5] * 3)
    assert index.longest_match() == Match(3, LONG - 1, 2, LONG - 2)


def test_a_short_period_is_reported_up_to_max_match():
    index = SuffixIndex(np.arange(LONG) % 2, max_match=64)
    assert index.longest_match() == Match(64, LONG - 3, 63 + LONG % 2, (LONG - 64) // 2)


def test_a_long_repeated_text_matches_itself():
    text = np.random.default_rng(0).integers(0, 50_000, LONG // 4)
    index = SuffixIndex(text, max_match=2**30)
    index.extend(text)
    assert index.longest_match() == Match(len(text), len(text) - 1, len(text) - 1, 1)


def test_bytes_stay_under_a_hundred_a_token_for_text_that_never_repeats():
    text = np.arange(LONG // 4)
    assert SuffixIndex(text).nbytes / len(text) < 100


def test_a_copy_is_independent():
    index = SuffixIndex([1, 2, 1])
    twin = copy.deepcopy(index)
    twin.extend([2])
    assert index.longest_match() == Match(1, 0, 0, 1)
    assert twin.longest_match() == Match(2, 1, 1, 1)


@pytest.mark.parametrize(
    "tokens",
    [
        [1, 2, 1],
        (1, 2, 1),
        [np.int64(1), np.int64(2), np.int64(1)],
        np.array([1, 2, 1], np.uint8),
        np.array([1, 9, 2, 9, 1], np.int64)[::2],
        torch.tensor([1, 2, 1]),
        range(1, 2),
    ],
)
def test_every_kind_of_integers_is_taken(tokens):
    index = SuffixIndex(tokens)
    assert index.tokens.tolist() == [int(token) for token in tokens]


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([], ValueError, "tokens must not be empty"),
        (np.array([], np.int32), ValueError, "tokens must not be empty"),
        ([1, -1], ValueError, "tokens must be from 0 to 2147483647, got -1"),
        ([-100] * 100, ValueError, "got -100; remove padding"),
        ([2**31], ValueError, "got 2147483648"),
        ([2**63], ValueError, "got 9223372036854775808"),
        ([2**70], TypeError, "tokens must be integers"),
        ([1.0, 2.0], TypeError, "tokens must be integers, got a list of dtype float64"),
        ([True, False], TypeError, "tokens must be integers"),
        ([1, True], TypeError, "tokens must be integers, got a list with booleans"),
        (np.array([True]), TypeError, "dtype bool"),
        (np.array([1.5], np.float32), TypeError, "dtype float32"),
        ("text", TypeError, "tokens must be integers, got str"),
        (None, TypeError, "tokens must be integers, got NoneType"),
        (5, ValueError, "tokens must be one-dimensional"),
        ([[1, 2], [3, 4]], ValueError, r"one-dimensional, got shape \(2, 2\)"),
        ([[1, 2], [3]], TypeError, "tokens must be integers, got a ragged list"),
        (torch.tensor([[1, 2]]), ValueError, "one-dimensional"),
    ],
)
def test_anything_but_ids_is_refused_and_changes_nothing(tokens, error, message):
    index = SuffixIndex([1, 2, 1])
    with pytest.raises(error, match=message):
        index.extend(tokens)
    assert index.tokens.tolist() == [1, 2, 1]
    assert index.longest_match() == Match(1, 0, 0, 1)


@pytest.mark.parametrize("end", [-1, 3])
def test_a_continuation_needs_a_position_of_the_text(end):
    with pytest.raises(ValueError, match=f"end must be a position from 0 to 2, got {end}"):
        SuffixIndex([1, 2, 3]).continuation(end, 4)


def test_a_continuation_needs_a_length():
    with pytest.raises(ValueError, match="length must not be negative, got -1"):
        SuffixIndex([1, 2, 3]).continuation(0, -1)


@pytest.mark.parametrize(
    ("max_match", "error"),
    [(0, ValueError), (-3, ValueError), (1.5, TypeError), (True, TypeError), (2**40, ValueError)],
)
def test_max_match_is_a_positive_integer(max_match, error):
    with pytest.raises(error, match="max_match must be"):
        SuffixIndex(max_match=max_match)


@pytest.mark.parametrize("positions", [0, -3])
def test_nothing_is_skipped_by_less_than_a_position(positions):
    index = SuffixIndex([5, 6, 7, 5, 6])
    with pytest.raises(ValueError, match=f"positions must be at least 1, got {positions}"):
        index.skip(positions)
    assert index.tokens.tolist() == [5, 6, 7, 5, 6]
    assert index.longest_match().length == 2


def test_more_positions_than_fit_are_refused(monkeypatch):
    monkeypatch.setattr(index_module, "MAX_LENGTH", 70)
    index = SuffixIndex(list(range(60)), max_match=70)
    with pytest.raises(ValueError, match="over the limit of 70; start a new index"):
        index.extend(list(range(20)))
    assert len(index) == 60


def test_without_memory_it_says_so_and_finds_nothing_more(monkeypatch):
    index = SuffixIndex([1, 2, 1, 2])
    monkeypatch.setattr(index_module, "_rows", mock.Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError, match="no memory to index"):
        index.extend(np.arange(1000) % 7)
    assert (index.longest_match(), index.matches()) == (NO_MATCH, [])
    with pytest.raises(MemoryError, match="ran out of memory before"):
        index.extend([1])
