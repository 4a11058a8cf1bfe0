"""Batch: many proposers that take their step together, by a few compiled calls instead of a few for each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead import automaton as sam
from lookahead.batch_costs import Room, choose
from lookahead.batch_pacing import BatchPacing
from lookahead.candidates import MAX_DEPTH
from lookahead.config import LookupConfig
from lookahead.handle import LEAST, TEXT_START, VOCABULARY, standing
from lookahead.kernels import kernel, part
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED, ROW, learn_step, plan_step
from lookahead.proposer import LookupProposer

_TAIL = 16
# Columns of a seat: the proposer's handle; its row of tokens, and how many there are; the room for its draft; whether
# its text was followed; tokens of its draft.
HANDLE, PLACE, LENGTH, ROOM, TAKEN, DRAFTED = range(6)


@kernel
def follow_rows(seats, tokens, survival):
    """Take the new tokens of each text in, as far as that needs no more memory; returns how many were not followed."""
    missed = 0
    for seat in range(len(seats)):
        now = standing(seats[seat, HANDLE])
        seats[seat, TAKEN] = _follow(now, tokens[seats[seat, PLACE]], seats[seat, LENGTH], survival)
        missed += 1 - seats[seat, TAKEN]
    return missed


@part
def _follow(now, tokens, length, survival):
    """Take a text in; 0 if it is another one, or does not fit into the arrays."""
    text, registers = now.index.text, now.index.registers
    known, stop = registers[sam.LENGTH] - now.numbers[TEXT_START], now.numbers[TEXT_START] + length
    if length < known or stop > len(text):
        return 0
    for at in range(max(known - _TAIL, 0), known):
        if text[now.numbers[TEXT_START] + at] != tokens[at]:
            return 0
    for at in range(known, length):
        if tokens[at] < 0:
            return 0
    if length > known:
        came = tokens[known:length]
        learn_step(now.index, now.swaps, now.trail, now.candidates, survival, now.plan, came)
        for at in range(known, length):
            text[now.numbers[TEXT_START] + at] = tokens[at]
        if sam.extend(now.index, stop) < stop:
            return 0
    return 1


@kernel
def draft_rows(seats, survival, costs, requests, most, measures, room, alive, drafts):
    """Plan a step of each and write all drafts behind one another; returns how many tokens. Sets `seats[:, DRAFTED]`.

    `alive` float64 [seats, depth + 1] becomes the chance that each draft survives.
    """
    for seat in range(len(seats)):
        _plan(standing(seats[seat, HANDLE]), seats[seat, ROOM], survival, alive[seat])
    taken, at = choose(alive, costs, requests, most, measures, room), 0
    lengths = Room(*room).lengths
    for seat in range(len(seats)):
        seats[seat, DRAFTED] = lengths[seat]
        if lengths[seat] > 0:
            now = standing(seats[seat, HANDLE])
            for depth in range(lengths[seat]):
                drafts[at] = now.candidates.tokens[now.plan.chosen[ROW], depth]
                at += 1
    return taken


@part
def _plan(now, room, survival, alive):
    """Plan a step, and write how likely its draft survives."""
    least, vocabulary, chosen = now.numbers[LEAST], now.numbers[VOCABULARY], now.plan.chosen
    now.candidates.count[0] = 0
    chosen[FOLLOWED] = 0
    if room > 0:
        plan_step(
            now.index,
            now.documents,
            now.limits,
            now.swaps,
            now.trail,
            now.candidates,
            least,
            vocabulary,
            survival,
            now.plan,
            room,
        )
    for depth in range(chosen[FOLLOWED]):
        alive[depth] = now.plan.alive[depth]
    alive[chosen[FOLLOWED]] = 0.0


class Batch:
    """Steps of many proposers that share a pacing.

    The texts are rows of one array, as an engine that serves many requests keeps them.

    Args:
        pacing: What steps of the batch cost.
        knowledge: How drafts fare; the proposers' own pacing.

    Example:
        >>> from lookahead import LookupConfig
        >>> knowledge = Pacing()
        >>> rows = [LookupProposer(LookupConfig(), [5, 6, 7, 8], pacing=knowledge) for _ in range(2)]
        >>> batch = Batch(BatchPacing(measures=False), knowledge)
        >>> tokens = np.array([[5, 6, 7, 8, 5, 6], [5, 6, 7, 8, 7, 0]], np.int32)
        >>> batch.seat(rows, places=[0, 1], lengths=[6, 5], rooms=[2, 2])
        >>> batch.follow(tokens)
        []
        >>> batch.propose(most=4, requests=2)
        [[7, 8], [8, 7]]
    """

    def __init__(self, pacing: BatchPacing, knowledge: Pacing) -> None:
        self._pacing = pacing
        self._survival = tuple(knowledge.survival)
        self._make_room(8)
        self.seat((), (), (), ())

    def seat(
        self, proposers: Sequence[LookupProposer], places: Sequence[int], lengths: Sequence[int], rooms: Sequence[int]
    ) -> None:
        """Say what the next step is of; to be said again when a proposer was extended otherwise.

        Args:
            proposers: Each at most once.
            places: The row of each proposer's text.
            lengths: Tokens of each.
            rooms: Draft tokens that there is room for, for each.
        """
        self._proposers = proposers
        if len(proposers) > len(self._room):
            self._make_room(2 * len(proposers))
        self._seats = self._room[: len(proposers)]
        if proposers:
            handles = [proposer.handle for proposer in proposers]
            self._seats[:, : ROOM + 1] = [*zip(handles, places, lengths, rooms, strict=True)]

    def follow(self, tokens: NDArray[Any]) -> list[int]:
        """Let each proposer take in what its text has more than it knows.

        Args:
            tokens: The texts, integers [rows, longest].

        Returns:
            The proposers, by their numbers, that could not: the text is another one, holds what is no token, or does
            not fit into the arrays that there are, and may then be partly taken in. `LookupProposer.extend` can, or
            says what is wrong.
        """
        if not self._proposers:
            return []
        missed = follow_rows(self._seats, np.ascontiguousarray(tokens, np.int32), self._survival)
        for proposer in self._proposers:
            proposer.index.catch_up()
        return np.flatnonzero(self._seats[:, TAKEN] == 0).tolist() if missed else []

    def propose(self, most: int, requests: int) -> list[list[int]]:
        """Return a draft for each proposer: of all the likeliest tokens, as many as the step is worth.

        Args:
            most: Draft tokens of the step, in all.
            requests: Requests in the step, those that have nothing to draft included.
        """
        seats = self._seats
        if not len(seats):
            return []
        costs, room = self._pacing.deciding(requests, len(seats))
        measures, alive = self._pacing.measures, self._alive[: len(seats)]
        taken = draft_rows(seats, self._survival, costs, requests, most, measures, room, alive, self._drafts)
        if not taken:
            return [[] for _ in seats]
        flat, drafts, start = self._drafts[:taken].tolist(), [], 0
        for length in seats[:, DRAFTED].tolist():
            drafts.append(flat[start : start + length])
            start += length
        return drafts

    def _make_room(self, count: int) -> None:
        self._room = np.zeros((count, DRAFTED + 1), np.int64)
        self._alive = np.zeros((count, MAX_DEPTH + 1))
        self._drafts = np.zeros(count * MAX_DEPTH, np.int32)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from numba's cache, before a clock runs."""
        knowledge = Pacing()
        other = Batch(BatchPacing(), knowledge)
        proposer = LookupProposer(LookupConfig(), [5, 6, 5], pacing=knowledge)
        other.seat([proposer], [0], [4], [1])
        other.follow(np.array([[5, 6, 5, 6]], np.int32))
        other.propose(1, 1)
