"""Loading without the collector of garbage, which would look through what is loaded again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Leave cyclic garbage alone for a while, and for good what there is at the end of the first; also a decorator.

    torch and transformers make 700,000 objects as they are imported, and all of them stay: collections meanwhile are
    in vain, and so is the one that comes after. ``python examples/measure_start.py`` shows what that is worth.

    Example:
        >>> with collector_paused():
        ...     gc.isenabled()
        False
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if not gc.get_freeze_count():
            gc.freeze()
    finally:
        gc.enable()
