"""A draft is the text that followed the longest match, as long as it pays and the room allows."""

import pytest

from lookahead import LookupConfig, LookupProposer
from lookahead.draft import EMPTY


def proposer(
    tokens: list[int], documents: tuple = (), stop: tuple = (), banned: tuple = (), **options: int
) -> LookupProposer:
    made = LookupProposer(LookupConfig(**{"draft_per_match": 4, **options}), documents, stop, banned)
    made.extend(tokens)
    return made


def test_the_draft_continues_the_longest_match_at_its_latest_place() -> None:
    draft = proposer([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3]).propose(room=2)
    assert draft.tokens == (8, 1)
    assert draft.match_length == 3
    assert draft.origins == (7, 8)


@pytest.mark.parametrize(("match", "length"), [(1, 4), (2, 8), (3, 10), (9, 10)])
def test_a_longer_match_earns_a_longer_draft_up_to_the_cap(match, length) -> None:
    text = list(range(100, 160))
    draft = proposer([*text, *range(match, 0, -1), *text[:match]], max_draft=10).propose(room=50)
    assert draft.tokens == tuple(text[match : match + length])


def test_nothing_is_drafted_without_a_match_or_without_room() -> None:
    assert proposer([1, 2, 3]).propose(room=9) is EMPTY
    assert proposer([]).propose(room=9) is EMPTY
    assert proposer([1, 2, 1]).propose(room=0) is EMPTY
    assert proposer([1, 2, 1], max_draft=0).propose(room=9) is EMPTY
    assert proposer([1, 2, 1], min_match=2).propose(room=9) is EMPTY


def test_a_copy_may_run_over_its_own_end() -> None:
    assert proposer([1, 2, 1, 2, 1, 2]).propose(room=7).tokens == (1, 2, 1, 2, 1, 2, 1)


def test_documents_are_copied_from_but_never_across_their_end() -> None:
    made = proposer([1, 2], documents=([9, 1, 2, 3, 4], [], [5, 6]))
    assert made.propose(room=8).tokens == (3, 4)
    made.extend([3, 4])
    assert made.propose(room=8) is EMPTY


def test_of_equal_matches_the_prompts_own_is_taken() -> None:
    assert proposer([1, 2, 4, 1, 2], documents=([1, 2, 3],)).propose(room=1).tokens == (4,)


def test_a_draft_ends_with_an_end_token_and_before_a_placeholder() -> None:
    text = [1, 2, 3, 0, 5, 1]
    assert proposer(text, stop=(0,)).propose(room=9).tokens == (2, 3, 0)
    assert proposer(text, banned=(0,)).propose(room=9).tokens == (2, 3)
    assert proposer(text, banned=(2,)).propose(room=9) is EMPTY
