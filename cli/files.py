"""Reading and writing source files so that nothing of them is lost: bytes, links, mode, and time of change."""

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookahead.cli.errors import CommandError, UsageError, os_reason
from lookahead.cli.interrupts import interrupts_deferred
from lookahead.cli.lines import common_ending
from lookahead.durable import sync_folder

_BOM = b"\xef\xbb\xbf"
_LARGEST = 16 * 2**20  # bytes; more tokens than any model's context holds
_PROBE = 4096  # bytes; a full disk has no room for them
_NOT_TO_EDIT = re.compile(r".+~|\..+\.\w{8}\.tmp")  # names of backups, and of what a killed writer left


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


def read_source(path: str, *, pipes: bool = False) -> SourceFile:
    """Read a text file through its links.

    Args:
        path: Of the file.
        pipes: Read what comes out of a pipe (a shell's ``<(git diff)``) too; it can't be written.

    Raises:
        CommandError: It is missing, unreadable, no regular file, empty, too large, binary or not UTF-8.
    """
    try:
        status = os.stat(path)  # before its links are followed: those of a pipe name no place
        if stat.S_ISDIR(status.st_mode):
            raise CommandError(
                "is a folder in which no text file is to be edited: look at --include and at .gitignore, or name files"
            )
        if not (stat.S_ISREG(status.st_mode) or (pipes and stat.S_ISFIFO(status.st_mode))):
            raise CommandError("is not a regular file: only text files can be edited")
        if status.st_size > _LARGEST:
            raise CommandError(f"is {status.st_size / 2**20:.0f} MiB large, more than any model reads: split it")
        real_path = Path(os.path.realpath(path) if stat.S_ISREG(status.st_mode) else path)
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


def is_to_edit(path: Path) -> bool:
    """Whether a file that nobody named may be edited by its name: it is no backup, and nothing a killed writer left.

    Example:
        >>> [is_to_edit(Path(name)) for name in ("a.py", "a.py~", "a.py.~2~", ".a.py.x3_k1b2c.tmp")]
        [True, False, False, False]
    """
    return not _NOT_TO_EDIT.fullmatch(path.name)


def write_source(source: SourceFile, data: bytes, *, backup: bool = False) -> Path | None:
    """Replace the file's content in one step, or leave it exactly as it is.

    Nothing is touched when the content is the same already. The new content is complete on disk before it takes the
    old one's place; interrupts wait until then. Files with several hard links, those whose owner or group a new file
    could not have, and files in folders where nothing can be created, are overwritten in place instead.

    Args:
        source: The file as it was read.
        data: The new content.
        backup: Keep the old content beside it, as the file's name and a tilde; where that is taken, with a number.

    Returns:
        The backup, if there is one.

    Raises:
        CommandError: The file is read-only, has changed since it was read, or could not be written.
    """
    if data == source.data:
        return None
    kept = None
    try:
        with interrupts_deferred():
            _refuse_if_changed(source)
            if backup:
                kept = _free_name(source.real_path)
                _back_up(source, kept)
            _put(source, data)
    except OSError as error:
        raise CommandError(f"can't be written: {os_reason(error)}; nothing was changed") from None
    return kept


def _free_name(path: Path) -> Path:
    """Return a name for a backup that nothing has yet: ``a.py~``, then ``a.py.~2~``, as ``cp`` numbers them."""
    names = itertools.chain([f"{path.name}~"], (f"{path.name}.~{number}~" for number in itertools.count(2)))
    return next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))


def _back_up(source: SourceFile, target: Path) -> None:
    try:
        _replace(source.real_path, target, source.data)
    except OSError as error:
        raise CommandError(f"its backup {target} can't be written: {os_reason(error)}; nothing was changed") from None


def _put(source: SourceFile, data: bytes) -> None:
    """Put a new file in the old one's place, or the new content into the old file."""
    if not _must_stay_in_place(source.real_path):
        try:
            _replace(source.real_path, source.real_path, data, same_owner=True)
        except PermissionError:
            pass
        else:
            return
    _overwrite(source, data)


def check_new(path: Path, option: str) -> None:
    """Find out before any work whether ``write_new`` can write what an option names; leaves nothing behind.

    Raises:
        UsageError: It can't.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_stream(path):
            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))) as file:
                file.write(bytes(_PROBE))
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(
            f"{option} {path} can't be written ({os_reason(error)}): name a file in a folder that exists and can be "
            "written to"
        ) from None


def write_new(path: Path, data: bytes) -> None:
    """Write a file of our own, whole or not at all, over an earlier one of that name; or into a device or a pipe.

    Raises:
        OSError: It can't be written.
    """
    with interrupts_deferred():
        if _is_stream(path):
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))
        is_new = not path.exists()
        if is_new:
            path.touch()
        try:
            _replace(path, path, data)
        except OSError:
            if is_new:
                path.unlink()
            raise


def _is_stream(path: Path) -> bool:
    """Whether something is there that is no file, whose links need name no place: ``/dev/stdout`` of a pipe, say."""
    return path.exists() and not path.is_file()


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
    return status.st_nlink > 1 or _is_foreign(status) or not os.access(path.parent, os.W_OK | os.X_OK)


def _is_foreign(status: os.stat_result) -> bool:
    """Whether a file has an owner or a group that only root could give a new one."""
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        return False
    return status.st_uid != os.geteuid() or status.st_gid not in (os.getegid(), *os.getgroups())


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


def _replace(model: Path, target: Path, data: bytes, *, same_owner: bool = False) -> None:
    """Put new content under a name in one step, with the mode and attributes of a model file, and its owner if it can.

    Raises:
        PermissionError: The owner shall be the same, and can't be.
        OSError: It can't be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _fill(file.fileno(), data)
        _copy_metadata(model, temporary, same_owner)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(target.parent)


def _copy_metadata(model: Path, target: str, same_owner: bool) -> None:
    shutil.copystat(model, target)
    os.utime(target)  # the content is new, so the time of change is now
    if hasattr(os, "chown"):
        status = model.stat()
        try:
            os.chown(target, status.st_uid, status.st_gid)
        except PermissionError:
            if same_owner:
                raise
        os.chmod(target, stat.S_IMODE(status.st_mode))  # a change of owner clears the set-user-id bit
