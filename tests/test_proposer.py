"""A draft is the likeliest continuation that the visible text offers, as long as it pays and the room allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead import LookupConfig, LookupProposer, MemoryStore
from lookahead.draft import EMPTY
from lookahead.memory_source import MemorySource
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED
from lookahead.together import propose_together


def proposer(
    tokens: list[int],
    references: tuple = (),
    prediction: list[int] | None = None,
    stop: tuple = (),
    banned: tuple = (),
    **options: int,
) -> LookupProposer:
    config = LookupConfig(**{"draft_per_match": 4, **options})
    return LookupProposer(config, tokens, references, prediction, stop, banned)


def written(text: list[int], **known) -> tuple[list[tuple[int, ...]], LookupProposer]:
    """The drafts on the way to a text, each verified, by a proposer that knows what is given."""
    made = LookupProposer(LookupConfig(), **known)
    made.extend(text[:1])
    drafts, at = [], 1
    while at < len(text):
        draft = made.propose(len(text) - at).tokens
        right = next((i for i, token in enumerate(draft) if token != text[at + i]), len(draft))
        drafts.append(draft)
        made.extend(text[at : at + right + 1])
        at += right + 1
    return drafts, made


@pytest.fixture
def whole_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Length is no cost."""
    monkeypatch.setattr(Pacing, "length", lambda self, plan, context: int(plan.chosen[FOLLOWED]))


def test_the_draft_continues_the_longest_match_at_its_latest_place() -> None:
    draft = proposer([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3]).propose(room=2)
    assert draft.tokens == (8, 1)
    assert draft.match_length == 3
    assert draft.origins == (7, 8)
    assert draft.source == "context"


@pytest.mark.parametrize(("match", "length"), [(1, 4), (2, 8), (3, 10), (9, 10)])
def test_by_the_fixed_rule_a_longer_match_earns_a_longer_draft_up_to_the_cap(match, length) -> None:
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


def test_references_are_copied_from_but_never_across_their_end() -> None:
    made = proposer([1, 2], references=([9, 1, 2, 3, 4], [], [5, 6]))
    draft = made.propose(room=8)
    assert (draft.tokens, draft.source) == ((3, 4), "references")
    made.extend([3, 4])
    assert made.propose(room=8) is EMPTY


def test_of_equal_matches_the_prompts_own_is_taken() -> None:
    assert proposer([1, 2, 4, 1, 2], references=([1, 2, 3],)).propose(room=1).tokens == (4,)


def test_a_draft_ends_with_an_end_token_and_before_a_placeholder() -> None:
    text = [1, 2, 3, 0, 5, 1]
    assert proposer(text, stop=(0,)).propose(room=9).tokens == (2, 3, 0)
    assert proposer(text, banned=(0,)).propose(room=9).tokens == (2, 3)
    assert proposer(text, banned=(2,)).propose(room=9) is EMPTY


def test_placeholders_of_the_prompt_are_passed_over_and_keep_their_places() -> None:
    text = [1, 2, 3, *[9] * 40, 4, 1, 2]
    made = proposer(text, banned=(9,))
    assert made.index.tokens.tolist() == [-1 if token == 9 else token for token in text]
    draft = made.propose(room=5)
    assert (draft.tokens, draft.origins) == ((3,), (2,))
    assert (made.context, made.written) == (len(text), 0)
    assert LookupProposer(LookupConfig(), [1, 9, 9, 1], vocabulary=9).index.tokens.tolist() == [1, -1, -1, 1]


