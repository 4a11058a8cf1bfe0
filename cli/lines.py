"""Lines of a text with their own newlines: compared, shown as a diff, and given back to an edited text."""

import os
import re
from collections import Counter
from dataclasses import dataclass

from lookahead.cli.matching import Stretch, hunks, stretches

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n)|([^\r\n]+)")
_LF_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TO_QUOTE = re.compile(r'[\x00-\x1f\x7f"\\]')
_QUOTED = {char: f"\\{letter}" for char, letter in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)}


@dataclass(frozen=True, slots=True)
class Line:
    """The text of a line and the newline that ends it, empty for a last line without one."""

    text: str
    ending: str


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff and the number of lines it adds and removes; no text when nothing differs."""

    text: str
    added: int
    removed: int


def split_lines(text: str) -> list[Line]:
    r"""Split at ``\r\n``, ``\n`` and ``\r`` only, so that joining the pieces gives the text again.

    Example:
        >>> split_lines("a\r\n\nb")
        [Line(text='a', ending='\r\n'), Line(text='', ending='\n'), Line(text='b', ending='')]
    """
    return [Line(m[1] or m[3] or "", m[2] or "") for m in _LINE.finditer(text)]


def to_lf(text: str) -> str:
    r"""Return the text with every newline as ``\n``, which is how a model sees it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def common_ending(text: str) -> str:
    r"""Return the newline that ends most lines, the first such on a tie, ``\n`` when there is none."""
    endings = Counter(line.ending for line in split_lines(text) if line.ending)
    return endings.most_common(1)[0][0] if endings else "\n"


def restore_lines(original: str, edited: str, seen: str | None = None) -> str:
    r"""Give an edited text the newlines of the original.

    Lines that the edit kept come back exactly as they were, newline included. A new line takes the newline of
    the line it replaces, else of the line above it, else the common one. There is a newline at the end if, and
    only if, the original has one.

    Args:
        original: Text of the file, with its own newlines.
        edited: The edited text, with any newlines.
        seen: The original as the model saw it, where that differs (a tokenizer that normalises Unicode): lines
            that the edit kept are recognised by it and come back in the original's spelling.

    Example:
        >>> restore_lines("a\r\nb\nc", "a\nB\nc\nd\n")
        'a\r\nB\nc\nd'
    """
    old = split_lines(original)
    ends_with_newline = bool(old) and bool(old[-1].ending)
    new = split_lines(to_lf(edited) if ends_with_newline else to_lf(edited).rstrip("\n"))
    default = common_ending(original)
    restored: list[Line] = []
    for same, i1, i2, j1, j2 in stretches(_keys(old, seen), [line.text for line in new]):
        for k in range(j2 - j1):
            above = restored[-1].ending if restored else default
            place = old[i1 + k].ending if i1 + k < i2 else above
            text = old[i1 + k].text if same else new[j1 + k].text
            ending = place or above
            if not text and ending == "\n" and above == "\r" and restored:
                ending = above  # "\r" and "\n" side by side would read as one newline
            restored.append(Line(text, ending))
    body = "".join(line.text + line.ending for line in restored[:-1])
    last = restored[-1] if restored else Line("", "")
    return body + last.text + (last.ending if ends_with_newline else "")


def unified_diff(old: str, new: str, path: str) -> Diff:
    r"""Compare two texts in the form that ``patch`` and ``git apply`` read.

    Lines end at ``\n`` only and are verbatim, so that the diff of a file with other newlines applies too.

    Example:
        >>> print(unified_diff("a\nb\n", "a\nc\n", "f.txt").text, end="")
        --- a/f.txt
        +++ b/f.txt
        @@ -1,2 +1,2 @@
         a
        -b
        +c
    """
    before, after = _LF_LINE.findall(old), _LF_LINE.findall(new)
    out: list[str] = []
    added = removed = 0
    for group in hunks(stretches(before, after)):
        out.append(_hunk_header(group))
        for same, i1, i2, j1, j2 in group:
            if same:
                out.extend(_marked(" ", before[i1:i2]))
                continue
            out.extend(_marked("-", before[i1:i2]))
            out.extend(_marked("+", after[j1:j2]))
            removed += i2 - i1
            added += j2 - j1
    if out:
        out[:0] = [f"--- {_label('a', path)}\n", f"+++ {_label('b', path)}\n"]
    return Diff("".join(out), added, removed)


def _keys(old: list[Line], seen: str | None) -> list[str]:
    """Return what identifies each original line in the edited text."""
    as_seen = split_lines(to_lf(seen)) if seen is not None else old
    return [line.text for line in (as_seen if len(as_seen) == len(old) else old)]


def _marked(mark: str, lines: list[str]) -> list[str]:
    return [
        f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n" for line in lines
    ]


def _hunk_header(group: list[Stretch]) -> str:
    old = _range(group[0].i1, group[-1].i2)
    new = _range(group[0].j1, group[-1].j2)
    return f"@@ -{old} +{new} @@\n"


def _range(start: int, stop: int) -> str:
    """Return a range as unified diffs write it: first line and length, the line before for an empty one."""
    length = stop - start
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"


def _label(side: str, path: str) -> str:
    """Return the file's name in the header, quoted as git does where it would break the line."""
    name = f"{side}/{_from_here(path).lstrip('/')}"
    if _TO_QUOTE.search(name):
        return f'"{_TO_QUOTE.sub(_quoted, name)}"'
    return f"{name}\t" if " " in name else name


def _quoted(found: re.Match[str]) -> str:
    return _QUOTED.get(found[0]) or f"\\{ord(found[0]):03o}"


def _from_here(path: str) -> str:
    """Return the path from the current folder, which is where a diff is applied; of a file elsewhere, the whole one."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # there is no current folder, or it is on another drive
        relative = path
    outside = relative.split(os.sep)[0] == os.pardir
    return (os.path.abspath(path) if outside else relative).replace(os.sep, "/")
