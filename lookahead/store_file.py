"""The file of a MemoryStore: written whole or not at all, mapped into memory, and never misread.

Layout: a header of 64 bytes; the arrays of each segment, each from a multiple of 64 bytes on; and a directory in JSON
that says where they are and holds a CRC-32 of every mebibyte of each. The header has the checksum of the directory,
and one of its own. All numbers are little-endian.
"""

import contextlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lookahead.durable import only_writer, replace_file
from lookahead.memory_documents import Settings
from lookahead.retention import Namespaces
from lookahead.segment import Documents, Segment

FORMAT = 1
CHECKED_AT_LOAD = 128 * 2**20  # bytes of tokens and orders that loading checks: about 16 million tokens
_MAGIC = b"lookmem\n"
_HEADER = struct.Struct("<8sIIQQQ16sI4x")  # magic, format, directory: checksum, start, size; file size, id, checksum
_BLOCK = 2**20
_ALIGNMENT = 64
_TYPES = {"tokens": "<i4", "order": "<i4", "starts": "<i8", "added": "<f8", "useful": "<f8", "names": "<u1"}
_LARGE = ("tokens", "order")
_MAPPED = os.name != "nt"  # Windows replaces no file that is mapped, so there a store is read
_WAY_OUT = "build the store again, or take a copy of it"


Data = mmap.mmap | bytes


class StoreFileError(ValueError):
    """A file is no memory store that can be used: damaged, cut off, or of another format."""


def write(
    path: Path, namespaces: Namespaces, settings: Settings, known: set[bytes], *, overwrite: bool = False
) -> None:
    """Put a store under a name in one step, and its id among those that are known.

    It is complete on disk before it takes the old one's place: whatever ends the process, the old or the new file is
    there. What a killed writer left beside it is removed an hour later.

    Args:
        path: Where to; a link stays one.
        namespaces: The documents.
        settings: What else to keep.
        known: Ids of files that may be replaced.
        overwrite: Replace any file, whatever it is.

    Raises:
        FileExistsError: There is a file that may not be replaced.
        OSError: The folder can't be written, or the disk is full; the old file is as it was.
    """
    path = Path(os.path.realpath(path))
    allowed = None if overwrite else known
    written: list[bytes] = []

    @contextlib.contextmanager
    def guard() -> Iterator[None]:
        with only_writer(path):
            _refuse_unknown(path, allowed)  # again, for writing took its time
            yield
            known.update(written)

    with only_writer(path):
        _refuse_unknown(path, allowed)
    replace_file(
        path,
        lambda file: written.append(_write_sections(file, namespaces, settings)),
        dress=lambda temporary: _copy_mode(path, temporary),
        guard=guard,
        mode=0o666,
    )


def read(path: Path) -> tuple[Namespaces, Settings, bytes]:
    """Map a store into memory; returns its documents, its settings and its id.

    Checked before: size, header, directory and all tables of documents; and the tokens and their order up to 128 MiB
    wholly, in a larger file as many mebibytes, evenly spread. ``verify`` checks the rest.

    Raises:
        StoreFileError: The file is damaged, or written by another version.
        OSError: It can't be read.
    """
    data, directory, identity = _open(path)
    _check(path, data, directory, CHECKED_AT_LOAD)
    try:
        namespaces = {
            name: tuple(_segment(data, sections) for sections in segments)
            for name, segments in directory["namespaces"].items()
        }
        return namespaces, Settings(**directory["settings"]), identity
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreFileError(f"{path} is inconsistent ({error}): {_WAY_OUT}") from None


def is_store(path: Path) -> bool:
    """Whether a file begins as a store does, be it damaged or of another version, or is empty still.

    Raises:
        OSError: It can't be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) in (b"", _MAGIC)


def verify(path: Path) -> None:
    """Check every byte of a store; raises as ``read`` does."""
    data, directory, _ = _open(path)
    _check(path, data, directory, None)


def _refuse_unknown(path: Path, known: Container[bytes] | None) -> None:
    if known is None or not path.exists():
        return
    with _opened(path) as file, contextlib.suppress(StoreFileError):  # what is no store is not this one's
        *_, identity = _header(path, file.read(_HEADER.size), os.fstat(file.fileno()).st_size)
        if identity in known:
            return
    raise FileExistsError(
        f"{path} is not the file of this store, or was saved by another process: load it, "
        "or replace it (overwrite=True)"
    )


def _write_sections(file: BinaryIO, namespaces: Namespaces, settings: Settings) -> bytes:
    file.write(bytes(_HEADER.size))
    places = {
        name: [{key: _write_array(file, part) for key, part in _arrays(segment).items()} for segment in segments]
        for name, segments in namespaces.items()
    }
    directory = json.dumps({"settings": asdict(settings), "namespaces": places}).encode()
    start, identity = file.tell(), os.urandom(16)
    file.write(directory)
    size = file.tell()
    file.seek(0)
    file.write(_sealed(zlib.crc32(directory), start, len(directory), size, identity))
    return identity


def _sealed(*fields: Any) -> bytes:
    """Return the header of a file, its own checksum included."""
    header = (_MAGIC, FORMAT, *fields)
    return _HEADER.pack(*header, zlib.crc32(_HEADER.pack(*header, 0)))


def _arrays(segment: Segment) -> dict[str, NDArray[Any]]:
    """The parts of a segment by name; the times are copied, for readers change them meanwhile."""
    known = segment.documents
    names = np.frombuffer("".join(f"{name}\0" for name in known.names).encode("utf-8", "surrogatepass"), np.uint8)
    parts = {"tokens": segment.tokens, "order": segment.order, "starts": known.starts, "added": known.added}
    parts |= {"useful": known.useful.copy(), "names": names}
    return {name: np.ascontiguousarray(part, _TYPES[name]) for name, part in parts.items()}


def _write_array(file: BinaryIO, part: NDArray[Any]) -> dict[str, Any]:
    """Write an array and zeros up to a multiple of 64 bytes; the last checksum covers the zeros too."""
    place, data = file.tell(), part.view(np.uint8)
    sums = []
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK].tobytes()
        block += bytes(-len(block) % _ALIGNMENT)
        sums.append(zlib.crc32(block))
        file.write(block)
    return {"start": place, "size": len(data), "sums": sums}


def _open(path: Path) -> tuple[Data, dict[str, Any], bytes]:
    """Map a file whose size, header and directory are right."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        start, length, checksum, identity = _header(path, file.read(_HEADER.size), size)
        file.seek(0)
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if _MAPPED else file.read()
    directory = data[start : start + length]
    if len(directory) != length or zlib.crc32(directory) != checksum:
        raise StoreFileError(f"{path} is damaged (its directory): {_WAY_OUT}")
    return data, json.loads(directory), identity


