"""The reasoning that some models write before their answer, and where the answer begins."""

import re
from collections.abc import Sequence
from typing import Any

OPENING = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
"""The line that opens a fenced block (CommonMark 0.31, section 4.5)."""

_BLOCK = re.compile(r"\s*<{7,} SEARCH")
REASONING = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
REASONING_END = re.compile(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)
# Control tokens behind the reasoning of model families that mark it by such; the last one counts.
_ENDS = ("[/THINK]", "<channel|>", "<|message|>", "<|END_THINKING|>", "</think>")


def strip_reasoning(answer: str) -> str:
    r"""Drop the reasoning in front of an answer; nothing is left if the reasoning never ends.

    A template may open the reasoning in the prompt already, so that the answer holds the closing tag only. Such a tag
    counts only before the first code fence or block of changes: later it belongs to the file.

    Example:
        >>> strip_reasoning("<think>\nWhich name?\n</think>\nDone.")
        '\nDone.'
    """
    opening = REASONING.match(answer)
    end = REASONING_END.search(answer)
    if opening and end is None:
        return ""
    if end is None or (opening is None and _has_begun(answer[: end.start()])):
        return answer
    return answer[end.end() :]


def answer_start(tokenizer: Any, tokens: Sequence[int]) -> int:
    """Return the index of the first token behind reasoning that ends with a control token; 0 if there is none.

    Decoding leaves control tokens out, so this has to be found before.

    Args:
        tokenizer: Knows which tokens are control tokens.
        tokens: All that the model wrote.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    ends = {number for number, token in added.items() if token.special and token.content in _ENDS}
    return max((index + 1 for index, token in enumerate(tokens) if token in ends), default=0)


def _has_begun(text: str) -> bool:
    return any(OPENING.match(line) or _BLOCK.match(line) for line in text.split("\n"))
