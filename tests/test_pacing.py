"""Drafts are as long as pays: cost is measured, survival is learned, and nothing is drafted where nothing is won."""

import random
from threading import Thread

import pytest

from lookahead.pacing import MAX_DEPTH, AcceptanceModel, CostModel, Pacing


def taught(seconds: dict[int, float], right: int, times: int = 60, match_length: int = 3) -> Pacing:
    """Pacing that has seen these step times, and candidates that came true for ``right`` tokens."""
    pacing = Pacing()
    for _ in range(times):
        for width, cost in seconds.items():
            pacing.observe(width, cost, 1.0 + (width > 1))
        pacing.learn(match_length, right, wrong=True)
    return pacing


def test_a_longer_match_is_trusted_further() -> None:
    lengths = [Pacing().length(match, MAX_DEPTH) for match in (1, 2, 4, 8, 16, 40)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@pytest.mark.parametrize("match_length", [1, 3, 10, 40])
def test_survival_falls_with_depth_and_stays_a_chance(match_length) -> None:
    survival = AcceptanceModel().survival(match_length)
    assert len(survival) == MAX_DEPTH
    assert (survival[1:] <= survival[:-1]).all()
    assert 0 <= survival[-1] <= survival[0] <= 1


def test_drafts_that_never_come_true_are_no_longer_made() -> None:
    assert taught({1: 1.0, 5: 1.3}, right=0, times=400).length(3, MAX_DEPTH) == 0


def test_drafts_that_always_come_true_grow() -> None:
    pacing = taught({1: 1.0, 17: 1.5}, right=40, times=400)
    assert pacing.length(3, MAX_DEPTH) >= 30


def test_a_dear_width_makes_drafts_short() -> None:
    cheap = taught({1: 1.0, 2: 1.01, 17: 1.05}, right=4)
    dear = taught({1: 1.0, 2: 2.0, 17: 17.0}, right=4)
    assert dear.length(3, MAX_DEPTH) < cheap.length(3, MAX_DEPTH)


def test_a_jump_in_cost_is_looked_across() -> None:
    """Two tokens cost nearly as much as sixteen: then a draft is long or there is none."""
    pacing = taught({1: 1.0, 2: 1.75, 16: 2.0}, right=30, times=200)
    assert pacing.length(3, MAX_DEPTH) >= 15


@pytest.mark.parametrize("limit", [0, 1, 5, 1000])
def test_the_limit_is_kept(limit) -> None:
    assert 0 <= taught({1: 1.0, 17: 1.1}, right=60).length(40, limit) <= limit


def test_one_slow_step_does_not_change_the_cost() -> None:
    cost = CostModel()
    for _ in range(50):
        cost.observe(1, 1.0, 1)
    cost.observe(1, 100.0, 1)
    assert cost.curve()[1] < 1.2


def test_a_machine_that_becomes_slower_is_followed() -> None:
    cost = CostModel()
    for seconds in [1.0] * 50 + [2.5] * 150:
        cost.observe(1, seconds, 1)
    assert cost.curve()[1] == pytest.approx(2.5, rel=0.05)


def test_costs_between_measured_widths_are_interpolated_and_never_fall() -> None:
    cost = CostModel()
    for width, seconds in ((1, 1.0), (9, 3.0), (4, 2.0), (17, 2.9)):
        for _ in range(5):
            cost.observe(width, seconds, 1)
    curve = cost.curve()
    assert curve[1] == pytest.approx(1.0)
    assert 2.0 < curve[6] < 3.0
    assert (curve[2:] >= curve[1:-1] - 1e-9).all()


def test_before_any_measurement_there_is_no_curve_and_still_an_answer() -> None:
    assert CostModel().curve() is None
    assert Pacing().length(20, 16) > 0


def test_the_same_history_gives_the_same_lengths() -> None:
    def lengths() -> list[int]:
        pacing, chance, made = Pacing(), random.Random(1), []
        for _ in range(300):
            match = chance.randint(1, 40)
            made.append(pacing.length(match, MAX_DEPTH))
            pacing.observe(made[-1] + 1, 1 + 0.02 * made[-1], 1.5)
            pacing.learn(match, chance.randint(0, made[-1]), wrong=True)
        return made

    assert lengths() == lengths()


def test_threads_may_share_it() -> None:
    pacing = Pacing()

    def work() -> None:
        for i in range(500):
            pacing.observe(1 + i % 20, 1.0, 1.0)
            pacing.learn(1 + i % 30, i % 10, wrong=True)
            assert 0 <= pacing.length(1 + i % 30, 32) <= 32

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pacing.cost.rate > 0
