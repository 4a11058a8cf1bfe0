"""One timed generation by one method: prefill and decoding apart, the device waited for."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

METHODS: dict[str, dict[str, Any]] = {
    "plain": {"lookup": False},
    "builtin": {"lookup": False, "prompt_lookup_num_tokens": 10},
    "ours": {"lookup": True},
}


@dataclass(slots=True)
class Measured:
    """What a method did on one task: a number for each prompt and repeat.

    Attributes:
        speeds: Tokens per second after the first token.
        prefills: Seconds to the first token.
        tokens: New tokens.
        seconds: Of decoding, all together.
        same: Texts that were plain decoding's.
        tokens_per_step: New tokens after the first, per forward pass after the prefill.
        acceptance: Accepted draft tokens per drafted one, of ours.
    """

    speeds: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    same: int = 0
    tokens_per_step: list[float] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Tokens per second over all."""
        return self.tokens / self.seconds if self.seconds else 0.0


def run_once(model: Any, ids: list[int], tokens: int, method: str, measured: Measured) -> list[int]:
    """Generate once and note what it took."""
    import torch

    from lookahead.plugins import hf

    prompt = torch.tensor([ids], device=model.device)
    clock = _FirstToken(model.device)
    passes: list[None] = []
    counting = model.register_forward_pre_hook(lambda *_: passes.append(None))
    started = perf_counter()
    output = model.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=tokens,
        do_sample=False,
        streamer=clock,
        **METHODS[method],
    )
    _wait(model.device)
    seconds = perf_counter() - clock.time
    counting.remove()
    new = output[0, len(ids) :].tolist()
    measured.prefills.append(clock.time - started)
    if len(new) > 1:
        measured.speeds.append((len(new) - 1) / seconds)
        measured.tokens += len(new) - 1
        measured.seconds += seconds
        measured.tokens_per_step.append((len(new) - 1) / max(1, len(passes) - 1))
    if method == "ours":
        measured.acceptance.append(hf.stats(model).acceptance_rate)
    return new


class _FirstToken:
    """A streamer that notes when the first token came."""

    def __init__(self, device: Any) -> None:
        self._device, self._calls, self.time = device, 0, 0.0

    def put(self, value: Any) -> None:
        """Take the prompt, and then tokens."""
        self._calls += 1
        if self._calls == 2:
            _wait(self._device)
            self.time = perf_counter()

    def end(self) -> None:
        """Nothing comes any more."""


def _wait(device: Any) -> None:
    """Wait until the device has done all it was given."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def warm_up(model: Any, methods: Iterable[str]) -> dict[str, str]:
    """Load kernels and buffers before the clock runs; return the methods that the model refuses, each with its reason.

    transformers' own prompt lookup is not for models that keep a state.
    """
    ids, refused = [number % 50 + 5 for number in range(64)], {}
    for method in methods:
        try:
            run_once(model, ids, 8, method, Measured())
        except ValueError as error:
            if method != "builtin":
                raise
            refused[method] = str(error).partition(".")[0]
    return refused
