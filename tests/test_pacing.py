"""Drafts are as long as pays: cost is measured, survival is learned, and nothing is drafted where nothing is won."""

import random
import subprocess
import sys

import numpy as np
import pytest
from threads import at_once

from lookahead import LookupConfig, LookupProposer
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED, Plan, empty_plan
from lookahead.survival import chance, learn_token, new_survival


def plan(*survival: float) -> Plan:
    """A plan that follows a candidate with this survival."""
    made = empty_plan()
    made.chosen[FOLLOWED] = len(survival)
    made.alive[: len(survival)] = survival
    return made


def paced(seconds: dict[int, float], tokens: float = 1.0, times: int = 60) -> Pacing:
    """Pacing that has measured these step times."""
    pacing = Pacing()
    for _ in range(times):
        for width, cost in seconds.items():
            pacing.observe(width, cost, tokens)
    return pacing


def test_nothing_is_drafted_where_nothing_survives() -> None:
    assert paced({1: 1.0, 5: 1.3}).length(plan(0.02, 0.01)) == 0
    assert paced({1: 1.0, 5: 1.3}).length(plan()) == 0


def test_what_is_nearly_sure_is_drafted_whole() -> None:
    assert paced({1: 1.0, 17: 1.5}).length(plan(*(0.99**i for i in range(1, 31)))) == 30


def test_a_dear_width_makes_drafts_short() -> None:
    survival = [0.8**i for i in range(1, 17)]
    cheap = paced({1: 1.0, 2: 1.01, 17: 1.05}).length(plan(*survival))
    dear = paced({1: 1.0, 2: 1.3, 17: 6.0}).length(plan(*survival))
    assert 0 < dear < cheap


def test_a_jump_in_cost_is_looked_across() -> None:
    """Two tokens cost nearly as much as sixteen: then a draft is long or there is none."""
    pacing = paced({1: 1.0, 2: 1.75, 16: 2.0})
    assert pacing.length(plan(*(0.95**i for i in range(1, 16)))) >= 10
    assert pacing.length(plan(0.6, 0.1, 0.01)) == 0


def test_where_drafts_bring_much_a_doubtful_one_is_not_worth_its_time() -> None:
    doubtful = plan(0.35, 0.1)
    assert paced({1: 1.0, 2: 1.2, 5: 1.4}, tokens=1.0).length(doubtful) > 0
    assert paced({1: 1.0, 2: 1.2, 5: 1.4}, tokens=8.0, times=2000).length(doubtful) == 0


def test_a_cost_measured_wrong_is_measured_again() -> None:
    pacing = paced({1: 1.0})
    pacing.observe(17, 1000.0, 1)
    likely = plan(*(0.98**i for i in range(1, 17)))
    lengths = [pacing.length(likely) for _ in range(100)]
    assert not any(lengths[:32])
    assert any(lengths[32:])


@pytest.mark.parametrize("known", [{1: 0.060, 17: 0.061}, {17: 0.059}])
def test_a_plain_step_that_is_thought_dear_is_measured_again(known) -> None:
    """Sixteen tokens cost two thirds of a plain step and bring a third of a token, whatever was thought before."""
    pacing, weak = paced(known, times=20), plan(*(0.25 * 0.5**i for i in range(16)))
    assert pacing.length(weak) > 3
    lengths = []
    for _ in range(300):
        lengths.append(pacing.length(weak))
        pacing.observe(lengths[-1] + 1, 0.035 + 0.0015 * lengths[-1], 1.3 if lengths[-1] else 1.0)
    assert max(lengths[80:]) <= 5
    assert pacing.cost().seconds[1] == pytest.approx(0.035, rel=0.15)


def test_plain_steps_are_rare_where_drafts_always_pay() -> None:
    pacing, sure = paced({1: 1.0, 9: 1.1}), plan(*(0.99**i for i in range(1, 9)))
    plain = 0
    for _ in range(4000):
        length = pacing.length(sure)
        pacing.observe(length + 1, 1.0 + 0.0125 * length, length + 1)
        plain += not length
    assert 14 <= plain <= 24


