"""The model as an editor of one text: prompt, generation with its live view, answer."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError
from lookahead.cli.files import read_source
from lookahead.cli.generation import Completion, Generator, Sampling, room_for_answer
from lookahead.cli.learned import Learned
from lookahead.cli.lines import to_lf
from lookahead.cli.live_view import EditView, live_edit
from lookahead.cli.prompts import Prompt, Reference, as_seen, edit_prompt, encode, thinks
from lookahead.cli.selection import select_files
from lookahead.cli.status import StatusStreamer, live_status, summary

if TYPE_CHECKING:
    from lookahead.cli.trace import Trace

_FORMS = {"auto": (False, True), "whole": (False,), "blocks": (True,)}  # whether blocks, in the order of trial
_LEAST_GROWTH = 512  # tokens that an answer may have beyond those of the file
_REASONING = 4096  # tokens for a model that thinks first
_LEAST_BLOCKS, _MOST_BLOCKS = 256, 2048  # tokens of an answer in blocks: what it needs, and what it may have
_COPY_FREELY = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}  # many models' defaults punish copies


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to an instruction.

    Attributes:
        text: All that it wrote.
        cut: Whether it was stopped at the token limit.
        seen: The text to edit as the model saw it.
        stats: Figures of the generation.
        figures: The same in words.
        blocks: Whether it holds blocks of changes instead of the whole file.
    """

    text: str
    cut: bool
    seen: str
    stats: dict[str, int | float]
    figures: str = ""
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """A prompt, the longest answer, whether it asks for blocks, and the files for reference that it leaves out."""

    prompt: Prompt
    limit: int
    blocks: bool
    unread: Sequence[Reference]


class Editor(Protocol):
    """Whatever edits texts; tests bring their own."""

    def __call__(self, path: str, text: str, instruction: str) -> Answer:
        """Return the answer for one text with ``\\n`` newlines."""


class ModelEditor:
    """Edits texts with a loaded model.

    Args:
        generator: The model.
        console: Where the live view goes.
        max_new_tokens: Longest answer; None for enough for the file and half as much again.
        form: ``whole``, ``blocks``, or ``auto``: blocks for files that the context has no room for twice.
        context: Files for reference.
    """

    def __init__(
        self,
        generator: Generator,
        console: Console,
        max_new_tokens: int | None = None,
        form: str = "auto",
        context: Sequence[Reference] = (),
    ) -> None:
        self._generator = generator
        self._console = console
        self._max_new_tokens = max_new_tokens
        self._form = form
        self._context = context
        self._noted: set[int] = set()  # numbers of files left out that were spoken of
        self._sizes: dict[str, int] = {}  # tokens of a file for reference, by its name

    def __call__(self, path: str, text: str, instruction: str) -> Answer:
        """Return the model's answer; the live view shows how it comes about."""
        tokenizer = self._generator.tokenizer
        plan = self._plan(path, text, instruction)
        lookup: dict[str, Any] = {"references": [encode(tokenizer, reference.text) for reference in plan.unread]}
        if plan.blocks:
            done = self._generate_blocks(path, plan, lookup)
        else:
            view = EditView(PurePath(path).name, text, plan.prompt.opening, tokenizer, self._generator.stats)
            lookup["prediction"] = encode(tokenizer, text)
            with live_edit(self._console, view) as streamer:
                done = self._generator.complete(
                    plan.prompt.ids, plan.limit, streamer, path, lookup=lookup, **_COPY_FREELY
                )
        figures = summary(self._generator.stats())
        answer = plan.prompt.opening + done.text if done.answer == done.text else done.answer
        return Answer(answer, done.cut, as_seen(tokenizer, text), done.stats, figures, plan.blocks)

    def _generate_blocks(self, path: str, plan: _Plan, lookup: dict[str, Any]) -> Completion:
        name = PurePath(path).name
        with live_status(self._console, f"{name}: reading {len(plan.prompt.ids)} tokens") as show:
            streamer = StatusStreamer(self._generator.stats, lambda line: show(f"{name}: {line}"))
            return self._generator.complete(plan.prompt.ids, plan.limit, streamer, path, lookup=lookup, **_COPY_FREELY)

    def _plan(self, path: str, text: str, instruction: str) -> _Plan:
        """Return the first way that the context has room for: whole file before blocks, all references before few."""
        tokenizer = self._generator.tokenizer
        file_tokens = len(encode(tokenizer, text))
        context = [reference for reference in self._context if not _is_same(reference.name, path)]
        read = self._promising(context, 2 * file_tokens if self._form == "whole" else file_tokens)
        for count in range(read, -1, -1):
            for blocks in _FORMS[self._form]:
                prompt = edit_prompt(tokenizer, path, text, instruction, context=context[:count], blocks=blocks)
                try:
                    limit = self._limit(len(prompt.ids), file_tokens, blocks)
                except CommandError as error:
                    too_large = error
                    continue
                return _Plan(prompt, limit, blocks, self._said(context[count:], len(context)))
        raise too_large

    def _promising(self, context: Sequence[Reference], beside: int) -> int:
        """Return how many of the first files for reference may fit beside so many tokens; a prompt is more than its
        files, so it is still to be tried."""
        room = self._generator.context_length
        if room is None:
            return len(context)
        for count, reference in enumerate(context):
            size = self._sizes.get(reference.name)
            if size is None:
                size = self._sizes[reference.name] = len(encode(self._generator.tokenizer, reference.text))
            beside += size
            if beside > room:
                return count
        return len(context)

    def _said(self, unread: Sequence[Reference], of: int) -> Sequence[Reference]:
        """Say, once for each number of them, that files for reference have no room in the prompt."""
        if unread and len(unread) not in self._noted:
            self._noted.add(len(unread))
            several = f"{len(unread)} of {of} files for reference do not fit into the context: they are"
            one = f"{unread[0].name} does not fit into the context: it is"
            self._console.say(f"{one if len(unread) == 1 else several} only copied from")
        return unread

    def _limit(self, prompt_tokens: int, file_tokens: int, blocks: bool) -> int:
        reasoning = _REASONING if thinks(self._generator.tokenizer) else 0
        needed = _LEAST_BLOCKS if blocks else file_tokens
        usual = _MOST_BLOCKS if blocks else file_tokens + max(_LEAST_GROWTH, file_tokens // 2)
        wanted = self._max_new_tokens or usual + reasoning
        return room_for_answer(self._generator.context_length, prompt_tokens, needed, wanted)


def _is_same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def load_editor(args: Namespace, console: Console, trace: "Trace | None" = None) -> Editor:
    """Return the editor that the command line asks for; this loads the model."""
    context = read_references(args.context or [])
    from lookahead.cli.models import ModelOptions, editor_model_path, load

    model, tokenizer = load(ModelOptions.from_args(args), console, default=editor_model_path)
    learned = Learned(model.name_or_path, console.environment.variables)
    generator = Generator(
        model,
        tokenizer,
        Sampling.from_args(args),
        lookup=not args.no_lookup,
        learned=learned,
        trace=trace,
        share=len(args.files) > 1,
    )
    return ModelEditor(generator, console, args.max_new_tokens, args.format, context)


def read_references(names: list[str]) -> list[Reference]:
    """Return the files for reference that the command line names.

    Raises:
        CommandError: One can't be read.
    """
    references = []
    for path in select_files(names):
        try:
            references.append(Reference(path, to_lf(read_source(path, pipes=True).text)))
        except CommandError as error:
            raise CommandError(f"the file for reference {path} {error}") from None
    return references
