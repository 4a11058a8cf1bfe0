"""Statistics of one generation: a record per step and the figures drawn from them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One forward pass of the target model after the prefill, and what came of it.

    Attributes:
        draft_tokens: Draft tokens verified, in all rows.
        accepted_tokens: Draft tokens that were kept.
        emitted_tokens: Tokens the step added to the output.
        width: Tokens the target model read per row: the last token, the draft, and replayed tokens if any.
        source: Where the accepted tokens of the (first row's) draft came from, or the likeliest of it if none was
            accepted; empty without a draft.
        match_length: Tokens of the suffix that matched there.
        propose_s: Seconds spent on the index and the draft.
        forward_s: Seconds of the target model's forward pass and of choosing the tokens.
    """

    draft_tokens: int
    accepted_tokens: int
    emitted_tokens: int
    width: int
    source: str
    match_length: int
    propose_s: float
    forward_s: float
    rows: int = 1
    """Rows of the batch that had not ended."""
    origins: tuple[int, ...] = ()
    """Of each accepted token of the first row: its position in the row's index, or -1 - p for position p of memory."""
    depth: int = 0
    """Tokens of the longest branch of the first row's draft."""


@dataclass(slots=True)
class DecodingStats:
    """Figures of one generation; they grow while it runs.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        generated_tokens: Tokens emitted, the one from the prefill included; in a batch, of all rows.
        rows: Rows of the batch.
        steps: Forward passes of the target model after the prefill.
        row_steps: The same, counted once for every row that had not ended.
        draft_tokens: Draft tokens verified.
        accepted_tokens: Draft tokens kept.
        prefill_s: Seconds from the start to the first token.
        decode_s: Seconds after it.
        propose_s: Seconds of ``decode_s`` spent on the index and on drafts.
        records: One record per step, in order; empty for plain decoding.
        plain_reason: Why the call was decoded plainly, empty if it was not.
        reference_starts: Where each of the references starts in the index that origins point into.
        text_start: Where the (first row's) prompt starts in it, followed by the output.

    Example:
        >>> stats = DecodingStats(prompt_tokens=5)
        >>> stats.start_decoding(0.5)
        >>> stats.record(StepRecord(4, 3, 4, 5, "context", 2, 1e-5, 0.02))
        >>> stats.generated_tokens, stats.mean_acceptance_length, stats.acceptance_rate
        (5, 4.0, 0.75)
    """

    prompt_tokens: int = 0
    generated_tokens: int = 0
    rows: int = 1
    steps: int = 0
    row_steps: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    propose_s: float = 0.0
    records: list[StepRecord] = field(default_factory=list, repr=False)
    plain_reason: str = ""
    reference_starts: tuple[int, ...] = ()
    text_start: int = 0

    def start_decoding(self, prefill_s: float) -> None:
        """Note the prefill, which emitted the first token of every row."""
        self.prefill_s = prefill_s
        self.generated_tokens = self.rows

    def record(self, step: StepRecord) -> None:
        """Add one step."""
        self.records.append(step)
        self.steps += 1
        self.row_steps += step.rows
        self.generated_tokens += step.emitted_tokens
        self.draft_tokens += step.draft_tokens
        self.accepted_tokens += step.accepted_tokens
        self.propose_s += step.propose_s
        self.decode_s += step.propose_s + step.forward_s

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens per verified one; 0 without a draft."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens emitted per row and step, the target's own included; 1 without a draft, 0 before the first step."""
        return (self.generated_tokens - self.rows) / self.row_steps if self.row_steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens emitted per second after the prefill."""
        return (self.generated_tokens - self.rows) / self.decode_s if self.decode_s and self.steps else 0.0

    def as_dict(self) -> dict[str, int | float]:
        """Return the figures as a JSON-able dict, without the records."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "generated_tokens": self.generated_tokens,
            "steps": self.steps,
            "draft_tokens": self.draft_tokens,
            "accepted_tokens": self.accepted_tokens,
            "acceptance_rate": self.acceptance_rate,
            "mean_acceptance_length": self.mean_acceptance_length,
            "tokens_per_second": self.tokens_per_second,
            "prefill_s": self.prefill_s,
            "decode_s": self.decode_s,
            "propose_s": self.propose_s,
        }
