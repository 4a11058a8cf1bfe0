"""The status line during a generation, and the figures after it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from lookahead.cli.console import Console, printable

_REFRESH_S = 0.1


class Figures(Protocol):
    """What the lines below need of ``DecodingStats``."""

    prompt_tokens: int
    generated_tokens: int
    steps: int
    draft_tokens: int
    accepted_tokens: int
    prefill_s: float

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per step."""

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens per drafted one."""

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second after the prefill."""


def summary(stats: Figures) -> str:
    """Return the figures of a generation in one line.

    Example:
        ``812 tokens, 61.3 tokens/s, 5.2 tokens per step, 78% of 402 draft tokens accepted``
    """
    line = (
        f"{stats.generated_tokens} tokens, {stats.tokens_per_second:.1f} tokens/s, "
        f"{stats.mean_acceptance_length:.1f} tokens per step"
    )
    if stats.draft_tokens:
        line += f", {stats.acceptance_rate:.0%} of {stats.draft_tokens} draft tokens accepted"
    return line


def _screen(console: Console) -> Any:
    """Return the terminal's stderr for rich, which is imported only where there is one."""
    from rich.console import Console as RichConsole

    return RichConsole(
        file=console.environment.stderr, force_terminal=True, no_color=not console.colors(True), highlight=False
    )


@contextlib.contextmanager
def live_status(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a line with a spinner on a terminal's stderr; yields a function that changes its text."""
    environment = console.environment
    if not environment.stderr_is_terminal:
        yield lambda text: None
        return
    from rich.text import Text

    screen = _screen(console)

    def fitted(text: str) -> Text:
        line = Text(printable(text))
        line.truncate(screen.width - 3, overflow="ellipsis")  # beside the spinner; a second line would flicker
        return line

    with screen.status(fitted(text), spinner="dots", refresh_per_second=8) as status:
        yield lambda text: status.update(fitted(text))


@contextlib.contextmanager
def live_progress(console: Console, text: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal's stderr; yields a function that says what begins now, the one before being done."""
    environment = console.environment
    if not environment.stderr_is_terminal:
        yield lambda text: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = _screen(console)
    columns = [BarColumn(max(8, min(40, screen.width - 40))), MofNCompleteColumn(), TimeRemainingColumn()]
    words = TextColumn("{task.description}", markup=False)
    with Progress(*columns, words, console=screen, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task, begun = bar.add_task(text, total=total), False

        def advance(text: str) -> None:
            nonlocal begun
            bar.update(task, description=text, advance=1 if begun else 0)
            begun = True

        yield advance


class StatusStreamer:
    """A streamer for ``generate`` that reports the running figures a few times a second.

    Args:
        read: Returns the statistics of the running generation.
        show: Takes the line to show.
    """

    def __init__(self, read: Callable[[], Figures | None], show: Callable[[str], None]) -> None:
        self._read = read
        self._show = show
        self._shown_at = 0.0

    def put(self, value: Any) -> None:
        """Take the prompt or new tokens."""
        now = time.monotonic()
        if now - self._shown_at < _REFRESH_S:
            return
        self._shown_at = now
        stats = self._read()
        if stats is not None and stats.steps:
            self._show(summary(stats))

    def end(self) -> None:
        """Take the end of the generation."""
