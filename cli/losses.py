"""What an answer leaves out: definitions that are gone though nobody spoke of them."""

import re
from collections import Counter

_MODIFIERS = (
    r"export|default|async|unsafe|const|pub(?:\([^)\n]*\))?|public|private|protected|internal|static|final|abstract"
)
_KEYWORDS = r"def|class|function\*?|func(?:[ \t]*\([^)\n]*\))?|fun|fn|struct|enum|interface|trait"
_DEFINITION = re.compile(
    rf"^([ \t]*)(?:(?:{_MODIFIERS})[ \t]+)*(?:{_KEYWORDS})[ \t]+([^\W\d][\w.]*)"
    r"(?=[ \t]*[(<\[{:]|[ \t]+(?:extends|implements|where)\b|[ \t]*$)",
    re.MULTILINE,
)
_BINDING = re.compile(  # what still has the name: a function that became a constant, say
    r"^[ \t]*(?:export[ \t]+)?(?:(?:const|let|var|type)[ \t]+)?([^\W\d]\w*)\b[^=(\n]*=(?!=)", re.MULTILINE
)
_WORD = re.compile(r"[^\W\d]\w*")


def left_out(before: str, after: str, instruction: str) -> list[str]:
    r"""Return the names of functions, classes and the like that an edit drops and the instruction does not name.

    A small model that copies a file may lose its place where two functions look alike, and skip one of them. What is
    renamed or deleted on purpose is named by the instruction, and what stood inside goes with it, unless something new
    stands there, which may be the same renamed. Definitions are lines that begin with a keyword for one, in Python and
    languages like it.

    Args:
        before: The text that was edited, with ``\n`` newlines.
        after: The edited text.
        instruction: What was asked for.

    Example:
        >>> left_out("def a():\n    pass\ndef b():\n    pass\n", "def a():\n    pass\n", "Rename c to d.")
        ['b']
    """
    named, rest = set(_WORD.findall(instruction)), Counter(name for _, name in _definitions(after))
    found = _definitions(before)
    known = {name for _, name in found}
    new = {depth for depth, name in _definitions(after) if name not in known}
    kept = named | set(_BINDING.findall(after))
    lost, at = [], 0
    while at < len(found):
        depth, name = found[at]
        at += 1
        if rest[name] > 0:
            rest[name] -= 1
            continue
        if name not in kept:
            lost.append(name)
        inside = at
        while inside < len(found) and found[inside][0] > depth:
            inside += 1
        if depth not in new and not any(rest[name] > 0 for _, name in found[at:inside]):
            at = inside  # all that stood in it is gone with it
    return lost


def _definitions(text: str) -> list[tuple[int, str]]:
    """Return how far each definition is indented, and its name."""
    return [(len(indent.expandtabs()), name.rpartition(".")[2]) for indent, name in _DEFINITION.findall(text)]
