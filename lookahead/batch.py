"""Batch: many proposers that take their step together, by a few compiled calls instead of a few for each."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead import automaton as sam
from lookahead.batch_costs import choose, room_at
from lookahead.batch_pacing import BatchPacing
from lookahead.candidates import MAX_DEPTH
from lookahead.config import LookupConfig
from lookahead.features import WEIGHTS
from lookahead.handle import LEAST, TEXT_START, VOCABULARY, standing
from lookahead.kernels import kernel, part
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED, ROW, learn_step, plan_step
from lookahead.proposer import LookupProposer
from lookahead.views import Addresses, address_of, flat_float64, flat_int32, flat_int64, table_float64, table_int64

_TAIL = 16
# Columns of a seat: the proposer's handle; its row of tokens, and how many there are; the room for its draft; whether
# its text was followed; tokens of its draft.
HANDLE, PLACE, LENGTH, ROOM, TAKEN, DRAFTED = range(6)
_SEAT = struct.Struct(f"{ROOM + 1}q")
# Entries of a desk: where the seats lie, the chances of their drafts, the drafts, what is known of drafts, and the
# texts; and how many columns these have.
_SEATS, _ALIVE, _DRAFTS, _WEIGHTS, _PRECISION, _TOKENS, _COLUMNS = range(7)


@kernel
def follow_rows(desk, count):
    """Take the new tokens of each text in, as far as that needs no more memory; returns how many were not followed."""
    at = flat_int64(desk, _COLUMNS + 1)
    seats, survival = table_int64(at[_SEATS], count, DRAFTED + 1), _survival(at)
    missed = 0
    for seat in range(count):
        now = standing(seats[seat, HANDLE])
        tokens = flat_int32(at[_TOKENS] + 4 * at[_COLUMNS] * seats[seat, PLACE], at[_COLUMNS])
        seats[seat, TAKEN] = _follow(now, tokens, seats[seat, LENGTH], survival)
        missed += 1 - seats[seat, TAKEN]
    return missed


@part
def _survival(at):
    """What is known of drafts."""
    return flat_float64(at[_WEIGHTS], WEIGHTS), flat_float64(at[_PRECISION], WEIGHTS)


@part
def _follow(now, tokens, length, survival):
    """Take a text in; 0 if it is another one, or does not fit into the arrays."""
    text, registers = now.index.text, now.index.registers
    known, stop = registers[sam.LENGTH] - now.numbers[TEXT_START], now.numbers[TEXT_START] + length
    if length < known or length > len(tokens) or stop > len(text):
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
def draft_rows(desk, count, costs, room, requests, most, measures):
    """Plan a step of each and write all drafts behind one another; returns how many tokens. Sets a seat's `DRAFTED`."""
    at = flat_int64(desk, _COLUMNS + 1)
    seats, survival = table_int64(at[_SEATS], count, DRAFTED + 1), _survival(at)
    alive, drafts = table_float64(at[_ALIVE], count, MAX_DEPTH + 1), flat_int32(at[_DRAFTS], count * MAX_DEPTH)
    for seat in range(count):
        _plan(standing(seats[seat, HANDLE]), seats[seat, ROOM], survival, alive[seat])
    taken, end = choose(alive, costs, room, requests, most, measures), 0
    lengths = room_at(room).lengths
    for seat in range(count):
        seats[seat, DRAFTED] = lengths[seat]
        if lengths[seat] > 0:
            now = standing(seats[seat, HANDLE])
            for depth in range(lengths[seat]):
                drafts[end] = now.candidates.tokens[now.plan.chosen[ROW], depth]
                end += 1
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
        self._pacing, self._knowledge = pacing, knowledge
        self._tokens = np.zeros((0, 0), np.int32)
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
        self._proposers: Sequence[LookupProposer] = ()  # until all have their seats
        if len(proposers) > len(self._seats):
            self._make_room(2 * len(proposers))
        buffer, width, at = self._seats.data, self._seats.strides[0], 0
        for proposer, place, length, room in zip(proposers, places, lengths, rooms, strict=True):
            _SEAT.pack_into(buffer, at, proposer.handle, place, length, room)
            at += width
        self._proposers = tuple(proposers)

    def follow(self, tokens: NDArray[Any]) -> list[int]:
        """Let each proposer take in what its text has more than it knows.

        Args:
            tokens: The texts, integers [rows, longest].

        Returns:
            The proposers, by their numbers, that could not: the text is another one, holds what is no token, or does
            not fit into the arrays that there are, and may then be partly taken in. `LookupProposer.extend` can, or
            says what is wrong.
        """
        proposers = self._proposers
        if not proposers:
            return []
        if tokens is not self._tokens:
            texts = np.ascontiguousarray(tokens, np.int32)
            _, columns = texts.shape
            self._desk.entries[_TOKENS:], self._tokens = (address_of(texts), columns), texts
        missed = follow_rows(self._desk.handle, len(proposers))
        for proposer in proposers:
            proposer.index.catch_up()
        return np.flatnonzero(self._seats[: len(proposers), TAKEN] == 0).tolist() if missed else []

    def propose(self, most: int, requests: int) -> list[list[int]]:
        """Return a draft for each proposer: of all the likeliest tokens, as many as the step is worth.

        Args:
            most: Draft tokens of the step, in all.
            requests: Requests in the step, those that have nothing to draft included.
        """
        count = len(self._proposers)
        if not count:
            return []
        costs, scratch = self._pacing.deciding(requests, count)  # both are held until the kernel has ended
        measures = self._pacing.measures
        taken = draft_rows(self._desk.handle, count, costs.handle, scratch.places.handle, requests, most, measures)
        if not taken:
            return [[] for _ in self._proposers]
        flat, drafts, start = self._drafts[:taken].tolist(), [], 0
        for length in self._seats[:count, DRAFTED].tolist():
            drafts.append(flat[start : start + length])
            start += length
        return drafts

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy start without seats: those here are of other proposers than the copied ones."""
        return Batch, (self._pacing, self._knowledge)

    def _make_room(self, count: int) -> None:
        self._seats = np.zeros((count, DRAFTED + 1), np.int64)
        self._drafts = np.zeros(count * MAX_DEPTH, np.int32)
        arrays = self._seats, np.zeros((count, MAX_DEPTH + 1)), self._drafts, *self._knowledge.survival, self._tokens
        self._desk = Addresses(arrays, [self._tokens.shape[1]])

    def warm_up(self) -> None:
        """Compile the kernels, or load them from numba's cache, before a clock runs."""
        knowledge = Pacing()
        other = Batch(BatchPacing(), knowledge)
        proposer = LookupProposer(LookupConfig(), [5, 6, 5], pacing=knowledge)
        other.seat([proposer], [0], [4], [1])
        other.follow(np.array([[5, 6, 5, 6]], np.int32))
        other.propose(1, 1)
