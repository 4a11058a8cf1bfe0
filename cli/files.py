"""Reading and writing source files so that nothing of them is lost: bytes, links, mode, and time of change."""

import contextlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookahead.cli.errors import CommandError, os_reason
from lookahead.cli.interrupts import interrupts_deferred
from lookahead.cli.lines import common_ending
from lookahead.durable import sync_folder

_BOM = b"\xef\xbb\xbf"
_LARGEST = 16 * 2**20  # bytes; more tokens than any model's context holds


class Decoded(NamedTuple):
    """The text of a file without its byte order mark, its encoding, and the newline of most lines."""

    text: str
    encoding: str
    newline: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was read: the bytes to compare with when it is written, and the text to edit."""

    path: str
    real_path: Path
    data: bytes
    decoded: Decoded

    @property
    def text(self) -> str:
        """The text without byte order mark, with the file's own newlines."""
        return self.decoded.text

    def encode(self, text: str) -> bytes:
        """Return the bytes of a text in this file's encoding, byte order mark included."""
        return text.encode(self.decoded.encoding)


def decode_bytes(data: bytes) -> Decoded:
    r"""Decode UTF-8 with or without a byte order mark, newlines untouched.

    Raises:
        CommandError: The bytes are binary (they contain NUL) or not UTF-8.

    Example:
        >>> decode_bytes(b"\xef\xbb\xbfa\r\nb")
        Decoded(text='a\r\nb', encoding='utf-8-sig', newline='\r\n')
    """
    if b"\0" in data:
        raise CommandError("is binary (it contains NUL bytes): only text files can be edited")
    encoding = "utf-8-sig" if data.startswith(_BOM) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CommandError(
            f"is not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start}): convert it to UTF-8 first"
        ) from None
    return Decoded(text, encoding, common_ending(text))


def read_source(path: str) -> SourceFile:
    """Read a text file through its links.

    Raises:
        CommandError: It is missing, unreadable, no regular file, empty, too large, binary or not UTF-8.
    """
    real_path = Path(os.path.realpath(path))
    try:
        status = real_path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise CommandError(
                "is a folder in which no text file is to be edited: look at --include and at .gitignore, or name files"
            )
        if not stat.S_ISREG(status.st_mode):
            raise CommandError("is not a regular file: only text files can be edited")
        if status.st_size > _LARGEST:
            raise CommandError(f"is {status.st_size / 2**20:.0f} MiB large, more than any model reads: split it")
        data = real_path.read_bytes()
    except OSError as error:
        raise CommandError(f"can't be read: {os_reason(error)}") from None
    return source_from_bytes(path, data, real_path)


def source_from_bytes(path: str, data: bytes, real_path: Path | None = None) -> SourceFile:
    """Return the source that these bytes make, refusing what can't be edited."""
    decoded = decode_bytes(data)
    if not decoded.text.strip():
        raise CommandError("is empty: there is nothing to edit (`specdec-lookup generate` writes new text)")
    return SourceFile(path, real_path or Path(path), data, decoded)


def write_source(source: SourceFile, data: bytes, *, backup: bool = False) -> None:
    """Replace the file's content in one step, or leave it exactly as it is.

    Nothing is touched when the content is the same already. The new content is complete on disk before it takes the
    old one's place; interrupts wait until then. Files with several hard links, and files in folders where nothing
    can be created, are overwritten in place instead.

    Args:
        source: The file as it was read.
        data: The new content.
        backup: Keep the old content beside it, as the file's name and a tilde.

    Raises:
        CommandError: The file is read-only, has changed since it was read, or could not be written.
    """
    if data == source.data:
        return
    try:
        with interrupts_deferred():
            _refuse_if_changed(source)
            if backup:
                _replace(source.real_path, source.real_path.with_name(source.real_path.name + "~"), source.data)
            if _must_stay_in_place(source.real_path):
                _overwrite(source, data)
            else:
                _replace(source.real_path, source.real_path, data)
    except OSError as error:
        raise CommandError(f"can't be written: {os_reason(error)}; nothing was changed") from None


def write_new(path: Path, data: bytes) -> None:
    """Write a file of our own, whole or not at all, over an earlier one of that name.

    Raises:
        OSError: It can't be written.
    """
    path = Path(os.path.realpath(path))
    with interrupts_deferred():
        if path.exists() and not path.is_file():  # a device or a pipe
            path.write_bytes(data)
            return
        is_new = not path.exists()
        if is_new:
            path.touch()
        try:
            _replace(path, path, data)
        except OSError:
            if is_new:
                path.unlink()
            raise


def _refuse_if_changed(source: SourceFile) -> None:
    try:
        now = source.real_path.read_bytes()
    except FileNotFoundError:
        now = None
    if now != source.data or os.path.realpath(source.path) != str(source.real_path):
        raise CommandError("has changed on disk meanwhile and was left as it is: run the command again")
    if not os.access(source.real_path, os.W_OK):
        raise CommandError("is read-only: make it writable first")


def _must_stay_in_place(path: Path) -> bool:
    """Whether a new file in the old one's place would lose something: its other names, its owner, or everything."""
    status = path.stat()
    foreign = hasattr(os, "geteuid") and os.geteuid() not in (0, status.st_uid)
    return status.st_nlink > 1 or foreign or not os.access(path.parent, os.W_OK | os.X_OK)


def _overwrite(source: SourceFile, data: bytes) -> None:
    with source.real_path.open("r+b") as file:
        try:
            _fill(file.fileno(), data)
        except OSError:
            _fill(file.fileno(), source.data)
            raise


def _fill(descriptor: int, data: bytes) -> None:
    # The length last: until then nothing of a longer old content is lost if the disk is full.
    os.lseek(descriptor, 0, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _replace(model: Path, target: Path, data: bytes) -> None:
    """Put new content under a name in one step, with the mode, owner and attributes of a model file."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _fill(file.fileno(), data)
        _copy_metadata(model, temporary)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(target.parent)


def _copy_metadata(model: Path, target: str) -> None:
    shutil.copystat(model, target)
    os.utime(target)  # the content is new, so the time of change is now
    if hasattr(os, "chown"):
        status = model.stat()
        with contextlib.suppress(PermissionError):
            os.chown(target, status.st_uid, status.st_gid)
        os.chmod(target, stat.S_IMODE(status.st_mode))  # a change of owner clears the set-user-id bit
