"""Citations: which spans of a text stand word for word in which passage, found with the suffix index.

>>> passages = ["Tea is made from leaves. It is drunk hot.", "Coffee is made from roasted beans."]
>>> [(c.start, c.end, c.passage, c.passage_start) for c in cite("I read: it is made from roasted beans.", passages)]
[(11, 38, 1, 7)]
"""

import heapq
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.automaton import FIRST, LEN, LINK, ROOT, Automaton, goto
from lookahead.index import SuffixIndex
from lookahead.kernels import kernel

MIN_CHARS = 24

# Scripts written without spaces, of which every character counts as a word.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
_SPACELESS += "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_NEVER_FIRST, _NEVER_LAST = ("Pe", "Pf"), ("Ps", "Pi")  # closing and opening punctuation
_SENTENCE_MARKS = ".,;:!?…。，、；：！？．"
_TEXTS = ("text", "page_content", "content")  # of a Passage, and of the documents of LangChain and Haystack
_IDS = ("id", "node_id", "id_")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that can be cited, and what it is called.

    Attributes:
        text: The passage.
        id: Its name in citations; None for its position in the list of passages.
    """

    text: str
    id: Any = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of a text that stands in a passage: ``text[start:end] == passage_text[passage_start:passage_end]``.

    Attributes:
        start: Where the span starts in the text, in characters (code points).
        end: Where it ends, exclusive.
        passage: The position of the passage in the list.
        passage_start: Where the span starts in the passage.
        passage_end: Where it ends there.
        id: The passage's id, its position where it has none.
    """

    start: int
    end: int
    passage: int
    passage_start: int
    passage_end: int
    id: Any


@dataclass(frozen=True, slots=True)
class Copy:
    """A span of a text that is known to have been copied from a passage: an accepted draft.

    Attributes:
        start: Where the span starts in the text, in characters.
        end: Where it ends, exclusive.
        passage: The position of the passage in the list.
        passage_start: Where it starts in the passage.
    """

    start: int
    end: int
    passage: int
    passage_start: int


def cite(
    text: str,
    passages: Iterable[Any],
    *,
    min_chars: int = MIN_CHARS,
    whole_words: bool = True,
    copies: Iterable[Copy] = (),
) -> list[Citation]:
    """Return the spans of a text that stand word for word in a passage, in their order.

    The longest span is taken first, then the longest of what is left beside it, and so on, so that citations do not
    overlap. A span that several passages hold is cited from the one that most of it was copied from, where that is
    known, else from the first. White space, closing marks at the start and opening ones at the end belong to no
    citation.

    Args:
        text: Any text, such as a model's answer.
        passages: Texts, :class:`Passage` objects, or other objects with a ``text``, ``page_content`` or ``content``.
        min_chars: The shortest span that counts, in characters.
        whole_words: Let no citation begin or end inside a word or a number, in the text or in the passage. False
            cites characters.
        copies: What is known of how the text was made; none is needed, and a wrong one is not believed.

    Raises:
        TypeError: A passage has no text.
        ValueError: ``min_chars`` is less than 1.

    Example:
        >>> cite("So they say: tea is drunk hot.", ["Coffee is drunk hot.", "Tea is drunk hot."], min_chars=10)
        [Citation(start=17, end=30, passage=0, passage_start=7, passage_end=20, id=0)]
    """
    check_positive("min_chars", min_chars, MIN_CHARS)
    known = as_passages(passages)
    units = _units(text, whole_words)
    sources = _Sources([_units(passage.text, whole_words) for passage in known])
    offsets = [0, *accumulate(map(len, units))]
    spans = _longest_first(units, offsets, sources.maximal_matches(units), min_chars)
    known_copies, citations = list(copies), []
    for first, last in sorted(spans):
        length = offsets[last] - offsets[first]
        position, start = _copied_from(offsets[first], offsets[last], known_copies, sources, units[first:last]) or (
            sources.locate(units[first:last])
        )
        name = position if known[position].id is None else known[position].id
        citations.append(Citation(offsets[first], offsets[last], position, start, start + length, name))
    return citations


