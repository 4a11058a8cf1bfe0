"""Ctrl-C and its kin: noted always, turned into exceptions, and held back while a file is being replaced."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_seen: list[int] = []


def note_interrupts() -> None:
    """From now on let Ctrl-C and SIGTERM be exceptions, and remember them even if some library swallows those."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A job that the shell started in the background ignores SIGINT, and goes on doing so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)


def interrupted() -> int:
    """Return the exit code of a process that Ctrl-C or SIGTERM ends, or 0 if none came since ``note_interrupts``."""
    return 128 + _seen[0] if _seen else 0


def ignore_interrupts() -> None:
    """Let a second, impatient Ctrl-C not disturb the way out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_signal(signum: int, frame: FrameType | None) -> None:
    _seen.append(signum)
    raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP until the block is done, then deliver them.

    Handlers do this rather than a signal mask, because a mask covers one thread only and a signal sent to the process
    would end it through another.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals, and only it may change handlers
        return
    waiting: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    active = [number for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)]
    try:
        for number in active:
            signal.signal(number, lambda signum, frame: waiting.append(signum))
        yield
    finally:
        for number in active:
            signal.signal(number, handlers[number])
        for number in waiting:
            signal.raise_signal(number)