@pytest.mark.usefixtures("whole_drafts")
class TestACopyGoesOn:
    """The file is 100 ... 159; the output repeats it with a change, and copying goes on behind it."""

    FILE = tuple(range(100, 160))

    def drafts_behind(self, output: list[int], place: int) -> tuple[int, ...]:
        """What is drafted behind the first ``place`` tokens of an output."""
        _, made = written(output[:place], prediction=self.FILE)
        return made.propose(20).tokens

    def test_from_the_start_of_a_prediction(self) -> None:
        made = LookupProposer(LookupConfig(), prediction=self.FILE)
        draft = made.propose(10)
        assert draft.tokens == self.FILE[:10]
        assert draft.source == "prediction"

    def test_behind_what_is_written_before_a_prediction(self) -> None:
        assert self.drafts_behind([7, 8, 9, *self.FILE], 3) == self.FILE[:20]

    def test_behind_a_token_that_was_replaced(self) -> None:
        output = [*self.FILE[:20], 7, *self.FILE[21:]]
        assert self.drafts_behind(output, 21) == self.FILE[21:41]

    def test_behind_tokens_that_were_inserted(self) -> None:
        output = [*self.FILE[:20], 7, 8, 9, *self.FILE[20:]]
        assert self.drafts_behind(output, 24) == self.FILE[21:41]

    def test_behind_tokens_that_were_left_out(self) -> None:
        output = [*self.FILE[:20], *self.FILE[25:]]
        assert self.drafts_behind(output, 21) == self.FILE[26:46]

    def test_at_the_nearer_of_two_equal_places(self) -> None:
        file = [*range(100, 120), 1, 2, 3, 4, *range(200, 280), 1, 2, 3, 5, *range(300, 320)]
        _, made = written(file[:23], prediction=file)
        assert made.propose(3).tokens == (4, 200, 201)

    def test_with_a_replacement_where_the_file_says_the_same_again(self) -> None:
        before, between, behind = list(range(100, 130)), list(range(200, 300)), list(range(400, 410))
        file = [*before, 50, 51, *between, 50, 51, *behind]
        drafts, _ = written([*before, 60, *between, 60, *behind], prediction=file)
        assert (*between[-20:], 60, *behind) == drafts[-1][-31:]


def test_the_frame_of_one_output_is_expected_of_the_next() -> None:
    pacing, file, other = Pacing(), list(range(100, 130)), list(range(200, 230))
    _, made = written([7, 8, *file, 9], prediction=file, pacing=pacing)
    made.finish()
    made = LookupProposer(LookupConfig(), prediction=other, pacing=pacing)
    assert made.propose(64).tokens == (7, 8, *other, 9)[: len(made.propose(64))]
    assert len(made.propose(64)) > 2


def test_what_one_text_taught_the_next_one_uses() -> None:
    """Copies that never come true are drafted no more, and copies that always do grow."""
    pacing = Pacing()
    for _ in range(200):
        pacing.observe(1, 1.0, 1)
        pacing.observe(9, 1.8, 1)
    first = LookupProposer(LookupConfig(), [1, 2, 3, 4, 1], pacing=pacing)
    before = len(first.propose(60))
    for text in range(60):
        made = LookupProposer(LookupConfig(), [*range(10 * text, 10 * text + 9), 10 * text], pacing=pacing)
        made.propose(60)
        made.extend([10 * text + 9])
    assert len(LookupProposer(LookupConfig(), [1, 2, 3, 4, 1], pacing=pacing).propose(60)) < max(before, 1)


@given(
    st.lists(st.integers(0, 3), max_size=60),
    st.lists(st.lists(st.integers(0, 3), max_size=20), max_size=3),
    st.lists(st.integers(0, 3), max_size=20),
    st.integers(0, 70),
)
def test_whatever_is_drafted_was_copied_from_where_it_says(text, references, prediction, room) -> None:
    made = LookupProposer(LookupConfig(), [], references, prediction, stop_tokens=[3])
    at = 0
    while at < len(text):
        draft = made.propose(room)
        assert len(draft) <= min(room, 64)
        assert 3 not in draft.tokens[:-1]
        known = made.index.tokens.tolist()
        assert [known[origin] for origin in draft.origins] == list(draft.tokens)
        right = next((i for i, t in enumerate(draft.tokens) if t != (text[at:] + [9] * 65)[i]), len(draft))
        emitted = text[at : at + right + 1]
        made.extend(emitted)
        at += len(emitted)


def branching(text: list[int], prediction: list[int] | None = None, **options: int) -> LookupProposer:
    """A proposer for a target that reads trees, where a token more costs little."""
    pacing = Pacing()
    for _ in range(20):
        for width in (1, 2, 65):
            pacing.observe(width, 1.0 + 0.004 * width, 1)
    made = LookupProposer(LookupConfig(**options), text, prediction=prediction, pacing=pacing)
    made.branches = True
    return made


def test_other_first_tokens_stand_beside_the_likeliest_where_width_is_cheap() -> None:
    draft = branching([1, 2, 3, 4, 1, 2, 5, 6, 1, 2]).propose(64)
    firsts = [token for token, parent in zip(draft.tokens, draft.parents, strict=True) if parent < 0]
    assert sorted(firsts) == [3, 5]
    three = draft.child(-1, 3)
    assert draft.child(three, 4) is not None


def test_candidates_that_part_later_share_the_draft_up_to_there() -> None:
    draft = branching([1, 2, 3, 8, 4, 5, 1, 2, 3, 8, 6, 7, 1, 2]).propose(64)
    three = draft.child(-1, 3)
    eight = draft.child(three, 8)
    assert draft.child(eight, 4) is not None
    assert draft.child(eight, 6) is not None
    assert draft.parents.count(-1) == 1


