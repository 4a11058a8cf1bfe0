"""How the compiled parts are compiled: once per machine where a folder for their cache is writable."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import options

# The arrays outlive every call, so nothing is reference counted in the kernels, and their parts are compiled into them:
# handing four arrays from function to function and counting them took nine tenths of the time.
_WANTED = {"_nrt": False, "error_model": "numpy"}
_OPTIONS: dict[str, Any] = {name: value for name, value in _WANTED.items() if hasattr(options.DefaultOptions, name)}


def kernel(function: Any) -> Any:
    """Compile a function for Python to call, with a cache on disk where a folder for it is writable.

    Numba takes a cached kernel for good as long as the kernel's own file is unchanged, also when a part that it was
    compiled with, from another file, is not. So the cache here is that of the whole package's sources, and of the
    kernel's own file, which may be a plugin's.
    """
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        return numba.njit(**_OPTIONS)(function)
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _stamp(function.__code__.co_filename)
    return compiled


def part(function: Any) -> Callable[..., Any]:
    """Compile a function that only kernels call."""
    return numba.njit(**_OPTIONS)(function)


@cache
def _stamp(own: str) -> tuple[float, int]:
    """Return when the newest source of the package, or the own file, was changed, and the size of all."""
    files = [path.stat() for path in {Path(own), *Path(__file__).parent.glob("*.py")}]
    return max(file.st_mtime for file in files), sum(file.st_size for file in files)
