"""Placeholders such as "# ... rest of the code unchanged" that stand for code a model left out.

A placeholder is recognised by its words: a comment (or a line in dots or brackets) made of hardly anything but
words like *rest*, *unchanged*, *existing code*. A comment that says something about the program has other words. Where
it stands in the place of more lines than there are now, dots at its start or end tell too, in any language.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from lookahead.cli.matching import stretches


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that say that something was left out.
_OMITS = _words("brevity elided omitted remainder rest snip snipped unchanged unmodified untouched")
# Words that point to text elsewhere; they need one of _CODE beside them, or dots.
_REFERS = _words("before continue continues existing original other previous remaining same")
_CODE = _words(
    "class code content contents definitions everything file function functions implementation implementations "
    "import imports lines logic method methods module parts script"
)
# What else may be left out; a comment may well speak of it, without dots, where no lines are gone.
_PARTS = _words(
    "cells columns component components config configuration document documents entries fields items keep keys options "
    "page pages paragraphs properties queries query rows rule rules section sections settings steps table tables "
    "template values"
)
_FILLER = _words(
    "a above again all and any are as be below body change changed changes else exactly for from go goes here in is "
    "it its kept left made more needed no nothing of or place remain remains stay stays test tests text that the they "
    "this to was were with your"
)

_COMMENT = re.compile(
    r"(?:^|(?<=\s))(?:\{?#+|\{\{!--|//+|\{?/\*+|--+|;+|%+|<!--+|\*(?=\s)|\"{3}|'{3}|@?(?i:rem)(?=\s))"  # the marker
    r"\s*(?P<text>.*)$"
)
_CLOSING = re.compile(r"(?:\*/\}?|-->|#\}|--\}\}|\"{3}|'{3})$")
_BRACKETED = re.compile(r"[\s*_|>\"'`-]*(?:\.{3}|…|[\[(<{]).*")
_WRAPPING = " \t*_|\"'`[](){}<>,;:-"
_ELLIPSES = ("...", "…")
_DOTS = re.compile(r"\.\s?\.\s?\.|…")
_SPREAD = re.compile(r"[\[({\s]*\.{3}[\w$]+(?:\.[\w$]+)*[^\w.…]*")  # "...rest," in JavaScript


class _Remark(NamedTuple):
    """The part of a line that may be a placeholder."""

    text: str
    comment: bool
    alone: bool  # no code in front of it


def find_elision(edited: str, original: str) -> str | None:
    """Return the first line of an edited text that stands for text left out, or None.

    Args:
        edited: The edited text.
        original: The text before: remarks that stand in it are its own, not placeholders.

    Example:
        >>> find_elision("import os\\n# ... rest of the code unchanged ...\\n", "import os\\nrun()\\n")
        '# ... rest of the code unchanged ...'
    """
    own = {_normal(_remark(line)) for line in original.split("\n")}
    places = cache(lambda: _shorter_places(original, edited))
    above = ""
    for number, line in enumerate(edited.split("\n")):
        remark = _remark(line)
        is_new = _normal(remark) not in own and not _is_spread(remark)
        if is_new and (_is_placeholder(remark, above) or _stands_for_lines(remark, above, number, places)):
            return line.strip()
        above = line.strip() or above
    return None


def _shorter_places(original: str, edited: str) -> dict[int, int]:
    """Return the numbers of the new lines that stand where more lines stood, and how many new ones are there."""
    old = [line.strip() for line in original.split("\n") if line.strip()]
    new = [(number, line.strip()) for number, line in enumerate(edited.split("\n")) if line.strip()]
    found = stretches(old, [line for _, line in new])
    return {
        number: place.j2 - place.j1
        for place in found
        if not place.same and place.i2 - place.i1 > place.j2 - place.j1
        for number, _ in new[place.j1 : place.j2]
    }


def _remark(line: str) -> _Remark:
    comment = _COMMENT.search(line.rstrip())
    if comment is None:
        return _Remark(line.strip(), False, True)
    return _Remark(_CLOSING.sub("", comment["text"]).rstrip("- \t"), True, not line[: comment.start()].strip())


def _normal(remark: _Remark) -> tuple[str, bool]:
    return " ".join(remark.text.lower().split()), remark.comment


def _is_spread(remark: _Remark) -> bool:
    """Whether the dots are code, which puts in what a name stands for."""
    is_code = not remark.comment and _SPREAD.fullmatch(remark.text) is not None
    return is_code and _OMITS.isdisjoint({*_words_of(remark)} - {"rest"})


def _words_of(remark: _Remark) -> list[str]:
    return re.findall(r"[^\W\d]\w*", remark.text.lower())


def _is_placeholder(remark: _Remark, above: str) -> bool:
    """Whether a remark can be nothing else, wherever it stands."""
    words = _words_of(remark)
    dots = _DOTS.search(remark.text) is not None
    if not words:
        return dots and not re.sub(r"[.…\s\[\](){}<>*-]", "", remark.text) and _dots_omit(remark, above)
    if not remark.alone:
        return dots and _only_about_omission(words, dots)
    if remark.comment or _BRACKETED.fullmatch(remark.text):
        return _only_about_omission(words, dots)
    return bool({"rest", "remainder"} & {*words}) and _only_about_omission(words, dots, strangers=0)


def _dots_omit(remark: _Remark, above: str) -> bool:
    """Whether mere dots stand for code: below a colon or a docstring, ``...`` is an empty body."""
    return remark.comment or not above.endswith((":", '"""', "'''"))


def _stands_for_lines(remark: _Remark, above: str, number: int, places: Callable[[], dict[int, int]]) -> bool:
    """Whether a remark that may be another elsewhere is a placeholder, for it stands where more lines stood."""
    if not remark.alone or number not in places():
        return False
    words, core = _words_of(remark), remark.text.strip(_WRAPPING)
    if remark.comment or _BRACKETED.fullmatch(remark.text):
        if core.startswith(_ELLIPSES):
            return bool(words) or _dots_omit(remark, above)
        if core.endswith(_ELLIPSES) and places()[number] == 1:
            return True
        return _only_about_omission(words, _DOTS.search(core) is not None, parts=True)
    return bool({"rest", "remainder"} & {*words}) and _only_about_omission(words, False, strangers=0, parts=True)


def _only_about_omission(words: list[str], dots: bool, strangers: int = 1, *, parts: bool = False) -> bool:
    """Whether the words speak of text left out; one name may be among them (rest of the *Inventory* class)."""
    nouns = _CODE | _PARTS if dots or parts else _CODE
    unknown = [word for word in words if word not in _OMITS | _REFERS | _FILLER | nouns]
    omits, refers, code = ({*words} & kind for kind in (_OMITS, _REFERS, nouns))
    if len(unknown) > strangers or (unknown and not (dots or (omits and code) or "same" in refers)):
        return False
    return bool(omits or (refers and (dots or code)) or len(refers) > 1)
