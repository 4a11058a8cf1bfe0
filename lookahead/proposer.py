"""LookupProposer: from the text so far to one draft."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.batch_pacing import BatchPacing
from lookahead.candidates import (
    CONTEXT,
    FIRST,
    LATEST,
    LENGTH,
    MATCH,
    MAX_DEPTH,
    MEMORY,
    PREDICTION,
    REFERENCE,
    SOURCE,
    SOURCES,
    empty_candidates,
)
from lookahead.config import LookupConfig
from lookahead.draft import EMPTY, Draft
from lookahead.handle import Handle
from lookahead.index import MAX_TOKEN, SuffixIndex, Tokens
from lookahead.long_shots import note_surprise
from lookahead.memory_source import MemorySource
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED, PLANNED, ROW, empty_plan, learn_step, plan_step
from lookahead.replacements import empty_swaps
from lookahead.stats import StepRecord
from lookahead.trail import empty_trail
from lookahead.tree import Tree, empty_tree, tree_step

_NO_END = 2**62


class LookupProposer:
    """Proposes the likeliest continuation that prompt, output, prediction and references offer, as far as it pays.

    Args:
        config: Options; ``max_draft``, ``draft_per_match`` and ``min_match`` are read here.
        prompt: Token ids of the prompt.
        references: Token ids of texts to copy from that are not part of the prompt, most relevant last.
        prediction: Token ids of the text that the output is expected to resemble.
        stop_tokens: A draft ends after the first of these (end of sequence: nothing follows it).
        banned_tokens: A draft ends before the first of these (image placeholders: no text model emits them), and no
            match crosses one in the prompt.
        pacing: What is known of the model's costs and of how drafts fare; learns from every step. New when None.
        memory: Earlier outputs and corpora to copy from, or None.
        vocabulary: Ids from here on are no tokens of the model; a draft ends before them.

    Attributes:
        branches: Whether drafts may be trees: several continuations side by side, for a target that can read them.
        reference_starts: Where each reference starts in the index.
        text_start: Where the prompt starts in it.
        shared: What is known of the steps of a whole batch, where its rows are read without padding and share a step.

    Example:
        >>> proposer = LookupProposer(LookupConfig(max_draft=3), prompt=[5, 6, 7, 8, 9])
        >>> proposer.extend([5, 6])
        >>> proposer.propose(room=10).tokens
        (7, 8, 9)
    """

    def __init__(
        self,
        config: LookupConfig,
        prompt: Tokens = (),
        references: Iterable[Tokens] = (),
        prediction: Tokens | None = None,
        stop_tokens: Collection[int] = (),
        banned_tokens: Collection[int] = (),
        pacing: Pacing | None = None,
        memory: MemorySource | None = None,
        vocabulary: int = MAX_TOKEN + 1,
    ) -> None:
        self._config = config
        self._pacing = Pacing() if pacing is None else pacing
        self._index = SuffixIndex()
        self._swaps = empty_swaps()
        self._candidates, self._plan = empty_candidates(), empty_plan()
        self._tree: Tree | None = None
        self._prediction = prediction
        self.branches = False
        self.shared: BatchPacing | None = None
        documents, self.reference_starts = [], []
        for text in references:
            self.reference_starts.append(len(self._index))
            if len(text):
                documents.append(self._add(text, REFERENCE))
        start = len(self._index)
        if prediction is not None and len(prediction):
            documents.append(self._add(self._pacing.frame.around(prediction), PREDICTION))
        self._trail = empty_trail(start if len(self._index) > start else -1)
        self.text_start = len(self._index)
        self._output_start = len(self._index) + len(prompt)
        self._documents = np.array([*documents, (_NO_END, CONTEXT)], np.int64)
        self._memory = memory
        self._vocabulary = vocabulary
        ends = {token: 1 for token in stop_tokens if 0 <= token < vocabulary} | dict.fromkeys(banned_tokens, -1)
        self._limits = np.array(list(ends.items()), np.int64).reshape(len(ends), 2)
        self._ends = {} if memory is None else ends
        fixed = self._documents, self._limits, self._swaps, self._trail, *self._candidates, *self._plan
        self._handle = Handle(fixed, self.text_start, config.min_match, vocabulary)
        self._begin(np.asarray(prompt), banned_tokens)

    @property
    def index(self) -> SuffixIndex:
        """The index over references, prediction, prompt and output."""
        return self._index

    @property
    def handle(self) -> int:
        """Where a kernel over many proposers finds this one's arrays; valid until the index is extended."""
        return self._handle.to(self._index.arrays)

    @property
    def planned(self) -> bool:
        """Whether a step was planned and nothing has come since."""
        return bool(self._plan.chosen[PLANNED])

    @property
    def pacing(self) -> Pacing:
        """What is known of the model's costs and of how drafts fare."""
        return self._pacing

    @property
    def context(self) -> int:
        """Tokens of the text, those of other documents left out."""
        return len(self._index) - self.text_start

    @property
    def written(self) -> int:
        """Tokens of the text behind the prompt."""
        return len(self._index) - self._output_start

    @property
    def follows_rule(self) -> bool:
        """Whether drafts are as long as ``draft_per_match`` says, whatever they cost."""
        return bool(self._config.draft_per_match)

    @property
    def survival(self) -> NDArray[np.float64]:
        """The chance that each token of the candidate that :meth:`consider` has chosen is accepted, and all before."""
        return self._plan.alive[: self._plan.chosen[FOLLOWED]]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append the tokens that a step emitted."""
        if not len(tokens):
            return
        if self.planned:
            survival, came = tuple(self._pacing.survival), np.asarray(tokens, np.int32)
            offered, plan = tuple(self._candidates), tuple(self._plan)
            if self._memory is not None and self._was_foreseen(MEMORY, tokens[0]):
                self._memory.served()
            learn_step(self._index.arrays, self._swaps, self._trail, offered, survival, plan, came)
            if self.branches:
                note_surprise(self._pacing.surprises, offered, tokens[0])
        self._index.extend(tokens)

    def propose(self, room: int) -> Draft:
        """Return the draft for the next step, at most ``room`` tokens; empty when nothing matches or nothing pays."""
        limit = self.consider(room)
        if self.follows_rule:
            return self._by_rule(limit)
        if not limit:
            return EMPTY
        length = self._pacing.length(self._plan, self.context)
        if length and self.branches:
            return self._grown(length, limit)
        return self.draft(length)

    def consider(self, room: int) -> int:
        """Plan the next step without deciding on a length; returns the most tokens that a draft may have."""
        self._candidates.count[0] = 0
        self._plan.chosen[FOLLOWED] = 0
        limit = min(room, self._config.max_draft)
        if limit <= 0 or not len(self._index):
            return 0
        if self._memory is not None:
            text = self._index.tokens[self.text_start :]
            self._memory.offer(self._candidates, text, self._ends, self._config.min_match, self._vocabulary)
        plan_step(
            self._index.arrays,
            self._documents,
            self._limits,
            self._swaps,
            self._trail,
            tuple(self._candidates),
            self._config.min_match,
            self._vocabulary,
            tuple(self._pacing.survival),
            tuple(self._plan),
            limit,
        )
        return limit

    def draft(self, length: int) -> Draft:
        """Return up to ``length`` tokens of the candidate that :meth:`consider` has chosen."""
        length = min(length, int(self._plan.chosen[FOLLOWED]))
        return self._draft(int(self._plan.chosen[ROW]), length)

    def observe(self, step: StepRecord) -> None:
        """Learn what a step of the model cost."""
        if self.shared is None:
            self._pacing.observe(step.width, step.forward_s, step.emitted_tokens / step.rows, self.context)
        else:
            self.shared.observe(step.rows, step.rows + step.draft_tokens, step.forward_s, step.emitted_tokens)

    def finish(self) -> None:
        """Note, at the end of the text, what the output has around the prediction, and remember it if that is asked."""
        output = self._index.tokens[self._output_start :]
        if self._prediction is not None:
            self._pacing.frame = self._pacing.frame.after(output.tolist(), self._prediction)
        if self._memory is not None:
            self._memory.finish(output)

    def _by_rule(self, limit: int) -> Draft:
        """Draft so many tokens per matched one behind the longest match, whatever is known."""
        for row in range(int(self._candidates.count[0])):
            facts = self._candidates.facts[row]
            if self._candidates.kinds[row, 0] in (LATEST, FIRST):
                return self._draft(
                    row, min(limit, self._config.draft_per_match * int(facts[MATCH]), int(facts[LENGTH]))
                )
        return EMPTY

    def _grown(self, length: int, limit: int) -> Draft:
        """Draft what pays of all candidates, or so many tokens of the chosen one where nothing does."""
        if self._tree is None:
            self._tree = empty_tree()
        offered, survival, plan = tuple(self._candidates), tuple(self._pacing.survival), tuple(self._plan)
        cost, most = self._pacing.cost(self.context), min(limit, MAX_DEPTH)
        nodes = tree_step(
            self._index.arrays,
            self._documents,
            self._limits,
            self._swaps,
            self._trail,
            offered,
            self._config.min_match,
            self._vocabulary,
            survival,
            plan,
            self._pacing.surprises,
            tuple(self._tree),
            cost.curve,
            cost.worth,
            most,
        )
        if not nodes:
            return self.draft(length)
        tokens, parents, origins, rows = map(tuple, self._tree.drafted[:nodes].T.tolist())
        parents = () if parents == tuple(range(-1, nodes - 1)) else parents
        facts = self._candidates.facts
        known = facts[: self._candidates.count[0], [SOURCE, MATCH]].tolist()
        named = [(SOURCES[source], matched) for source, matched in known]
        sources = tuple(named[row] for row in rows) if len(set(rows)) > 1 else ()
        source, matched = named[self._plan.chosen[ROW]]
        return Draft(tokens, parents, source, matched, origins, sources)

    def _was_foreseen(self, source: int, token: int) -> bool:
        """Whether a candidate of this source begins with the token that came."""
        offered = self._candidates
        rows = range(int(offered.count[0]))
        return any(offered.facts[row, SOURCE] == source and offered.tokens[row, 0] == token for row in rows)

    def _draft(self, row: int, length: int) -> Draft:
        if not length:
            return EMPTY
        facts = self._candidates.facts[row]
        tokens = tuple(self._candidates.tokens[row, :length].tolist())
        origins = tuple(self._candidates.origins[row, :length].tolist())
        return Draft(tokens, (), SOURCES[facts[SOURCE]], int(facts[MATCH]), origins)

    def _begin(self, prompt: NDArray[np.integer[Any]], banned_tokens: Collection[int]) -> None:
        """Index the prompt; placeholders, which are never drafted and come by the thousand, are passed over."""
        never = (prompt >= self._vocabulary) | np.isin(prompt, list(banned_tokens))
        edges = np.flatnonzero(np.diff(never)) + 1
        for part, is_skipped in zip(np.split(prompt, edges), never[[0, *edges]], strict=True) if len(prompt) else ():
            if is_skipped:
                self._index.skip(len(part))
            else:
                self._index.extend(part)

    def _add(self, text: Tokens, source: int) -> tuple[int, int]:
        """Index a document; return where it ends and what it is."""
        self._index.extend(text)
        self._index.end_document()
        return len(self._index) - 1, source


@cache
def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, once in a process: before a clock runs."""
    proposer = LookupProposer(LookupConfig(), [5, 6, 7, 5, 8, 5], pacing=Pacing())
    proposer.branches = True
    proposer.propose(4)
    proposer._grown(1, 4)  # no draft may have paid
    proposer.extend([6])
    proposer.observe(StepRecord(1, 1, 2, 2, "context", 1, 1e-5, 1e-2))
