"""Help is a manual page: whole, true, as wide as the terminal, and its examples are commands that parse."""

import argparse
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_fakes import run

from lookahead.cli import main
from lookahead.cli.completion import SHELLS, completion_script


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every subcommand with the text behind its options."""
    yield path, parser.epilog or ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands(inner, (*path, name))


COMMANDS = dict(commands(main.build_parser()))


def examples(text: str) -> list[list[str]]:
    """The calls of the command in the examples, without what a shell takes out of them."""
    calls = []
    for line in re.findall(r"^  (.*specdec-lookup.*)$", text, re.MULTILINE):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for part in " ".join(map(shlex.quote, words)).split("'&&'"):
            call = re.split(r" '(?:\||<|>|>>)'(?: |$)", part.strip())
            calls += [shlex.split(piece)[1:] for piece in call if piece.startswith("specdec-lookup ")]
    return calls


EXAMPLES = [call for text in COMMANDS.values() for call in examples(text)]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_a_page_with_examples_and_exit_codes(path):
    done = run(*path, "--help")
    page = done.stdout.decode()
    assert (done.status, done.stderr) == (0, "")
    assert page.startswith(f"usage: {' '.join(['specdec-lookup', *path])}")
    assert "\nexamples:\n  " in page
    assert "exit codes: 0 done" in page
    assert examples(COMMANDS[path])


@pytest.mark.parametrize("call", EXAMPLES, ids=" ".join)
def test_every_example_is_a_command_that_parses(call, monkeypatch):
    monkeypatch.chdir("/")
    parsed = main.build_parser().parse_args(call)
    assert parsed.command == call[0]


@pytest.mark.parametrize(
    ("call", "name", "values"),
    [
        ("edit a.py -i x b.py --json - c.py", "files", ["a.py", "b.py", "-", "c.py"]),
        ("edit a.py -i x b.py -- -c.py", "files", ["a.py", "b.py", "-c.py"]),
        ("edit -i x -- a.py -b.py", "files", ["a.py", "-b.py"]),
        ("replay a --json b", "files", [Path("a"), Path("b")]),
        ("memory build s --json a --force b", "paths", [Path("a"), Path("b")]),
        ("memory forget s --json a b", "documents", ["a", "b"]),
    ],
)
def test_options_may_stand_between_names(call, name, values):
    assert getattr(main.build_parser().parse_args(call.split()), name) == values


def test_there_are_examples_of_every_kind():
    assert {call[0] for call in EXAMPLES} == {path[0] for path in COMMANDS if path}
    assert len(EXAMPLES) > 25


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_paragraphs_fill_the_width_there_is(monkeypatch, path, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*path, "--help").stdout.decode().splitlines()
    prose = [line for line in lines if line and not line.startswith(" ")]
    assert max(map(len, prose)) <= min(columns, 100)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_completion_for_every_shell(shell):
    done = run("completion", shell)
    assert (done.status, done.stderr) == (0, "")
    for word in ("edit", "report", "--context", "--trace", "bfloat16"):
        assert word in done.stdout.decode()
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.stdout, capture_output=True).returncode == 0


def test_zsh_completes_every_one_of_several_files():
    script = completion_script("zsh")
    assert '"(*):' not in script
    assert script.count('"*:') >= 4  # edit, replay, memory build and add


@pytest.mark.parametrize(
    ("command", "name"), [("edit", "smollm2-editor"), ("generate", "smollm2"), ("doctor", "smollm2")]
)
def test_the_help_names_the_embedded_models_and_which_is_the_default(command, name):
    page = " ".join(run(command, "--help").stdout.decode().split())
    assert f"smollm2-editor (the same, taught small edits) (default: $SPECDEC_LOOKUP_MODEL, else {name})" in page


COMPLETE = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
$(complete -p specdec-lookup | sed 's/.*-F \\([^ ]*\\).*/\\1/') specdec-lookup "${{COMP_WORDS[COMP_CWORD]}}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("specdec-lookup ed", ["edit"]),
        ("specdec-lookup edit --back", ["--backup"]),
        ("specdec-lookup edit --format b", ["blocks"]),
        ("specdec-lookup bench gen", ["generate"]),
        ("specdec-lookup report app.t", ["app.trace"]),
        ("specdec-lookup edit --context app.t", ["app.trace"]),
        ("specdec-lookup edit --model app.t", ["app.trace"]),
        ("specdec-lookup completion z", ["zsh"]),
    ],
)
def test_bash_completes(tmp_path, words, completed):
    (tmp_path / "app.trace").write_text("")
    script = completion_script("bash") + COMPLETE.format(words=words)
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == completed
