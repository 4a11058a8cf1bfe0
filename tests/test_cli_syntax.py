"""An edit that leaves a file its own language can't read is said to."""

import sys

import pytest

from lookahead.cli.syntax import syntax_error


@pytest.mark.parametrize(
    ("path", "before", "after", "error"),
    [
        ("a.py", "x = 1\n", "x = 2\n\ndef f(:\n", "line 3: "),
        ("A.PY", "x = 1\n", "if x:\n", "line 1: expected an indented block"),
        ("a.pyi", "x: int\n", "x: int\n  y: int\n", "line 2: unexpected indent"),
        ("a.json", '{"a": 1}', '{\n"a": 1,\n}', "line "),
        ("a.ipynb", '{"a": 1}', '{\n"a": 1,\n}', "line "),
    ],
)
def test_what_could_be_read_and_can_no_longer_is_said(path, before, after, error):
    assert syntax_error(path, before, after).startswith(error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="nothing here reads TOML")
def test_toml_is_read_too():
    assert "line 2" in syntax_error("a.toml", "a = 1\n", "a = 1\nb = \n")
    assert syntax_error("a.toml", "a = 1\n", "a = 2\n") is None


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "x = 1\n", "x = 2\n"),
        ("a.py", "print 'two'\n", "print 'three'\n"),
        ("a.py", "x = '\\d' is 1\n", "y = '\\d' is 1\n"),
        ("tsconfig.json", "// a comment\n{}\n", "// a comment\n{,}\n"),
        ("a.txt", "x", "def f(:"),
        ("-", "x", "def f(:"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_other_files(path, before, after):
    assert syntax_error(path, before, after) is None


def test_a_file_that_is_nested_too_deeply_to_read_is_no_trouble():
    assert syntax_error("a.json", "[]", "[" * 100_000) is not None
    assert syntax_error("a.json", "[" * 100_000, "[]") is None
