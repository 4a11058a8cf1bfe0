"""One run of ``edit`` over its files: read, ask the model, show, write, report."""

import argparse
from enum import Enum, auto

from lookahead.cli.answers import extract_file
from lookahead.cli.console import Console, Environment
from lookahead.cli.editor import Answer, Editor, load_editor
from lookahead.cli.errors import CommandError, ExitStatus, unexpected
from lookahead.cli.files import SourceFile, read_source, source_from_bytes, write_source
from lookahead.cli.lines import restore_lines, to_lf, unified_diff
from lookahead.cli.report import Result, Status, exit_status

_STDIN = "-"


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


class Session:
    """One run of the command over its files.

    Args:
        args: The command line.
        environment: Streams and variables.
    """

    def __init__(self, args: argparse.Namespace, environment: Environment) -> None:
        self._args = args
        self._environment = environment
        self._console = Console(environment, args.color)
        self._write_back = WriteBack.from_args(args, environment)
        self._editor: Editor | None = None

    def run(self, paths: list[str], instruction: str) -> ExitStatus:
        """Edit the files one after the other; one that fails does not stop the others."""
        results = [_read(path, self._environment) for path in paths]
        self._load_editor(results)
        for result in results:
            self._edit(result, instruction)
            self._show(result)
            self._deliver(result)
            self._report(result)
        return exit_status(results, check=self._write_back is WriteBack.CHECK)

    def _load_editor(self, results: list[Result]) -> None:
        """Load the model if any file needs it; without a model they all fail, which is said once."""
        if all(result.source is None for result in results):
            return
        try:
            self._editor = load_editor(self._args, self._console)
        except CommandError as error:
            self._fail_all(results, error)

    def _fail_all(self, results: list[Result], error: CommandError) -> None:
        if not self._args.json:
            for result in results:
                if result.source is None:
                    self._report(result)
            raise error
        for result in results:
            if result.source is not None:
                result.fail(str(error))

    def _edit(self, result: Result, instruction: str) -> None:
        """Have the model edit a file that could be read."""
        if self._editor is None or result.source is None:
            return
        text = to_lf(result.source.text)
        try:
            answer = _ask_model(self._editor, result, text, instruction)
            _take(answer, result, result.source, text)
        except CommandError as error:
            result.fail(str(error))

    def _show(self, result: Result) -> None:
        wanted = self._args.diff or self._write_back is not WriteBack.CHECK
        if result.status is Status.CHANGED and wanted and not self._args.json and not self._filters(result):
            self._console.diff(result.diff.text)

    def _deliver(self, result: Result) -> None:
        """Write the edited file, to its place or to stdout, if that is wanted."""
        if self._filters(result) and result.status is not Status.FAILED:
            self._console.data(result.content)
        elif result.source is not None and result.status is Status.CHANGED and self._may_write(result):
            self._write(result, result.source)

    def _filters(self, result: Result) -> bool:
        """Whether the file is stdin, whose edited text goes to stdout."""
        return result.path == _STDIN and not (self._args.diff or self._args.check or self._args.json)

    def _may_write(self, result: Result) -> bool:
        if result.path == _STDIN or self._write_back is not WriteBack.ASK:
            return result.path != _STDIN and self._write_back is WriteBack.WRITE
        if self._console.ask(f"{result.as_text()}\nWrite it?"):
            return True
        result.reason = "not written"
        return False

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
