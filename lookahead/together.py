"""The drafts of a batch, decided together: what one row's draft costs, all rows wait for."""

from collections.abc import Sequence

import numpy as np

from lookahead.candidates import MAX_DEPTH
from lookahead.draft import Draft
from lookahead.planning import FOLLOWED, empty_plan
from lookahead.proposer import LookupProposer, packed_unit


def propose_together(proposers: Sequence[LookupProposer], rooms: Sequence[int]) -> list[Draft]:
    """Return a draft for each row of a batch.

    Rows that are read without padding (``packed``) share one budget: the likeliest tokens of all rows are drafted, as
    many as pay. Other rows draft one length, as far as each goes, for all of them pay for the widest.

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
    if len(proposers) == 1 or any(each.follows_rule for each in proposers):
        return [each.propose(room) for each, room in zip(proposers, rooms, strict=True)]
    for each, room in zip(proposers, rooms, strict=True):
        each.consider(room)
    if proposers[0].packed:
        return _likeliest(proposers)
    return _of_one_length(proposers)


def _of_one_length(proposers: Sequence[LookupProposer]) -> list[Draft]:
    """Plan as for one row, with the average survival of all."""
    pooled = empty_plan()
    for each in proposers:
        alive = each.survival
        pooled.alive[: len(alive)] += alive / len(proposers)
        pooled.chosen[FOLLOWED] = max(len(alive), int(pooled.chosen[FOLLOWED]))
    length = proposers[0].pacing.length(pooled, max(each.context for each in proposers))
    return [each.draft(length) for each in proposers]


def _likeliest(proposers: Sequence[LookupProposer]) -> list[Draft]:
    """Plan as for one row whose tokens are those of all rows, the likeliest first, a unit of them at a time."""
    rows, unit, pooled = len(proposers), packed_unit(len(proposers)), empty_plan()
    every = -np.sort(-np.concatenate([each.survival for each in proposers]))[: MAX_DEPTH * unit]
    gains = np.add.reduceat(every, np.arange(0, len(every), unit)) if len(every) else every
    pooled.alive[: len(gains)] = gains / rows
    pooled.chosen[FOLLOWED] = len(gains)
    units = proposers[0].pacing.length(pooled, max(each.context for each in proposers), unit / rows)
    least = every[min(units * unit, len(every)) - 1] if units else np.inf
    return [each.draft(int(np.count_nonzero(each.survival >= least))) for each in proposers]
