"""The page of a report: a pure function from a trace to one HTML text that needs nothing else to be seen."""

from collections.abc import Sequence
from html import escape
from typing import Any

from lookahead.cli.report_charts import HATCH, columns_chart, split_bar, steps_chart
from lookahead.cli.report_data import (
    Generation,
    Step,
    Totals,
    acceptance_by_position,
    accepted_lengths,
    by_source,
    read_generations,
    totals,
)
from lookahead.cli.report_style import STYLE
from lookahead.cli.report_text import numbered_lines, text_id, tinted_output

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="generator" content="specdec-lookup report">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{hatch}
<h1>{title}</h1>
<p class="faint">{subtitle}</p>
{body}
</body>
</html>
"""
_ENDINGS = {
    "stop": "ended by the model",
    "length": "stopped at the token limit",
    "interrupted": "interrupted: what was written until then",
}


def report_page(entries: Sequence[dict[str, Any]]) -> str:
    """Return the page for the objects of a trace, the header first.

    Example:
        >>> "<title>edit</title>" in report_page([{"kind": "trace", "version": 1, "command": "edit"}])
        True
    """
    header, generations = entries[0], read_generations(entries)
    model = header.get("model") or {}
    sections = [_section(generation, number, len(generations)) for number, generation in enumerate(generations, 1)]
    body = [_tiles(totals(generations)), *sections, _configuration(header)]
    title = " ".join(str(part) for part in (header.get("command", ""), _first_name(generations)) if part)
    return _PAGE.format(
        title=escape(title),
        subtitle=escape(" · ".join(str(part) for part in (model.get("name"), header.get("started")) if part)),
        style=STYLE,
        hatch=HATCH,
        body="\n".join(body) if generations else f"<p>This trace holds no generation.</p>{_configuration(header)}",
    )


def _first_name(generations: Sequence[Generation]) -> str:
    names = [generation.name for generation in generations if generation.name]
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""


def _tiles(figures: Totals) -> str:
    tiles = [
        (f"{figures.per_step:.2f}", "tokens per step"),
        (f"{figures.speed:.1f}", "tokens per second"),
        (f"{figures.acceptance:.0%}", f"of {figures.drafted:,} draft tokens accepted"),
        (f"{figures.tokens:,}", f"tokens in {figures.steps:,} steps"),
        (f"{figures.forward_s + figures.propose_s:.2f} s", f"after {figures.prefill_s:.2f} s for the prompt"),
    ]
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{value}</b><span>{words}</span></div>' for value, words in tiles)
        + "</div>"
    )


def _section(generation: Generation, number: int, of: int) -> str:
    prefix, figures = f"g{number}", totals([generation])
    name = escape(generation.name or "Output")
    parts = [
        f"<section><h2>{name}</h2>",
        _tiles(figures) if of > 1 else "",
        f'<p class="faint">{escape(_ENDINGS.get(generation.finish, generation.finish))}'
        + (f"; decoded plainly, because {escape(generation.plain_reason)}" if generation.plain_reason else "")
        + "</p>",
        '<p class="faint">Underlined and tinted is what was copied, by turns solid and dotted, a span a step; bare are '
        "the model's own tokens. A copied span shows its source when the pointer is on it, and leads there.</p>",
        f"<pre>{tinted_output(generation, prefix)}</pre>",
        f'<div class="charts">{"".join(_figures(generation.steps, figures))}</div>',
        _sources(generation.steps),
        *(_text(generation, kind, prefix) for kind in generation.texts if kind != "output"),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _figures(steps: Sequence[Step], figures: Totals) -> list[str]:
    lengths = [
        (label, count, f"{count} drafts with {label} tokens accepted") for label, count in accepted_lengths(steps)
    ]
    positions = [
        (str(at), share, f"token {at}: accepted in {share:.0%} of {count} drafts")
        for at, share, count in acceptance_by_position(steps)
    ]
    return [
        _figure("Drafted and accepted tokens by step", _legend(), steps_chart(steps)),
        _figure("Accepted lengths", "drafts", columns_chart("Accepted lengths", lengths, "accepted tokens")),
        _figure(
            "Acceptance by position",
            "of the drafts that were at least so long",
            columns_chart("Acceptance by position", positions, "position in the draft", share=True),
        ),
        _times(figures),
    ]


def _figure(title: str, words: str, chart: str) -> str:
    return f"<figure><h3>{title}</h3><p>{words}</p>{chart}</figure>"


def _legend() -> str:
    keys = (("accepted", "accepted"), ("rejected", "rejected"))
    return ", ".join(f"{_key(kind)} {word}" for kind, word in keys)


def _key(kind: str) -> str:
    box = f'<svg viewBox="0 0 12 8" preserveAspectRatio="none"><rect width="12" height="8" class="{kind}"/></svg>'
    return f'<span class="key">{box}</span>'


def _times(figures: Totals) -> str:
    parts = [
        ("reading the prompt", figures.prefill_s, "rejected"),
        ("the model's steps", figures.forward_s, "accepted"),
        ("index and drafts", figures.propose_s, "own"),
    ]
    whole = sum(seconds for _, seconds, _ in parts) or 1
    rows = "".join(
        f"<tr><td>{_key(kind)} {name}</td><td>{seconds:.3f} s</td><td>{seconds / whole:.1%}</td></tr>"
        for name, seconds, kind in parts
    )
    return _figure("Where the time went", "", f'{split_bar(parts)}<div class="scroll"><table>{rows}</table></div>')


def _sources(steps: Sequence[Step]) -> str:
    tokens = sum(step.emitted for step in steps) or 1
    rows = "".join(
        f"<tr><td>{escape(row.name) or 'no draft'}</td><td>{row.steps:,}</td><td>{row.drafted:,}</td>"
        f"<td>{row.accepted:,}</td><td>{f'{row.accepted / row.drafted:.0%}' if row.drafted else ''}</td>"
        f"<td>{row.tokens / tokens:.0%}</td></tr>"
        for row in by_source(steps)
    )
    heads = ("source", "steps", "drafted", "accepted", "rate", "of the output")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<h3>Sources</h3><div class="scroll"><table><tr>{head}</tr>{rows}</table></div>' if rows else ""


def _text(generation: Generation, kind: str, prefix: str) -> str:
    text = generation.texts.get(kind)
    if not text:
        return ""
    count = text.count("\n") + 1
    lines = numbered_lines(text, f"{prefix}-{text_id(kind)}")
    return f'<details><summary>The {escape(kind)}, {count:,} lines</summary><pre class="lines">{lines}</pre></details>'


def _configuration(header: dict[str, Any]) -> str:
    shown: dict[str, Any] = {"machine": header.get("machine", "")}
    shown |= {f"model {name}": value for name, value in (header.get("model") or {}).items()}
    shown |= {name.replace("_", " "): value for name, value in (header.get("settings") or {}).items()}
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(_words(value))}</dd>" for name, value in shown.items() if value)
    return f"<h2>Configuration</h2><dl>{rows}</dl>"


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
