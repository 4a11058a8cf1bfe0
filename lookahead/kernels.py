"""How the compiled parts are compiled: once per machine where a folder for their cache is writable."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, options

# The arrays outlive every call, so nothing is reference counted in the kernels, and their parts are compiled into them:
# handing four arrays from function to function and counting them took nine tenths of the time.
_WANTED = {"_nrt": False, "error_model": "numpy"}
_OPTIONS: dict[str, Any] = {name: value for name, value in _WANTED.items() if hasattr(options.DefaultOptions, name)}


class _Placed(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's cache files; those of an installed package in the user's cache folder before the package's own.

    An uninstallation leaves behind what it did not install, and a folder left in site-packages hides later checkouts.
    """

    if Path(__file__).parents[1].name.endswith("-packages"):
        _locator_classes = sorted(
            caching.CompileResultCacheImpl._locator_classes, key=lambda locator: "InTree" in locator.__name__
        )


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _Placed


def kernel(function: Any) -> Any:
    """Compile a function for Python to call; nothing in it is reference counted."""
    return cached(function, **_OPTIONS)


def part(function: Any) -> Callable[..., Any]:
    """Compile a function that only kernels call."""
    return numba.njit(**_OPTIONS)(function)


def cached(function: Any, **options: Any) -> Any:
    """Compile a function with numba's options, with a cache on disk where a folder for it is writable.

    Numba takes a cached kernel for good as long as the kernel's own file is unchanged, also when a part that it was
    compiled with, from another file, is not. So the cache here is that of the whole package's sources, and of the
    kernel's own file, which may be a plugin's.
    """
    compiled = numba.njit(**options)(function)
    if hasattr(compiled, "_cache"):
        with suppress(RuntimeError):  # no folder is writable
            compiled._cache = _Cache(function)
            compiled._cache._cache_file._source_stamp = _stamp(function.__code__.co_filename)
    return compiled


@cache
def _stamp(own: str) -> tuple[float, int]:
    """Return when the newest source of the package, or the own file, was changed, and the size of all."""
    files = [path.stat() for path in {Path(own), *Path(__file__).parent.glob("*.py")}]
    return max(file.st_mtime for file in files), sum(file.st_size for file in files)
