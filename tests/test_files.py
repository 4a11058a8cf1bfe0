"""Whatever a file is like, writing it changes its content and nothing else, or nothing at all."""

import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from written_files import NEW, old_file, rewrite

from lookahead.cli import files
from lookahead.cli.errors import CommandError, UsageError
from lookahead.cli.files import check_new, decode_bytes, read_source, write_new, write_source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return old_file(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("data", "decoded"),
    [
        (b"a\nb\n", ("a\nb\n", "utf-8", "\n")),
        (b"a\r\nb\r\n", ("a\r\nb\r\n", "utf-8", "\r\n")),
        (b"a\rb\r", ("a\rb\r", "utf-8", "\r")),
        (b"a\r\nb\r\nc\n", ("a\r\nb\r\nc\n", "utf-8", "\r\n")),
        (b"\xef\xbb\xbfa", ("a", "utf-8-sig", "\n")),
        ("é \u2028 \x0c".encode(), ("é \u2028 \x0c", "utf-8", "\n")),
        (b"", ("", "utf-8", "\n")),
    ],
)
def test_bytes_become_text_encoding_and_newline(data, decoded):
    assert decode_bytes(data) == decoded
    assert decode_bytes(data).text.encode(decode_bytes(data).encoding) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0", "is binary"),
        ("a".encode("utf-16"), "is binary"),
        ("é".encode("latin-1"), "is not UTF-8 text (byte 0xe9 at offset 0)"),
        (b"ab\xff", "is not UTF-8 text (byte 0xff at offset 2)"),
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
    ],
)
def test_what_is_no_text_is_refused(file, data, reason):
    file.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        read_source(str(file))
    assert str(caught.value).startswith(reason)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(2**25)
    reasons = {
        "missing": "no such file",
        "": "is a folder",
        "pipe": "is not a regular file",
        "loop": "can't be read",
        "huge": "32 MiB",
        "a.py/b": "can't be read",
    }
    (tmp_path / "a.py").write_text("x")
    for name, reason in reasons.items():
        with pytest.raises(CommandError, match=reason):
            read_source(str(tmp_path / name))


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\nb", b"a\r\nb\nc\rd", b"\xef\xbb\xbfa\n", "\u00e9\n".encode()])
def test_bytes_survive_reading_and_writing(file, data):
    file.write_bytes(data)
    source = read_source(str(file))
    assert source.encode(source.text) == data
    write_source(source, source.encode(source.text.replace("a", "x")))
    assert file.read_bytes() == data.replace(b"a", b"x")


def test_the_content_is_replaced_and_nothing_stays_behind(file):
    before = file.stat().st_ino
    rewrite(file)
    assert file.read_bytes() == NEW
    assert file.stat().st_ino != before
    assert names(file.parent) == ["a.py"]


@pytest.mark.parametrize("name", ["a" * 252 + ".py", "\u6f22" * 83 + ".py", "\U0001f600" * 62 + ".py"])
def test_a_name_may_be_as_long_as_the_file_system_lets_it(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old\n")
    rewrite(path)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o4755])
def test_the_mode_stays(file, mode):
    file.chmod(mode)
    rewrite(file)
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_the_time_of_change_is_now_for_a_new_content_only(file):
    os.utime(file, (1000, 1000))
    rewrite(file, b"old\n")
    assert file.stat().st_mtime == 1000
    rewrite(file)
    assert file.stat().st_mtime > 1000


def test_links_are_followed_and_stay_links(file):
    link = file.parent / "link"
    link.symlink_to("a.py")
    second = file.parent / "second"
    second.symlink_to("link")
    rewrite(second)
    assert file.read_bytes() == NEW
    assert link.is_symlink()
    assert second.is_symlink()
    assert not file.is_symlink()


def test_hard_links_still_name_one_file(file):
    os.link(file, file.parent / "b.py")
    rewrite(file, b"longer than before\n")
    assert (file.parent / "b.py").read_bytes() == b"longer than before\n"
    rewrite(file, b"x\n")
    assert (file.parent / "b.py").read_bytes() == b"x\n"
    assert names(file.parent) == ["a.py", "b.py"]


def test_in_a_folder_where_nothing_can_be_created_the_file_is_written_in_place(file, monkeypatch):
    real_access = os.access
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != file.parent and real_access(path, mode))
    before = file.stat().st_ino
    rewrite(file)
    assert (file.read_bytes(), file.stat().st_ino) == (NEW, before)


def test_a_full_disk_leaves_a_file_written_in_place_as_it_was(file, monkeypatch):
    os.link(file, file.parent / "b.py")
    source = read_source(str(file))
    real_write = os.write

    def full(descriptor, data):
        if bytes(data).startswith(b"new"):
            real_write(descriptor, data[:2])
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(CommandError, match="no space left on device; nothing was changed"):
        write_source(source, NEW)
    assert file.read_bytes() == b"old\n"


