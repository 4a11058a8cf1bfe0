"""The model as an editor of one text: prompt, generation with its status line, answer."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from lookahead.cli.console import Console
from lookahead.cli.generation import Generator, Sampling, room_for_answer
from lookahead.cli.learned import Learned
from lookahead.cli.prompts import as_seen, edit_prompt, encode, thinks
from lookahead.cli.status import StatusStreamer, live_status, summary

_LEAST_GROWTH = 512  # tokens that an answer may have beyond those of the file
_REASONING = 4096  # tokens for a model that thinks first
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
    """

    text: str
    cut: bool
    seen: str
    stats: dict[str, int | float]
    figures: str = ""


class Editor(Protocol):
    """Whatever edits texts; tests bring their own."""

    def __call__(self, path: str, text: str, instruction: str) -> Answer:
        """Return the answer for one text with ``\\n`` newlines."""


class ModelEditor:
    """Edits texts with a loaded model.

    Args:
        generator: The model.
        console: Where the status line goes.
        max_new_tokens: Longest answer; None for enough for the file and half as much again.
    """

    def __init__(self, generator: Generator, console: Console, max_new_tokens: int | None = None) -> None:
        self._generator = generator
        self._console = console
        self._max_new_tokens = max_new_tokens

    def __call__(self, path: str, text: str, instruction: str) -> Answer:
        """Return the model's answer; the status line shows how it comes about."""
        tokenizer = self._generator.tokenizer
        prompt = edit_prompt(tokenizer, path, text, instruction)
        file = encode(tokenizer, text)
        limit = self._limit(len(prompt.ids), len(file))
        name = PurePath(path).name
        with live_status(self._console, f"{name}: reading {len(prompt.ids)} tokens") as show:
            streamer = StatusStreamer(self._generator.stats, lambda line: show(f"{name}: {line}"))
            done = self._generator.complete(prompt.ids, limit, streamer, lookup={"prediction": file}, **_COPY_FREELY)
        figures = summary(self._generator.stats())
        return Answer(prompt.opening + done.text, done.cut, as_seen(tokenizer, text), done.stats, figures)

    def _limit(self, prompt_tokens: int, file_tokens: int) -> int:
        reasoning = _REASONING if thinks(self._generator.tokenizer) else 0
        wanted = self._max_new_tokens or file_tokens + max(_LEAST_GROWTH, file_tokens // 2) + reasoning
        return room_for_answer(self._generator.context_length, prompt_tokens, file_tokens, wanted)


def load_editor(args: Namespace, console: Console) -> Editor:
    """Return the editor that the command line asks for; this loads the model."""
    from lookahead.cli.models import ModelOptions, load

    model, tokenizer = load(ModelOptions.from_args(args), console)
    learned = Learned(model.name_or_path, console.environment.variables)
    generator = Generator(model, tokenizer, Sampling.from_args(args), lookup=not args.no_lookup, learned=learned)
    return ModelEditor(generator, console, args.max_new_tokens)
