"""Costs are measured while the model runs, and one bad measurement changes little."""

import random

import pytest

from lookahead.step_cost import WIDTHS, CostModel


def measured(*steps: tuple[int, float], times: int = 1) -> CostModel:
    cost = CostModel()
    for _ in range(times):
        for width, seconds in steps:
            cost.observe(width, seconds, 1)
    return cost


def test_before_any_measurement_a_token_more_costs_a_fixed_share() -> None:
    cost = CostModel()
    assert cost.curve[1] == 1.0
    assert cost.curve[11] == pytest.approx(1.2)
    assert not cost.seconds.any()


def test_measured_widths_cost_what_was_measured() -> None:
    cost = measured((1, 0.05), (2, 0.0875), (17, 0.1), times=5)
    assert cost.seconds[[1, 2, 17]] == pytest.approx([0.05, 0.0875, 0.1])


def test_costs_between_measured_widths_are_interpolated() -> None:
    cost = measured((1, 1.0), (9, 3.0), times=5)
    assert cost.curve[5] == pytest.approx(2.0)


def test_costs_never_fall_with_the_width_whatever_the_noise() -> None:
    chance, cost = random.Random(1), CostModel()
    for _ in range(500):
        width = chance.randint(1, WIDTHS + 5)
        cost.observe(width, chance.uniform(0.5, 2.0), 1)
        assert (cost.curve[2:] >= cost.curve[1:-1] - 1e-12).all()
        assert cost.curve[1] > 0


def test_beyond_the_measured_widths_a_token_costs_no_more_than_assumed() -> None:
    cost = measured((1, 1.0), (2, 1.75), times=5)
    assert cost.curve[12] - cost.curve[2] == pytest.approx(10 * 0.02 * cost.curve[1])


def test_one_slow_step_hardly_changes_the_cost() -> None:
    cost = measured((1, 1.0), times=50)
    cost.observe(1, 100.0, 1)
    assert cost.seconds[1] < 1.2


def test_a_cold_first_step_is_forgotten_at_the_second() -> None:
    cost = measured((1, 1.0), times=5)
    cost.observe(9, 30.0, 1)
    cost.observe(9, 1.2, 1)
    assert cost.curve[9] == pytest.approx(1.2)


def test_a_machine_that_becomes_slower_is_followed() -> None:
    cost = CostModel()
    for seconds in [1.0] * 50 + [2.5] * 150:
        cost.observe(1, seconds, 1)
    assert cost.seconds[1] == pytest.approx(2.5, rel=0.05)


def test_a_slower_machine_does_not_make_the_drafts_look_dear() -> None:
    """Only the plain width is measured while the machine slows down; the relation to the others stays."""
    cost = measured((1, 1.0), (9, 1.5), times=20)
    for _ in range(200):
        cost.observe(1, 3.0, 1)
    assert cost.curve[9] == pytest.approx(1.5, rel=0.02)
    assert cost.seconds[9] == pytest.approx(4.5, rel=0.05)


def test_the_first_steps_may_all_be_drafted() -> None:
    cost = measured((9, 1.5), times=3)
    cost.observe(1, 1.0, 1)
    assert cost.curve[9] == pytest.approx(1.5)


@pytest.mark.parametrize(("width", "seconds"), [(5, 0.0), (5, float("inf")), (5, float("nan")), (0, 1.0), (-70, 1.0)])
def test_a_step_without_a_width_or_a_time_teaches_nothing(width, seconds) -> None:
    cost = measured((1, 1.0))
    before = cost.curve.copy(), cost.worth
    cost.observe(width, seconds, 3)
    assert cost.count.sum() == 1
    assert (cost.curve == before[0]).all()
    assert cost.worth == before[1]


def test_worth_is_what_a_plain_steps_time_brought() -> None:
    cost = CostModel()
    for _ in range(20_000):
        cost.observe(1, 1.0, 1)
    assert cost.worth == pytest.approx(1.0, rel=0.01)
