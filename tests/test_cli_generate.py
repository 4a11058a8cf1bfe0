"""``generate`` streams what the model writes, and nothing else, to stdout; run on the embedded model."""

import json

import pytest
from cli_fakes import run

from lookahead.cli import models
from lookahead.cli.generation import STATISTICS

QUESTION = "What is the capital of France?"
COUNT = "one two three four one two three four one two"
ANSWER = b"The capital of France is Paris."


@pytest.fixture(scope="module")
def loaded():
    return models.load(models.ModelOptions())


@pytest.fixture(autouse=True)
def _loaded_once(loaded, monkeypatch):
    monkeypatch.setattr(models, "load", lambda *_, **__: loaded)


def test_the_answer_streams_to_stdout():
    done = run("generate", QUESTION)
    assert (done.status, done.stdout, done.stderr) == (0, ANSWER, "")


def test_the_prompt_may_come_from_a_file_or_stdin(tmp_path):
    (tmp_path / "prompt").write_text(COUNT)
    short = ("generate", "--raw", "--max-new-tokens", 2)
    for argv, stdin in ((["--file", tmp_path / "prompt"], ""), (["-"], COUNT), (["--file", "-"], COUNT)):
        assert run(*short, *argv, stdin=stdin.encode()).stdout == b" three four"


def test_on_a_terminal_the_answer_ends_its_line():
    done = run("generate", "--raw", COUNT, "--max-new-tokens", 2, terminal=True)
    assert done.stdout == b" three four\n"


def test_stats_go_to_stderr():
    done = run("generate", "--raw", COUNT, "--max-new-tokens", 4, "--stats")
    assert done.stdout == b" three four one two"
    assert "tokens/s" in done.stderr
    assert "tokens per step" in done.stderr


def test_json_has_text_reason_and_statistics():
    record = json.loads(run("generate", QUESTION, "--json").stdout)
    assert record["text"].encode() == ANSWER
    assert record["finish_reason"] == "stop"
    assert tuple(record["stats"]) == STATISTICS
    assert record["stats"]["generated_tokens"] == 8
    assert json.loads(run("generate", QUESTION, "--json", "--max-new-tokens", 3).stdout)["finish_reason"] == "length"


def test_lookup_changes_the_steps_and_not_the_text():
    argv = ("generate", "--raw", COUNT, "--max-new-tokens", 12, "--json")
    sooner, plain = json.loads(run(*argv).stdout), json.loads(run(*argv, "--no-lookup").stdout)
    assert sooner["text"] == plain["text"]
    assert sooner["stats"]["steps"] < plain["stats"]["steps"]
    assert plain["stats"]["draft_tokens"] == 0


def test_a_seed_repeats_a_sample():
    argv = ("generate", "Name a colour.", "--temperature", "1.5", "--max-new-tokens", 6, "--seed")
    assert run(*argv, 1).stdout == run(*argv, 1).stdout
    assert run(*argv, 1).stdout != run(*argv, 2).stdout


@pytest.mark.parametrize(
    ("argv", "stdin", "reason"),
    [
        (["--file", "missing"], b"", "the prompt file missing can't be read"),
        (["-"], b"\xff", "is not UTF-8"),
        (["--raw", "word " * 9000], b"", "the prompt is larger than the model's context"),
    ],
)
def test_a_prompt_that_cannot_be_used_fails_in_one_sentence(argv, stdin, reason):
    done = run("generate", *argv, stdin=stdin)
    assert (done.status, done.stdout) == (3, b"")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_edit_asks_the_model_and_reports_its_figures(tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(b'{\r\n  "name": "demo",\r\n  "port": 80\r\n}')
    done = run("edit", "-i", "Change the port to 8080.", "--json", "-w", path)
    record = json.loads(done.stdout)
    assert (done.status, record["status"]) == (0, "written")
    assert path.read_bytes() == b'{\r\n  "name": "demo",\r\n  "port": 8080\r\n}'
    assert tuple(record["stats"]) == STATISTICS
    assert record["stats"]["accepted_tokens"] > 10


def test_edit_refuses_a_file_larger_than_the_context(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = [1, 2, 3]\n" * 1000)
    done = run("edit", "-i", "Sort it.", path)
    assert done.status == 3
    assert f"error: {path}: is larger than the model's context" in done.stderr


def test_edit_refuses_an_answer_cut_at_the_limit(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\ny = 2\n")
    done = run("edit", "-w", "-i", "Rename x to z.", "--max-new-tokens", 4, path)
    assert (done.status, path.read_text()) == (3, "x = 1\ny = 2\n")
    assert "cut at the token limit: raise --max-new-tokens" in done.stderr
