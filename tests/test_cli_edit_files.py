"""``edit`` and the files: only the edit changes them, whatever they are like; the model is played by a script."""

import json
import os
import shutil
import subprocess

import pytest
from cli_fakes import EDIT, NEW, OLD, run


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


def test_every_backup_stays_and_is_named(file):
    run(*EDIT, "-w", "--backup", file)
    second = file.parent / "a.py.~2~"
    file.write_text("beta = 3\n")
    done = run(*EDIT, "--backup", file, stdin=b"y\n", terminal=True)
    assert done.stderr.endswith(f"{file} written; the old content is in {second}\n")
    assert ((file.parent / "a.py~").read_text(), second.read_text()) == (OLD, "beta = 3\n")
    file.write_text("beta = 4\n")
    done = run(*EDIT, "-w", "--backup", "--json", file)
    assert json.loads(done.stdout)["backup"] == str(file.parent / "a.py.~3~")


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


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_file_that_git_ignores_is_warned_of_like_a_new_one(repository):
    (repository / ".gitignore").write_text("out/\n*.log\n")
    (repository / "out").mkdir()
    for name in ("out/a.py", "b.log"):
        (repository / name).write_text(OLD)
        assert "holds changes that no commit has" in run(*EDIT, "-w", repository / name).stderr


def test_a_file_with_two_names_is_edited_once(file, editor):
    (file.parent / "b.py").hardlink_to(file)
    done = run(*EDIT, "-w", file.parent)
    assert (done.status, len(editor.calls), file.read_text()) == (0, 1, NEW)


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
