"""Whoever else writes a file while the command does: nothing of theirs is lost, and nobody is told what is not so."""

import os
import threading
import time
from pathlib import Path

import pytest
from written_files import NEW, old_file, rewrite

from lookahead import durable
from lookahead.cli import files
from lookahead.cli.errors import CommandError
from lookahead.cli.files import read_source, write_source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return old_file(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_changes_while_its_new_content_is_written_is_left_alone(file, monkeypatch):
    def meanwhile(*_, **__):
        file.write_bytes(b"theirs\n")

    source = read_source(str(file))
    monkeypatch.setattr(files, "_copy_metadata", meanwhile)
    with pytest.raises(CommandError, match="has changed on disk meanwhile"):
        write_source(source, NEW)
    assert (file.read_bytes(), names(file.parent)) == (b"theirs\n", ["a.py"])


def test_of_two_commands_on_one_file_the_second_finds_it_changed(file, monkeypatch):
    mine, theirs = read_source(str(file)), read_source(str(file))
    replace, said = os.replace, []

    def other() -> None:
        try:
            write_source(theirs, b"theirs\n")
        except CommandError as error:
            said.append(str(error))

    thread = threading.Thread(target=other)

    def meanwhile(*paths: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        thread.start()
        thread.join(timeout=0.5)  # it waits for the lock
        replace(*paths)

    monkeypatch.setattr(os, "replace", meanwhile)
    write_source(mine, NEW)
    thread.join()
    assert file.read_bytes() == NEW
    assert said == ["has changed on disk meanwhile and was left as it is: run the command again"]


def test_a_lock_that_somebody_else_keeps_stops_no_one(file, monkeypatch):
    monkeypatch.setattr(durable, "_PATIENCE", 0)
    with durable.locked(file.parent):
        rewrite(file)
    assert file.read_bytes() == NEW


def test_what_killed_writers_of_a_file_left_is_removed_after_an_hour(file):
    left = [file.with_name(name) for name in (".a.py.0.lookahead-tmp", ".b.py.0.lookahead-tmp", ".a.py.0.tmp")]
    for path in left:
        path.write_bytes(b"part")
        os.utime(path, (time.time() - 4000,) * 2)
    fresh = file.with_name(".a.py.1.lookahead-tmp")
    fresh.write_bytes(b"part")
    rewrite(file)
    assert names(file.parent) == sorted(path.name for path in (*left[1:], fresh, file))
