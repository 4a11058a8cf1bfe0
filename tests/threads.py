"""Threads that do the same at once."""

from collections.abc import Callable
from threading import Thread


def at_once(work: Callable[[int], None], count: int = 4) -> None:
    """Run ``work`` in so many threads, each with its number, and wait for all."""
    threads = [Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
