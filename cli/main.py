"""The command line: which subcommand runs, and how the process ends."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, TextIO

from lookahead import __version__
from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus, OutputError, unexpected
from lookahead.cli.help import HelpFormatter
from lookahead.cli.interrupts import ignore_interrupts, interrupted, note_interrupts

_NAME = "specdec-lookup"
_DESCRIPTION = """\
Decode sooner without a draft model: what a model copies is looked up in its own text and verified in one step,
so that the output is the model's own, token for token."""
_EPILOG = """\
examples:
  specdec-lookup edit app.py -i "Rename the class Config to Settings"
  specdec-lookup edit src --include "*.py" -i "Add type hints" --model Qwen/Qwen2.5-Coder-7B-Instruct
  specdec-lookup generate "Explain suffix automata in three sentences." --stats
  specdec-lookup doctor --data logs.jsonl

exit codes: 0 done, 1 a file would change (edit --check), 2 wrong usage, 3 failed, 130 interrupted

environment:
  SPECDEC_LOOKUP_MODEL   model to use where --model is not given
  SPECDEC_LOOKUP_HOME    folder for the default model (default: the user's cache folder)
  SPECDEC_LOOKUP_DEBUG   set to 1 to see where an unexpected error came from
  NO_COLOR               set to turn colour off"""

_COMMANDS = {
    "edit": "edit files as an instruction says",
    "generate": "complete a prompt",
    "report": "show a trace of edit or generate as an HTML page",
    "bench": "measure what lookup decoding gains",
    "doctor": "say whether lookup will help here: model, machine, your own text",
    "replay": "replay recorded outputs through our drafting and others'",
    "memory": "make and look after stores of documents to draft from",
    "completion": "print a script that completes the command in a shell",
}
"""Every subcommand, which is the module of the same name, and what it does."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and where options may stand between names."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, instead of two screens of usage."""
        self.exit(ExitStatus.USAGE, f"error: {message} (see `{self.prog} --help`)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take names behind options too, and refuse what is unknown here rather than in the parser above."""
        found, rest = super().parse_known_args(args, namespace)
        mark = rest.index("--") if "--" in rest else len(rest)  # behind it, everything is a name
        names = [*rest[:mark], *rest[mark + 1 :]]
        lists = [action for action in self._get_positional_actions() if action.nargs in ("+", "*")]
        if rest and not (lists and all(word == "-" or not word.startswith("-") for word in rest[:mark])):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        if names:
            more = self._get_values(lists[-1], names)
            setattr(found, lists[-1].dest, [*getattr(found, lists[-1].dest), *more])
        return found, []


def entry_point() -> NoReturn:
    """Run the command as a process."""
    note_interrupts()
    status = main()
    ignore_interrupts()
    sys.exit(status)


def main(argv: Sequence[str] | None = None, environment: Environment | None = None) -> ExitStatus:
    """Run one command and return its exit code; no exception leaves it.

    Args:
        argv: Arguments without the command's name; None for those of the process.
        environment: Streams and variables; None for those of the process.
    """
    environment = environment or Environment.from_system()
    try:
        status = _run(argv, environment)
    except BrokenPipeError:
        status = ExitStatus.FAILED  # whoever read our output has gone, and needs no message
        _discard(sys.stdout)
    except BaseException as error:
        status = _end(error, environment)
    try:
        environment.stderr.flush()
    except (OSError, ValueError):  # then nobody can be told, except by the exit code
        _discard(sys.stderr)
    return ExitStatus(interrupted() or status)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser with all subcommands.

    Args:
        only: The subcommand whose arguments are wanted, which saves importing the others; None for all of them.
    """
    parser = _Parser(
        prog=_NAME,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{_NAME} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=HelpFormatter, allow_abbrev=False)
        if only in (None, name):
            _module(name).configure(command)
        command.set_defaults(command=name)
    return parser


def _module(command: str) -> Any:
    return import_module(f"lookahead.cli.{command}")


def _run(argv: Sequence[str] | None, environment: Environment) -> ExitStatus:
    args = _parse(argv, environment)
    if isinstance(args, ExitStatus):
        return args
    return ExitStatus(_module(args.command).run(args, environment))


def _parse(argv: Sequence[str] | None, environment: Environment) -> argparse.Namespace | ExitStatus:
    """Return the arguments, or how the process ends if they ask for help or are wrong."""
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(environment.stderr):
            words = sys.argv[1:] if argv is None else argv
            return build_parser(next((word for word in words if word in _COMMANDS), "")).parse_args(argv)
    except SystemExit as end:
        return ExitStatus(int(end.code or 0))
    finally:
        Console(environment).data(shown.getvalue().encode())


def _end(error: BaseException, environment: Environment) -> ExitStatus:
    """Say why the command ends, if stderr can be written, and return its exit code."""
    console = Console(environment)
    if isinstance(error, OutputError):
        _discard(sys.stdout)
    with contextlib.suppress(OSError, ValueError):
        console.trace(error)
    if isinstance(error, KeyboardInterrupt) or interrupted():
        status = ExitStatus(interrupted() or ExitStatus.INTERRUPTED)
        with contextlib.suppress(OSError, ValueError):
            console.say(status.name.lower())
        return status
    shown = error if isinstance(error, CommandError) else unexpected(error)
    with contextlib.suppress(OSError, ValueError):
        console.error(str(shown))
    return shown.status


def _discard(stream: TextIO) -> None:
    """Have Python's last flush of a stream at exit go nowhere instead of failing again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
