"""``edit`` shows, writes, checks and reports; the model is played by a script."""

import json

import pytest
from cli_fakes import DIFF, EDIT, NEW, OLD, STATS, answer, environment, failing, fenced, no_model, run

from lookahead.cli import session
from lookahead.cli.errors import CommandError
from lookahead.cli.main import main


def test_the_diff_goes_to_stdout_and_the_file_stays(file):
    done = run(*EDIT, file)
    assert done.status == 0
    assert done.stdout.decode() == f"--- a{file}\n+++ b{file}\n{DIFF}"
    assert file.read_text() == OLD
    assert done.stderr == (f"{file} would change (+1 -1); 9 tokens, 16.0 tokens/s; nothing was written, --write does\n")


@pytest.mark.parametrize("flag", ["-w", "--write", "-y", "--yes"])
def test_write_writes_without_asking(file, flag):
    done = run(*EDIT, flag, file, terminal=True)
    assert (done.status, file.read_text()) == (0, NEW)
    assert "written (+1 -1)" in done.stderr
    assert "Write it?" not in done.stderr


@pytest.mark.parametrize("reply", [b"y\n", b"Y\n", b"yes\n", b" yes \n"])
def test_a_yes_on_a_terminal_writes(file, reply):
    done = run(*EDIT, file, stdin=reply, terminal=True)
    assert (done.status, file.read_text()) == (0, NEW)
    assert done.stderr.endswith(f"Write it? [y,n,a,q,?] {file} written\n")


@pytest.mark.parametrize("reply", [b"", b"\n", b"n\n", b"no\n", b"q\n", b"yo\n", b"maybe\nnever\n"])
def test_anything_else_on_a_terminal_does_not(file, reply):
    done = run(*EDIT, file, stdin=reply, terminal=True)
    assert (done.status, file.read_text()) == (0, OLD)
    assert done.stderr.endswith(f"{file} left as it is\n")


def test_nobody_is_asked_when_the_diff_goes_to_a_file(file):
    surroundings = environment(b"y\n", terminal=True)
    surroundings.stdout_is_terminal = False
    assert main([*EDIT, str(file)], surroundings) == 0
    assert file.read_text() == OLD


def test_the_diff_is_shown_before_the_question(file):
    done = run(*EDIT, "--color", "never", file, stdin=b"n\n", terminal=True)
    assert done.stdout.decode().endswith(DIFF)


@pytest.mark.parametrize("flags", [["--diff"], ["--check"], ["--check", "--diff"], ["--json"], ["--json", "--check"]])
def test_no_other_mode_asks_or_writes(file, flags):
    done = run(*EDIT, *flags, file, stdin=b"y\n", terminal=True)
    assert "Write it?" not in done.stderr
    assert file.read_text() == OLD


def test_check_tells_by_its_exit_code_whether_a_file_would_change(file):
    assert run(*EDIT, "--check", file).status == 1
    assert run(*EDIT, "--check", file).stdout == b""
    assert run(*EDIT, "--check", "--diff", file).stdout.decode().endswith(DIFF)
    file.write_text(NEW)
    assert run(*EDIT, "--check", file).status == 0


def test_a_failure_counts_more_than_a_change(file, tmp_path):
    assert run(*EDIT, "--check", file, tmp_path / "missing").status == 3


def test_json_has_one_object_a_file(file, tmp_path):
    same = tmp_path / "same.py"
    same.write_text("x = 1\n")
    done = run(*EDIT, "--json", file, same, tmp_path / "missing")
    changed, unchanged, failed = map(json.loads, done.stdout.decode().splitlines())
    assert done.status == 3
    assert changed == {
        "path": str(file),
        "status": "changed",
        "reason": None,
        "added": 1,
        "removed": 1,
        "diff": f"--- a{file}\n+++ b{file}\n{DIFF}",
        "left_out": [],
        "syntax_error": None,
        "backup": None,
        "stats": STATS,
    }
    assert (unchanged["status"], unchanged["diff"], unchanged["stats"]) == ("unchanged", "", STATS)
    assert (failed["status"], failed["stats"]) == ("failed", None)
    assert failed["reason"] == "can't be read: no such file or directory"