def test_asking_for_plain_steps_grows_rare_where_there_are_none() -> None:
    """As where every step reads a block of one width."""
    pacing, sure = paced({8: 1.0}), plan(*(0.99**i for i in range(1, 9)))
    lengths = []
    for _ in range(2000):
        lengths.append(pacing.length(sure))
        pacing.observe(8, 1.0, lengths[-1] + 1)
    assert 0 < lengths.count(0) <= 12


def test_probes_grow_rare_where_they_never_pay() -> None:
    pacing = paced({1: 1.0, 2: 5.0, 17: 6.0})
    probes = sum(pacing.length(plan(0.7, 0.4, 0.2)) > 0 for _ in range(2000))
    assert 0 < probes <= 8


def test_a_chance_moves_towards_what_came_and_soon() -> None:
    survival, codes = new_survival(), np.arange(9, dtype=np.int32) * 40
    before = chance(survival.weights, codes)
    for _ in range(30):
        learn_token(survival, codes, 1.0)
    assert chance(survival.weights, codes) > max(before, 0.9)
    for _ in range(60):
        learn_token(survival, codes, 0.0)
    assert chance(survival.weights, codes) < 0.3


def test_chances_are_as_often_right_as_they_say() -> None:
    """Two kinds of tokens, right in 90 and in 20 of 100 cases: both are learned from one mixed stream."""
    survival, draw = new_survival(), random.Random(3)
    good, bad = np.arange(9, dtype=np.int32) * 40, np.arange(9, dtype=np.int32) * 40 + 1
    for _ in range(4000):
        codes, share = draw.choice([(good, 0.9), (bad, 0.2)])
        learn_token(survival, codes, float(draw.random() < share))
    assert chance(survival.weights, good) == pytest.approx(0.9, abs=0.08)
    assert chance(survival.weights, bad) == pytest.approx(0.2, abs=0.08)


def test_learning_survives_any_history_of_certainties() -> None:
    survival, draw = new_survival(), random.Random(5)
    for _ in range(20_000):
        codes = np.array([draw.randrange(len(survival.weights)) for _ in range(9)], np.int32)
        learn_token(survival, codes, float(draw.random() < 0.5))
    assert np.isfinite(survival.weights).all()
    assert (survival.precision > 0).all()


def test_the_same_history_gives_the_same_drafts_in_every_process() -> None:
    code = (
        "from lookahead import LookupConfig, LookupProposer\n"
        "made = LookupProposer(LookupConfig(), [1, 2, 3, 4, 5, 6, 7, 8, 1, 2])\n"
        "for token in [3, 4, 9, 5, 6, 7, 8, 1, 2, 3, 4, 9]:\n"
        "    made._pacing.observe(len(made.propose(8)) + 1, 1.0, 1)\n"
        "    made.extend([token])\n"
        "print(made.propose(8).tokens, made._pacing.survival.weights.sum())\n"
    )
    outputs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in "ab"]
    assert outputs[0].stdout == outputs[1].stdout != ""


def test_threads_may_share_it() -> None:
    pacing, failures = Pacing(), []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        text = [draw.randrange(5) for _ in range(50)]
        made = LookupProposer(LookupConfig(), text, pacing=pacing)
        for _ in range(200):
            draft = made.propose(8)
            if len(draft) > 8:
                failures.append(draft)
            pacing.observe(len(draft) + 1, 1.0, 1)
            made.extend([draw.randrange(5)])

    at_once(work)
    assert not failures
    assert np.isfinite(pacing.survival.weights).all()


def test_costs_behind_a_long_context_are_measured_apart_and_start_from_those_of_a_shorter_one() -> None:
    pacing = paced({1: 1.0, 9: 1.2})
    assert pacing.cost(9000).curve[9] == pytest.approx(1.2)
    for _ in range(200):
        pacing.observe(1, 1.5, 1, context=9000)
        pacing.observe(9, 3.0, 1, context=9000)
    assert pacing.cost(9000).curve[9] == pytest.approx(2.0, rel=0.05)
    assert pacing.cost(500).curve[9] == pytest.approx(1.2)
    assert pacing.cost(10**9).curve[9] == pytest.approx(2.0, rel=0.05)
