"""The loop: every token is emitted once and in order, and the cache is told what to keep."""

from collections.abc import Sequence

import pytest
import torch

from lookahead.decoding import decode
from lookahead.draft import Draft
from lookahead.stats import DecodingStats, StepRecord

TEXT = (5, 6, 7, 8, 9, 5, 6, 7, 8, 9)


class Model:
    """Wants TEXT, and remembers what it was asked to read and to keep."""

    def __init__(self, output: "Output") -> None:
        self.output, self.log, self.kept = output, [], []

    def room(self, row: int) -> int:
        return 6

    def forward(self, rows: Sequence[int], drafts: Sequence[Draft]) -> tuple[list[torch.Tensor], int]:
        (draft,) = drafts
        self.log.append(draft.tokens)
        start = len(self.output.text)
        wanted = (*TEXT, 0, 0, 0, 0, 0, 0, 0)[start : start + len(draft) + 1]
        return [torch.eye(10)[list(wanted)]], len(wanted)

    def commit(self, emitted: Sequence[int]) -> None:
        self.kept.append(emitted[0])


class Output:
    def __init__(self, length: int) -> None:
        self.text, self.length = [TEXT[0]], length

    def live(self) -> list[int]:
        return [] if len(self.text) == self.length else [0]

    def choosers(self, rows: Sequence[int], logits: Sequence[torch.Tensor]):
        return [logits[0].argmax(-1).tolist().__getitem__]

    def emit(self, row: int, token: int) -> bool:
        self.text.append(token)
        return len(self.text) == self.length


class Drafts:
    def __init__(self, *drafts: Sequence[int]) -> None:
        self.drafts, self.seen, self.steps = list(drafts), [], []

    def extend(self, tokens: Sequence[int]) -> None:
        self.seen.extend(tokens)

    def propose(self, room: int) -> Draft:
        return Draft(tuple(self.drafts.pop(0))) if self.drafts else Draft()

    def observe(self, step: StepRecord) -> None:
        self.steps.append(step)

    def finish(self) -> None:
        self.finished = True


def run(length: int, *drafts: Sequence[int]) -> tuple[Output, Model, Drafts, DecodingStats]:
    output, stats, proposer = Output(length), DecodingStats(), Drafts(*drafts)
    model = Model(output)
    stats.start_decoding(0.1)
    decode(model, [proposer], output, stats)
    return output, model, proposer, stats


@pytest.mark.parametrize("drafts", [(), ([6, 7],), ([6, 7, 8, 9, 5, 6],), ([1],), ([6, 1, 8],), ([6, 7, 1], [9, 1])])
def test_the_text_does_not_depend_on_the_drafts(drafts) -> None:
    output, model, proposer, stats = run(10, *drafts)
    assert tuple(output.text) == TEXT
    assert proposer.seen == output.text[1:]
    assert sum(model.kept) == 9 == stats.generated_tokens - 1
    assert proposer.steps == stats.records


def test_a_step_emits_the_accepted_tokens_and_one_of_the_targets_own() -> None:
    _, model, _, stats = run(10, [6, 7, 1, 1])
    assert model.kept[0] == 3
    first = stats.records[0]
    assert (first.draft_tokens, first.accepted_tokens, first.emitted_tokens, first.width) == (4, 2, 3, 5)


def test_the_end_of_the_text_cuts_an_accepted_draft() -> None:
    output, model, _, stats = run(3, [6, 7, 8, 9])
    assert output.text == [5, 6, 7]
    assert model.kept == [2]
    assert stats.accepted_tokens == 2 == stats.records[0].emitted_tokens


def test_figures_without_any_draft() -> None:
    *_, stats = run(10)
    assert (stats.steps, stats.acceptance_rate, stats.mean_acceptance_length) == (9, 0.0, 1.0)
