"""The drafts of a batch, decided together: what one row's draft costs, all rows wait for."""

from collections.abc import Sequence

from lookahead.batch_pacing import BatchPacing
from lookahead.draft import Draft
from lookahead.planning import FOLLOWED, empty_plan
from lookahead.proposer import LookupProposer


def propose_together(proposers: Sequence[LookupProposer], rooms: Sequence[int]) -> list[Draft]:
    """Return a draft for each row of a batch.

    Rows that are read without padding (those with a ``shared`` pacing) spend the step on the likeliest tokens of all,
    as many as pay. Other rows draft one length, as far as each goes, for all of them pay for the widest.

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
    chances = [each.survival for each in proposers]
    lengths = shared.lengths(chances, sum(map(len, chances)))
    return [each.draft(length) for each, length in zip(proposers, lengths, strict=True)]
