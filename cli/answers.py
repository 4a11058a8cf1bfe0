"""What a model answered, and the edited file in it: pure functions that rather refuse than guess."""

import re
from dataclasses import dataclass, field

from lookahead.cli.errors import CommandError
from lookahead.cli.lines import to_lf
from lookahead.cli.reasoning import OPENING, strip_reasoning
from lookahead.cli.wholeness import RETRY, refuse_cut, refuse_partial


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block; complete when its closing fence is there, unclear when another one opens within."""

    text: str
    complete: bool
    unclear: bool = field(default=False, repr=False)


def extract_file(answer: str, original: str, *, cut: bool = False) -> str:
    r"""Return the edited file that an answer holds in its only fenced block, with ``\n`` newlines.

    Args:
        answer: What the model wrote.
        original: Text of the file before the edit; a phrase that stands in it is never taken for an elision.
        cut: Whether the answer ended at the token limit instead of at its own end.

    Raises:
        CommandError: The answer was cut, has no or several complete blocks, or its block is empty or leaves code out.

    Example:
        >>> extract_file("Here you are:\n```python\nx = 2\n```\nDone.", "x = 1\n")
        'x = 2\n'
    """
    refuse_cut(cut)
    text = _only_block(strip_reasoning(to_lf(answer)))
    refuse_partial(text, original)
    return _without_copied_end(text, original)


def fenced_blocks(text: str) -> list[Block]:
    r"""Return the fenced blocks of a Markdown text (CommonMark 0.31, section 4.5).

    A block ends at a fence of the same character that is at least as long as the opening one and has no info string.
    Its lines are as much to the right as its opening fence is.

    Example:
        >>> fenced_blocks("````md\n```\n````\n~~~\nx")
        [Block(text='```\n', complete=True), Block(text='x', complete=False)]
    """
    blocks: list[Block] = []
    fence, indent, unclear = "", 0, False
    body: list[str] = []
    for line in text.split("\n"):
        opening = OPENING.match(line)
        if fence and _closes(line, fence):
            blocks.append(Block("".join(body), True, unclear))
            fence = ""
        elif fence:
            body.append(line[min(indent, len(line) - len(line.lstrip(" "))) :] + "\n")
            unclear = unclear or (opening is not None and opening["fence"].startswith(fence))
        elif opening:
            fence, indent, unclear, body = opening["fence"], opening.start("fence"), False, []
    if fence:
        blocks.append(Block("".join(body)[:-1], False, unclear))
    return blocks


def _without_copied_end(text: str, original: str) -> str:
    """Return the text without blank lines at its end that parted its last line from what the file no longer has.

    A model that leaves out the end of a file notices behind them that nothing is left to write.
    """
    body = text.rstrip("\n")
    end = "\n" + body.rpartition("\n")[2] + text[len(body) :]
    is_copied = end.endswith("\n\n") and end in "\n" + original and not original.endswith("\n\n")
    return body + "\n" if is_copied else text


def _closes(line: str, fence: str) -> bool:
    mark = re.escape(fence[0])
    return re.fullmatch(rf" {{0,3}}{mark}{{{len(fence)},}}[ \t]*", line) is not None


def _only_block(answer: str) -> str:
    blocks = fenced_blocks(answer)
    if not blocks or not blocks[-1].complete:
        raise CommandError(f"the answer has no complete code block: {RETRY}")
    if len(blocks) > 1:
        raise CommandError(f"the answer has {len(blocks)} code blocks, and only one can be the file: {RETRY}")
    if blocks[0].unclear:
        raise CommandError(f"the answer's code block has another one in it, and it is unclear where it ends: {RETRY}")
    return blocks[0].text
