"""One run of ``edit`` over its files: read, ask the model, show, write, report."""

import argparse
from enum import Enum, auto

from lookahead.cli.answers import extract_file
from lookahead.cli.blocks import apply_blocks
from lookahead.cli.console import Console, Environment
from lookahead.cli.editor import Answer, Editor, load_editor
from lookahead.cli.errors import CommandError, ExitStatus, unexpected
from lookahead.cli.files import SourceFile, read_source, source_from_bytes, write_source
from lookahead.cli.lines import restore_lines, to_lf, unified_diff
from lookahead.cli.losses import left_out
from lookahead.cli.repository import uncommitted, warning
from lookahead.cli.result import Result, Status, exit_status
from lookahead.cli.syntax import syntax_error
from lookahead.cli.trace import Trace

_STDIN = "-"


class WriteBack(Enum):
    """What becomes of an edited file."""

    ASK = auto()  # shown, and written after a yes
    WRITE = auto()  # shown and written
    SHOW = auto()
    CHECK = auto()  # told by the exit code
    PASS_ON = auto()  # from stdin to stdout

    @classmethod
    def decide(cls, args: argparse.Namespace, environment: Environment, result: Result) -> "WriteBack":
        """Decide once from the options; without one, ask where someone can answer."""
        if args.check:
            return cls.CHECK
        if result.is_stdin:
            return cls.SHOW if args.diff or args.json else cls.PASS_ON
        if args.write:
            return cls.WRITE
        return cls.ASK if environment.can_ask and not (args.diff or args.json) else cls.SHOW


_QUESTION = "Write it?"
_CHOICES = {
    "yes": "write this file",
    "no": "leave this file as it is",
    "all": "write this file and all that follow, without asking",
    "quit": "leave this file and all that follow as they are",
}


