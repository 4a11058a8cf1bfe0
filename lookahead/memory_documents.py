"""Documents of a memory store as users give and see them: checked names and tokens, counts, tokenizers."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookahead.segment import Segment
from lookahead.suffix_array import Ints, Tokens


@dataclass(frozen=True, slots=True)
class Settings:
    """What a store keeps besides its documents; see ``MemoryStore``."""

    tokenizer: str | None = None
    budget: int | None = None
    expiry: float | None = None

    def __post_init__(self) -> None:
        if self.tokenizer is not None and not isinstance(self.tokenizer, str):
            raise TypeError(f"tokenizer must be text, got {self.tokenizer!r}; see tokenizer_identity")
        _check_limit("budget", self.budget)
        _check_limit("expiry", self.expiry)
        if self.budget is not None and self.budget != int(self.budget):
            raise ValueError(f"budget must be a whole number of bytes, got {self.budget!r}; round it")
        object.__setattr__(self, "budget", None if self.budget is None else int(self.budget))


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """What a namespace holds: documents, tokens, and the bytes that they take in memory or on disk."""

    documents: int
    tokens: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document: its name, its tokens, and when it was added and last of use, in seconds since the epoch."""

    name: str
    tokens: int
    added: float
    useful: float


def namespace_info(segments: tuple[Segment, ...]) -> NamespaceInfo:
    """Return what segments hold together."""
    return NamespaceInfo(
        sum(len(segment) for segment in segments),
        sum(int(segment.lengths.sum()) for segment in segments),
        sum(segment.nbytes for segment in segments),
    )


def document_infos(segment: Segment) -> list[DocumentInfo]:
    """Return the documents of a segment, in their order."""
    known = segment.documents
    columns = known.names, segment.lengths.tolist(), known.added.tolist(), known.useful.tolist()
    return [DocumentInfo(*values) for values in zip(*columns, strict=True)]


def tokenizer_identity(vocabulary: Mapping[str, int]) -> str:
    """Return what tells a tokenizer from others: a digest of its vocabulary, which gives every id its meaning.

    Args:
        vocabulary: Id of each token, added ones included, as the ``get_vocab()`` of a tokenizer returns it.

    Example:
        >>> tokenizer_identity({"a": 0, "b": 1})[:15]
        'sha256:4c561898'
    """
    digest = hashlib.sha256()
    for token, number in sorted(vocabulary.items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{number}\t{len(token)}\t{token}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()}"


def checked_name(name: str, what: str) -> str:
    """Return a name of a document or namespace; raises TypeError or ValueError if it is none."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be text, got {name!r}")
    if "\0" in name or (what == "namespace" and not name):
        raise ValueError(f"{what} must be text without NUL characters and not empty, got {name!r}")
    return name


def checked_documents(documents: Iterable[tuple[str, Tokens]]) -> tuple[list[str], list[Ints]]:
    """Names and texts; of several documents of one name the last."""
    named: dict[str, Ints] = {}
    unnamed: list[Ints] = []
    for name, tokens in documents:
        text = _checked_text(tokens, checked_name(name, "name"))
        if name:
            named[name] = text
        else:
            unnamed.append(text)
    return [*named, *("" for _ in unnamed)], [*named.values(), *unnamed]


def _checked_text(tokens: Tokens, name: str) -> Ints:
    ids = np.asarray(tokens)
    where = f"document {name!r}" if name else "the document"
    if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
        raise ValueError(f"tokens of {where} must be a flat list of ids, not empty, got {ids.dtype} {ids.shape}")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high > 2**31 - 1:
        wrong = low if low < 0 else high
        raise ValueError(f"tokens of {where} must be from 0 to {2**31 - 1}, got {wrong}; remove padding first")
    return ids.astype(np.int32)


def _check_limit(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}; use None for no limit")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above 0, got {value}; use None for no limit")
