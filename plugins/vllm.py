"""VllmLookupProposer: lookup drafts inside vLLM, as a proposer for ``method="custom_class"``.

Per step vLLM hands over the tokens of all running requests, and verifies what is returned in its next forward pass.
Neither transformers nor rich is imported here.
"""

import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from numpy.typing import NDArray

from lookahead.batch import Batch
from lookahead.batch_pacing import BatchPacing
from lookahead.config import LookupConfig
from lookahead.pacing import Pacing
from lookahead.plugins import vllm_hooks as hooks
from lookahead.plugins.vllm_counts import PredictionCounts
from lookahead.plugins.vllm_options import ProposerOptions
from lookahead.plugins.vllm_repairs import repair_sampling
from lookahead.plugins.vllm_request import RequestOptions, extra_args
from lookahead.plugins.vllm_rows import Row, RowCache
from lookahead.proposer import warm_up

__all__ = ["VllmLookupProposer", "extra_args"]

logger = logging.getLogger("lookahead")

_STEPS_BETWEEN = 16  # steps from one look at the bytes of all indexes to the next, and between two tries to find room


@dataclass(slots=True)
class Seat:
    """One request's place in a step: its row in vLLM's arrays, its key, and what the step brought it.

    Attributes:
        place: Row in vLLM's arrays.
        length: Tokens of prompt and output.
        emitted: Tokens that the step added.
        room: Draft tokens that its next step has room for.
        key: Request id, or a number where vLLM's plugin is missing.
        row: Its proposer; None where there is none yet, or can't be one.
        drafted: Draft tokens that the step verified.
    """

    place: int
    length: int
    emitted: int
    room: int
    key: Hashable = None
    row: Row | None = None
    drafted: Sequence[int] = ()