def test_a_tree_gives_its_room_to_the_likeliest_tokens() -> None:
    """The tail of a long copy, which hardly survives, leaves room for another continuation of the first tokens."""
    draft = branching([*range(10, 90), 3, 4, 5, *range(20, 90), 3, 4, 6, 7, 8, 9, 3, 4], max_draft=16).propose(64)
    four = [node for node, token in enumerate(draft.tokens) if draft.parents[node] < 0]
    assert sorted(draft.tokens[node] for node in four) == [5, 6]
    assert len(draft) == 16


def test_the_likeliest_continuation_stands_first_and_in_a_row_in_a_tree() -> None:
    """There its keys and values need not be moved when it comes true."""
    made = branching([*range(10, 90), 3, 4, 5, *range(20, 90), 3, 4, 6, 7, 8, 9, 3, 4])
    draft = made.propose(64)
    alone = made.draft(64).tokens
    lead = next((node for node, parent in enumerate(draft.parents) if parent != node - 1), len(draft))
    assert lead > 3
    assert draft.tokens[:lead] == alone[:lead]
    assert draft.path([*alone[:lead], 0]) == list(range(lead))


def test_candidates_that_go_on_alike_make_a_chain() -> None:
    draft = branching([7, 1, 2, 3, 4, 5, 6, 8, 1, 2, 3, 4, 5, 6, 9, 1, 2]).propose(4)
    assert (draft.tokens, draft.parents) == ((3, 4, 5, 6), ())


@given(
    st.lists(st.integers(0, 3), max_size=60),
    st.lists(st.integers(0, 3), max_size=20),
    st.integers(0, 70),
)
def test_whatever_a_tree_holds_was_copied_from_where_it_says(text, prediction, room) -> None:
    made = branching([], prediction=prediction)
    at = 0
    while at < len(text):
        draft = made.propose(room)
        assert len(draft) <= min(room, 64)
        known = made.index.tokens.tolist()
        assert [known[origin] for origin in draft.origins] == list(draft.tokens)
        emitted = text[at : at + len(draft.path(text[at:])) + 1]
        made.extend(emitted)
        at += len(emitted)


def test_a_tree_keeps_room_and_cap() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 1, 2, 8, 9, 10, 11, 12, 1, 2]
    assert len(branching(text, max_draft=4).propose(9)) <= 4
    assert all(len(branching(text).propose(room)) <= room for room in range(9))


def test_where_width_is_dear_a_draft_is_a_chain() -> None:
    pacing = Pacing()
    for _ in range(20):
        for width in (1, 2, 65):
            pacing.observe(width, 1.0 + 0.3 * (width - 1), 1)
    made = LookupProposer(LookupConfig(), [*range(40), 99, 5, *range(10, 40), 0, *range(30)], pacing=pacing)
    made.branches = True
    assert made.propose(9).is_chain


def test_the_rows_of_a_batch_draft_what_pays_for_all_of_them() -> None:
    """A row that would draft far alone drafts less beside rows that have nothing to draft."""
    pacing = Pacing()
    for _ in range(30):
        for width, seconds in ((1, 1.0), (9, 2.6), (65, 13.8)):
            pacing.observe(width, seconds, 1)

    def copying() -> LookupProposer:
        return LookupProposer(LookupConfig(), [*range(100), *range(60)], pacing=pacing)

    def idle(row: int) -> LookupProposer:
        return LookupProposer(LookupConfig(), [*range(1000 * row, 1000 * row + 50)], pacing=pacing)

    alone = len(copying().propose(60))
    beside_idle = propose_together([copying(), *map(idle, range(1, 8))], [60] * 8)
    beside_like = propose_together([copying() for _ in range(8)], [60] * 8)
    assert len(beside_idle[0]) < alone
    assert [len(draft) for draft in beside_idle[1:]] == [0] * 7
    assert {len(draft) for draft in beside_like} == {alone}


def test_ids_beyond_the_vocabulary_end_a_draft() -> None:
    made = LookupProposer(LookupConfig(draft_per_match=4), [1, 2, 99, 3, 1], vocabulary=99)
    assert made.propose(9).tokens == (2,)


def test_the_fixed_rule_drafts_from_the_text_beside_a_memory() -> None:
    store = MemoryStore()
    store.add("ann", [5, 6, 9, 9])
    memory = MemorySource(store, "ann")
    made = LookupProposer(LookupConfig(draft_per_match=2), [5, 6, 7, 8, 5, 6], memory=memory)
    assert made.propose(9).tokens == (7, 8, 5, 6)
