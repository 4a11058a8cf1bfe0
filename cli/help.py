"""Help as a manual page has it: what the command does, its options, examples, exit codes."""

import argparse
import textwrap

_WIDEST = 100
EXIT_CODES = "exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"


class HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal, and leaves lists and examples as they are.

    Args:
        prog: The command's name.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)
        self._width = min(self._width, _WIDEST)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_filled(part, width, indent) for part in text.split("\n\n"))


def _filled(paragraph: str, width: int, indent: str) -> str:
    """Fill the lines that stand at the margin; those that are indented are kept, and continued behind a backslash.

    Example:
        >>> print(_filled("a b\\nc\\n  kept as it is", 80, ""))
        a b c
          kept as it is
    """
    out: list[str] = []
    for line in paragraph.splitlines():
        if line.startswith(" ") or not out or out[-1].startswith(" ") or out[-1].endswith(":"):
            out.append(line)
        else:
            out[-1] += f" {line}"
    return "\n".join(
        indent + line if line.startswith(" ") else textwrap.fill(line, width, subsequent_indent=indent) for line in out
    )
