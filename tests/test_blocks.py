"""Blocks of changes are applied exactly, all of them, or none is."""

import pytest
from cli_scripted import blocks_between
from hypothesis import assume, given
from hypothesis import strategies as st

from lookahead.cli.blocks import apply_blocks, marks_for
from lookahead.cli.errors import CommandError

FILE = "import os\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x\n"


def block(old: str, new: str, text: str = FILE) -> str:
    marks = marks_for(text)
    return f"{marks.search}\n{old}{marks.divide}\n{new}{marks.replace}\n"


@pytest.mark.parametrize(
    ("old", "new", "edited"),
    [
        ("import os\n", "import sys\n", FILE.replace("os", "sys")),
        ("import os\n", "", FILE[len("import os\n") :]),
        (
            "def f(x):\n    return x\n",
            "def f(y):\n    return y\n",
            FILE.replace("f(x):\n    return x", "f(y):\n    return y"),
        ),
        ("def g(x):\n", "# new\ndef g(x):\n", FILE.replace("def g", "# new\ndef g")),
        (FILE, "x\n", "x\n"),
    ],
)
def test_the_searched_lines_give_way_to_the_others(old, new, edited):
    assert apply_blocks(f"I do this:\n{block(old, new)}Done.\n", FILE) == edited


def test_several_blocks_may_come_in_any_order():
    one, two = block("import os\n", "import re\n"), block("def g(x):\n", "def h(x):\n")
    expected = FILE.replace("os", "re").replace("g(", "h(")
    assert apply_blocks(one + two, FILE) == apply_blocks(two + one, FILE) == expected


def test_blocks_may_stand_in_a_fence_and_behind_reasoning_and_have_other_newlines():
    nothing, change = block("nothing", ""), block("import os\n", "import re\n")
    answer = f"<think>\n{nothing}</think>\n```python\n{change}```\n"
    assert apply_blocks(answer.replace("\n", "\r\n"), FILE) == FILE.replace("os", "re")


ONE = block("import os\n", "import re\n")
BAD = {
    "nothing": ("No change is needed.", "no complete block"),
    "open": (ONE[: ONE.rindex(">>>")], "no complete block"),
    "second open": (ONE + "<<<<<<< SEARCH\nx\n", "no complete block"),
    "not there": (block("import os \n", ""), "block 1 .* does not stand in the file .'import os'"),
    "indentation": (block("return x\n", ""), "does not stand in the file"),
    "half a line": (block("import\n", ""), "does not stand in the file"),
    "ambiguous": (block("    return x\n", ""), "stands in the file 2 times"),
    "second fails": (ONE + block("nowhere\n", ""), "block 2 .* does not stand"),
    "empty": (block("", "x\n"), "searches for nothing"),
    "blank": (block("\n\n", "x\n"), "searches for nothing"),
    "overlap": (block("import os\n\n\n", "a\n") + block("\n\ndef f(x):\n", "b\n"), "two blocks .* change line 2"),
    "twice": (ONE + ONE, "two blocks .* change line 1"),
    "no divider": ("<<<<<<< SEARCH\nimport os\n>>>>>>> REPLACE\n", "is not well formed"),
    "two dividers": ("<<<<<<< SEARCH\nimport os\n=======\n=======\n>>>>>>> REPLACE\n", "is not well formed"),
    "nested": ("<<<<<<< SEARCH\n<<<<<<< SEARCH\n", "is not well formed"),
    "nothing left": (block(FILE, ""), "is empty"),
    "elision": (block("import os\n", "# ... rest of the code unchanged\n"), "leaves code out"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_can_not_be_applied_exactly_is_not_applied(name):
    answer, reason = BAD[name]
    with pytest.raises(CommandError, match=reason):
        apply_blocks(answer, FILE)


GOOD = block("def g(x):\n", "def h(x):\n")


@pytest.mark.parametrize(
    "bad",
    [
        "<<<<<<< SEARCH:\nimport os\n=======\nimport re\n>>>>>>> REPLACE\n",
        "  <<<<<<< SEARCH\n  import os\n  =======\n  import re\n  >>>>>>> REPLACE\n",
        "<<<<<<< ORIGINAL\nimport os\n=======\nimport re\n>>>>>>> REPLACE\n",
        "import os\n=======\nimport re\n>>>>>>> REPLACE\n",
        "<<<<<<<< SEARCH\nimport os\n========\nimport re\n>>>>>>>> REPLACE\n",
    ],
    ids=["colon", "indented", "other word", "no opening", "too long"],
)
def test_a_block_with_other_marks_is_not_left_out_in_silence(bad):
    for answer in (bad + GOOD, GOOD + bad):
        with pytest.raises(CommandError, match="not well formed"):
            apply_blocks(answer, FILE)


def test_what_ends_reasoning_may_stand_in_a_block():
    text = "END = '</think>'\nvalue = 1\n"
    answer = block("END = '</think>'\n", "END = '</thought>'\n") + block("value = 1\n", "value = 2\n")
    assert apply_blocks(answer, text) == "END = '</thought>'\nvalue = 2\n"


def test_dots_are_a_body_where_the_line_above_them_in_the_file_says_so():
    assert apply_blocks(block("    return x\n\n\ndef g(x):\n", "    ...\n\n\ndef g(x):\n"), FILE).count("...") == 1
    text = "class A:\n    n = 0\n\n    def f(self):\n        return 1\n"
    gone = block("class A:\n", "class B:\n", text) + block("    def f(self):\n        return 1\n", "    ...\n", text)
    with pytest.raises(CommandError, match="leaves code out"):
        apply_blocks(gone, text)


def test_a_cut_answer_is_not_applied_even_where_its_blocks_are_whole():
    with pytest.raises(CommandError, match="cut at the token limit"):
        apply_blocks(ONE, FILE, cut=True)


@pytest.mark.parametrize(
    "text", ["Title\n=======\n", "<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n", "========\n=======\n"]
)
def test_a_file_may_hold_the_marks_themselves(text):
    marks = marks_for(text)
    assert not {*marks} & {*text.split("\n")}
    first = text.split("\n")[0]
    assert apply_blocks(block(first + "\n", "new\n", text), text) == text.replace(first, "new", 1)


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "a longer line"]), max_size=12)


@given(LINES, LINES)
def test_the_blocks_of_a_diff_make_the_new_text(old, new):
    before, after = "\n".join([*old, "end", ""]), "\n".join([*new, "end", ""])
    assume(before != after)
    try:
        assert apply_blocks(blocks_between(before, after), before) == after
    except CommandError as error:  # an insertion among blank lines only has nothing to search for
        assert "searches for nothing" in str(error)  # noqa: PT017
