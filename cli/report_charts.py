"""The charts of a report, as SVG in the page's own colours, with patterns that need no colour."""

from collections.abc import Sequence
from html import escape

from lookahead.cli.report_data import Step

_WIDTH, _HEIGHT = 400, 170
_LEFT, _BOTTOM, _TOP = 38, 30, 8
_MOST_BARS = 120

HATCH = (
    '<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs><pattern id="hatch" width="5" '
    'height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" class="paper"/>'
    '<rect width="2" height="5" class="rejected-ink"/></pattern></defs></svg>'
)
"""The pattern of rejected tokens, which stands in the page once."""


def steps_chart(steps: Sequence[Step]) -> str:
    """Return drafted and accepted tokens per step; where there are too many steps, means over neighbours."""
    size = -(-len(steps) // _MOST_BARS) or 1
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    drafted = [sum(step.drafted for step in group) / len(group) for group in groups]
    accepted = [sum(step.accepted for step in group) / len(group) for group in groups]
    most = max(drafted, default=0) or 1
    width = (_WIDTH - _LEFT) / max(1, len(groups))
    bars = []
    for number, (all_of_it, kept) in enumerate(zip(drafted, accepted, strict=True)):
        first, last = number * size + 1, number * size + len(groups[number])
        name = f"step {first}" if first == last else f"steps {first} to {last}, means"
        title = f"{name}: {kept:.3g} of {all_of_it:.3g} draft tokens accepted"
        x, bar = _LEFT + number * width, max(0.5, width * 0.8)
        bars.append(
            f"<g><title>{title}</title>{_bar(x, bar, kept / most, all_of_it / most, 'rejected')}"
            f"{_bar(x, bar, 0, kept / most, 'accepted')}</g>"
        )
    ticks: list[tuple[float, str]] = [(_LEFT, "1"), (_WIDTH - 2, str(len(steps)))] if steps else []
    return _svg("Draft tokens by step", bars, most, ticks, "step")


def columns_chart(title: str, columns: Sequence[tuple[str, float, str]], unit: str, *, share: bool = False) -> str:
    """Return a column for each label, value and explanation.

    Args:
        title: What is shown, for those who can't see it.
        columns: In their order.
        unit: Below the axis.
        share: Values are shares of 1.
    """
    most = 1.0 if share else max((value for _, value, _ in columns), default=0) or 1
    width = (_WIDTH - _LEFT) / max(1, len(columns))
    bars, ticks = [], []
    every = -(-len(columns) // 9) or 1
    for number, (label, value, words) in enumerate(columns):
        x = _LEFT + number * width
        bars.append(
            f"<g><title>{escape(words)}</title>{_bar(x + width * 0.1, width * 0.8, 0, value / most, 'accepted')}</g>"
        )
        if number % every == 0:
            ticks.append((x + width / 2, label))
    return _svg(title, bars, most, ticks, unit, percent=share)


def split_bar(parts: Sequence[tuple[str, float, str]]) -> str:
    """Return one bar that is divided as the seconds of its parts, each with a name and a class."""
    whole = sum(seconds for _, seconds, _ in parts) or 1
    x, pieces = 0.0, []
    for name, seconds, kind in parts:
        width = _WIDTH * seconds / whole
        title = f"{escape(name)}: {seconds:.3g} s, {seconds / whole:.1%}"
        pieces.append(
            f'<g><title>{title}</title><rect x="{x:.1f}" y="1" width="{width:.1f}" height="24" class="{kind}"/></g>'
        )
        x += width
    return (
        f'<svg viewBox="0 0 {_WIDTH} 26" role="img" aria-label="Where the time went">{"".join(pieces)}'
        f'<rect x="0.5" y="1" width="{_WIDTH - 1}" height="24" class="frame"/></svg>'
    )


def _bar(x: float, width: float, low: float, high: float, kind: str) -> str:
    """Return a bar between two shares of the chart's height."""
    room = _HEIGHT - _TOP - _BOTTOM
    top, height = _TOP + room * (1 - high), room * (high - low)
    if height <= 0:
        return ""
    return f'<rect x="{x:.2f}" y="{top:.1f}" width="{width:.2f}" height="{height:.1f}" class="{kind}"/>'


def _svg(
    title: str, bars: list[str], most: float, ticks: list[tuple[float, str]], unit: str, *, percent: bool = False
) -> str:
    base = _HEIGHT - _BOTTOM
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    for part in (0, 0.5, 1):
        y = base - (base - _TOP) * part
        label = f"{part:.0%}" if percent else f"{most * part:.3g}"
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts += bars
    for x, label in ticks:
        anchor = "end" if x > _WIDTH - 20 else "start" if x <= _LEFT else "middle"
        parts.append(f'<text x="{x:.1f}" y="{base + 14}" text-anchor="{anchor}">{escape(label)}</text>')
    middle = (_LEFT + _WIDTH) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">{escape(unit)}</text></svg>')
    return "".join(parts)
