"""Lines keep their own newlines, and diffs say exactly what changed."""

import difflib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.cli.lines import common_ending, restore_lines, split_lines, to_lf, unified_diff

TEXT = st.text(alphabet="ab\r\n\x0c\u2028", max_size=30)


@given(TEXT)
def test_joined_lines_are_the_text(text):
    assert "".join(line.text + line.ending for line in split_lines(text)) == text


@given(TEXT)
def test_an_edit_that_changes_nothing_gives_the_same_text_back(text):
    assert restore_lines(text, to_lf(text)) == text


@given(TEXT, TEXT)
def test_restored_text_reads_as_the_edit_up_to_the_final_newline(original, edited):
    restored = restore_lines(original, edited)
    assert to_lf(restored).rstrip("\n") == to_lf(edited).rstrip("\n")
    assert restored.endswith(("\r", "\n")) == (original.endswith(("\r", "\n")) and bool(to_lf(edited)))


@pytest.mark.parametrize(
    ("original", "edited", "restored"),
    [
        ("a\nb\n", "a\nB\n", "a\nB\n"),
        ("a\r\nb\r\n", "a\nB\n", "a\r\nB\r\n"),
        ("a\rb\r", "a\nB\nc\n", "a\rB\rc\r"),
        ("a\r\nb", "a\nb\nc\n", "a\r\nb\r\nc"),
        ("a\nb", "a\nb\n", "a\nb"),
        ("a\nb\n", "a\nb", "a\nb\n"),
        ("a\n\n\n", "b\n\n\n", "b\n\n\n"),
        ("a\r\nb\nc\r\n", "a\nX\nc\n", "a\r\nX\nc\r\n"),
        ("a\r\nb\nc\n", "new\na\nb\nc\n", "new\na\r\nb\nc\n"),
        ("a\nb\r\nc\n", "a\nb\nnew\nc\n", "a\nb\r\nnew\r\nc\n"),
        ("a\r\nb\nc\n", "b\nc\n", "b\nc\n"),
        ("one line", "another", "another"),
        ("\r\x0c\n", "\r\ra", "\r\ra\r"),
        ("a\rb\n\n", "a\n\n", "a\r\r"),
        ("a\r\n}\r\nb\n}\n", "a\n}\nX\n}\n", "a\r\n}\r\nX\n}\n"),
    ],
)
def test_new_lines_take_the_newline_of_their_place(original, edited, restored):
    assert restore_lines(original, edited) == restored


def test_frequent_lines_of_a_long_file_keep_their_newlines():
    original = "".join(f"x{i}\r\n}}\n" for i in range(300))
    edited = to_lf(original).replace("x150\n", "new\n").replace("x20\n", "newer\n")
    assert restore_lines(original, edited) == original.replace("x150\r", "new\r").replace("x20\r", "newer\r")


@pytest.mark.parametrize("places", [(), (15_000,), (0, 29_999), (100, 15_000, 29_000)])
def test_a_long_file_of_equal_lines_is_compared_in_no_time(places):
    original = ["  0,\r\n"] * 30_000
    edited = ["  0,\n"] * 30_000
    for place in places:
        edited[place] = "  1,\n"
    restored = restore_lines("".join(original), "".join(edited))
    assert restored == "".join(edited).replace("\n", "\r\n")
    diff = unified_diff("".join(original), restored, "a.json")
    assert (diff.added, diff.removed) == (len(places), len(places))


def test_kept_lines_come_back_in_their_own_spelling_when_the_model_saw_another():
    decomposed, composed = "cafe\u0301\nx\n", "caf\u00e9\nx\n"
    assert restore_lines(decomposed, composed.replace("x", "y"), seen=composed) == decomposed.replace("x", "y")


def test_a_view_with_other_lines_is_ignored():
    assert restore_lines("a\r\nb\r\n", "a\nB\n", seen="a b\n") == "a\r\nB\r\n"


@pytest.mark.parametrize(
    ("text", "ending"), [("", "\n"), ("a", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a\r\nb\n", "\r\n")]
)
def test_the_common_newline_is_that_of_most_lines(text, ending):
    assert common_ending(text) == ending


@given(TEXT, TEXT)
def test_a_diff_applied_to_the_old_text_gives_the_new_one(old, new):
    diff = unified_diff(old, new, "f")
    assert apply(old, diff.text) == new
    assert (diff.text == "") == (old == new)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_diffs_of_plain_lines_are_those_of_the_standard_library(old, new):
    before, after = [line + "\n" for line in old], [line + "\n" for line in new]
    ours = unified_diff("".join(before), "".join(after), "f")
    theirs = list(difflib.unified_diff(before, after, "a/f", "b/f"))
    assert ours.text == "".join(theirs)
    assert ours.added == sum(line.startswith("+") for line in theirs[2:])
    assert ours.removed == sum(line.startswith("-") for line in theirs[2:])


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("f.py", "--- a/f.py\n"),
        ("/tmp/f.py", "--- a/tmp/f.py\n"),
        ("my file", "--- a/my file\t\n"),
        ("x\ny", '--- "a/x\\ny"\n'),
        ("é\x01\x7f\a", '--- "a/é\\001\\177\\a"\n'),
        ('a"b\\c', '--- "a/a\\"b\\\\c"\n'),
    ],
)
def test_the_header_names_the_file_as_git_does(path, label):
    assert unified_diff("a\n", "b\n", path).text.startswith(label)


@pytest.mark.parametrize("path", ["app.py", "./app.py", "sub/../app.py", "{here}/app.py", "../here/app.py"])
def test_the_header_names_a_file_from_the_folder_where_the_diff_is_applied(tmp_path, monkeypatch, path):
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    monkeypatch.chdir(here)
    diff = unified_diff("a\n", "b\n", path.format(here=here))
    assert diff.text.startswith("--- a/app.py\n+++ b/app.py\n")
    assert unified_diff("a\n", "b\n", "../app.py").text.startswith(f"--- a{tmp_path}/app.py\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_applies_the_diff_of_a_file_however_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("a\n")
    diff = unified_diff("a\n", "b\n", "./app.py").text
    subprocess.run(["git", "apply"], input=diff, text=True, check=True)
    assert (tmp_path / "app.py").read_text() == "b\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_applies_the_diff_of_a_file_with_any_character_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in (*range(1, 0x21), *b'"\\', 0x7F, 0xE9, 0x2028):
        if (name := f"x{chr(code)}y").isascii() or os.name != "nt":
            Path(name).write_text("a\n")
            diff = unified_diff("a\n", "b\n", name).text
            subprocess.run(["git", "apply"], input=diff.encode(), check=True)
            assert Path(name).read_text() == "b\n"


def apply(old: str, diff: str) -> str:
    """Apply a unified diff the plain way: copy up to each hunk, then follow its marks."""
    source = re.findall(r"[^\n]*\n|[^\n]+", old)
    result: list[str] = []
    position = 0
    body = re.sub(r"\n\\ No newline at end of file\n", "\0", diff)
    for line in re.findall(r"[^\n\0]*[\n\0]", body)[2:]:
        if header := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            start = int(header[1]) - (header[2] != "0")
            result += source[position:start]
            position = start
            continue
        mark, text = line[0], line[1:].replace("\0", "")
        if mark in " -":
            assert source[position] == text
            position += 1
        if mark in " +":
            result.append(text)
    return "".join(result + source[position:])
