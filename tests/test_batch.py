"""Many proposers at once decide and learn exactly as each of them alone."""

import copy
import pickle
from random import Random

import numpy as np
import pytest

from lookahead import LookupConfig
from lookahead.batch import Batch
from lookahead.batch_pacing import BatchPacing
from lookahead.pacing import Pacing
from lookahead.proposer import LookupProposer

LONGEST = 400


def proposers(random: Random, count: int) -> list[LookupProposer]:
    """Proposers with and without prediction, references, tokens that end a draft, and an end of the vocabulary."""
    knowledge = Pacing()
    made = []
    for number in range(count):
        prompt, other = ([random.randrange(1, 7) for _ in range(random.randrange(1, 30))] for _ in range(2))
        made.append(
            LookupProposer(
                LookupConfig(max_draft=random.choice([3, 64]), min_match=random.choice([1, 2])),
                prompt,
                references=[other] if number % 2 else [],
                prediction=other[::-1] if number % 3 else None,
                stop_tokens=[6] if number % 2 else [],
                banned_tokens=[5] if number % 3 == 1 else [],
                pacing=knowledge,
                vocabulary=7 if number % 2 else 6,
            )
        )
    return made


def state(made: LookupProposer) -> list[np.ndarray]:
    """All that a proposer has learned and planned; of arrays that grow, what is in use."""
    text, nodes, _, registers = made.index.arrays
    return [text[: len(made.index)], nodes[: registers[1], :7], registers, made._swaps, made._trail, *made._plan]


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_plans_and_learns_as_its_proposers_one_by_one(seed) -> None:
    random, rows = Random(seed), 4
    alone, together = proposers(Random(seed), rows), proposers(Random(seed), rows)
    batch = Batch(BatchPacing(measures=False), together[0].pacing)
    tokens, lengths = np.zeros((rows, LONGEST), np.int32), []
    for row, each in enumerate(alone):
        lengths.append(each.context)
        tokens[row, : each.context] = each.index.tokens[each.text_start :]
    grown = 0
    for _ in range(40):
        steps = []
        for row, each in enumerate(alone):
            came = [random.randrange(1, 7) for _ in range(random.randrange(1, 4))]
            draft = each.draft(64).tokens
            if draft and random.random() < 0.7:
                came = [*draft[: random.randrange(1, len(draft) + 1)], *came[:1]]
            steps.append(came[: LONGEST - lengths[row]])
            tokens[row, lengths[row] : lengths[row] + len(steps[row])] = steps[row]
            lengths[row] += len(steps[row])
        rooms = [min(random.randrange(0, 20), each._config.max_draft) for each in alone]
        batch.seat(together, range(rows), lengths, rooms)
        missed = batch.follow(tokens)
        grown += len(missed)
        later = [
            row for row in missed if together[row].planned
        ]  # they have not learned yet, and do so behind the others
        for row in sorted(range(rows), key=lambda row: row in later):
            alone[row].extend(steps[row])
        for row in missed:
            together[row].extend(tokens[row, together[row].context : lengths[row]].tolist())
        for each, room in zip(alone, rooms, strict=True):
            each.consider(room)
        batch.seat(together, range(rows), lengths, rooms)
        drafts = batch.propose(most=1000, requests=rows)
        for one, other, draft in zip(alone, together, drafts, strict=True):
            for ours, theirs in zip(state(one), state(other), strict=True):
                np.testing.assert_array_equal(ours, theirs)
            assert list(one.draft(len(draft)).tokens) == draft
            np.testing.assert_array_equal(one.survival, other.survival)
    assert grown > 0
    np.testing.assert_array_equal(alone[0].pacing.survival.weights, together[0].pacing.survival.weights)


def follows(text: list[int], now: list[int]) -> tuple[list[int], LookupProposer]:
    knowledge = Pacing()
    made = LookupProposer(LookupConfig(), text, pacing=knowledge)
    batch = Batch(BatchPacing(), knowledge)
    batch.seat([made], [0], [len(now)], [4])
    return batch.follow(np.array([now], np.int64)), made


@pytest.mark.parametrize("now", [[5, 6, 7, 8], [5, 6, 7]])
def test_a_text_that_goes_on_is_followed(now) -> None:
    missed, made = follows([5, 6, 7], now)
    assert missed == []
    assert made.index.tokens.tolist() == now


@pytest.mark.parametrize("now", [[5, 9, 7, 8], [5, 6], [5, 6, 7, -1]])
def test_another_text_is_left_alone(now) -> None:
    missed, made = follows([5, 6, 7], now)
    assert missed == [0]
    assert made.index.tokens.tolist() == [5, 6, 7]


def test_a_text_that_outgrows_the_arrays_goes_on_by_hand() -> None:
    missed, made = follows([5, 6, 7], [5, 6, 7, *range(300)])
    assert missed == [0]
    made.extend(list(range(300))[made.context - 3 :])
    assert made.index.tokens.tolist() == [5, 6, 7, *range(300)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copied_proposer_moves_alone(copied) -> None:
    knowledge = Pacing()
    made = LookupProposer(LookupConfig(), [5, 6, 7], pacing=knowledge)
    other = copied(made)
    assert other.handle != made.handle
    before = [array.copy() for array in state(made)]
    batch = Batch(BatchPacing(measures=False), knowledge)
    batch.seat([other], [0], [5], [4])
    assert batch.follow(np.array([[5, 6, 7, 5, 6]], np.int32)) == []
    assert batch.propose(most=4, requests=1) == [[7, 5, 6, 7]]
    for array, untouched in zip(state(made), before, strict=True):
        np.testing.assert_array_equal(array, untouched)


def test_a_batch_of_none_drafts_nothing() -> None:
    batch = Batch(BatchPacing(), Pacing())
    assert batch.follow(np.zeros((0, 5), np.int32)) == []
    assert batch.propose(most=5, requests=1) == []


def test_a_copied_batch_has_no_seats_but_knows_the_same() -> None:
    knowledge = Pacing()
    batch = Batch(BatchPacing(measures=False), knowledge)
    made = LookupProposer(LookupConfig(), [5, 6, 7], pacing=knowledge)
    batch.seat([made], [0], [5], [4])
    other = copy.deepcopy(batch)
    assert other.propose(most=4, requests=1) == []
    assert batch.follow(np.array([[5, 6, 7, 5, 6]], np.int32)) == []
    assert batch.propose(most=4, requests=1) == [[7, 5, 6, 7]]


def test_what_is_no_table_of_texts_is_refused_and_forgotten() -> None:
    knowledge = Pacing()
    batch = Batch(BatchPacing(measures=False), knowledge)
    batch.seat([LookupProposer(LookupConfig(), [5, 6, 7], pacing=knowledge)], [0], [5], [4])
    text = np.array([5, 6, 7, 5, 6], np.int32)
    for _ in range(2):
        with pytest.raises(ValueError, match="unpack"):
            batch.follow(text)
    assert batch.follow(text[None]) == []