def test_what_is_wrong_with_an_edit_is_said_and_written_where_that_is_wanted(file, editor):
    editor.inner = lambda path, text, instruction: answer(fenced("alpha = (\n"))
    assert "breaks the syntax (line 1: '(' was never closed): look at the diff" in run(*EDIT, file).stderr
    assert json.loads(run(*EDIT, "--json", file).stdout)["syntax_error"] == "line 1: '(' was never closed"
    assert "breaks the syntax" in run(*EDIT, "-w", file).stderr
    assert file.read_text() == "alpha = (\n"


def test_stdin_beside_other_files_does_not_mix_with_their_diffs(file, editor):
    for flags in ([], ["-w"]):
        done = run(*EDIT, *flags, "-", file, stdin=b"beta\n")
        assert (done.status, done.stdout, file.read_text(), editor.calls) == (2, b"", OLD, [])
        assert "stdin is edited to stdout, where diffs of other files go too" in done.stderr
    assert len(run(*EDIT, "--json", "-", file, stdin=b"beta\n").stdout.splitlines()) == 2
    assert run(*EDIT, "--diff", "-", file, stdin=b"beta\n").stdout.count(b"--- a/") == 2


def test_json_with_write_says_written(file):
    done = run(*EDIT, "--json", "-w", file)
    assert json.loads(done.stdout)["status"] == "written"
    assert file.read_text() == NEW