def _copied_from(
    start: int, end: int, copies: Iterable[Copy], sources: "_Sources", units: list[str]
) -> tuple[int, int] | None:
    """Return the passage, and the place in it, that most of the span was copied from and where all of it stands."""
    shares: dict[tuple[int, int], int] = {}
    for copy in copies:
        place = copy.passage, copy.passage_start + start - copy.start
        shares[place] = shares.get(place, 0) + max(0, min(end, copy.end) - max(start, copy.start))
    likely = sorted((place for place in shares if shares[place]), key=lambda place: -shares[place])
    return next((place for place in likely if sources.holds(units, *place)), None)


def check_positive(name: str, value: Any, default: Any) -> None:
    """Refuse what is no integer of at least 1, naming the parameter."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}: the default is {default}")


def as_passages(passages: Iterable[Any]) -> list[Passage]:
    """Return passages of any kind as :class:`Passage` objects.

    Raises:
        TypeError: ``passages`` is a single text, or one of them has no text.

    Example:
        >>> as_passages(["Tea is drunk hot."])
        [Passage(text='Tea is drunk hot.', id=None)]
    """
    if isinstance(passages, str | bytes) or not isinstance(passages, Iterable):
        raise TypeError(f"passages must be a list, got {type(passages).__name__}: wrap a single text in a list")
    return [_as_passage(passage, f"passages[{i}]") for i, passage in enumerate(passages)]


def _as_passage(passage: Any, name: str) -> Passage:
    if isinstance(passage, str):
        return Passage(passage)
    text = next((getattr(passage, field) for field in _TEXTS if hasattr(passage, field)), None)
    if not isinstance(text, str):
        raise TypeError(
            f"{name} must be a text or an object with a text, got {type(passage).__name__}: pass a str or a Passage"
        )
    names = (getattr(passage, field, None) for field in _IDS)
    return Passage(text, next((name for name in names if name is not None), None))


class _Sources:
    """The passages' units in one index."""

    def __init__(self, passages: Sequence[list[str]]) -> None:
        self._known = {unit: i for i, unit in enumerate(dict.fromkeys(unit for units in passages for unit in units))}
        self._index = SuffixIndex()
        self._starts: list[int] = []  # of the passages, among the positions of the index
        self._offsets: list[list[int]] = []
        for units in passages:
            self._starts.append(len(self._index))
            self._offsets.append([0, *accumulate(map(len, units))])
            if units:
                self._index.extend(self._ids(units))
                self._index.end_document()

    def maximal_matches(self, units: list[str]) -> Iterator[tuple[int, int]]:
        """Yield every span of units that stands in a passage, and would in none if it were any longer."""
        lengths, _ = self._follow(units)
        for last, length in enumerate(lengths, 1):
            if length and (last == len(lengths) or lengths[last] <= length):
                yield last - length, last

    def locate(self, units: list[str]) -> tuple[int, int]:
        """Return the first passage that holds the units, and the character where they first start in it."""
        _, ends = self._follow(units)
        start = ends[-1] + 1 - len(units)
        passage = bisect_right(self._starts, start) - 1
        return passage, self._offsets[passage][start - self._starts[passage]]

    def holds(self, units: list[str], passage: int, start: int) -> bool:
        """Return whether the units stand in a passage from this character on."""
        if not 0 <= passage < len(self._offsets):
            return False
        offsets = self._offsets[passage]
        first = bisect_left(offsets, start)
        whole = first < len(offsets) and offsets[first] == start and first + len(units) < len(offsets)
        place = self._starts[passage] + first
        return whole and self._index.tokens[place : place + len(units)].tolist() == self._ids(units).tolist()

    def _follow(self, units: list[str]) -> tuple[list[int], list[int]]:
        """For every unit, the longest span up to it that stands in a passage, and where that first ends."""
        found = np.zeros((2, len(units)), np.int64)
        if units:
            _match(self._index.arrays, self._ids(units), found)
        return found[0].tolist(), found[1].tolist()

    def _ids(self, units: list[str]) -> NDArray[np.int32]:
        unknown = len(self._known)
        return np.array([self._known.get(unit, unknown) for unit in units], np.int32)


