"""Stand-ins for the command's surroundings: streams in memory, and an editor that follows a script."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field

from lookahead.cli.console import Environment
from lookahead.cli.editor import Answer
from lookahead.cli.errors import CommandError, ExitStatus
from lookahead.cli.main import main

OLD = "alpha = 1\nbeta = 2\n"
NEW = "alpha = 1\ngamma = 2\n"
DIFF = "@@ -1,2 +1,2 @@\n alpha = 1\n-beta = 2\n+gamma = 2\n"
EDIT = ("edit", "-i", "Rename beta to gamma")
STATS = {
    "prompt_tokens": 10,
    "generated_tokens": 9,
    "steps": 2,
    "draft_tokens": 8,
    "accepted_tokens": 6,
    "acceptance_rate": 0.75,
    "mean_acceptance_length": 4.0,
    "tokens_per_second": 16.0,
    "prefill_s": 0.25,
    "decode_s": 0.5,
}


def fenced(text: str) -> str:
    newline = "" if text.endswith("\n") else "\n"
    return f"Here it is:\n\n````\n{text}{newline}````\n"


def answer(text: str, *, cut: bool = False, seen: str = "") -> Answer:
    return Answer(text, cut, seen, dict(STATS), "9 tokens, 16.0 tokens/s")


def replacing(old: str, new: str) -> Callable[[str, str, str], Answer]:
    """An editor that replaces one text by another, as a perfect model would."""
    return lambda path, text, instruction: answer(fenced(text.replace(old, new)), seen=text)


def failing(error: BaseException) -> Callable[[str, str, str], Answer]:
    def edit(path: str, text: str, instruction: str) -> Answer:
        raise error

    return edit


@dataclass
class Recorder:
    """An editor that notes what it was asked, and answers through another one."""

    inner: Callable[[str, str, str], Answer]
    calls: list[tuple[str, str, str]] = field(default_factory=list)

    def __call__(self, path: str, text: str, instruction: str) -> Answer:
        self.calls.append((path, text, instruction))
        return self.inner(path, text, instruction)


@dataclass
class Run:
    status: ExitStatus
    stdout: bytes
    stderr: str


def environment(stdin: bytes = b"", *, terminal: bool = False, variables: dict[str, str] | None = None) -> Environment:
    return Environment(io.BytesIO(stdin), io.BytesIO(), io.StringIO(), terminal, terminal, terminal, variables or {})


def run(*argv: object, stdin: bytes = b"", terminal: bool = False, variables: dict[str, str] | None = None) -> Run:
    """Run the command in this process and return all that it said."""
    surroundings = environment(stdin, terminal=terminal, variables=variables)
    status = main([str(arg) for arg in argv], surroundings)
    return Run(status, surroundings.stdout.getvalue(), surroundings.stderr.getvalue())


def no_model(*args: object) -> Callable[[str, str, str], Answer]:
    raise CommandError("there is no model at x: --model takes a hub id, a folder or a .gguf file")
