"""The live view of an edit on a terminal: the growing diff, and a line with a bar and the running figures."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lookahead.cli.console import Console, printable
from lookahead.cli.growing_diff import GrowingDiff, Row
from lookahead.cli.growing_text import GrowingText
from lookahead.cli.reasoning import OPENING, REASONING, REASONING_END
from lookahead.cli.status import Figures

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.text import Text

_REFRESH_S = 0.1
_HEIGHT = 14  # rows of the diff at most
_STYLES = {"+": "green", "-": "red", " ": "dim", "~": "dim italic"}
_NARROW = 60  # columns below which the figures are left out


class AnswerLines:
    r"""Cuts an answer into the lines of its code block, as they come.

    Example:
        >>> lines = AnswerLines()
        >>> lines.add("Here:\n```py\na = 1\nb"), lines.add(" = 2\n```\n")
        (['a = 1'], ['b = 2'])
    """

    def __init__(self) -> None:
        self._rest = ""
        self._fence = ""
        self._reasoning = False
        self.begun = False

    def add(self, text: str) -> list[str]:
        """Return the lines of the block that are complete now."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [line for line in lines if self._is_inside(line)]

    def _is_inside(self, line: str) -> bool:
        if self._fence:
            bare = line.strip()
            closes = len(bare) >= len(self._fence) and not bare.strip(self._fence[0])
            self._fence = "" if closes else self._fence
            return not closes
        if not self.begun and not self._reasons(line) and (found := OPENING.match(line)):
            self._fence, self.begun = found["fence"], True
        return False

    def _reasons(self, line: str) -> bool:
        self._reasoning = self._reasoning or bool(REASONING.match(line))
        reasons = self._reasoning
        if REASONING_END.search(line):
            self._reasoning = False
        return reasons


class EditView:
    """A streamer for ``generate`` that keeps the view of one edit.

    Args:
        name: Of the file.
        text: The file.
        opening: The beginning of the answer that the prompt holds already.
        tokenizer: Decodes the tokens.
        read: Returns the statistics of the running generation.
    """

    def __init__(self, name: str, text: str, opening: str, tokenizer: Any, read: Callable[[], Figures | None]) -> None:
        self._name, self._read, self._prompt_tokens = name, read, 0
        self._text, self._lines = GrowingText(tokenizer), AnswerLines()
        self._diff = GrowingDiff(text.removesuffix("\n").split("\n"))
        self._lines.add(opening)
        self._shown_at = 0.0
        self.rows: tuple[Row, ...] = ()
        self.position = 0
        self.figures = "reading"

    @property
    def total(self) -> int:
        """Lines of the file."""
        return len(self._diff.old)

    def put(self, value: Any) -> None:
        """Take the prompt, then new tokens."""
        tokens = value.reshape(-1).tolist() if hasattr(value, "reshape") else list(value)
        if not self._prompt_tokens:
            self._prompt_tokens = len(tokens)
            self.figures = f"reading {len(tokens)} tokens"
            return
        for line in self._lines.add(self._text.add(tokens)):
            self._diff.add(line)
        now = time.monotonic()
        if now - self._shown_at >= _REFRESH_S:
            self._shown_at = now
            self._refresh()

    def end(self) -> None:
        """Take the end of the generation."""
        self._refresh()

    def _refresh(self) -> None:
        stats = self._read()
        speed = f"{stats.tokens_per_second:.0f} tokens/s" if stats is not None and stats.steps else ""
        thinking = "" if self._lines.begun or stats is None else f"thinking, {stats.generated_tokens} tokens, "
        self.figures = thinking + speed
        self.rows = tuple(self._diff.view(_HEIGHT))
        self.position = self._diff.position

    def render(self, screen: "RichConsole") -> Any:
        """Return what the terminal shows now, no line wider than it."""
        from rich.console import Group

        room = min(_HEIGHT, max(0, screen.height - 3))
        rows = self.rows[-room:] if room else ()
        return Group(*(_row(row, screen.width) for row in rows), self._status(screen))

    def _status(self, screen: "RichConsole") -> "Text":
        from rich.text import Text

        counts = f"lines {self.position} of {self.total}"
        figures = f", {self.figures}" if self.figures and (screen.width >= _NARROW or not self.position) else ""
        name = printable(self._name)
        line = Text(f"{name} ", style="bold")
        words = f" {counts}{figures}"
        room = screen.width - 1 - len(line) - len(words)
        if room >= 8:
            line.append_text(_bar(self.position / max(1, self.total), min(room, 30), screen.options.ascii_only))
        line.append(words, style="not bold")
        line.truncate(screen.width - 1, overflow="ellipsis")
        return line


@contextlib.contextmanager
def live_edit(console: Console, view: EditView) -> Iterator[EditView | None]:
    """Show the view on a terminal's stderr while the block runs, and nothing afterwards; None without a terminal."""
    environment = console.environment
    if not environment.stderr_is_terminal:
        yield None
        return
    from rich.console import Console as RichConsole
    from rich.live import Live

    screen = RichConsole(
        file=environment.stderr, force_terminal=True, no_color=not console.colors(True), highlight=False
    )
    with Live(
        get_renderable=lambda: view.render(screen),
        console=screen,
        refresh_per_second=8,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield view


def _row(row: Row, width: int) -> "Text":
    from rich.text import Text

    mark = "  " if row.mark == "~" else f"{row.mark} "
    line = Text(mark + printable(row.text.expandtabs(4)), style=_STYLES[row.mark])
    line.truncate(width - 1, overflow="ellipsis")
    return line


def _bar(share: float, width: int, ascii_only: bool) -> "Text":
    from rich.text import Text

    full, empty = ("#", ".") if ascii_only else ("━", "─")
    done = round(width * min(1.0, share))
    return Text.assemble((full * done, "green"), (empty * (width - done), "dim"))
