"""Two texts are compared line by line: rightly whatever they are, and in no time however long they are."""

import difflib
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.cli import matching
from lookahead.cli.matching import Stretch, hunks, stretches

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=24)
FEW = st.lists(st.sampled_from("ab"), max_size=24)
BOTH = st.tuples(LINES, LINES) | st.tuples(FEW, FEW)
WAYS = {
    "as the standard library": {},
    "by lines that stand once": {"_SHORT": 0},
    "by parts, then as the standard library": {"_PAIRS": 5},
    "by what kept its place": {"_SHORT": 0, "_TABLE": 0},
}


def rebuilt(old, new, found):
    """The new lines, out of the old ones and of those that the stretches put in."""
    made, i, j = [], 0, 0
    for stretch in found:
        assert (stretch.i1, stretch.j1) == (i, j)
        assert (stretch.i2, stretch.j2) != (i, j)
        made += old[i : stretch.i2] if stretch.same else new[j : stretch.j2]
        i, j = stretch.i2, stretch.j2
    assert (i, j) == (len(old), len(new))
    assert all(one.same != other.same for one, other in pairwise(found))
    return made


@pytest.mark.parametrize("way", WAYS)
@given(both=BOTH)
def test_the_stretches_make_the_new_text_of_the_old_one(way, both):
    old, new = both
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(matching, name, value)
        assert rebuilt(old, new, stretches(old, new)) == new


@given(BOTH)
def test_short_texts_are_compared_as_the_standard_library_does(both):
    old, new = both
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found = stretches(old, new)
    assert found == [Stretch(tag == "equal", *places) for tag, *places in matcher.get_opcodes()]
    groups = matcher.get_grouped_opcodes(3) if old != new else []
    assert list(hunks(found)) == [[Stretch(tag == "equal", *at) for tag, *at in group] for group in groups]


def length_in_common(old, new):
    """The length of the longest sequence that both have, by the table of every textbook."""
    row = [0] * (len(new) + 1)
    for line in old:
        above, row = row, [0]
        for j, other in enumerate(new):
            row.append(above[j] + 1 if line == other else max(above[j + 1], row[j]))
    return row[-1]


@given(BOTH)
def test_where_no_line_stands_once_as_much_as_can_be_is_kept(both):
    found = matching._searched(*both)
    assert len(found) == length_in_common(*both)
    assert all(both[0][run.old] == both[1][run.new] for run in found)


def reindented(times):
    old = [" a", "  b", "  }"] * times
    new = ["   }" if number % 9 == 8 else line for number, line in enumerate(old)]
    return old, [*new[:times], "new", *new[times:]]


def renamed(times):
    old = ["{", ' "kind": 1,', ' "on": 2,', ' "v": [', "  0", " ]", "},"] * times
    new = [line.replace("kind", "type").replace("on", "enabled") for line in old]
    return old, [*new[:4], "  1,", *new[4:-2]]


def of_one_line(times):
    return ["0,"] * times, ["0,"] * 9 + ["1,"] + ["0,"] * (times - 20) + ["1,"] * 2 + ["0,"] * 9


@pytest.mark.parametrize(("texts", "kept"), [(reindented(1000), 2667), (renamed(500), 2498), (of_one_line(9000), 8998)])
def test_long_repetitive_texts_are_compared_in_no_time(texts, kept):
    began = time.process_time()
    found = stretches(*texts)
    assert time.process_time() - began < 1
    assert rebuilt(*texts, found) == texts[1]
    assert sum(stretch.i2 - stretch.i1 for stretch in found if stretch.same) == kept


def test_a_long_text_keeps_all_but_what_changed():
    old = [line for number in range(3000) for line in (f"def f{number}():", "    x = 1", "", "    return x", "")]
    new = [line.replace("f7(", "g7(") for line in old]
    new[9000:9000] = ["    x = 1", "", "    return x"]
    del new[40]
    found = stretches(old, new)
    assert rebuilt(old, new, found) == new
    assert sum(stretch.i2 - stretch.i1 for stretch in found if stretch.same) == len(old) - 2
