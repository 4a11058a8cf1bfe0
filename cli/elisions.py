"""Placeholders such as "# ... rest of the code unchanged" that stand for code a model left out.

A placeholder is recognised by its words: a comment (or a line in dots or brackets) made of hardly anything but
words like *rest*, *unchanged*, *existing code*. A comment that says something about the program has other words.
"""

import re
from typing import NamedTuple


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
_FILLER = _words(
    "a above again all and any are as be below body change changed changes else exactly for from go goes here in is "
    "it kept left made more needed no nothing of or place remain remains stay stays test tests text that the this to "
    "was were with your"
)
_VOCABULARY = _OMITS | _REFERS | _CODE | _FILLER

_COMMENT = re.compile(
    r"(?:^|(?<=\s))(?:#+|//+|\{?/\*+|--+|;+|%+|<!--+|\*(?=\s)|\"{3}|'{3})"  # the marker
    r"\s*(?P<text>.*)$"
)
_CLOSING = re.compile(r"(?:\*/\}?|--+>|\"{3}|'{3})$")
_BRACKETED = re.compile(r"\s*(?:\.{3}|…|[\[(<{]).*")
_DOTS = re.compile(r"\.\s?\.\s?\.|…")


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
    above = ""
    for line in edited.split("\n"):
        remark = _remark(line)
        if _is_placeholder(remark, above) and _normal(remark) not in own:
            return line.strip()
        above = line.strip() or above
    return None


def _remark(line: str) -> _Remark:
    comment = _COMMENT.search(line.rstrip())
    if comment is None:
        return _Remark(line.strip(), False, True)
    return _Remark(_CLOSING.sub("", comment["text"]).rstrip(), True, not line[: comment.start()].strip())


def _normal(remark: _Remark) -> tuple[str, bool]:
    return " ".join(remark.text.lower().split()), remark.comment


def _is_placeholder(remark: _Remark, above: str) -> bool:
    words = re.findall(r"\w+", remark.text.lower())
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


def _only_about_omission(words: list[str], dots: bool, strangers: int = 1) -> bool:
    """Whether the words speak of text left out; one name may be among them (rest of the *Inventory* class)."""
    unknown = [word for word in words if word not in _VOCABULARY]
    omits, refers, code = ({*words} & kind for kind in (_OMITS, _REFERS, _CODE))
    if len(unknown) > strangers or (unknown and not (dots or (omits and code) or "same" in refers)):
        return False
    return bool(omits or (refers and (dots or code)) or len(refers) > 1)
