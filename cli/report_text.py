"""The output of a generation as HTML, each step told apart, each copied span linked to where it stands."""

import re
from html import escape
from typing import Any

from lookahead.cli.report_data import Generation, Step

_KINDS = ("step even", "step odd")
_PLACES = {"prompt": "the prompt", "prediction": "the prediction", "output": "the output itself", "memory": "memory"}


def tinted_output(generation: Generation, prefix: str) -> str:
    """Return the output: copied spans as links, marked by turns in two ways, and the model's own tokens bare.

    Args:
        generation: Whose output.
        prefix: Begins the ids of the lines that links go to.

    Example:
        >>> step = Step("ab!", 2, drafted=2, accepted=2, emitted=3)
        >>> tinted_output(Generation(first="<", steps=[step]), "g1")
        '&lt;<span class="step even" title="step 1: 2 of 2 draft tokens accepted">ab</span>!'
    """
    parts, turn = [escape(generation.first)], 0
    for number, step in enumerate(generation.steps, 1):
        parts.append(_step(step, number, _KINDS[turn % 2], generation, prefix))
        turn += step.accepted_characters > 0
    return "".join(parts)


def numbered_lines(text: str, prefix: str) -> str:
    """Return a text as numbered lines that links can go to.

    Example:
        >>> numbered_lines("a\\n<", "g1-prompt")
        '<span class="line" id="g1-prompt-1">a</span>\\n<span class="line" id="g1-prompt-2">&lt;</span>'
    """
    lines = enumerate(text.split("\n"), 1)
    return "\n".join(f'<span class="line" id="{prefix}-{number}">{escape(line)}</span>' for number, line in lines)


def _step(step: Step, number: int, kind: str, generation: Generation, prefix: str) -> str:
    words = f"step {number}: {step.accepted} of {step.drafted} draft tokens accepted"
    if step.source:
        words += f"; source {step.source}, after {step.match} matching tokens"
    parts, at = [], 0
    for span in step.copied:
        end = min(at + int(span.get("characters", 0)), step.accepted_characters)
        parts.append(_span(step.text[at:end], span, words, kind, generation, prefix))
        at = end
    parts.append(_span(step.text[at : step.accepted_characters], {}, words, kind, generation, prefix))
    return "".join(parts) + escape(step.text[step.accepted_characters :])


def _span(copied: str, span: dict[str, Any], words: str, kind: str, generation: Generation, prefix: str) -> str:
    """Return a copied span, which tells its source and, if that stands in the page, leads there."""
    if not copied:
        return ""
    name = str(span.get("from", ""))
    text = generation.texts.get(name)
    if name:
        words += f"; copied from {_PLACES.get(name, name)}"
    if text is None or "start" not in span:
        return f'<span class="{kind}" title="{escape(words)}">{escape(copied)}</span>'
    start, end = int(span["start"]), int(span.get("end", 0))
    line = text.count("\n", 0, start) + 1
    shown = f'class="{kind}" title="{escape(f"{words}, line {line}: {_clipped(text[start:end])}")}"'
    if name == "output":
        return f"<span {shown}>{escape(copied)}</span>"
    return f'<a {shown} href="#{prefix}-{text_id(name)}-{line}">{escape(copied)}</a>'


def text_id(name: str) -> str:
    """Return a text's name as a part of an id.

    Example:
        >>> text_id("reference 1")
        'reference-1'
    """
    return re.sub(r"\W+", "-", name)


def _clipped(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