BAD_ANSWERS = {
    "cut": (answer("````\nx\n````", cut=True), "--max-new-tokens"),
    "empty": (answer(""), "no complete code block"),
    "refusal": (answer("Sorry, I can't."), "no complete code block"),
    "open": (answer("````\nalpha"), "no complete code block"),
    "two": (answer(fenced("a\n") + fenced("b\n")), "2 code blocks"),
    "blank": (answer(fenced("\n")), "is empty"),
    "elision": (answer(fenced("alpha = 1\n# ... rest of the code unchanged\n")), "leaves code out"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_fails_its_file_and_writes_nothing(file, editor, name):
    bad, reason = BAD_ANSWERS[name]
    editor.inner = lambda path, text, instruction: bad
    done = run(*EDIT, "-w", file)
    assert (done.status, done.stdout, file.read_text()) == (3, b"", OLD)
    assert done.stderr.startswith(f"error: {file}: the answer")
    assert reason in done.stderr
    assert done.stderr.endswith(" (9 tokens, 16.0 tokens/s)\n")
    assert done.stderr.count("\n") == 1
    record = json.loads(run(*EDIT, "-w", "--json", file).stdout)
    assert (record["status"], record["diff"], record["stats"]) == ("failed", "", STATS)


@pytest.mark.parametrize("error", [CommandError("is larger than the model's context: split it"), RuntimeError("boom")])
def test_a_failed_generation_does_not_stop_the_other_files(file, editor, tmp_path, error):
    other = tmp_path / "b.py"
    other.write_text(OLD)
    inner = editor.inner
    editor.inner = lambda path, *rest: (failing(error) if path == str(file) else inner)(path, *rest)
    done = run(*EDIT, "-w", file, other)
    assert (done.status, file.read_text(), other.read_text()) == (3, OLD, NEW)
    assert str(error) in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where_a_generation_failed(file, editor):
    editor.inner = failing(RuntimeError("boom"))
    assert "Traceback" in run(*EDIT, file, variables={"SPECDEC_LOOKUP_DEBUG": "1"}).stderr


def test_the_file_from_stdin_may_have_a_name(editor):
    done = run(*EDIT, "-", "--stdin-filename", "src/x.py", "--diff", stdin=b"beta\n")
    assert editor.calls[0][0] == "src/x.py"
    assert done.stdout.startswith(b"--- a/src/x.py\n+++ b/src/x.py\n")
    assert run(*EDIT, "-", "--stdin-filename", "x.py", stdin=b"beta\n").stdout == b"gamma\n"
    assert json.loads(run(*EDIT, "-", "--json", "--stdin-filename", "x.py", stdin=b"beta\n").stdout)["path"] == "x.py"


def test_no_model_is_loaded_when_no_file_can_be_read(tmp_path, monkeypatch):
    loads = []
    monkeypatch.setattr(session, "load_editor", lambda *args: loads.append(args))
    assert run(*EDIT, tmp_path / "missing").status == 3
    assert loads == []


def test_without_a_model_the_command_says_so_once(file, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "load_editor", no_model)
    done = run(*EDIT, "-w", file, tmp_path / "missing", file.parent / "." / "a.py")
    assert (done.status, file.read_text(), done.stdout) == (3, OLD, b"")
    assert done.stderr.count("there is no model at x") == 1
    assert done.stderr.count("no such file") == 1
    records = [json.loads(line) for line in run(*EDIT, "--json", file, tmp_path / "missing").stdout.splitlines()]
    assert [record["status"] for record in records] == ["failed", "failed"]
    assert "there is no model at x" in records[0]["reason"]


def test_stdin_is_edited_to_stdout(editor):
    done = run(*EDIT, "-", stdin=b"beta\r\nx")
    assert (done.status, done.stdout) == (0, b"gamma\r\nx")
    assert run(*EDIT, "-", stdin=b"x\n").stdout == b"x\n"
    assert run(*EDIT, "--check", "-", stdin=b"beta\n").status == 1
    assert run(*EDIT, "--diff", "-", stdin=b"beta\n").stdout == b"--- a/-\n+++ b/-\n@@ -1 +1 @@\n-beta\n+gamma\n"
    assert json.loads(run(*EDIT, "--json", "-", stdin=b"beta\n").stdout)["status"] == "changed"


def test_stdin_that_fails_gives_no_output(editor):
    editor.inner = lambda *call: answer("no")
    done = run(*EDIT, "-", stdin=b"beta\n")
    assert (done.status, done.stdout) == (3, b"")


def test_the_instruction_may_come_from_a_file_or_stdin(file, editor, tmp_path):
    (tmp_path / "todo").write_text("From a file\n")
    run("edit", "--instruction-file", tmp_path / "todo", file)
    run("edit", "--instruction-file", "-", file, stdin="Fröm stdin".encode())
    assert [call[2] for call in editor.calls] == ["From a file\n", "Fröm stdin"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "there is no instruction"),
        (["-i", " "], "the instruction is empty"),
        (["--instruction-file", "no/such"], "can't be read"),
        (["--instruction-file", "bytes"], "is not UTF-8"),
        (["-i", "x", "--instruction-file", "bytes"], "not allowed with"),
        (["-i", "x", "-w", "--diff"], "--write contradicts"),
        (["-i", "x", "-w", "--check"], "--write contradicts"),
        (["-i", "x", "--stdin-filename", "x.py"], "give - as FILE"),
        (["-i", "x", ""], "one FILE is empty"),
        (["-i", "x", "--trace", "no/such/t"], "name a file in a folder that exists"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(file, editor, monkeypatch, argv, reason):
    monkeypatch.chdir(file.parent)
    (file.parent / "bytes").write_bytes(b"\xff")
    done = run("edit", "a.py", *argv)
    assert (done.status, done.stdout, editor.calls) == (2, b"", [])
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_stdin_is_not_both_file_and_instruction(editor):
    done = run("edit", "-", "--instruction-file", "-", stdin=b"x\n")
    assert done.status == 2
    assert "stdin can't be both" in done.stderr


def test_colour_is_for_terminals_unless_wanted_otherwise(file):
    def colored(*flags, **surroundings):
        return b"\x1b[32m+gamma = 2\x1b[0m\n" in run(*EDIT, "--diff", *flags, file, **surroundings).stdout

    assert colored(terminal=True)
    assert colored("--color", "always")
    assert not colored()
    assert not colored("--color", "never", terminal=True)
    assert not colored(terminal=True, variables={"NO_COLOR": "1"})
    assert not colored(terminal=True, variables={"TERM": "dumb"})
    assert colored("--color", "always", variables={"NO_COLOR": "1"})


def test_the_names_of_a_file_have_one_colour_whatever_they_are(file):
    odd = file.rename(file.parent / "a@@b.py")
    shown = run(*EDIT, "--color", "always", odd).stdout.decode()
    assert shown.startswith(f"\x1b[1m--- a{odd}\x1b[0m\n\x1b[1m+++ b{odd}\x1b[0m\n\x1b[36m@@ ")


def test_an_interrupt_ends_with_130_and_the_file_untouched(file, editor):
    editor.inner = failing(KeyboardInterrupt())
    done = run(*EDIT, "-w", file)
    assert (done.status, file.read_text()) == (130, OLD)
    assert done.stderr == "interrupted\n"
