"""Sizes and times as people write them: 500M, 2G, 12h, 30d."""

import argparse
import re

_BYTES = {"": 1, "k": 2**10, "M": 2**20, "G": 2**30}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def size(text: str) -> int:
    """Return a size in bytes.

    >>> size("2M")
    2097152
    """
    return int(_amount(text, _BYTES, "size: use bytes, such as 500M or 2G"))


def duration(text: str) -> float:
    """Return a time in seconds.

    >>> duration("2h")
    7200.0
    """
    return _amount(text, _SECONDS, "time: use seconds, or such as 90m, 12h or 30d")


def _amount(text: str, units: dict[str, int], what: str) -> float:
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([a-zA-Z]?)", text)
    value = float(found[1]) * units.get(found[2], 0) if found else 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
    return value
