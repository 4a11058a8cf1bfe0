"""What the command reads and writes: data on stdout as bytes, everything for people on stderr."""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

try:
    import termios
except ImportError:  # on Windows
    termios = None  # type: ignore[assignment]

from lookahead.cli.errors import OutputError, os_reason

_RED, _GREEN, _CYAN, _BOLD, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[0m"
_LINE_COLOURS = {"+": _GREEN, "-": _RED, "@": _CYAN}


@dataclass(slots=True)
class Environment:
    """The streams and variables of the process; tests put their own here."""

    stdin: BinaryIO
    stdout: BinaryIO
    stderr: TextIO
    stdin_is_terminal: bool = False
    stdout_is_terminal: bool = False
    stderr_is_terminal: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_system(cls) -> "Environment":
        """Return the environment of this process."""
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # the process was started with the stream closed
                setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        if hasattr(sys.stderr, "reconfigure"):
            sys.stderr.reconfigure(errors="backslashreplace")
        return cls(
            sys.stdin.buffer,
            sys.stdout.buffer,
            sys.stderr,
            sys.stdin.isatty(),
            sys.stdout.isatty(),
            sys.stderr.isatty(),
            os.environ,
        )

    @property
    def can_ask(self) -> bool:
        """Whether someone sits there who sees the diff and the question, and can answer."""
        return self.stdin_is_terminal and self.stdout_is_terminal and self.stderr_is_terminal


class Console:
    """Writes to one environment, in colour where that is wanted.

    Args:
        environment: The streams.
        color: ``auto`` (on a terminal, unless NO_COLOR is set or TERM is ``dumb``), ``always`` or ``never``.
    """

    def __init__(self, environment: Environment, color: str = "auto") -> None:
        self.environment = environment
        self.color = color

    def data(self, data: bytes) -> None:
        """Write to stdout, verbatim."""
        view = memoryview(data)
        try:
            while view:  # with PYTHONUNBUFFERED, stdout takes what the pipe has room for, and no more
                view = view[self.environment.stdout.write(view) or 0 :]
            self.environment.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"the output can't be written: {os_reason(error)}") from error

    def diff(self, text: str) -> None:
        """Write a unified diff to stdout, without what would steer a terminal."""
        if self.environment.stdout_is_terminal:
            text = "".join(map(_tame, _lines(text)))
        if self.colors(self.environment.stdout_is_terminal):
            names = text.find("\n@@") + 1
            header, rest = _lines(text[:names]), _lines(text[names:])
            text = "".join([_paint(line, _BOLD) for line in header] + [_paint(line) for line in rest])
        self.data(text.encode("utf-8", "surrogateescape"))

    def say(self, text: str) -> None:
        """Write one line to stderr."""
        self.environment.stderr.write(printable(text) + "\n")
        self.environment.stderr.flush()

    def error(self, text: str) -> None:
        """Write one line about a failure to stderr."""
        mark = f"{_RED}error:{_RESET}" if self.colors(self.environment.stderr_is_terminal) else "error:"
        self.environment.stderr.write(f"{mark} {printable(text)}\n")
        self.environment.stderr.flush()

    def trace(self, error: BaseException) -> None:
        """Write where an error came from to stderr, if SPECDEC_LOOKUP_DEBUG=1 asks for it."""
        if self.environment.variables.get("SPECDEC_LOOKUP_DEBUG") == "1":
            self.environment.stderr.write("".join(traceback.format_exception(error)))

    def choose(self, question: str, choices: Mapping[str, str], default: str, at_end: str) -> str:
        """Put a question on the terminal until the answer is one of the choices, and return that one's name.

        Args:
            question: What is asked.
            choices: Meanings by name; a name may be shortened to its first letter, ``?`` shows them all.
            default: Taken for an empty line.
            at_end: Taken when nothing more can be read.
        """
        letters = ",".join([*(name[0] for name in choices), "?"])
        self._forget_typed()
        while True:
            self.environment.stderr.write(f"{printable(question)} [{letters}] ")
            self.environment.stderr.flush()
            line = self.environment.stdin.readline()
            if not line.endswith(b"\n"):
                self.environment.stderr.write("\n")
            reply = line.decode("utf-8", "replace").strip().lower()
            for name in choices:
                if reply in (name, name[0]):
                    return name
            if not reply:
                return default if line else at_end
            for name, meaning in choices.items():
                self.say(f"  {name[0]}: {meaning}")

    def _forget_typed(self) -> None:
        """Drop what was typed before there was a question, which can be no answer."""
        if self.environment.stdin_is_terminal and termios is not None:
            with contextlib.suppress(OSError, termios.error):  # stdin may be no terminal after all
                termios.tcflush(self.environment.stdin.fileno(), termios.TCIFLUSH)

    def colors(self, terminal: bool) -> bool:
        """Whether to write escape codes to a stream that is, or is not, a terminal."""
        variables = self.environment.variables
        allowed = terminal and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"
        return self.color == "always" or (self.color == "auto" and allowed)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _tame(line: str) -> str:
    """Return a line with its tabs and its newline, and all other control characters shown."""
    body = line.removesuffix("\n").removesuffix("\r")
    return "\t".join(map(printable, body.split("\t"))) + line[len(body) :]


def _paint(line: str, colour: str = "") -> str:
    """Colour one line of a diff; its newline stays outside, or a terminal would colour what follows."""
    body = line.rstrip("\r\n")
    colour = colour or _LINE_COLOURS.get(body[:1], "")
    return f"{colour}{body}{_RESET}{line[len(body) :]}" if colour else line


def printable(text: str) -> str:
    r"""Show control characters (of a file name, say) instead of sending them to the terminal.

    Example:
        >>> printable("a\x1b[31m")
        'a\\x1b[31m'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
