"""A batch verifies the likeliest tokens of all its requests, as many as the measured cost of the width makes pay."""

import copy
import pickle
from itertools import pairwise
from random import Random

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threads import at_once

from lookahead.batch_pacing import BatchPacing


def measured(requests: int, costs: dict[int, float], times: int = 30) -> BatchPacing:
    """What the steps of one batch have taught."""
    pacing = BatchPacing()
    for _ in range(times):
        for width, seconds in costs.items():
            pacing.observe(requests, width, seconds, requests)
    return pacing


def falling(*chances: float) -> np.ndarray:
    return np.array(chances)


FREE, DEAR = {16: 1.0, 32: 1.001, 400: 1.01}, {16: 1.0, 17: 1.0625, 32: 2.0, 400: 25.0}


def test_where_width_is_free_all_that_is_likely_is_drafted() -> None:
    chances = [falling(0.9, 0.8, 0.7)] * 8 + [falling(0.4)] * 8
    assert measured(16, FREE).lengths(chances, most=1000) == [3] * 8 + [1] * 8


def test_where_each_token_costs_a_token_nothing_is_drafted() -> None:
    assert measured(16, DEAR).lengths([falling(0.99, 0.98)] * 16, most=1000) == [0] * 16


def test_in_between_the_likelier_requests_draft() -> None:
    pacing = measured(4, {4: 1.0, 8: 1.6, 16: 2.8})
    lengths = pacing.lengths([falling(0.95, 0.9, 0.88), falling(0.3, 0.1), falling(0.96), falling()], most=1000)
    assert lengths[0] > 0
    assert lengths[1] == 0
    assert lengths[3] == 0


def test_a_request_alone_drafts_more_than_in_a_full_batch() -> None:
    costs = {1: 1.0, 8: 1.1, 16: 1.2, 32: 2.2, 64: 4.2}
    pacing = BatchPacing()
    for _ in range(30):
        for width, seconds in costs.items():
            pacing.observe(1, width, seconds, 2)
            if width >= 16:
                pacing.observe(16, width, seconds, 16)
    chances = falling(0.8, 0.64, 0.5, 0.4)
    assert pacing.lengths([chances], most=100)[0] > sum(pacing.lengths([chances] * 16, most=100)) / 16


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_knows_the_same_and_learns_alone(copied) -> None:
    pacing = measured(4, {4: 1.0, 8: 1.6})
    other = copied(pacing)
    assert other.cost(4, 8) == pacing.cost(4, 8)
    for _ in range(50):
        other.observe(4, 8, 9.0, 4)
    assert other.cost(4, 8) > 5.0
    assert pacing.cost(4, 8) == pytest.approx(1.6, rel=0.1)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="only a compiled kernel runs without another thread between")
def test_threads_may_share_it() -> None:
    pacing, failures = BatchPacing(), []

    def work(seed: int) -> None:
        draw = Random(seed)
        for step in range(300):
            rows = draw.randrange(1, 2 + step)  # more and more, so that the scratch is replaced meanwhile
            lengths = pacing.lengths([falling(0.9, 0.5)] * rows, most=2 * rows)
            if len(lengths) != rows or not all(0 <= length <= 2 for length in lengths):
                failures.append(lengths)
            pacing.observe(rows, rows + sum(lengths), 1.0 + 0.001 * rows, rows)

    at_once(work)
    assert not failures
    assert np.isfinite([pacing.cost(rows, rows + 1) for rows in (1, 8, 64)]).all()


def test_no_more_is_drafted_than_fits_into_the_step() -> None:
    assert sum(measured(16, FREE).lengths([falling(0.9, 0.8)] * 16, most=5)) == 5
    assert measured(16, FREE).lengths([falling(0.9)] * 16, most=0) == [0] * 16
    assert measured(16, FREE).lengths([], most=5) == []


def test_a_bad_start_heals() -> None:
    """Every width looked dear once, and is free now: a probe finds out."""
    pacing = measured(16, DEAR)
    drafted = 0
    for _ in range(200):
        lengths = pacing.lengths([falling(0.9, 0.8)] * 16, most=1000)
        drafted = sum(lengths)
        pacing.observe(16, 16 + drafted, 1.0 + 0.0001 * drafted, 16 + drafted)
    for _ in range(2000):
        lengths = pacing.lengths([falling(0.9, 0.8)] * 16, most=1000)
        drafted = max(drafted, sum(lengths))
        pacing.observe(16, 16 + sum(lengths), 1.0 + 0.0001 * sum(lengths), 16 + sum(lengths))
    assert drafted == 32


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_drafts_that_are_always_on_offer_are_weighed_against_a_step_without(rows) -> None:
    """A step costs 0.3 s and each draft token 3 % of that; tokens likelier than what their time is worth pay."""
    pacing, chances = BatchPacing(), [falling(0.9, 0.8, 0.6, 0.3, 0.1, 0.05, 0.02)] * rows
    for _ in range(60):
        drafted = sum(pacing.lengths(chances, most=1000))
        pacing.observe(rows, rows + drafted, 0.3 + 0.009 * 8 / rows * drafted, 2 * rows)
    assert pacing.cost(rows, rows) == pytest.approx(0.3, rel=0.1)
    assert 2 <= drafted / rows <= 4


