"""One generation with a loaded model: sampling options in, text and statistics out."""

from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lookahead.cli.errors import CommandError
from lookahead.cli.garbage import collector_paused
from lookahead.cli.learned import Learned
from lookahead.cli.reasoning import answer_start

if TYPE_CHECKING:
    from lookahead.cli.trace import Recording, Trace

STATISTICS = (
    "prompt_tokens",
    "generated_tokens",
    "steps",
    "draft_tokens",
    "accepted_tokens",
    "acceptance_rate",
    "mean_acceptance_length",
    "tokens_per_second",
    "prefill_s",
    "decode_s",
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen: greedily, unless a temperature above 0, top-p, top-k or min-p is given."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None

    @classmethod
    def from_args(cls, args: Namespace) -> "Sampling":
        """Return the options that the command line gives."""
        return cls(**{name: getattr(args, name) for name in cls.__slots__})

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``generate``.

        Example:
            >>> Sampling(temperature=0.8, seed=1).arguments()
            {'do_sample': True, 'temperature': 0.8}
        """
        names = ("temperature", "top_p", "top_k", "min_p")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if not given or self.temperature == 0:
            return {"do_sample": False}
        return {"do_sample": True, **given}


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote, whether it was stopped at the token limit, and the statistics.

    ``answer`` is the text without reasoning that ends with a control token.
    """

    text: str
    cut: bool
    stats: dict[str, int | float]
    answer: str = ""


class Generator:
    """A loaded model that completes token ids.

    Args:
        model: A transformers model; lookup decoding is enabled on it.
        tokenizer: Its tokenizer.
        sampling: How tokens are chosen.
        lookup: False decodes plainly.
        learned: Where knowledge of the model is kept between runs; None for nowhere.
        trace: Records every step; None for no record.
        share: Keep the cache for prompts that begin alike.
    """

    @collector_paused()
    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling,
        *,
        lookup: bool = True,
        learned: Learned | None = None,
        trace: "Trace | None" = None,
        share: bool = False,
    ) -> None:
        from lookahead.cli.shared_prefix import SharedPrefix
        from lookahead.plugins import hf

        hf.enable(model, tokenizer)
        self._trace = trace
        if trace is not None:
            trace.describe(_facts(model))
        self._prefix = SharedPrefix(model) if share else None
        self._learned = learned
        if learned is not None:
            learned.recall(model)
        self.model = model
        self.tokenizer = tokenizer
        self._sampling = sampling
        self._lookup = lookup

    @property
    def context_length(self) -> int | None:
        """Tokens that fit into the model's context, or None where it has no limit."""
        config = self.model.config.get_text_config()
        return getattr(config, "max_position_embeddings", None)

    def stats(self) -> Any:
        """Return the statistics of the running or the last generation."""
        from lookahead.plugins import hf

        return hf.stats(self.model)

    def complete(
        self, ids: list[int], max_new_tokens: int, streamer: Any = None, name: str = "", **arguments: Any
    ) -> Completion:
        """Continue the token ids until the model ends its answer or the limit is reached."""
        arguments = {**self._sampling.arguments(), **arguments, "max_new_tokens": max_new_tokens}
        if not self._lookup:
            arguments["lookup"] = False
        recording = self._begin(name, ids, arguments)
        try:
            new = self._generate(ids, _Both.of(recording, streamer), arguments)
        except BaseException:
            if recording is not None:
                recording.close(self.stats())
            raise
        cut = self._was_cut(new)
        if recording is not None:
            recording.close(self.stats(), "length" if cut else "stop")
        if self._learned is not None:
            self._learned.keep(self.model)
        answer = self._decode(new[answer_start(self.tokenizer, new) :])
        return Completion(self._decode(new), cut, select(self.stats()), answer)

    def _begin(self, name: str, ids: list[int], arguments: dict[str, Any]) -> "Recording | None":
        if self._trace is None:
            return None
        lookup = arguments.get("lookup")
        given = lookup if isinstance(lookup, dict) else {}
        texts = {"prompt": ids, "prediction": given.get("prediction", ())}
        texts |= {f"reference {number}": tokens for number, tokens in enumerate(given.get("references", ()), 1)}
        return self._trace.begin(name, self.tokenizer, {kind: tokens for kind, tokens in texts.items() if tokens})

    def _generate(self, ids: list[int], streamer: Any, arguments: dict[str, Any]) -> list[int]:
        """Return the new tokens."""
        import torch

        if self._sampling.seed is not None:
            torch.manual_seed(self._sampling.seed)
        prompt = torch.tensor([ids], device=self.model.device)
        shared = self._prefix.arguments(ids) if self._prefix is not None else {}
        output = self.model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), streamer=streamer, **shared, **arguments
        )
        tokens = output[0].tolist()
        if self._prefix is not None:
            self._prefix.keep(tokens)
        return tokens[len(ids) :]

    def _decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _was_cut(self, new: list[int]) -> bool:
        ends = self.model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        return not new or new[-1] not in ends


class _Both:
    """Two streamers as one."""

    def __init__(self, *streamers: Any) -> None:
        self._streamers = streamers

    @classmethod
    def of(cls, *streamers: Any) -> Any:
        """Return the only streamer that there is, both as one, or None."""
        given = [streamer for streamer in streamers if streamer is not None]
        return cls(*given) if len(given) > 1 else next(iter(given), None)

    def put(self, value: Any) -> None:
        """Take the prompt or new tokens."""
        for streamer in self._streamers:
            streamer.put(value)

    def end(self) -> None:
        """Take the end of the generation."""
        for streamer in self._streamers:
            streamer.end()


def room_for_answer(context_length: int | None, prompt_tokens: int, needed: int, wanted: int) -> int:
    """Return how many tokens an answer may have: those wanted, or as many as the context leaves.

    Args:
        context_length: Tokens of the context, None for no limit.
        prompt_tokens: Tokens of the prompt.
        needed: The fewest with which an answer makes sense.
        wanted: The most that are wanted.

    Raises:
        CommandError: The context leaves less than what is needed.

    Example:
        >>> room_for_answer(8192, 6000, needed=2000, wanted=3000)
        2192
    """
    if context_length is None:
        return wanted
    room = context_length - prompt_tokens
    if room < needed:
        raise CommandError(
            f"is larger than the model's context: the prompt takes {prompt_tokens} tokens, the answer {needed} or "
            f"more, and there are {context_length}: split it, or use a model with a larger context (--model)"
        )
    return min(wanted, room)


def select(stats: Any) -> dict[str, int | float]:
    """Return the statistics that are reported, in the order they are reported in."""
    return {name: getattr(stats, name) for name in STATISTICS}


def _facts(model: Any) -> dict[str, Any]:
    """Return what a trace says about the machine and the model."""
    from lookahead.cli.machine import machine

    text = model.config.get_text_config()
    return {
        "machine": machine(),
        "model": {
            "name": model.name_or_path,
            "class": type(model).__name__,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device),
            "attention": getattr(text, "_attn_implementation", None),
        },
    }
