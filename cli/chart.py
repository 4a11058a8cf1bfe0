"""A bar chart as an SVG file that needs nothing else to be seen."""

from collections.abc import Mapping, Sequence
from html import escape

_BAR, _GAP, _LEFT, _WIDTH = 18, 14, 150, 640
_SHADES = ("#9aa5b1", "#5b8db8", "#1f6f43", "#8a5a00", "#6a3d9a")


def bar_chart(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Return the SVG of horizontal bars, grouped, each with its number.

    Args:
        title: Above the bars.
        unit: Behind every number.
        groups: Values by name, by group.

    Example:
        >>> bar_chart("Speed", "x", {"edit": {"ours": 2.0}}).count("<rect")
        2
    """
    names: Sequence[str] = list(dict.fromkeys(name for values in groups.values() for name in values))
    longest = max((value for values in groups.values() for value in values.values()), default=1.0) or 1.0
    parts, top = [], 50
    for group, values in groups.items():
        parts.append(f'<text x="10" y="{top + 13}" font-weight="bold">{escape(group)}</text>')
        for name, value in values.items():
            length = round((_WIDTH - _LEFT - 130) * value / longest)
            shade = _SHADES[names.index(name) % len(_SHADES)]
            parts.append(f'<rect x="{_LEFT}" y="{top}" width="{max(length, 1)}" height="{_BAR}" fill="{shade}"/>')
            label = f"{escape(name)} {value:.2f} {escape(unit)}"
            parts.append(f'<text x="{_LEFT + length + 6}" y="{top + 13}">{label}</text>')
            top += _BAR + 4
        top += _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" font-family="sans-serif" '
        f'font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="10" y="26" font-size="16">{escape(title)}</text>\n' + "\n".join(parts) + "\n</svg>\n"
    )
