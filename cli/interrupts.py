"""Ctrl-C and its kin: noted always, and held back while a file is being replaced."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_seen = threading.Event()


def note_interrupts() -> None:
    """From now on remember that Ctrl-C came, even if some library swallows the KeyboardInterrupt."""
    # A job that the shell started in the background ignores SIGINT, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _on_interrupt)


def interrupted() -> bool:
    """Whether Ctrl-C came since ``note_interrupts``."""
    return _seen.is_set()


def ignore_interrupts() -> None:
    """Let a second, impatient Ctrl-C not disturb the way out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_interrupt(signum: int, frame: FrameType | None) -> None:
    _seen.set()
    raise KeyboardInterrupt


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
