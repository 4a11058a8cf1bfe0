"""A batch spends its step on the likeliest tokens of all its rows."""

import numpy as np
import pytest

from lookahead import LookupConfig, LookupProposer
from lookahead.batch_pacing import BatchPacing
from lookahead.pacing import Pacing
from lookahead.stats import StepRecord
from lookahead.together import propose_together


def rows_of(prompts: list[list[int]], shared: BatchPacing) -> list[LookupProposer]:
    pacing = Pacing()
    proposers = [LookupProposer(LookupConfig(), prompt, pacing=pacing) for prompt in prompts]
    for proposer in proposers:
        proposer.shared = shared
    return proposers


def paced(dearness: float, rows: int) -> BatchPacing:
    """Costs at which a draft token is so much of a step without drafts."""
    pacing = BatchPacing()
    for _ in range(30):
        for drafted in (0, 8, 64):
            pacing.observe(rows, rows + drafted, 1 + dearness * drafted, rows)
    return pacing


COPY = [*range(100), *range(60)]  # goes on as it did before
WEAK = [7, 8, 1, 7, 9, 2, 7, 8, 3, 7]  # has gone on in two ways


def test_a_row_that_copies_drafts_far_beside_rows_that_have_nothing() -> None:
    idle = [[*range(1000 * row, 1000 * row + 50)] for row in range(1, 8)]
    drafts = propose_together(rows_of([COPY, *idle], paced(0.02, 8)), [60] * 8)
    assert len(drafts[0]) > 8
    assert [len(draft) for draft in drafts[1:]] == [0] * 7


@pytest.mark.parametrize("dearness", [0.005, 0.02, 0.08, 0.2])
def test_no_token_is_drafted_while_a_likelier_one_is_not(dearness) -> None:
    proposers = rows_of([COPY, WEAK, COPY[:30] + COPY[:9], WEAK[:-3]], paced(dearness, 4))
    drafts = propose_together(proposers, [60] * 4)
    taken = [proposer.survival[: len(draft)] for proposer, draft in zip(proposers, drafts, strict=True)]
    left = [proposer.survival[len(draft) :] for proposer, draft in zip(proposers, drafts, strict=True)]
    if any(map(len, taken)):
        assert min(np.concatenate(taken)) >= max(np.concatenate(left), default=0.0)


def test_a_row_that_lags_drafts_before_those_ahead_of_it() -> None:
    """Of rows with the same draft; the batch ends when the last of them has."""
    rows = rows_of([COPY, COPY], paced(0.04, 2))
    assert len({len(draft) for draft in propose_together(rows, [20, 20])}) == 1
    rows = rows_of([COPY, COPY[:-60]], paced(0.04, 2))
    rows[1].extend(COPY[-60:])
    ahead, behind = rows[1], rows[0]
    assert (ahead.written, behind.written) == (60, 0)
    drafts = propose_together([ahead, behind], [20, 20])
    assert len(drafts[0]) < len(drafts[1])


def test_dearer_tokens_are_drafted_less() -> None:
    counts = [
        sum(map(len, propose_together(rows_of([COPY, WEAK, COPY, WEAK], paced(dearness, 4)), [60] * 4)))
        for dearness in (0.001, 0.05, 5.0)
    ]
    assert counts[0] > counts[1] > counts[2] == 0


def test_a_step_is_known_by_all_its_tokens_not_by_its_widest_row() -> None:
    shared = BatchPacing()
    proposer = rows_of([COPY], shared)[0]
    plain = StepRecord(0, 0, 8, 1, "", 0, 0.0, 1.0, rows=8)
    one_row_drafts = StepRecord(16, 16, 24, 17, "context", 9, 0.0, 1.5, rows=8)
    for _ in range(4):
        proposer.observe(plain)
        proposer.observe(one_row_drafts)
    assert shared.cost(8, 8 + 16) == pytest.approx(1.5, rel=0.05)
    assert shared.cost(8, 8) == pytest.approx(1.0, rel=0.05)
