"""Files of others, backups that are there already, and pipes: nothing of anybody's is lost."""

import os
from pathlib import Path

import pytest
from written_files import NEW, old_file, rewrite

from lookahead.cli import files
from lookahead.cli.errors import CommandError
from lookahead.cli.files import read_source, write_source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return old_file(tmp_path)


def test_a_backup_takes_the_place_of_nothing(file):
    (file.parent / "a.py~").mkdir()
    (file.parent / "a.py.~3~").write_bytes(b"theirs\n")
    kept = [write_source(read_source(str(file)), data, backup=True) for data in (NEW, b"newer\n", b"newest\n")]
    assert kept == [file.parent / name for name in ("a.py.~2~", "a.py.~4~", "a.py.~5~")]
    assert [path.read_bytes() for path in kept] == [b"old\n", NEW, b"newer\n"]
    assert (file.parent / "a.py.~3~").read_bytes() == b"theirs\n"


def test_a_backup_that_can_not_be_written_is_named(file, monkeypatch):
    def denied(*_, **__):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(files, "replace_file", denied)
    with pytest.raises(CommandError, match=r"its backup .*a.py~ can't be written: permission denied; nothing was"):
        rewrite(file, backup=True)
    assert file.read_bytes() == b"old\n"


@pytest.mark.parametrize("in_place", [False, True])
def test_no_backup_stays_of_a_file_that_was_not_written(file, monkeypatch, in_place):
    if in_place:
        os.link(file, file.parent / "b.py")
    before = sorted(file.parent.iterdir())
    fill = files._fill

    def full(descriptor, data):
        if data == NEW:
            raise OSError(28, "No space left on device")
        fill(descriptor, data)

    monkeypatch.setattr(files, "_fill", full)
    for _ in range(2):
        with pytest.raises(CommandError, match="no space left on device; nothing was changed"):
            rewrite(file, backup=True)
    assert (file.read_bytes(), sorted(file.parent.iterdir())) == (b"old\n", before)


def test_of_a_file_that_is_damaged_the_backup_stays_and_is_named(file, monkeypatch):
    os.link(file, file.parent / "b.py")
    fill = files._fill

    def broken(descriptor, data):
        if (file.parent / "a.py~").exists():
            os.write(descriptor, b"n")
            raise OSError(5, "Input/output error")
        fill(descriptor, data)

    monkeypatch.setattr(files, "_fill", broken)
    with pytest.raises(CommandError, match=r"input/output error. and is damaged; its old content is in .*a\.py~"):
        rewrite(file, backup=True)
    assert (file.parent / "a.py~").read_bytes() == b"old\n"


@pytest.mark.skipif(not hasattr(os, "getgroups"), reason="files have no groups here")
def test_a_file_of_a_group_that_is_not_ours_is_written_in_place(file, monkeypatch):
    if os.geteuid() == 0:
        os.chown(file, 7, 7)
    before = file.stat()
    monkeypatch.setattr(files.os, "geteuid", lambda: before.st_uid)
    monkeypatch.setattr(files.os, "getegid", lambda: before.st_gid + 1)
    monkeypatch.setattr(files.os, "getgroups", list)
    rewrite(file)
    assert (file.read_bytes(), file.stat().st_ino) == (NEW, before.st_ino)
    monkeypatch.setattr(files.os, "getgroups", lambda: [before.st_gid])
    rewrite(file, b"newer\n")
    assert (file.read_bytes(), file.stat().st_gid) == (b"newer\n", before.st_gid)
    assert file.stat().st_ino != before.st_ino


@pytest.mark.skipif(not hasattr(os, "chown"), reason="files have no owners here")
def test_a_file_whose_owner_a_new_one_can_not_have_is_written_in_place(file, monkeypatch):
    def denied(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "chown", denied)
    before = file.stat().st_ino
    rewrite(file, backup=True)
    assert (file.read_bytes(), file.stat().st_ino) == (NEW, before)
    assert (file.parent / "a.py~").read_bytes() == b"old\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["a.py", "a.py~"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no names here")
def test_a_pipe_is_read_where_that_is_wanted():
    """A shell's ``<(git diff)`` is /dev/fd/N, which is a link to no name."""
    reader, writer = os.pipe()
    os.write(writer, b"from a pipe\n")
    os.close(writer)
    with pytest.raises(CommandError, match="is not a regular file"):
        read_source(f"/dev/fd/{reader}")
    assert read_source(f"/dev/fd/{reader}", pipes=True).text == "from a pipe\n"
    os.close(reader)
