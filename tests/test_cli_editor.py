"""The editor plans an answer that the context has room for, and large files come out exactly as a rule says."""

from types import SimpleNamespace

import pytest
from cli_fakes import environment, run
from cli_scripted import ScriptedGenerator, WordTokenizer
from large_files import FORMS, check_all

from lookahead.cli import models, session
from lookahead.cli.console import Console
from lookahead.cli.editor import ModelEditor, read_references
from lookahead.cli.errors import CommandError
from lookahead.cli.prompts import Reference
from lookahead.cli.reasoning import answer_start

FILE = "".join(f"name_{number} = {number}\n" for number in range(400))


def size(text: str) -> int:
    return len(WordTokenizer()(text)["input_ids"])


def editor(context_length=None, form="auto", context=(), rule=lambda text: text.replace("name_7 ", "other ")):
    surroundings = environment()
    generator = ScriptedGenerator(rule, context_length)
    return ModelEditor(generator, Console(surroundings), None, form, context), generator, surroundings.stderr


@pytest.mark.parametrize(
    ("context_length", "form", "blocks"),
    [
        (None, "auto", False),
        (None, "whole", False),
        (None, "blocks", True),
        (10_000, "auto", False),
        (size(FILE) + 700, "auto", True),
    ],
)
def test_blocks_are_asked_for_where_the_file_does_not_fit_twice(context_length, form, blocks):
    edit, generator, _ = editor(context_length, form)
    answer = edit("a.py", FILE, "Rename it.")
    assert answer.blocks == blocks
    assert ("SEARCH" in generator.prompts[0]) == blocks
    assert ("prediction" in generator.arguments[0]["lookup"]) != blocks


@pytest.mark.parametrize(
    ("form", "context_length"), [("whole", size(FILE) + 700), ("auto", size(FILE)), ("blocks", 300)]
)
def test_what_fits_in_no_way_is_refused(form, context_length):
    edit, _, _ = editor(context_length, form)
    with pytest.raises(CommandError, match="larger than the model's context"):
        edit("a.py", FILE, "Rename it.")


SMALL, LARGE = Reference("small.py", "y = 1\n"), Reference("large.py", "z = 2\n" * 2000)


def test_files_for_reference_that_do_not_fit_are_only_copied_from_and_that_is_said_once():
    edit, generator, stderr = editor(7_000, context=[SMALL, LARGE])
    for _ in range(2):
        edit("a.py", FILE, "Rename it.")
    for prompt, arguments in zip(generator.prompts, generator.arguments, strict=True):
        assert "y = 1" in prompt
        assert "z = 2" not in prompt
        assert [len(ids) for ids in arguments["lookup"]["references"]] == [size(LARGE.text)]
    assert stderr.getvalue() == "large.py does not fit into the context: it is only copied from\n"


def test_many_files_for_reference_are_tokenised_once_and_spoken_of_in_one_sentence(monkeypatch):
    many = [Reference(f"{number}.py", f"z = {number}\n" * 200) for number in range(60)]
    read = []
    tokenise = WordTokenizer.__call__
    monkeypatch.setattr(
        WordTokenizer, "__call__", lambda self, text, **rest: read.append(text) or tokenise(self, text, **rest)
    )
    edit, generator, stderr = editor(7_000, context=many)
    for _ in range(2):
        edit("a.py", FILE, "Rename it.")
    assert "z = 1\n" in generator.prompts[0]
    assert sum(map(len, read)) < 8 * sum(len(reference.text) for reference in many)
    assert stderr.getvalue().count("\n") == 1
    assert " of 60 files for reference do not fit into the context: they are only copied from" in stderr.getvalue()


def test_all_files_for_reference_are_read_where_they_fit():
    edit, generator, stderr = editor(context=[SMALL, LARGE])
    edit("a.py", FILE, "Rename it.")
    assert "z = 2" in generator.prompts[0]
    assert generator.arguments[0]["lookup"]["references"] == []
    assert stderr.getvalue() == ""


@pytest.fixture
def scripted(monkeypatch):
    """The command with a scripted model; returns what made the editor."""
    made = SimpleNamespace(generator=None)

    def load(args, console, trace):

        made.generator = ScriptedGenerator(lambda text: text.replace("beta", "gamma"))
        return ModelEditor(
            made.generator, console, args.max_new_tokens, args.format, read_references(args.context or [])
        )

    monkeypatch.setattr(session, "load_editor", load)
    return made


def test_blocks_keep_the_files_own_newlines_and_its_missing_last_one(scripted, tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfalpha\r\nbeta\rmixed\nlast beta")
    done = run("edit", "-w", "-i", "x", "--format", "blocks", path)
    assert (done.status, path.read_bytes()) == (0, b"\xef\xbb\xbfalpha\r\ngamma\rmixed\nlast gamma")


def test_the_context_option_takes_files_and_folders_and_writes_none_of_them(scripted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "lib/b.py", "lib/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"beta of {name}\n")
    assert run("edit", "a.py", "-w", "-i", "x", "--context", "lib", "a.py").status == 0
    assert "lib/b.py:\n```python\nbeta of lib/b.py\n```" in scripted.generator.prompts[0]
    assert scripted.generator.prompts[0].count("beta of a.py") == 1  # not for reference too
    assert (tmp_path / "lib/b.py").read_text() == "beta of lib/b.py\n"
    missing = run("edit", "a.py", "-i", "x", "--context", "missing.py")
    assert (missing.status, missing.stdout) == (3, b"")
    assert missing.stderr == "error: the file for reference missing.py can't be read: no such file or directory\n"


def test_reasoning_that_ends_with_a_control_token_is_cut_off():
    added = {
        3: SimpleNamespace(content="<|message|>", special=True),
        4: SimpleNamespace(content="</think>", special=False),
    }
    tokenizer = SimpleNamespace(added_tokens_decoder=added)
    assert answer_start(tokenizer, [1, 3, 2, 3, 5, 4, 6]) == 4
    assert answer_start(tokenizer, [1, 2, 4]) == 0
    assert answer_start(SimpleNamespace(), [3]) == 0


def modules(count: int, lines: int):
    for number in range(count):
        body = "".join(
            f"def function_{number}_{line}(argument):\n    '''Café {line}.'''\n    return argument + {line % 10}\n\n"
            for line in range(lines)
        )
        yield f"module_{number}.py", body + ("" if number % 2 else "# end without a newline")


@pytest.mark.parametrize("form", FORMS)
def test_large_files_come_out_exactly_as_the_rule_says(form):
    tally = check_all(modules(4, 120), form)
    assert (tally.exact, tally.files) == (4, 4)
    assert tally.characters > 30_000


def test_the_editor_is_what_edits_where_no_model_is_named(monkeypatch, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    asked = []

    def load(options, console, default):
        asked.append((options.model, default))
        raise CommandError("enough")

    monkeypatch.setattr(models, "load", load)
    assert run("edit", "-i", "Rename x to y.", tmp_path / "a.py").status != 0
    assert asked == [(None, models.editor_model_path)]