class Session:
    """One run of the command over its files.

    Args:
        args: The command line.
        environment: Streams and variables.
        trace: Where the generations are recorded, if they are.
    """

    def __init__(self, args: argparse.Namespace, environment: Environment, trace: Trace | None = None) -> None:
        self._args = args
        self._environment = environment
        self._console = Console(environment, args.color)
        self._trace = trace
        self._editor: Editor | None = None
        self._write_all = False
        self._quit = False

    def run(self, paths: list[str], instruction: str) -> ExitStatus:
        """Edit the files one after the other; one that fails does not stop the others."""
        results = [_read(path, self._environment, self._args.stdin_filename) for path in paths]
        self._warn(results)
        self._load_editor(results)
        for result in results:
            if self._quit and result.source is not None:
                self._console.say(f"{result.path} left as it is")
                continue
            self._edit(result, instruction)
            write_back = self._write_back(result)
            self._show(result, write_back)
            self._deliver(result, write_back)
            self._report(result, write_back)
        return exit_status(results, check=self._args.check)

    def _write_back(self, result: Result) -> WriteBack:
        """Return where an edit goes; one that is in doubt is asked for even where all others are written."""
        decided = WriteBack.decide(self._args, self._environment, result)
        unasked = self._write_all and not result.doubts
        return WriteBack.WRITE if unasked and decided is WriteBack.ASK else decided

    def _warn(self, results: list[Result]) -> None:
        """Warn of uncommitted changes in files that may be written."""
        may_write = (WriteBack.ASK, WriteBack.WRITE)
        paths = [result.path for result in results if result.source and self._write_back(result) in may_write]
        if not self._args.backup and (changed := uncommitted(paths)):
            self._console.say(warning(changed))

    def _load_editor(self, results: list[Result]) -> None:
        """Load the model if any file needs it; without a model they all fail, which is said once."""
        if all(result.source is None for result in results):
            return
        try:
            self._editor = load_editor(self._args, self._console, self._trace)
        except CommandError as error:
            self._fail_all(results, error)

    def _fail_all(self, results: list[Result], error: CommandError) -> None:
        if not self._args.json:
            for result in results:
                if result.source is None:
                    self._report(result, WriteBack.SHOW)
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
            answer = self._ask_model(self._editor, result.path, text, instruction)
            result.stats, result.figures = answer.stats, answer.figures
            _take(answer, result, result.source, text)
            edited = to_lf(result.content.decode()).lstrip("\ufeff")
            result.left_out = left_out(text, edited, instruction)
            result.syntax_error = syntax_error(result.path, text, edited)
        except CommandError as error:
            result.fail(str(error))

    def _ask_model(self, editor: Editor, path: str, text: str, instruction: str) -> Answer:
        try:
            return editor(path, text, instruction)
        except CommandError:
            raise
        except Exception as error:
            self._console.trace(error)
            raise unexpected(error) from error

    def _show(self, result: Result, write_back: WriteBack) -> None:
        shown = write_back is not WriteBack.PASS_ON and (write_back is not WriteBack.CHECK or self._args.diff)
        if result.status is Status.CHANGED and shown and not self._args.json:
            self._console.diff(result.diff.text)

    def _deliver(self, result: Result, write_back: WriteBack) -> None:
        """Put the edited file where it shall go."""
        if write_back is WriteBack.PASS_ON and result.status is not Status.FAILED:
            self._console.data(result.content)
        elif result.status is Status.CHANGED and result.source is not None and self._may_write(result, write_back):
            self._write(result, result.source)

    def _may_write(self, result: Result, write_back: WriteBack) -> bool:
        if write_back is not WriteBack.ASK:
            return write_back is WriteBack.WRITE
        self._console.say(result.as_text())
        choice = self._console.choose(_QUESTION, _CHOICES, default="no", at_end="quit")
        self._write_all, self._quit = self._write_all or choice == "all", choice == "quit"
        return choice in ("yes", "all")

    def _write(self, result: Result, source: SourceFile) -> None:
        try:
            result.backup = write_source(source, result.content, backup=self._args.backup)
            result.status = Status.WRITTEN
        except CommandError as error:
            result.fail(str(error))

    def _report(self, result: Result, write_back: WriteBack) -> None:
        if self._args.json:
            self._console.data(result.as_json().encode() + b"\n")
        elif result.status is Status.FAILED:
            self._console.error(f"{result.path}: {result.reason}{result.figures and f' ({result.figures})'}")
        elif write_back is WriteBack.ASK and result.status is not Status.UNCHANGED:
            outcome = "written" if result.status is Status.WRITTEN else "left as it is"
            self._console.say(f"{result.path} {outcome}{result.kept()}")
        elif write_back is WriteBack.SHOW and result.status is Status.CHANGED and not self._args.diff:
            self._console.say(f"{result.as_text()}; nothing was written, --write does")
        else:
            self._console.say(result.as_text())


def _take(answer: Answer, result: Result, source: SourceFile, text: str) -> None:
    """Get the edited file from an answer."""
    if answer.blocks:
        edited = apply_blocks(answer.text, _as_seen(answer, text), cut=answer.cut)
    else:
        edited = extract_file(answer.text, text, cut=answer.cut)
    result.content = source.encode(restore_lines(source.text, edited, answer.seen))
    result.diff = unified_diff(source.data.decode(), result.content.decode(), result.path)
    result.status = Status.UNCHANGED if result.content == source.data else Status.CHANGED


def _as_seen(answer: Answer, text: str) -> str:
    """Return the text whose lines an answer names: as the model saw them, unless a line break was among the changes."""
    return answer.seen if answer.seen.count("\n") == text.count("\n") else text


def _read(path: str, environment: Environment, stdin_filename: str | None) -> Result:
    is_stdin = path == _STDIN
    result = Result(stdin_filename or path if is_stdin else path, is_stdin=is_stdin)
    try:
        data = environment.stdin.read() if is_stdin else b""
        result.source = source_from_bytes(result.path, data) if is_stdin else read_source(path)
    except CommandError as error:
        result.fail(str(error))
    return result