@kernel
def _match(arrays, ids, found):
    """Follow `ids` through the automaton: `found` int64 [2, ids] gets length and first end of the longest match."""
    automaton = Automaton(*arrays)
    state, length = ROOT, 0
    for i in range(ids.shape[0]):
        following = goto(automaton, state, ids[i])
        while following == 0 and state != ROOT:
            state = automaton.nodes[state, LINK]
            length = automaton.nodes[state, LEN]
            following = goto(automaton, state, ids[i])
        if following != 0:
            state, length = following, length + 1
        found[0, i] = length
        found[1, i] = automaton.nodes[state, FIRST]


def _longest_first(
    units: list[str], offsets: list[int], matches: Iterable[tuple[int, int]], least: int
) -> list[tuple[int, int]]:
    """Choose among overlapping spans, the longest first; what a chosen one leaves of another stays in the race."""
    taken: dict[int, tuple[int, int]] = {}  # the chosen span of a unit
    chosen: list[tuple[int, int]] = []
    heap: list[tuple[int, int, int]] = []

    def offer(first: int, last: int) -> None:
        first, last = _trimmed(units, first, last)
        if first < last and offsets[last] - offsets[first] >= least:
            heapq.heappush(heap, (offsets[first] - offsets[last], first, last))

    for match in matches:
        offer(*match)
    while heap:
        _, first, last = heapq.heappop(heap)
        # A chosen span is no shorter, so it can't lie inside this one: it covers its start, its end, or neither.
        if first in taken:
            offer(taken[first][1], last)
        elif last - 1 in taken:
            offer(first, taken[last - 1][0])
        else:
            chosen.append((first, last))
            taken.update(dict.fromkeys(range(first, last), (first, last)))
    return chosen


def _trimmed(units: list[str], first: int, last: int) -> tuple[int, int]:
    """Return a span without the units that no citation starts or ends with."""
    while first < last and not _may_start(units[first][0]):
        first += 1
    while first < last and not _may_end(units[last - 1][0]):
        last -= 1
    return first, last


@cache
def _may_start(first: str) -> bool:
    """Whether a citation may start with a unit of this first character, which tells what the unit is."""
    return not (first.isspace() or first in _SENTENCE_MARKS or unicodedata.category(first) in _NEVER_FIRST)


@cache
def _may_end(first: str) -> bool:
    return not (first.isspace() or unicodedata.category(first) in _NEVER_LAST)


def _units(text: str, whole_words: bool) -> list[str]:
    """Split a text into words, white space and single marks, or into characters; joined they are the text."""
    return _pattern().findall(text) if whole_words else list(text)


@cache
def _pattern() -> re.Pattern[str]:
    """One unit: letters with their combining marks, an apostrophe or a decimal mark between them, or anything else."""
    mark = f"[{_combining_marks()}\u200d]"
    letter = rf"[^\W{_SPACELESS}]"
    letters = rf"(?:{letter}+{mark}*)+"
    joint = rf"(?:['’](?={letter})|(?<=\d)[.,](?=\d))"
    return re.compile(rf"{letters}(?:{joint}{letters})*|\s+|.{mark}*", re.DOTALL)


def _combining_marks() -> str:
    """The combining marks of Unicode, as ranges of a character class."""
    codes = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))  # there are none elsewhere
    marks = (code for code in codes if unicodedata.category(chr(code)).startswith("M"))
    ranges = [[code for _, code in group] for _, group in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(part[0])}-{chr(part[-1])}" for part in ranges)
