"""The loop: propose, forward, verify, commit. It knows rows of logits, not frameworks."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

from torch import Tensor

from lookahead.draft import Draft
from lookahead.stats import DecodingStats, StepRecord
from lookahead.verifier import confirm


class TargetModel(Protocol):
    """A model with a cache that can take back the draft tokens it should not have read."""

    def room(self) -> int:
        """Return how many draft tokens fit into the next step (0: decode plainly)."""

    def forward(self, draft: Draft) -> tuple[Tensor, int]:
        """Read the last committed token and the draft.

        Returns:
            Logits ``[len(draft) + 1, vocabulary]`` and the number of tokens the model read.
        """

    def commit(self, emitted: int) -> None:
        """Keep ``emitted - 1`` draft tokens of the last forward in the cache and take back the others."""


class Output(Protocol):
    """The text being written: chooses each token from its logits and says when to stop."""

    def chooser(self, logits: Tensor) -> Callable[[int], int]:
        """Return the function from a row of ``logits`` to the target's token there."""

    def emit(self, token: int) -> bool:
        """Append a token; True when generation ends with it."""


class Proposer(Protocol):
    """A source of drafts that sees every committed token."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append committed tokens."""

    def propose(self, room: int) -> Draft:
        """Return a draft of at most ``room`` tokens."""


def decode(target: TargetModel, proposer: Proposer, output: Output, stats: DecodingStats) -> None:
    """Generate until ``output`` says stop, one forward pass a step, emitting what plain decoding would emit.

    Args:
        target: The model, after its prefill; the first token of the output is emitted already.
        proposer: Knows the prompt and the first token.
        output: Receives each token exactly once, in order.
        stats: Receives one record per step.
    """
    stopped = False
    while not stopped:
        started = perf_counter()
        draft = proposer.propose(target.room())
        proposed = perf_counter()
        logits, width = target.forward(draft)
        emitted, accepted, stopped = _emit(draft, logits, output)
        target.commit(len(emitted))
        verified = perf_counter()
        proposer.extend(emitted)
        stats.record(
            StepRecord(
                draft_tokens=len(draft),
                accepted_tokens=accepted,
                emitted_tokens=len(emitted),
                width=width,
                source=draft.source,
                match_length=draft.match_length,
                propose_s=proposed - started + perf_counter() - verified,
                forward_s=verified - proposed,
            )
        )


def _emit(draft: Draft, logits: Tensor, output: Output) -> tuple[list[int], int, bool]:
    """Emit the confirmed tokens until one ends the text; return them, the accepted among them, and the end."""
    emitted: list[int] = []
    for token in confirm(draft, output.chooser(logits)):
        emitted.append(token)
        if output.emit(token):
            return emitted, _accepted(draft, emitted), True
    return emitted, len(emitted) - 1, False


def _accepted(draft: Draft, emitted: list[int]) -> int:
    """Count the leading tokens that stood in the draft."""
    node: int | None = -1
    for count, token in enumerate(emitted):
        node = draft.child(node, token)
        if node is None:
            return count
    return len(emitted)