def test_a_step_without_drafts_is_asked_for_no_more_than_four_times_where_none_can_be_measured() -> None:
    pacing = BatchPacing()
    drafted = [sum(pacing.lengths([falling(0.9)] * 4, most=100)) for _ in range(6)]
    assert drafted == [0, 0, 0, 0, 4, 4]


def test_a_plain_step_that_is_thought_dear_is_measured_again() -> None:
    """Whatever is drafted costs a fifth more than nothing, and brings less; nothing is, once that is known."""
    pacing, chances = measured(4, {4: 0.060, 8: 0.061}, times=200), [falling(0.1, 0.06, 0.03)] * 4
    assert sum(pacing.lengths(chances, most=1000))
    drafted = []
    for _ in range(300):
        drafted.append(sum(pacing.lengths(chances, most=1000)))
        pacing.observe(4, 4 + drafted[-1], 0.046 if drafted[-1] else 0.038, 4)
    assert pacing.cost(4, 4) == pytest.approx(0.038, rel=0.05)
    assert sum(map(bool, drafted[100:])) <= 10


def test_plain_steps_become_rare_where_they_tell_nothing_new() -> None:
    pacing, plain = measured(4, {4: 1.0, 12: 1.0}), 0
    for _ in range(4000):
        drafted = sum(pacing.lengths([falling(0.9, 0.8)] * 4, most=1000))
        pacing.observe(4, 4 + drafted, 1.0, 4 + drafted)
        plain += not drafted
    assert 10 <= plain <= 30


@pytest.mark.parametrize("swing", [1.0, 1.6])
def test_steps_that_vary_leave_the_costs_of_others_where_they_are(swing) -> None:
    """Steps of one width, at random now dear and now cheap, for hours; those of another width are not seen."""
    pacing, random = measured(4, {4: 1.0, 20: 1.2}), Random(1)
    for number in range(4000):
        level = 1.2 * (swing if number // 50 % 2 else 1.0)
        pacing.observe(4, 20, level * random.choice([0.9, 0.95, 1.0, 1.0, 1.15]), 6)
    for _ in range(150):
        pacing.observe(4, 20, 1.2 * random.choice([0.9, 0.95, 1.0, 1.0, 1.15]), 6)
    assert pacing.cost(4, 20) == pytest.approx(1.2, rel=0.05)
    assert pacing.cost(4, 4) == pytest.approx(1.0, rel=0.2)


def test_a_cost_that_was_never_seen_is_that_of_a_smaller_batch() -> None:
    pacing = measured(8, {8: 1.0, 16: 1.5, 64: 4.5})
    assert pacing.cost(12, 64) == pytest.approx(4.5)


def test_widths_beyond_the_table_cost_no_less() -> None:
    pacing = measured(16, FREE)
    assert pacing.cost(16, 10**6) >= pacing.cost(16, 400)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_broken_clock_teaches_nothing(seconds) -> None:
    pacing = measured(2, {2: 1.0, 4: 1.5})
    before = pacing.cost(2, 4)
    pacing.observe(2, 4, seconds, 2)
    assert pacing.cost(2, 4) == before


def test_without_a_clock_measurements_change_nothing() -> None:
    pacing = BatchPacing(measures=False)
    before = pacing.lengths([falling(0.9, 0.5)] * 3, most=100)
    for _ in range(50):
        pacing.observe(3, 9, 100.0, 3)
    assert pacing.lengths([falling(0.9, 0.5)] * 3, most=100) == before


@given(
    st.lists(st.tuples(st.integers(1, 600), st.floats(1e-4, 10)), max_size=40),
    st.lists(st.lists(st.floats(0.01, 1.0), max_size=6), min_size=1, max_size=8),
    st.integers(0, 60),
)
def test_whatever_was_measured_costs_never_fall_and_lengths_fit(seen, drafts, most) -> None:
    pacing = BatchPacing()
    requests = len(drafts)
    for extra, seconds in seen:
        pacing.observe(requests, requests + extra, seconds, requests)
    costs = [pacing.cost(requests, width) for width in range(requests, 700)]
    assert all(0 < one <= other * (1 + 1e-9) for one, other in pairwise(costs))
    chances = [np.cumprod(np.array(draft)) for draft in drafts]
    lengths = pacing.lengths(chances, most)
    assert sum(lengths) <= most
    assert all(0 <= length <= len(draft) for length, draft in zip(lengths, drafts, strict=True))