def _opened(path: Path) -> BinaryIO:
    """Open a file to read, but no pipe or device, which might never say anything."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a folder is an error in itself
        raise StoreFileError(f"{path} is no regular file: name a file that `specdec-lookup memory build` wrote")
    return path.open("rb")


def _header(path: Path, header: bytes, size: int) -> tuple[int, int, int, bytes]:
    """Return where the directory is, how long, its checksum, and the id of the file."""
    if header[: len(_MAGIC)] != _MAGIC:
        raise StoreFileError(f"{path} is no memory store: name a file that `specdec-lookup memory build` wrote")
    if len(header) < _HEADER.size:
        raise StoreFileError(f"{path} is cut off after {size} bytes: {_WAY_OUT}")
    _, version, checksum, start, length, wanted, identity, _ = _HEADER.unpack(header)
    if version != FORMAT:
        raise StoreFileError(
            f"{path} has format {version}, and this version reads format {FORMAT}: build the store again, or use the "
            "version of specdec-lookup that wrote it"
        )
    if header != _sealed(checksum, start, length, wanted, identity):
        raise StoreFileError(f"{path} is damaged (its header): {_WAY_OUT}")
    if size != wanted:
        raise StoreFileError(f"{path} has {size} bytes instead of {wanted}: it is cut off or overwritten; {_WAY_OUT}")
    return start, length, checksum, identity


def _check(path: Path, data: Data, directory: dict[str, Any], limit: int | None) -> None:
    """Compare checksums: of all tables, and of as many bytes of the large arrays as `limit` allows, evenly spread."""
    blocks = list(_blocks(directory))
    large = sum(name in _LARGE for name, *_ in blocks)
    stride = 1 if limit is None else max(1, -(-large * _BLOCK // limit))
    chosen, seen = [], 0
    for name, place, stop, checksum, last in blocks:
        seen += int(name in _LARGE)
        if name not in _LARGE or seen % stride == 0 or last:
            chosen.append((name, place, stop, checksum))
    view = memoryview(data)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for (name, place, stop, checksum), found in zip(
            chosen, pool.map(lambda block: zlib.crc32(view[block[1] : block[2]]), chosen), strict=True
        ):
            if found != checksum:
                raise StoreFileError(f"{path} is damaged ({name}, bytes {place} to {stop - 1}): {_WAY_OUT}")


def _blocks(directory: dict[str, Any]) -> Iterator[tuple[str, int, int, int, bool]]:
    """Yield the blocks of all arrays: name, first byte, byte behind the last, checksum, whether it is the last one."""
    for segments in directory["namespaces"].values():
        for sections in segments:
            for name, section in sections.items():
                end = section["start"] + section["size"] + -section["size"] % _ALIGNMENT
                for number, checksum in enumerate(section["sums"]):
                    place = section["start"] + number * _BLOCK
                    yield name, place, min(place + _BLOCK, end), checksum, place + _BLOCK >= end


def _segment(data: Data, sections: dict[str, Any]) -> Segment:
    arrays = {
        name: np.frombuffer(data, kind, sections[name]["size"] // np.dtype(kind).itemsize, sections[name]["start"])
        for name, kind in _TYPES.items()
    }
    names = tuple(arrays["names"].tobytes().decode("utf-8", "surrogatepass").split("\0")[:-1])
    starts = arrays["starts"]
    counts = {len(names), len(starts), len(arrays["added"]), len(arrays["useful"])}
    bounds = np.concatenate([[-1], starts, [len(arrays["tokens"])]])
    if len(counts) != 1 or starts[0] != 1 or (np.diff(bounds) < 2).any():
        raise ValueError("a table of documents")
    documents = Documents(names, starts, arrays["added"], arrays["useful"].copy())
    return Segment(arrays["tokens"], arrays["order"], documents)


def _copy_mode(path: Path, temporary: Path) -> None:
    """Give a new file the mode of the old one, where there is one, and its owner and group where the system lets it."""
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        if hasattr(os, "chown"):
            with contextlib.suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(status.st_mode & 0o777)
