"""The drafts of a batch, decided together: what one row's draft costs, all rows wait for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookahead.batch_pacing import BatchPacing
from lookahead.draft import Draft
from lookahead.planning import FOLLOWED, empty_plan
from lookahead.proposer import LookupProposer

_LAG = 48.0  # tokens behind the others at which a row's own are worth e times as much


def propose_together(proposers: Sequence[LookupProposer], rooms: Sequence[int]) -> list[Draft]:
    """Return a draft for each row of a batch.

    Rows that are read without padding (those with a ``shared`` pacing) spend the step on the likeliest tokens of all,
    as many as pay; those of rows that lag count for more, for the batch ends with the last of them. Other rows draft
    one length, as far as each goes, for all of them pay for the widest.

    Args:
        proposers: One for each row; they share their pacing.
        rooms: Tokens that fit into each row's next step.

    Example:
        >>> from lookahead import LookupConfig
        >>> from lookahead.pacing import Pacing
        >>> rows = [LookupProposer(LookupConfig(), [5, 6, 7, 8, 5, 6], pacing=Pacing()) for _ in range(2)]
        >>> [draft.tokens[0] for draft in propose_together(rows, [9, 9])]
        [7, 7]
    """
    shared = proposers[0].shared
    if any(each.follows_rule for each in proposers) or (len(proposers) == 1 and shared is None):
        return [each.propose(room) for each, room in zip(proposers, rooms, strict=True)]
    for each, room in zip(proposers, rooms, strict=True):
        each.consider(room)
    return _of_one_length(proposers) if shared is None else _likeliest(proposers, shared)


def _of_one_length(proposers: Sequence[LookupProposer]) -> list[Draft]:
    """Plan as for one row, with the average survival of all."""
    pooled = empty_plan()
    for each in proposers:
        alive = each.survival
        pooled.alive[: len(alive)] += alive / len(proposers)
        pooled.chosen[FOLLOWED] = max(len(alive), int(pooled.chosen[FOLLOWED]))
    length = proposers[0].pacing.length(pooled, max(each.context for each in proposers))
    return [each.draft(length) for each in proposers]


def _likeliest(proposers: Sequence[LookupProposer], shared: BatchPacing) -> list[Draft]:
    """Draft the likeliest tokens of all rows, whichever row they are of."""
    worth = _worth_of_rows([each.written for each in proposers])
    chances = [each.survival * weight for each, weight in zip(proposers, worth, strict=True)]
    lengths = shared.lengths(chances, sum(map(len, chances)))
    return [each.draft(length) for each, length in zip(proposers, lengths, strict=True)]


def _worth_of_rows(written: Sequence[int]) -> NDArray[np.float64]:
    """Return what a token of each row is worth, 1 on average: the batch goes on until its slowest row has ended.

    Example:
        >>> _worth_of_rows([20, 20]).tolist()
        [1.0, 1.0]
        >>> _worth_of_rows([20, 68]).round(2).tolist()
        [1.46, 0.54]
    """
    behind = np.exp((min(written) - np.array(written)) / _LAG)
    return behind * (len(written) / behind.sum())
