"""While the new version is written, its diff to the file is consistent, and in the end it is complete."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.cli.growing_diff import GrowingDiff
from lookahead.cli.growing_text import GrowingText
from lookahead.cli.live_view import AnswerLines

LINES = st.lists(st.sampled_from(["a", "b", "a longer line", ""]), max_size=30)


@given(LINES, LINES)
def test_the_rows_hold_both_versions_as_far_as_they_go(old, new):
    diff = GrowingDiff(old)
    for count, line in enumerate(new, 1):
        diff.add(line)
        assert [row.text for row in diff.rows if row.mark in " -"] == old[: diff.position]
        shown = [row.text for row in diff.rows if row.mark in " +"]
        assert shown == new[: len(shown)]
        if waiting := new[len(shown) : count]:
            assert diff.view(10**6)[-len(waiting) :] == [("+", text) for text in waiting]


@given(LINES)
def test_a_copy_has_no_changes(old):
    diff = GrowingDiff(old)
    for line in old:
        diff.add(line)
    assert {row.mark for row in diff.rows} <= {" "}
    assert diff.position == len(old)


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("a b c d", "a B c d", " a|-b|+B| c| d"),
        ("aaaa bbbb cccc", "aaaa xxxx yyyy bbbb cccc", " aaaa|+xxxx|+yyyy| bbbb| cccc"),
        ("aaaa bbbb cccc dddd", "aaaa dddd", " aaaa|-bbbb|-cccc| dddd"),
        ("a b c", "a b c d", " a| b| c"),  # what comes at the end waits, and is shown as added
    ],
)
def test_changes_are_found_as_lines_come(old, new, rows):
    diff = GrowingDiff(old.split())
    for line in new.split():
        diff.add(line)
    assert "|".join(mark + text for mark, text in diff.rows) == rows


def test_the_view_shortens_runs_of_kept_lines_and_ends_with_what_is_written_now():
    diff = GrowingDiff([f"line {number}" for number in range(40)])
    for number in range(30):
        diff.add("changed" if number == 3 else f"line {number}")
    shown = [mark + text for mark, text in diff.view(20)]
    assert shown[:7] == [" line 0", " line 1", " line 2", "-line 3", "+changed", " line 4", " line 5"]
    assert "~20 lines as they were" in shown
    assert shown[-1] == " line 29"
    assert len(diff.view(4)) == 4
    diff.add("new")
    assert diff.view(4)[-1] == ("+", "new")


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["```py\na\n", "b\n```\nc\n"], ["a", "b"]),
        (["````\n```\n", "x\n````\n"], ["```", "x"]),
        (["<think>\n```\nno\n```\n</think>\n```\nyes\n"], ["yes"]),
        (["no block\n"], []),
        (["```\na\n```\n```\nb\n```\n"], ["a"]),
    ],
)
def test_the_lines_of_the_answers_block_are_cut_out_as_they_come(pieces, lines):
    answer = AnswerLines()
    assert [line for piece in pieces for line in answer.add(piece)] == lines


BYTES = SimpleNamespace(decode=lambda ids, **options: bytes(ids).decode("utf-8", "replace"))


@given(st.text(max_size=20), st.data())
def test_pieces_of_text_are_whole_characters_and_make_up_the_whole(text, data):
    growing, rest, pieces = GrowingText(BYTES), text.encode(), []
    while rest:
        size = data.draw(st.integers(1, 4))
        pieces.append(growing.add(list(rest[:size])))
        rest = rest[size:]
    assert "\ufffd" not in "".join(pieces) or "\ufffd" in text
    assert "".join(pieces) + growing.finish() == text


@given(st.lists(st.sampled_from([0xFF, 0xE2, 0x82, 0xAC, 0x41, 256]), max_size=150), st.integers(0, 99))
def test_what_makes_no_character_is_kept_too_and_does_not_wait_for_ever(tokens, more):
    """Token 256 is a special one, which says nothing."""
    decoded = []

    def decode(ids, **options):
        decoded.extend(ids)
        return bytes(token for token in ids if token < 256).decode("utf-8", "replace")

    for unit in ([0xFF], [256], [0xE2, 0x82], [0xE2, 256]):
        ids = [*tokens, *unit * more, *"€".encode()]
        decoded.clear()
        growing = GrowingText(SimpleNamespace(decode=decode))
        text = "".join(growing.add([token]) for token in ids) + growing.finish()
        read = len(decoded)
        assert text == decode(ids)
        assert read <= 300 * len(ids)
