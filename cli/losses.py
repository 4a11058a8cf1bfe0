"""What an answer leaves out: definitions that are gone though nobody spoke of them."""

import re

_DEFINITION = re.compile(
    r"^[ \t]*(?:(?:export|default|async|pub|public|private|protected|static|abstract)\s+)*"
    r"(?:def|class|function|func|fn|struct|enum|interface|trait)\s+([^\W\d]\w*)",
    re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d]\w*")


def left_out(before: str, after: str, instruction: str) -> list[str]:
    r"""Return the names of functions, classes and the like that an edit drops and the instruction does not name.

    A small model that copies a file may lose its place where two functions look alike, and skip one of them. What is
    renamed or deleted on purpose is named by the instruction.

    Args:
        before: The text that was edited.
        after: The edited text.
        instruction: What was asked for.

    Example:
        >>> left_out("def a():\n    pass\ndef b():\n    pass\n", "def a():\n    pass\n", "Rename c to d.")
        ['b']
    """
    wanted = set(_WORD.findall(instruction))
    rest = _DEFINITION.findall(after)
    lost = []
    for name in _DEFINITION.findall(before):
        if name in rest:
            rest.remove(name)
        elif name not in wanted:
            lost.append(name)
    return lost
