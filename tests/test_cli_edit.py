"""``edit`` shows, writes, checks and reports; the model is played by a script."""

import json
import os
import shutil
import subprocess

import pytest
from cli_fakes import STATS, Recorder, answer, environment, failing, fenced, no_model, replacing, run

from lookahead.cli import session
from lookahead.cli.errors import CommandError
from lookahead.cli.main import main

OLD = "alpha = 1\nbeta = 2\n"
NEW = "alpha = 1\ngamma = 2\n"
DIFF = "@@ -1,2 +1,2 @@\n alpha = 1\n-beta = 2\n+gamma = 2\n"
EDIT = ("edit", "-i", "Rename beta to gamma")


@pytest.fixture
def editor(monkeypatch):
    """A perfect model for the instruction; tests may put another one inside."""
    recorder = Recorder(replacing("beta", "gamma"))
    monkeypatch.setattr(session, "load_editor", lambda args, console, trace: recorder)
    return recorder


@pytest.fixture
def file(tmp_path, editor):
    path = tmp_path / "a.py"
    path.write_text(OLD)
    return path


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
        "stats": STATS,
    }
    assert (unchanged["status"], unchanged["diff"], unchanged["stats"]) == ("unchanged", "", STATS)
    assert (failed["status"], failed["stats"]) == ("failed", None)
    assert failed["reason"] == "can't be read: no such file or directory"


def test_json_with_write_says_written(file):
    done = run(*EDIT, "--json", "-w", file)
    assert json.loads(done.stdout)["status"] == "written"
    assert file.read_text() == NEW


def test_an_unchanged_file_keeps_its_time(file):
    file.write_text(NEW)
    before = file.stat()
    done = run(*EDIT, "-w", file)
    assert (done.status, done.stdout) == (0, b"")
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert "stays the same" in done.stderr


def test_backup_keeps_the_old_content(file):
    run(*EDIT, "-w", "--backup", file)
    assert (file.parent / "a.py~").read_text() == OLD


def test_the_model_sees_plain_newlines_and_the_file_keeps_its_own(file, editor):
    file.write_bytes(b"\xef\xbb\xbfalpha\r\nbeta\nlast")
    run(*EDIT, "-w", file)
    assert editor.calls == [(str(file), "alpha\nbeta\nlast", "Rename beta to gamma")]
    assert file.read_bytes() == b"\xef\xbb\xbfalpha\r\ngamma\nlast"


def test_the_diff_of_a_file_with_carriage_returns_is_verbatim(file):
    file.write_bytes(b"[i]beta[/i]\r\n")
    assert run(*EDIT, file).stdout.endswith(b"-[i]beta[/i]\r\n+[i]gamma[/i]\r\n")


MATRIX = {
    "LF": b"alpha\nbeta\n",
    "CRLF": b"alpha\r\nbeta\r\n",
    "mixed": b"alpha\r\nbeta\nalpha\rbeta\r\n",
    "lone CR": b"alpha\rbeta\ralpha\r",
    "BOM": b"\xef\xbb\xbfbeta\n",
    "BOM and CRLF": b"\xef\xbb\xbfbeta\r\nalpha\r\n",
    "no final newline": b"alpha\nbeta",
    "CRLF without the last": b"beta\r\nbeta",
    "blank lines at the end": b"beta\n\n\n",
    "form feed and separators": "beta\x0calpha\u2028beta\x85\n".encode(),
}


@pytest.mark.parametrize("how", ["plain", "symlink", "hard link", "read-only folder", "mode"])
@pytest.mark.parametrize("kind", MATRIX)
def test_whatever_a_file_is_like_only_the_edit_changes_it(file, kind, how, monkeypatch):
    data = MATRIX[kind]
    file.write_bytes(data)
    file.chmod(0o751)
    named = file.parent / "other name"
    if how == "symlink":
        named.symlink_to("a.py")
    elif how == "hard link":
        named.hardlink_to(file)
    elif how == "read-only folder":
        real_access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: path != file.parent and real_access(path, mode))
    done = run(*EDIT, "-w", named if how in ("symlink", "hard link") else file)
    assert (done.status, file.read_bytes()) == (0, data.replace(b"beta", b"gamma"))
    assert file.stat().st_mode & 0o777 == 0o751
    assert named.is_symlink() == (how == "symlink")
    assert {path.name for path in file.parent.iterdir()} <= {"a.py", "other name"}


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


BAD_FILES = {
    "missing": (None, "no such file"),
    "binary": (b"a\0b", "is binary"),
    "latin": (b"caf\xe9\n", "is not UTF-8"),
    "empty": (b"", "is empty"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_fails_in_one_sentence_and_the_others_go_on(file, tmp_path, name):
    data, reason = BAD_FILES[name]
    bad = tmp_path / "bad"
    if data is not None:
        bad.write_bytes(data)
    done = run(*EDIT, "-w", bad, file)
    assert (done.status, file.read_text()) == (3, NEW)
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"error: {bad}: ")
    assert reason in first
    assert not bad.exists() or bad.read_bytes() == data


def test_a_folder_stands_for_its_files(file, editor, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text(OLD)
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "c.log").write_text(OLD)
    done = run(*EDIT, "-w", "--include", "*.py", "--include", "*.txt", tmp_path)
    assert done.status == 0
    assert [call[0] for call in editor.calls] == [str(file), str(tmp_path / "sub" / "b.txt")]
    assert (tmp_path / "c.log").read_text() == OLD


def test_a_folder_with_nothing_to_edit_is_an_error(tmp_path, editor):
    done = run(*EDIT, tmp_path)
    assert done.status == 3
    assert "is a folder in which no text file is to be edited: look at --include and at .gitignore" in done.stderr


@pytest.fixture
def repository(file):
    for call in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", file.parent, *call], check=True)
    return file.parent


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_uncommitted_changes_are_warned_of_where_they_would_be_overwritten(repository, file):
    assert "warning" not in run(*EDIT, "-w", file).stderr
    done = run("edit", "-i", "x", "-w", file)
    assert done.stderr.startswith(f"warning: {file} holds changes that no commit has; --backup keeps the old content")
    new = repository / "sub" / "new [1].py"
    new.parent.mkdir()
    new.write_text(OLD)
    assert f"{file}, {new} hold changes" in run(*EDIT, file, new, stdin=b"n\n", terminal=True).stderr
    for flags in (["--diff"], ["--check"], ["-w", "--backup"]):
        assert "warning" not in run(*EDIT, *flags, new).stderr


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


def test_a_file_named_twice_is_edited_once(file, editor):
    (file.parent / "link").symlink_to("a.py")
    run(*EDIT, "-w", file, file.parent / ".." / file.parent.name / "a.py", file.parent / "link")
    assert len(editor.calls) == 1


def test_a_file_that_changes_meanwhile_is_left_alone(file, editor):
    inner = editor.inner

    def slow(*call):
        file.write_text("theirs\n")
        return inner(*call)

    editor.inner = slow
    done = run(*EDIT, "-w", file)
    assert (done.status, file.read_text()) == (3, "theirs\n")
    assert "has changed on disk meanwhile" in done.stderr


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


def test_an_interrupt_ends_with_130_and_the_file_untouched(file, editor):
    editor.inner = failing(KeyboardInterrupt())
    done = run(*EDIT, "-w", file)
    assert (done.status, file.read_text()) == (130, OLD)
    assert done.stderr == "interrupted\n"
