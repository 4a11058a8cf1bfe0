"""The loop: propose, forward, verify, commit. It knows rows of logits, not frameworks."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from torch import Tensor

from lookahead.draft import Draft
from lookahead.stats import DecodingStats, StepRecord
from lookahead.verifier import confirm


class TargetModel(Protocol):
    """A model with a cache that can take back the draft tokens it should not have read."""

    def room(self, row: int) -> int:
        """Return how many draft tokens fit into the row's next step (0: decode plainly)."""

    def forward(self, rows: Sequence[int], drafts: Sequence[Draft]) -> tuple[Sequence[Tensor], int]:
        """Read the last committed token and the draft of every row, in one forward pass.

        Returns:
            Logits ``[len(draft) + 1, vocabulary]`` for each row, and the number of tokens read per row.
        """

    def commit(self, emitted: Sequence[int]) -> None:
        """Keep ``emitted - 1`` draft tokens of each row of the last forward in the cache; take back the others."""


class Output(Protocol):
    """The texts being written: chooses each token from its logits and says when a row ends."""

    def live(self) -> list[int]:
        """Return the rows that have not ended."""

    def choosers(self, rows: Sequence[int], logits: Sequence[Tensor]) -> Sequence[Callable[[int], int]]:
        """Return, for each row, the function from a row of its logits to the target's token there."""

    def emit(self, row: int, token: int) -> bool:
        """Append a token to a row; True when the row ends with it."""


class Proposer(Protocol):
    """A source of drafts that sees every committed token of its row."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append committed tokens."""

    def propose(self, room: int) -> Draft:
        """Return a draft of at most ``room`` tokens."""

    def observe(self, step: StepRecord) -> None:
        """Learn what a step cost."""

    def finish(self) -> None:
        """Take note that the text has ended."""


def propose_each(proposers: Sequence[Proposer], rooms: Sequence[int]) -> list[Draft]:
    """Return every row's own draft."""
    return [proposer.propose(room) for proposer, room in zip(proposers, rooms, strict=True)]


def decode(
    target: TargetModel,
    proposers: Sequence[Proposer],
    output: Output,
    stats: DecodingStats,
    propose: Callable[[Sequence[Any], Sequence[int]], Sequence[Draft]] = propose_each,
) -> None:
    """Generate until every row has ended, one forward pass a step, emitting what plain decoding would emit.

    Args:
        target: The model, after its prefill; the first token of every row is emitted already.
        proposers: One for each row; they know the prompt and the first token.
        output: Receives each token exactly once, in the row's order.
        stats: Receives one record per step.
        propose: Returns the drafts of some rows, given their proposers and rooms.
    """
    while rows := output.live():
        started = perf_counter()
        drafts = propose([proposers[row] for row in rows], [target.room(row) for row in rows])
        proposed = perf_counter()
        logits, width = target.forward(rows, drafts)
        choosers = output.choosers(rows, logits)
        emitted = [
            confirm(draft, choose, partial(output.emit, row))
            for row, draft, choose in zip(rows, drafts, choosers, strict=True)
        ]
        target.commit([len(tokens) for tokens in emitted])
        verified = perf_counter()
        for row, tokens in zip(rows, emitted, strict=True):
            proposers[row].extend(tokens)
        paths = [draft.path(tokens) for draft, tokens in zip(drafts, emitted, strict=True)]
        source, matched = drafts[0].source_of(paths[0])
        step = StepRecord(
            rows=len(rows),
            draft_tokens=sum(map(len, drafts)),
            accepted_tokens=sum(map(len, paths)),
            emitted_tokens=sum(map(len, emitted)),
            width=width,
            source=source,
            match_length=matched,
            propose_s=proposed - started + perf_counter() - verified,
            forward_s=verified - proposed,
            origins=tuple(drafts[0].origins[node] for node in paths[0]) if drafts[0].origins else (),
            depth=drafts[0].depth,
        )
        proposers[rows[0]].observe(step)
        stats.record(step)
    for proposer in proposers:
        proposer.finish()
