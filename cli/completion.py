"""``specdec-lookup completion``: a script that completes the command's words in a shell."""

import argparse
from typing import Any

from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import ExitStatus

SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = """\
Print a script that completes subcommands, options, their values and file names in a shell. It is made once and stands
by itself: nothing of this command runs when a key is pressed."""
_EPILOG = """\
examples:
  specdec-lookup completion bash > ~/.local/share/bash-completion/completions/specdec-lookup
  specdec-lookup completion zsh > ~/.zfunc/_specdec-lookup
  specdec-lookup completion fish > ~/.config/fish/completions/specdec-lookup.fish
exit codes: 0 done, 2 wrong usage

The folder of zsh must stand in its fpath."""
_FILES = {"FILE", "PATH", "TRACE", "STORE", "FILE.svg", "MODEL"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's argument."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Write the script to stdout."""
    Console(environment).data(completion_script(args.shell).encode())
    return ExitStatus.OK


def completion_script(shell: str) -> str:
    """Return the script for a shell."""
    import shtab

    from lookahead.cli.main import build_parser

    parser = build_parser()
    _mark_files(parser, shtab.FILE)
    script = shtab.complete(parser, shell=shell) + "\n"
    # In zsh "(*)" lets an argument that may be repeated be the only one.
    return script.replace('"(*):', '"*:') if shell == "zsh" else script


def _mark_files(parser: argparse.ArgumentParser, kind: Any) -> None:
    """Let every argument that is a file's name be completed as one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _mark_files(inner, kind)
        elif action.metavar in _FILES:
            action.complete = kind  # type: ignore[attr-defined]
