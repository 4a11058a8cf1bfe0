"""``specdec-lookup edit``: files and an instruction in, a diff or edited files out."""

import argparse
from enum import Enum, auto
from pathlib import Path

from lookahead.cli.answers import extract_file
from lookahead.cli.console import Console, Environment
from lookahead.cli.editor import Answer, Editor, load_editor
from lookahead.cli.errors import CommandError, ExitStatus, UsageError, os_reason, unexpected
from lookahead.cli.files import SourceFile, read_source, source_from_bytes, write_source
from lookahead.cli.lines import restore_lines, to_lf, unified_diff
from lookahead.cli.options import add_color_option, add_generation_options, add_model_options
from lookahead.cli.report import Result, Status, exit_status

_STDIN = "-"
_DESCRIPTION = """\
Edit text files as an instruction says. The model writes each file anew; what it only copies is looked up in
the file instead of being computed token by token, with the same result. The change is shown as a diff, and written
after a yes on a terminal or with --write."""
_EPILOG = """\
examples:
  specdec-lookup edit app.py -i "Rename the class Config to Settings"
  specdec-lookup edit src/*.py -i "Add type hints" --model Qwen/Qwen2.5-Coder-7B-Instruct --write --backup
  specdec-lookup edit app.py --instruction-file todo.txt --diff | git apply
  specdec-lookup edit - -i "Sort the keys" < in.json > out.json
exit codes: 0 done, 1 a file would change (--check), 2 wrong usage, 3 a file failed, 130 interrupted"""


class WriteBack(Enum):
    """What to do with edited files."""

    ASK = auto()
    WRITE = auto()
    SHOW = auto()
    CHECK = auto()

    @classmethod
    def from_args(cls, args: argparse.Namespace, environment: Environment) -> "WriteBack":
        """Decide once from the options; without one, ask where someone can answer."""
        if args.write:
            return cls.WRITE
        if args.check:
            return cls.CHECK
        return cls.ASK if environment.can_ask and not (args.diff or args.json) else cls.SHOW


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="text file to edit; - edits stdin to stdout")
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
    output.add_argument("--backup", action="store_true", help="keep the old content of a written file as FILE~")
    add_color_option(output)
    add_generation_options(parser, "enough for the file and half as much again")
    add_model_options(parser)


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Edit the files one after the other; one that fails does not stop the others."""
    if args.write and (args.diff or args.check):
        raise UsageError("--write contradicts --diff and --check: leave out one of them")
    console = Console(environment, args.color)
    instruction = _instruction(args, environment)
    results = [_read(path, environment) for path in _distinct(args.files)]
    session = _Session(args, console, WriteBack.from_args(args, environment))
    session.load(results)
    for result in results:
        session.edit(result, instruction)
        session.finish(result)
    return exit_status(results, check=args.check)


class _Session:
    """One run of the command over its files."""

    def __init__(self, args: argparse.Namespace, console: Console, write_back: WriteBack) -> None:
        self._args = args
        self._console = console
        self._write_back = write_back
        self._editor: Editor | None = None

    def load(self, results: list[Result]) -> None:
        """Load the model if any file needs it; if that fails, so do they."""
        waiting = [result for result in results if result.source]
        if not waiting:
            return
        try:
            self._editor = load_editor(self._args, self._console)
        except CommandError as error:
            if not self._args.json:
                raise
            for result in waiting:
                result.fail(str(error))

    def edit(self, result: Result, instruction: str) -> None:
        """Have the model edit a file that could be read."""
        if self._editor is None or result.source is None:
            return
        text = to_lf(result.source.text)
        try:
            answer = _ask_model(self._editor, result, text, instruction)
            _take(answer, result, result.source, text)
        except CommandError as error:
            result.fail(str(error))

    def finish(self, result: Result) -> None:
        """Show, write and report a file."""
        if result.source is not None and result.status is Status.CHANGED:
            self._show(result)
        if result.source is not None and result.path == _STDIN:
            self._pass_on(result)
        elif result.source is not None and result.status is Status.CHANGED and self._may_write(result):
            self._write(result, result.source)
        self._report(result)

    def _show(self, result: Result) -> None:
        to_stdout = result.path == _STDIN and self._filters
        if not self._args.json and not to_stdout and (self._args.diff or self._write_back is not WriteBack.CHECK):
            self._console.diff(result.diff.text)

    @property
    def _filters(self) -> bool:
        """Whether ``-`` passes the edited text on to stdout."""
        return not (self._args.diff or self._args.check or self._args.json)

    def _pass_on(self, result: Result) -> None:
        if self._filters and result.status is not Status.FAILED:
            self._console.data(result.content)
            result.status = Status.WRITTEN if result.status is Status.CHANGED else result.status

    def _may_write(self, result: Result) -> bool:
        if self._write_back is WriteBack.ASK:
            if self._console.ask(f"{result.as_text()}\nWrite it?"):
                return True
            result.reason = "not written"
        return self._write_back is WriteBack.WRITE

    def _write(self, result: Result, source: SourceFile) -> None:
        try:
            write_source(source, result.content, backup=self._args.backup)
            result.status = Status.WRITTEN
        except CommandError as error:
            result.fail(str(error))

    def _report(self, result: Result) -> None:
        if self._args.json:
            self._console.data(result.as_json().encode() + b"\n")
        elif result.status is Status.FAILED:
            self._console.error(f"{result.path}: {result.reason}")
        else:
            self._console.say(result.as_text())


def _ask_model(editor: Editor, result: Result, text: str, instruction: str) -> Answer:
    try:
        answer = editor(result.path, text, instruction)
    except CommandError:
        raise
    except Exception as error:
        raise unexpected(error) from error
    result.stats, result.figures = answer.stats, answer.figures
    return answer


def _take(answer: Answer, result: Result, source: SourceFile, text: str) -> None:
    """Get the edited file from an answer."""
    edited = extract_file(answer.text, text, cut=answer.cut)
    result.content = source.encode(restore_lines(source.text, edited, answer.seen))
    result.diff = unified_diff(source.data.decode(), result.content.decode(), result.path)
    result.status = Status.UNCHANGED if result.content == source.data else Status.CHANGED


def _read(path: str, environment: Environment) -> Result:
    result = Result(path)
    try:
        is_stdin = path == _STDIN
        result.source = source_from_bytes(path, environment.stdin.read()) if is_stdin else read_source(path)
    except CommandError as error:
        result.fail(str(error))
    return result


def _distinct(paths: list[str]) -> list[str]:
    """Return the paths without those that name a file again."""
    first = {path if path == _STDIN else str(Path(path).resolve()): path for path in reversed(paths)}
    return list(reversed(first.values()))


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
        return to_lf(data.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"the instruction file {path} can't be read: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the instruction file {path} is not UTF-8 text: convert it first") from None
