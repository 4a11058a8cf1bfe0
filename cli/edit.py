"""``specdec-lookup edit``: files and an instruction in, a diff or edited files out."""

import argparse
from pathlib import Path

from lookahead.cli.console import Console, Environment
from lookahead.cli.embedded import EDITOR_NAME
from lookahead.cli.errors import ExitStatus, UsageError, os_reason
from lookahead.cli.options import add_color_option, add_generation_options, add_model_options, add_trace_option

_STDIN = "-"
_DESCRIPTION = """\
Edit text files as an instruction says. The model writes each file anew, or as blocks of changes where the file is too
large for that; what it only copies is looked up in the file instead of being computed token by token, with the same
result. The change is shown as a diff, and written after a yes on a terminal or with --write.

FILE may be a file, a glob, or a folder, which stands for the text files below it that no .gitignore leaves out. All
are edited one by one with one loaded model. At the question, y writes the file, n leaves it, a writes it and all that
follow, q stops."""
_EPILOG = """\
examples:
  specdec-lookup edit app.py -i "Rename the class Config to Settings"
  specdec-lookup edit src/*.py -i "Add type hints" --model Qwen/Qwen2.5-Coder-7B-Instruct --write --backup
  specdec-lookup edit src --include "*.py" --include "*.pyi" -i "Use pathlib instead of os.path"
  specdec-lookup edit views.py -i "Call the new functions" --context models.py helpers.py
  specdec-lookup edit large.py -i "Fix the typo in main" --format blocks
  specdec-lookup edit app.py --instruction-file todo.txt --diff | git apply
  specdec-lookup edit - --stdin-filename in.json -i "Sort the keys" < in.json > out.json
  specdec-lookup edit app.py -i "Add a docstring" --trace app.trace && specdec-lookup report app.trace
exit codes: 0 done, 1 a file would change (--check), 2 wrong usage, 3 a file failed, 130 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="text file, glob or folder to edit; - edits stdin to stdout"
    )
    parser.add_argument(
        "--include", action="append", metavar="GLOB", help="of folders and globs only files that match; may be repeated"
    )
    parser.add_argument(
        "--context", nargs="+", action="extend", metavar="FILE", help="files that the model shall read but not edit"
    )
    parser.add_argument("--stdin-filename", metavar="NAME", help="name of the file that comes from stdin")
    what = parser.add_argument_group("instruction").add_mutually_exclusive_group()
    what.add_argument("-i", "--instruction", metavar="TEXT", help="what to change")
    what.add_argument("--instruction-file", metavar="PATH", help="file that says what to change; - for stdin")
    output = parser.add_argument_group("output")
    output.add_argument(
        "-w", "--write", "-y", "--yes", dest="write", action="store_true", help="write changed files, without asking"
    )
    output.add_argument("--diff", action="store_true", help="show the diff only, write nothing")
    output.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    output.add_argument("--json", action="store_true", help="one JSON object per file on stdout instead of diffs")
    output.add_argument(
        "--backup", action="store_true", help="keep the old content of a written file as FILE~ (or FILE.~2~)"
    )
    add_trace_option(output)
    add_color_option(output)
    add_generation_options(parser, "enough for the file and half as much again")
    parser.add_argument(
        "--format",
        choices=("auto", "whole", "blocks"),
        default="auto",
        help="have the model write the whole file, or blocks of searched and replacing lines, applied exactly or not "
        "at all (default: auto, blocks for files too large for the context)",
    )
    add_model_options(parser, default=EDITOR_NAME)


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Edit the files one after the other; one that fails does not stop the others."""
    if args.write and (args.diff or args.check):
        raise UsageError("--write contradicts --diff and --check: leave out one of them")
    if args.stdin_filename is not None and _STDIN not in args.files:
        raise UsageError("--stdin-filename names the file that comes from stdin: give - as FILE")
    if "" in args.files:
        raise UsageError("one FILE is empty: name files, globs and folders (. for this one)")
    instruction = _instruction(args, environment)
    from lookahead.cli.selection import select_files
    from lookahead.cli.session import Session  # here, because --help shall not wait for it
    from lookahead.cli.trace_file import tracing

    args.files = select_files(args.files, args.include)
    if _STDIN in args.files and len(args.files) > 1 and not (args.diff or args.check or args.json):
        raise UsageError("stdin is edited to stdout, where diffs of other files go too: edit it alone, or use --diff")
    with tracing(args, Console(environment, args.color)) as trace:
        return Session(args, environment, trace).run(args.files, instruction)


def _instruction(args: argparse.Namespace, environment: Environment) -> str:
    """Return what to change, from wherever it is given."""
    if args.instruction_file == _STDIN and _STDIN in args.files:
        raise UsageError("stdin can't be both the file and the instruction: give the instruction with -i")
    text = args.instruction
    if args.instruction_file is not None:
        text = _read_instruction(args.instruction_file, environment)
    if text is None:
        raise UsageError('there is no instruction: say what to change, as in -i "Rename x to y"')
    if not text.strip():
        raise UsageError("the instruction is empty: say what to change")
    return text


def _read_instruction(path: str, environment: Environment) -> str:
    try:
        data = environment.stdin.read() if path == _STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the instruction file {path} can't be read: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the instruction file {path} is not UTF-8 text: convert it first") from None
