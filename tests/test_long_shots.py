"""Long shots: what seldom comes true stands in a tree beside the likeliest continuation, and nowhere else."""

import random
from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead import LookupConfig, LookupProposer
from lookahead.candidates import COMMON, LENGTH, PASSED, empty_candidates
from lookahead.long_shots import COUNT, KNOWN, TOKEN, no_surprises, note_surprise
from lookahead.pacing import Pacing
from lookahead.trail import AT

FILE = list(range(100, 180))


def surprised(tokens: list[int]) -> np.ndarray:
    """The counts after these tokens, none of which was foreseen."""
    surprises, nothing = no_surprises(), tuple(empty_candidates())
    for token in tokens:
        note_surprise(surprises, nothing, token)
    return surprises


def writing(output: list[int], branches: bool = True, pacing: Pacing | None = None, **known) -> LookupProposer:
    """A proposer that has planned the step behind an output, where a token more costs almost nothing."""
    pacing = pacing or Pacing()
    for _ in range(20):
        for width in (1, 2, 65):
            pacing.observe(width, 1.0 + 1e-4 * width, 1)
    made = LookupProposer(LookupConfig(), pacing=pacing, **known)
    made.branches = branches
    at = 0
    while at < len(output):
        draft = made.propose(64)
        emitted = output[at : at + len(draft.path(output[at:])) + 1]
        made.extend(emitted)
        at += len(emitted)
    made.propose(64)
    return made


def places(made: LookupProposer, kind: int) -> list[int]:
    """The places of a kind that the last step was offered."""
    candidates = made._candidates
    rows = [row for row in range(int(candidates.count[0])) if candidates.kinds[row, 0] == kind]
    return [int(candidates.places[row, 0]) for row in rows]


def all_places(made: LookupProposer) -> list[int]:
    return made._candidates.places[: int(made._candidates.count[0]), 0].tolist()


@given(st.lists(st.integers(0, 300), max_size=400))
def test_surprises_are_counted_as_by_brute_force(tokens) -> None:
    surprises = surprised(tokens)
    known = surprises[surprises[:, TOKEN] >= 0]
    assert known.tolist() == naive.space_saving(tokens, KNOWN)


def test_what_comes_more_often_than_the_average_count_is_always_known() -> None:
    draw = random.Random(1)
    stream = [draw.choice(range(20)) if draw.random() < 0.5 else draw.randrange(20, 100_000) for _ in range(4000)]
    surprises, counts = surprised(stream), Counter(stream)
    often = {token for token, count in counts.items() if count > len(stream) / KNOWN}
    assert often == set(range(20))
    assert often <= set(surprises[:, TOKEN].tolist())
    assert (np.diff(surprises[:, COUNT]) <= 0).all()


def test_old_surprises_give_way_to_those_of_another_kind_of_text() -> None:
    surprises = surprised([1] * 100_000 + [2] * 8000)
    assert surprises[0].tolist() == [2, pytest.approx(3000, abs=1100)]


def test_a_token_that_something_foresaw_is_no_surprise() -> None:
    made = LookupProposer(LookupConfig(), [5, 6, 7, 5])
    made.branches = True
    made.propose(8)
    made.extend([6])
    assert made.pacing.surprises[0, TOKEN] == -1
    made.propose(8)
    made.extend([9])
    assert made.pacing.surprises[0].tolist() == [9, 1]


def test_behind_a_departure_a_tree_looks_further_on_in_the_source() -> None:
    """The output deletes some tokens or replaces many by few: it may go on at any of the next places."""
    made = writing([*FILE[:10], 7], prediction=FILE)
    assert set(range(10, 19)) <= set(all_places(made))
    assert 12 in places(made, PASSED)
    made.extend([FILE[13]])
    assert made._trail[AT] == 14


def test_a_prediction_goes_on_where_it_was_left_whatever_was_copied_since() -> None:
    other = list(range(300, 330))
    made = writing([*FILE[:40], 7, *other[:20], 8], prediction=FILE, prompt=other)
    assert set(range(40, 45)) <= set(all_places(made))
    here = writing([*FILE[:40], 7, *other[:20], 8], prompt=[*FILE, 1, *other])
    assert 40 not in all_places(here)


def test_tokens_that_surprised_often_are_drafted_where_the_text_has_them() -> None:
    """A comma, say, in text that goes on otherwise than what it repeats."""
    once = [token for i in range(200) for token in (1000 + i, 2000 + i)]
    pacing, order = Pacing(), random.Random(1).sample(range(150), 150)
    for i in order:
        writing([1000 + i, 50], pacing=pacing, prompt=[50, *once])
    assert pacing.surprises[0, TOKEN] == 50
    made = writing([1180], pacing=pacing, prompt=[50, *once])
    assert made.propose(64).child(-1, 2180) is not None
    assert made.propose(64).child(-1, 50) is not None
    assert [made._candidates.facts[row, LENGTH] for row in _rows(made, COMMON)].count(1) == len(_rows(made, COMMON)) > 0
    absent = writing([1180], pacing=pacing, prompt=once)
    assert absent.propose(64).child(-1, 50) is None


def _rows(made: LookupProposer, kind: int) -> list[int]:
    return np.flatnonzero(made._candidates.kinds[: int(made._candidates.count[0]), 0] == kind).tolist()


def test_a_token_that_comes_often_does_not_move_the_copy() -> None:
    pacing = Pacing()
    pacing.surprises[0] = 50, 9
    made = writing([*FILE[:10], 7], pacing=pacing, prediction=FILE, prompt=[50, 51, 52])
    assert places(made, COMMON)
    made.extend([50])
    assert made._trail[AT] == 12


@pytest.mark.parametrize("branches", [False, True])
def test_only_a_tree_has_room_for_long_shots(branches) -> None:
    pacing = Pacing()
    pacing.surprises[0] = 50, 9
    made = writing([*FILE[:10], 7], branches, pacing, prediction=FILE, prompt=[50, 51, 52])
    assert bool(places(made, PASSED) and places(made, COMMON)) == branches
