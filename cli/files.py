"""Reading and writing source files so that nothing of them is lost: bytes, links, mode, and time of change."""

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookahead.cli.errors import CommandError, UsageError, os_reason
from lookahead.cli.interrupts import interrupts_deferred
from lookahead.cli.lines import common_ending
from lookahead.durable import TEMPORARY, only_writer, replace_file

_BOM = b"\xef\xbb\xbf"
_LARGEST = 16 * 2**20  # bytes; more tokens than any model's context holds
_PROBE = 4096  # bytes; a full disk has no room for them
_NOT_TO_EDIT = re.compile(rf".+~|\..+{re.escape(TEMPORARY)}")  # names of backups, and of what a killed writer left


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
        >>> [is_to_edit(Path(name)) for name in ("a.py", "a.py~", "a.py.~2~", ".a.py.0.lookahead-tmp")]
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
    with only_writer(source.real_path), interrupts_deferred():
        try:
            _refuse_if_changed(source)
            kept = _back_up(source) if backup else None
            _put(source, data)
        except _DamagedError as error:
            raise CommandError(f"{error}; its old content is {f'in {kept}' if kept else 'lost'}") from None
        except (CommandError, OSError) as error:
            if kept:
                with contextlib.suppress(OSError):
                    kept.unlink()
            if isinstance(error, CommandError):
                raise
            raise CommandError(f"can't be written: {os_reason(error)}; nothing was changed") from None
    return kept


def _free_name(path: Path) -> Path:
    """Return a name for a backup that nothing has yet: ``a.py~``, then ``a.py.~2~``, as ``cp`` numbers them."""
    names = itertools.chain([f"{path.name}~"], (f"{path.name}.~{number}~" for number in itertools.count(2)))
    return next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))


def _back_up(source: SourceFile) -> Path:
    target = _free_name(source.real_path)
    try:
        _replace(source.real_path, target, source.data)
    except OSError as error:
        raise CommandError(f"its backup {target} can't be written: {os_reason(error)}; nothing was changed") from None
    return target


def _put(source: SourceFile, data: bytes) -> None:
    """Put a new file in the old one's place, or the new content into the old file, after a last look at it."""
    if not _must_stay_in_place(source.real_path):
        try:
            _replace(source.real_path, source.real_path, data, of=source)
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
    writable = os.stat(source.real_path).st_mode & 0o222  # of root, access allows everything
    if not (writable and os.access(source.real_path, os.W_OK)):
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


class _DamagedError(CommandError):
    """A file that is written in place holds neither its new content nor its old one."""


def _overwrite(source: SourceFile, data: bytes) -> None:
    with source.real_path.open("r+b") as file:
        _refuse_if_changed(source)
        try:
            _fill(file.fileno(), data)
        except OSError as error:
            try:
                _fill(file.fileno(), source.data)
            except OSError:
                raise _DamagedError(f"could not be written ({os_reason(error)}) and is damaged") from error
            raise


def _fill(descriptor: int, data: bytes) -> None:
    # The length last: until then nothing of a longer old content is lost if the disk is full.
    os.lseek(descriptor, 0, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _replace(model: Path, target: Path, data: bytes, *, of: SourceFile | None = None) -> None:
    """Put new content under a name in one step, with the mode and attributes of a model file, and its owner if it can.

    Args:
        model: The model file.
        target: The name.
        data: The content.
        of: The source that the name must still hold; then the owner shall be the same, too.

    Raises:
        CommandError: The source has changed.
        PermissionError: The owner can't be the same.
        OSError: It can't be written.
    """

    @contextlib.contextmanager
    def guard() -> Iterator[None]:
        if of is not None:
            _refuse_if_changed(of)
        yield

    replace_file(
        target,
        lambda file: _fill(file.fileno(), data),
        dress=lambda temporary: _copy_metadata(model, temporary, same_owner=of is not None),
        guard=guard,
    )


def _copy_metadata(model: Path, target: Path, *, same_owner: bool) -> None:
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
