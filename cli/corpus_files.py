"""Text files of a corpus: which of the named files and folders are text, and their tokens."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli.errors import CommandError, os_reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Document = tuple[str, NDArray[np.int32]]

_LARGEST = 16 * 2**20  # bytes of a file in a folder; larger ones are data, or logs
_BATCH = 2**21  # characters given to the tokenizer at once
_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}


def is_skipped(folder: str) -> bool:
    """Whether a folder by its name holds what programs have made or fetched, or what is hidden.

    Example:
        >>> [is_skipped(name) for name in (".venv", "node_modules", "src")]
        [True, True, False]
    """
    return folder.startswith(".") or folder in _SKIPPED_FOLDERS


@dataclass(slots=True)
class CorpusFiles:
    """The text files under the given paths.

    Folders are read whole, without hidden files and folders, caches, links to folders, and what is no text. A file
    that is named itself has to be text.

    Attributes:
        paths: Files and folders.
        left_out: How many files of the folders were no UTF-8 text, empty, unreadable or over 16 MiB, once read.
    """

    paths: Sequence[Path]
    left_out: int = field(default=0, init=False)

    def documents(self, tokenizer: Any, show: Callable[[str], None]) -> "Iterator[Document]":
        """Yield the name and the token ids, int32 [tokens], of each file.

        Args:
            tokenizer: Of the library tokenizers.
            show: Takes a line about the progress.

        Raises:
            CommandError: A path does not exist, or a named file is no text.
        """
        files, tokens = self._files(), 0
        for batch in self._batches(files, show):
            for name, ids in _encoded(batch, tokenizer):
                tokens += len(ids)
                show(f"Reading {len(files)} files: {name}, {tokens:,} tokens")
                yield name, ids

    def _files(self) -> list[tuple[Path, bool]]:
        """Every file once, and whether it was named itself."""
        files: list[tuple[Path, bool]] = []
        for path in self.paths:
            if path.is_dir():
                files += [(file, False) for file in _walk(path)]
            elif path.exists():
                files.append((path, True))
            else:
                raise CommandError(f"{path} does not exist: name files and folders to read")
        named = {os.path.realpath(path) for path, is_named in files if is_named}
        once: dict[str, Path] = {}
        for path, _ in files:
            once.setdefault(os.path.realpath(path), path)
        return [(path, real in named) for real, path in once.items()]

    def _batches(self, files: list[tuple[Path, bool]], show: Callable[[str], None]) -> Iterator[list[tuple[str, str]]]:
        batch: list[tuple[str, str]] = []
        for path, named in files:
            text = self._text(path, named)
            if text is not None:
                batch.append((str(path), text))
            if sum(len(text) for _, text in batch) > _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _text(self, path: Path, named: bool) -> str | None:
        try:
            return _read(path, None if named else _LARGEST)
        except CommandError as error:
            if named:
                raise CommandError(f"{path} {error}") from None
            self.left_out += 1
            return None


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_skipped(name))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _read(path: Path, largest: int | None) -> str:
    """Return the text of a file; raises CommandError with the second half of a sentence if it is none."""
    try:
        if largest is not None and path.stat().st_size > largest:
            raise CommandError("is too large")
        data = path.read_bytes()
    except OSError as error:
        raise CommandError(f"can't be read: {os_reason(error)}") from None
    if b"\0" in data:
        raise CommandError("is binary (it contains NUL bytes): only text can be taken in")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError("is not UTF-8 text: convert it first") from None
    if not text.strip():
        raise CommandError("is empty: there is nothing to take in")
    return text


def _encoded(batch: list[tuple[str, str]], tokenizer: Any) -> "Iterator[Document]":
    import numpy as np

    encodings = tokenizer.encode_batch_fast([text for _, text in batch], add_special_tokens=False)
    for (name, _), encoding in zip(batch, encodings, strict=True):
        if encoding.ids:
            yield name, np.array(encoding.ids, np.int32)