def test_a_full_disk_leaves_a_replaced_file_as_it_was_and_no_temporary(file, monkeypatch):
    source = read_source(str(file))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CommandError, match="no space left on device; nothing was changed"):
        write_source(source, NEW, backup=True)
    assert file.read_bytes() == b"old\n"
    assert names(file.parent) == ["a.py"]


def test_a_read_only_file_is_refused(file, monkeypatch):
    source = read_source(str(file))
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != file)
    with pytest.raises(CommandError, match="is read-only"):
        write_source(source, NEW)
    assert file.read_bytes() == b"old\n"


def test_a_read_only_file_is_refused_to_root_too(file, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: True)
    file.chmod(0o444)
    with pytest.raises(CommandError, match="is read-only"):
        rewrite(file)
    assert file.read_bytes() == b"old\n"


@pytest.mark.parametrize("change", ["content", "gone", "link"])
def test_a_file_that_changed_meanwhile_is_left_alone(file, change):
    link = file.parent / "link"
    link.symlink_to("a.py")
    source = read_source(str(link))
    if change == "content":
        file.write_bytes(b"theirs\n")
    elif change == "gone":
        file.unlink()
    else:
        (file.parent / "other.py").write_bytes(b"old\n")
        link.unlink()
        link.symlink_to("other.py")
    before = {path.name: path.read_bytes() for path in file.parent.iterdir() if path.exists()}
    with pytest.raises(CommandError, match="has changed on disk meanwhile"):
        write_source(source, NEW)
    assert {path.name: path.read_bytes() for path in file.parent.iterdir() if path.exists()} == before


def test_a_backup_holds_the_old_content_and_mode(file):
    file.chmod(0o600)
    rewrite(file, backup=True)
    backup = file.parent / "a.py~"
    assert (file.read_bytes(), backup.read_bytes()) == (NEW, b"old\n")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_without_a_change_there_is_no_backup(file):
    rewrite(file, b"old\n", backup=True)
    assert names(file.parent) == ["a.py"]


def test_a_file_of_our_own_is_written_whole_over_an_earlier_one_or_not_at_all(tmp_path, monkeypatch):
    path, link = tmp_path / "t.trace", tmp_path / "link"
    write_new(path, b"one")
    link.symlink_to("t.trace")
    path.chmod(0o640)
    write_new(link, b"two")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), link.is_symlink()) == (b"two", 0o640, True)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_new(path, b"three")
    assert (path.read_bytes(), names(tmp_path)) == (b"two", ["link", "t.trace"])
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path / "new", b"three")
    assert names(tmp_path) == ["link", "t.trace"]


def test_where_a_file_of_our_own_can_not_be_written_is_known_before(tmp_path, monkeypatch):
    check_new(tmp_path / "new", "--trace")
    check_new(Path(os.devnull), "--trace")
    assert names(tmp_path) == []
    for bad in (tmp_path, tmp_path / "no" / "new"):
        with pytest.raises(UsageError, match=r"--trace .* can't be written \(.*directory\)"):
            check_new(bad, "--trace")
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="permission denied"):
        check_new(Path(os.devnull), "--trace")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no names here")
def test_what_is_no_file_is_written_by_the_name_it_was_given():
    """A shell's ``>(gzip > x)`` is /dev/fd/N, which is a link to no name."""
    reader, writer = os.pipe()
    path = Path(f"/dev/fd/{writer}")
    check_new(path, "--output")
    write_new(path, b"page")
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"page"


WRITER = """
import sys
from lookahead.cli.files import read_source, write_source
from lookahead.cli.interrupts import note_interrupts
note_interrupts()
path = sys.argv[1]
try:
    print("ready", flush=True)
    while True:
        source = read_source(path)
        write_source(source, bytes([source.data[0] ^ 3]) * len(source.data), backup=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


def stop_a_writer(path: Path, number: signal.Signals, delay: float) -> int:
    """Have a process write ``aaa...`` and ``bbb...`` by turns, and send it a signal while it does."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(number)
    status = process.wait(timeout=30)
    process.stdout.close()
    return status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_at_any_moment_leaves_a_whole_file(file, number):
    size = 2**20
    file.write_bytes(b"a" * size)
    for _ in range(20 if number == signal.SIGINT else 6):
        status = stop_a_writer(file, number, random.uniform(0, 0.05))
        assert status == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
        assert file.read_bytes() in (b"a" * size, b"b" * size)
        if number != signal.SIGKILL:
            assert {re.sub(r"(\.~\d+)?~$", "", name) for name in names(file.parent)} == {"a.py"}
