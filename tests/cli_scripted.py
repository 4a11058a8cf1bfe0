"""A model that follows a script: it reads the file out of the real prompt and streams an answer made by a rule."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from types import SimpleNamespace
from typing import Any

import torch

from lookahead.cli.answers import fenced_blocks
from lookahead.cli.blocks import marks_for
from lookahead.cli.editor import ModelEditor, read_references
from lookahead.cli.generation import Completion, select
from lookahead.stats import DecodingStats, StepRecord

Rule = Callable[[str], str]


class WordTokenizer:
    """A token is a word, a run of spaces, or another character; ids are given out as they come."""

    chat_template = None
    all_special_tokens = ()

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: list[str] = []

    def __call__(self, text: str, add_special_tokens: bool = False) -> dict[str, list[int]]:
        words = re.findall(r"\w+| +|[^\w ]", text)
        for word in words:
            if self._ids.setdefault(word, len(self._words)) == len(self._words):
                self._words.append(word)
        return {"input_ids": [self._ids[word] for word in words]}

    def decode(self, ids: list[int], **options: bool) -> str:
        return "".join(self._words[number] for number in ids)


@dataclass
class ScriptedGenerator:
    """What `ModelEditor` needs of a `Generator`.

    Attributes:
        rule: From the file to the edited one.
        context_length: Tokens.
        pause: Seconds per token.
        prompts: All that it was asked, as text.
    """

    rule: Rule
    context_length: int | None = None
    pause: float = 0.0
    tokenizer: WordTokenizer = field(default_factory=WordTokenizer)
    prompts: list[str] = field(default_factory=list)
    arguments: list[dict[str, Any]] = field(default_factory=list)
    _stats: DecodingStats = field(default_factory=DecodingStats)

    def stats(self) -> DecodingStats:
        return self._stats

    def complete(
        self, ids: list[int], max_new_tokens: int, streamer: Any = None, name: str = "", **arguments: Any
    ) -> Completion:
        prompt = self.tokenizer.decode(ids)
        self.prompts.append(prompt)
        self.arguments.append({"max_new_tokens": max_new_tokens, **arguments})
        tokens = self.tokenizer(self.answer(prompt))["input_ids"][:max_new_tokens]
        self._stats = DecodingStats(prompt_tokens=len(ids))
        self._stats.start_decoding(0.01)
        if streamer is not None:
            streamer.put(torch.tensor([ids]))
        for token in tokens:
            if self.pause:
                time.sleep(self.pause)
            self._stats.record(StepRecord(0, 0, 1, 1, "", 0, 0.0, 0.001))
            if streamer is not None:
                streamer.put(torch.tensor([token]))
        if streamer is not None:
            streamer.end()
        text = self.tokenizer.decode(tokens)
        return Completion(text, len(tokens) == max_new_tokens, select(self._stats), text)

    def answer(self, prompt: str) -> str:
        file = file_in(prompt)
        if re.search(r"^<{7,} SEARCH$", prompt, re.MULTILINE):
            return blocks_between(file, self.rule(file))
        fence = re.findall(r"^(`{3,})", prompt, re.MULTILINE)[-1]
        return f"\n{self.rule(file)}{fence}\n"


def file_in(prompt: str) -> str:
    """The file to edit: the last block of the prompt that is complete."""
    return [block.text for block in fenced_blocks(prompt) if block.complete][-1]


def blocks_between(old: str, new: str) -> str:
    """The changes between two texts, each with lines around it until it stands in the old text only once."""
    before, after, marks = old.split("\n"), new.split("\n"), marks_for(old)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    places: list[list[int]] = []
    for tag, i1, i2, _, _ in matcher.get_opcodes():
        if tag == "equal":
            continue
        start, stop = _unique(before, i1, i2)
        while places and places[-1][1] >= start:
            first, last = places.pop()
            start, stop = min(first, start), max(last, stop)
        places.append([start, stop])
    out = []
    for start, stop in places:
        changed: list[str] = []
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            low, high = max(i1, start), min(i2, stop)
            if tag == "equal":
                changed += before[low:high]
            elif i1 >= start and i2 <= stop:
                changed += after[j1:j2]
        out.append("\n".join([marks.search, *before[start:stop], marks.divide, *changed, marks.replace]))
    return "\n".join(out) + "\n"


def _unique(lines: list[str], start: int, stop: int) -> tuple[int, int]:
    """Widen a range of lines until it is not empty and stands there only once."""

    def stands_once() -> bool:
        wanted = lines[start:stop]
        return sum(line == wanted[0] and lines[at : at + len(wanted)] == wanted for at, line in enumerate(lines)) == 1

    while start == stop or not stands_once():
        start, stop = (start - 1, stop) if start > 0 else (start, stop + 1)
    return start, stop


def scripted_editor(rule: Rule, console: Any, args: Any = None, **settings: Any) -> Any:
    """An editor as `load_editor` returns it, around a scripted model."""
    args = args or SimpleNamespace(max_new_tokens=None, format="auto", context=None)
    generator = ScriptedGenerator(rule, **settings)
    return ModelEditor(generator, console, args.max_new_tokens, args.format, read_references(args.context or []))