class VllmLookupProposer:
    """Drafts for all requests of a vLLM engine, as many tokens as the whole batch's next step is worth.

    Args:
        vllm_config: vLLM's configuration; options are read from its ``additional_config["lookahead"]``, see
            `ProposerOptions`.
        clock: Seconds, to measure steps with.

    Raises:
        ValueError: An option is unknown or out of range.

    Example:
        Started by vLLM itself::

            LLM(model, speculative_config={
                "method": "custom_class",
                "model": "lookahead.plugins.vllm.VllmLookupProposer",
                "num_speculative_tokens": 16,
            })
    """

    def __init__(self, vllm_config: Any, clock: Callable[[], float] = time.perf_counter) -> None:
        options = ProposerOptions.read(vllm_config)
        rank = hooks.tensor_rank()
        self._drafts = rank == 0 or options.alike
        self._config = LookupConfig(max_draft=options.max_draft, min_match=options.min_match)
        self._options = options
        self._knowledge = Pacing()
        self._pacing = BatchPacing(measures=not options.alike)
        self._batch = Batch(self._pacing, self._knowledge)
        self._rows = RowCache(options.index_bytes)
        self._counts = PredictionCounts()
        self._clock = clock
        self._view: hooks.StepView | None = None
        self._last_time, self._last_active = 0.0, set[Hashable]()
        self._last_keys: dict[int, Hashable] = {}
        self._serial = count()
        self._proposed = 0
        self._refused: set[Hashable] = set()
        self._waiting: dict[Hashable, int] = {}  # tokens that requests without room had to index
        self._next_try = 0  # step in which they may ask again
        self._failed = self._told = False
        self._totals = {"steps": 0, "drafted": 0, "accepted": 0, "emitted": 0}

    def load_model(self, *_: Any, **__: Any) -> None:
        """Nothing to load; kernels are compiled here, before a clock runs."""
        warm_up()
        self._pacing.warm_up()
        self._batch.warm_up()
        hooks.connect()
        repair_sampling()

    def look(self, view: "hooks.StepView") -> None:
        """Take what the plugin knows of the step that :meth:`propose` is about to be called for."""
        self._view = view

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[Any],
        token_ids_cpu: NDArray[Any],
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Return a draft for each request: at most K ids of the vocabulary, none where nothing pays.

        Args:
            sampled_token_ids: Tokens that the step emitted for each request; none in the middle of a prefill.
            num_tokens_no_spec: Tokens of each request, those included; rows behind them are of requests gone by.
            token_ids_cpu: Token ids, [requests or more, max_model_len].
            slot_mappings: Not used.
        """
        view, self._view = self._view, None
        if not self._drafts:
            return [[] for _ in sampled_token_ids]
        try:
            return self._propose(sampled_token_ids, num_tokens_no_spec, token_ids_cpu, view)
        except Exception:
            if not self._failed:
                logger.exception("lookup failed in a step; such steps are decoded without drafts")
            self._failed = True
            self._rows.keep(())
            return [[] for _ in sampled_token_ids]

    def forget(self, ended: Iterable[Hashable]) -> None:
        """Drop all that belongs to requests that have ended; their room is free at once."""
        for key in ended:
            self._rows.drop(key)
            self._refused.discard(key)
            self._waiting.pop(key, None)
        self._next_try = 0
        self._batch.seat((), (), (), ())  # which the next step says anew

    def counts(self, key: str) -> tuple[int, int] | None:
        """Return how many draft tokens of a request's prediction were accepted and rejected, and forget them.

        None where nothing is known of such a request: another engine of the server has it.
        """
        return self._counts.take(key)

    def stats(self) -> dict[str, int]:
        """Return totals since the start (steps of requests, drafted, accepted and emitted tokens), rows and bytes."""
        return {**self._totals, "rows": len(self._rows), "bytes": self._rows.nbytes, "counts": len(self._counts)}

    def _propose(
        self,
        sampled: Sequence[Sequence[int]],
        lengths: NDArray[Any],
        tokens: NDArray[Any],
        view: "hooks.StepView | None",
    ) -> list[list[int]]:
        now = self._clock()
        seats = self._seats(sampled, lengths, tokens, view)
        active = {seat.key for seat in seats}
        self._measure(now, seats, active, len(sampled), view)
        self._count(seats, tokens)
        drafts: list[list[int]] = [[] for _ in sampled]
        made = self._batch.propose(self._options.max_batched_tokens - len(sampled), len(sampled))
        for seat, draft in zip([seat for seat in seats if seat.row is not None], made, strict=True):
            seat.row.drafted = drafts[seat.place] = draft  # type: ignore[union-attr]
        self._last_active = active
        self._proposed += 1
        if self._proposed % _STEPS_BETWEEN == 0:
            self._shrink(seats, active, view)
        if view is None:
            self._last_keys = {seat.place: seat.key for seat in seats}
        return drafts

    def _shrink(self, seats: Sequence[Seat], active: Collection[Hashable], view: Any) -> None:
        """Keep to the budget as outputs grow: the largest requests are decoded without drafts from here on."""
        for key in self._rows.shrink(active):
            self._refuse(key, "its index found no room in index_bytes any more", view)
            for seat in seats:
                if seat.key == key:
                    seat.row = None

    def _seats(
        self, sampled: Sequence[Sequence[int]], lengths: NDArray[Any], tokens: NDArray[Any], view: Any
    ) -> list[Seat]:
        """Return the requests that emitted something, each with its proposer, which has taken that in."""
        steps = enumerate(zip(sampled, lengths.tolist(), strict=False))
        seats = [self._seat(place, length, len(emitted), view) for place, (emitted, length) in steps if emitted]
        self._follow(seats, tokens)
        asking = [seat for seat in seats if seat.row is None and self._may_ask(seat, view)]
        if asking:
            taken = {seat.key for seat in seats if view is not None or seat.row is not None}
            for seat in asking:
                try:
                    seat.row = self._row(seat, tokens[seat.place, : seat.length], view, taken)
                except Exception as error:  # what is wrong with one request is no other one's trouble
                    self._refuse(seat.key, repr(error), view)
            self._sit(seats)
        for seat in seats:
            if view is not None:
                seat.drafted = view.drafted(seat.key)
            elif seat.row is not None:
                seat.drafted = seat.row.drafted
        return seats

    def _seat(self, place: int, length: int, emitted: int, view: Any) -> Seat:
        """Return a request's seat, with the row that it had, or that was in its place, in the step before."""
        room = self._options.max_model_len - 1 - length
        if view is None:
            key = self._last_keys.get(place)
        else:
            key = view.ids[place]
            room = min(room, view.room(key))
        return Seat(place, length, emitted, room, key, self._rows.get(key))

    def _may_ask(self, seat: Seat, view: Any) -> bool:
        """Whether there may be a row for a seat without: one that could not follow yet, or a new one."""
        if view is not None and seat.key in self._refused:
            return False
        return self._proposed >= self._next_try or seat.key in self._rows

    def _follow(self, seats: Sequence[Seat], tokens: NDArray[Any]) -> None:
        """Let all rows take their texts in; those that can't, leave their seats."""
        sitting = self._sit(seats)
        for number in self._batch.follow(tokens):
            sitting[number].row = None

    def _sit(self, seats: Sequence[Seat]) -> list[Seat]:
        """Tell the batch which rows sit where; returns their seats."""
        sitting = [seat for seat in seats if seat.row is not None]
        rows: list[Any] = [seat.row for seat in sitting]
        most = self._options.max_draft
        rooms = [max(min(seat.room, most), 0) for seat in sitting]
        self._batch.seat(rows, [seat.place for seat in sitting], [seat.length for seat in sitting], rooms)
        return sitting

    def _row(self, seat: Seat, tokens: NDArray[Any], view: Any, active: set[Hashable]) -> Row | None:
        """Find the row of a text that no row has followed, or make a new one, unless nothing can be drafted for it."""
        if view is None:
            seat.key = self._key(seat, tokens, active)
            active.add(seat.key)
        if seat.key in self._refused or seat.room <= 0:
            return None
        row = self._rows.get(seat.key)
        if row is not None and row.follow(tokens):
            return row
        self._rows.drop(seat.key)
        return self._new_row(seat, tokens, view, active)

    def _refuse(self, key: Hashable, why: str, view: Any) -> None:
        """Decode a request without drafts from here on; without the plugin its key is another one in the next step."""
        self._rows.drop(key)
        if view is not None:
            self._refused.add(key)
        if view is not None or not self._told:
            logger.warning("request %s is decoded without drafts: %s", key, why)
        self._told = True

    def _key(self, seat: Seat, tokens: NDArray[Any], taken: set[Hashable]) -> Hashable:
        """Return the key of the request with these tokens, by what was there last, or else by comparison."""
        row = self._rows.get(seat.key)
        if seat.key not in taken and row is not None and row.follow(tokens):
            return seat.key
        found = self._rows.find(tokens, taken)
        return found if found is not None else next(self._serial)

    def _new_row(self, seat: Seat, tokens: NDArray[Any], view: Any, active: set[Hashable]) -> Row | None:
        known = self._waiting.pop(seat.key, 0)
        if known and not self._finds_room(seat.key, known, view, active):
            return None  # before the options are read once more
        options = view.options(seat.key, self._options.max_model_len) if view is not None else RequestOptions()
        if options.key:
            self._counts.begin(options.key)
        if not options.enabled:
            self._refused.add(seat.key)
            return None
        stop_tokens = view.stop_tokens(seat.key) if view is not None else self._options.stop_tokens
        size = len(tokens) + len(options.prediction) + sum(map(len, options.references)) + len(stop_tokens)
        if not self._finds_room(seat.key, size, view, active):
            return None
        row = Row(
            self._config,
            tokens[: seat.length - seat.emitted],
            options,
            stop_tokens=stop_tokens,
            banned_tokens=self._options.banned_tokens,
            pacing=self._knowledge,
            vocabulary=self._options.vocabulary,
        )
        self._rows.add(seat.key, row)
        return row if row.follow(tokens) else None

    def _finds_room(self, key: Hashable, tokens: int, view: Any, active: set[Hashable]) -> bool:
        """Whether an index of so many tokens has room; without, all that wait ask again after some steps."""
        found = self._rows.make_room(tokens, active)
        if not found:
            self._next_try = self._proposed + _STEPS_BETWEEN
            if view is not None:  # else the key is a new one next time
                self._waiting[key] = tokens
        return found

    def _measure(self, now: float, seats: Sequence[Seat], active: set[Hashable], requests: int, view: Any) -> None:
        """Learn the cost of the step, if it did nothing but decode, right after another one."""
        before, self._last_time = self._last_time, now
        if not seats or len(seats) < requests or not active <= self._last_active:
            return
        width = requests + sum([len(seat.drafted) for seat in seats])
        if view is None or view.tokens == width:
            self._pacing.observe(requests, width, now - before, sum([seat.emitted for seat in seats]))

    def _count(self, seats: Sequence[Seat], tokens: NDArray[Any]) -> None:
        """Count what became of the drafts."""
        drafted = accepted = emitted = 0
        for seat in seats:
            emitted += seat.emitted
            if not seat.drafted:
                continue
            right = min(seat.emitted - 1, len(seat.drafted))
            drafted, accepted = drafted + len(seat.drafted), accepted + right
            if seat.row is not None and seat.row.options.key:
                before = int(tokens[seat.place, seat.length - seat.emitted - 1])
                self._counts.add(seat.row.options.key, seat.row.foreseen(before, seat.drafted), right)
        totals = self._totals
        totals["steps"] += len(seats)
        totals["drafted"] += drafted
        totals["accepted"] += accepted
        totals["emitted"] += emitted
