"""Whether an edit leaves a file that its own language can read."""

import ast
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import PurePath

_READERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys((".py", ".pyi"), ast.parse),
    **dict.fromkeys((".json", ".ipynb"), json.loads),
}
if sys.version_info >= (3, 11):
    import tomllib

    _READERS[".toml"] = tomllib.loads


def syntax_error(path: str, before: str, after: str) -> str | None:
    """Return what makes an edited file unreadable that could be read before, or None.

    Args:
        path: Of the file; its ending tells the language: Python, JSON (notebooks, too), or (from Python 3.11 on) TOML.
        before: The text that was edited.
        after: The edited text.

    Example:
        >>> syntax_error("a.json", '{"a": 1}', '{"a": 1,,}') is None, syntax_error("a.txt", "a", "a(")
        (False, None)
    """
    read = _READERS.get(PurePath(path).suffix.lower())
    if read is None or _error(read, before) is not None:
        return None
    return _error(read, after)


def _error(read: Callable[[str], object], text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the reader thinks of the file, nobody asked
            read(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, reason = getattr(error, "lineno", None), getattr(error, "msg", None) or str(error)
        return f"line {line}: {reason}" if line else reason
    return None
