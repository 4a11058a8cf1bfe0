"""Candidates are what brute force finds: right places, right tokens, right agreement."""

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lookahead import LookupConfig, LookupProposer
from lookahead.candidates import (
    CONTEXT,
    CURSOR,
    FIRST,
    FREQUENT,
    GAP,
    LATEST,
    LENGTH,
    MATCH,
    MAX_DEPTH,
    NEAR,
    PREDICTION,
    REFERENCE,
    REPLACED,
    RESUMED,
    SOURCE,
)

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def offered(made: LookupProposer) -> list[dict]:
    """The candidates of the last step."""
    candidates = made._candidates
    rows = []
    for row in range(int(candidates.count[0])):
        facts = candidates.facts[row]
        length = int(facts[LENGTH])
        rows.append(
            {
                "place": int(candidates.places[row, 0]),
                "tokens": candidates.tokens[row, :length].tolist(),
                "kinds": candidates.kinds[row, :length].tolist(),
                "match": (int(facts[MATCH]), int(facts[GAP])),
                "source": int(facts[SOURCE]),
            }
        )
    return rows


def continuation(text: list[int], place: int) -> list[int]:
    index = naive.NaiveIndex()
    index.text = text
    return index.continuation(place - 1, MAX_DEPTH)


@given(TOKENS, st.lists(TOKENS, max_size=2), TOKENS, TOKENS)
def test_every_candidate_is_a_continuation_of_its_place(prompt, references, prediction, output) -> None:
    made = LookupProposer(LookupConfig(), prompt, references, prediction)
    for token in output:
        made.propose(MAX_DEPTH)
        text = made.index.tokens.tolist()
        for row in offered(made) if made.planned else []:
            assert row["match"] == naive.agreement(text, row["place"], 64, 32)
            if REPLACED not in row["kinds"]:
                assert row["tokens"] == continuation(text, row["place"])
        made.extend([token])


@given(TOKENS, st.lists(TOKENS, max_size=2), TOKENS)
def test_the_index_offers_the_latest_the_first_and_the_most_frequent_place(prompt, references, output) -> None:
    made = LookupProposer(LookupConfig(), prompt, references)
    for token in output:
        made.propose(MAX_DEPTH)
        text = made.index.tokens.tolist()
        places = {row["kinds"][0]: row["place"] for row in offered(made)} if made.planned else {}
        match = made.index.longest_match()
        suffix = text[len(text) - match.length :]
        ends = [end for end in naive.ends_of(suffix, text[:-1]) if match.length] if match.length else []
        goes_on = [end + 1 for end in ends if text[end + 1] >= 0]
        if LATEST in places:
            assert places[LATEST] == ends[-1] + 1
        elif ends:
            assert text[ends[-1] + 1] < 0  # a document ends there
        if FREQUENT in places:
            counts = np.bincount([text[place] for place in goes_on])
            followed = text[places[FREQUENT]]
            # the newest token is counted one step late
            assert counts[followed] >= counts.max() - 1
        if FIRST in places:
            assert places[FIRST] == ends[0] + 1
        made.extend([token])


@given(TOKENS, TOKENS, TOKENS)
def test_every_candidate_says_where_it_comes_from(reference, prediction, output) -> None:
    made = LookupProposer(LookupConfig(), [], [reference], prediction)
    starts = [0, len(reference) + 1 if reference else 0]
    for token in output:
        made.propose(MAX_DEPTH)
        for row in offered(made) if made.planned else []:
            end = starts[1] + (len(prediction) + 1 if prediction else 0)
            expected = REFERENCE if row["place"] < starts[1] else PREDICTION if row["place"] < end else CONTEXT
            assert row["source"] == expected
        made.extend([token])


def test_the_trail_offers_the_place_beside_the_copy_and_the_place_it_left() -> None:
    file = list(range(100, 140))
    made = LookupProposer(LookupConfig(), prediction=file)
    made.propose(MAX_DEPTH)
    made.extend([*file[:10]])
    made.propose(MAX_DEPTH)
    made.extend([7])
    made.propose(MAX_DEPTH)
    kinds = {row["kinds"][0]: row["place"] for row in offered(made)}
    assert kinds[CURSOR] == 11
    assert kinds[RESUMED] == 10
    assert NEAR not in kinds
