"""A stand-in for vLLM's engine: it verifies drafts against known outputs, and hands over what the runner would."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from lookahead.plugins.vllm import VllmLookupProposer
from lookahead.plugins.vllm_hooks import StepView

LONGEST = 60


def configuration(tokens: int = 8, backend: str | None = None, ranks: int = 1, **options: Any) -> SimpleNamespace:
    """As much of a VllmConfig as is read."""
    return SimpleNamespace(
        additional_config={"lookahead": options} if options else {},
        speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=1000),
        parallel_config=SimpleNamespace(world_size=ranks, distributed_executor_backend=backend),
        model_config=SimpleNamespace(
            max_model_len=LONGEST,
            get_vocab_size=lambda: 1000,
            hf_config=SimpleNamespace(eos_token_id=2, image_token_id=3),
        ),
    )


class Engine:
    """Verifies drafts against known outputs, as vLLM's runner does, and looks after its arrays."""

    def __init__(self, proposer: VllmLookupProposer, plugin: bool = True) -> None:
        self.proposer, self.plugin = proposer, plugin
        self.texts: dict[str, list[int]] = {}
        self.outputs: dict[str, list[int]] = {}
        self.states: dict[str, SimpleNamespace] = {}
        self.drafts: dict[str, list[int]] = {}
        self.made: list[list[int]] = []

    def add(self, name: str, prompt: Sequence[int], output: Sequence[int], most: int = 100, **extra: Any) -> None:
        params = SimpleNamespace(max_tokens=most, extra_args=extra or None, all_stop_token_ids={2})
        self.texts[name], self.outputs[name] = list(prompt), list(output)
        self.states[name] = SimpleNamespace(sampling_params=params, output_token_ids=[])

    def end(self, name: str) -> None:
        for each in (self.texts, self.outputs, self.states, self.drafts):
            each.pop(name, None)
        if self.plugin:
            self.proposer.forget([name])

    def step(self, names: Sequence[str] | None = None) -> list[list[int]]:
        """One step of the named requests, or of all; returns the drafts."""
        names = list(self.texts) if names is None else list(names)
        emitted = [self._verify(name) for name in names]
        tokens = np.full((len(names) + 2, LONGEST), 7, np.int32)  # vLLM's arrays have rows for more requests
        for place, name in enumerate(names):
            tokens[place, : len(self.texts[name])] = self.texts[name]
        lengths = np.array([*(len(self.texts[name]) for name in names), 9, 9], np.int32)
        if self.plugin:
            verified = {name: draft for name in names if (draft := self.drafts.get(name))}
            width = len(names) + sum(map(len, verified.values()))
            self.proposer.look(StepView(names, self.states, verified, width))
        self.made = self.proposer.propose(emitted, lengths, tokens)
        self.drafts = dict(zip(names, self.made, strict=True))
        return self.made

    def _verify(self, name: str) -> list[int]:
        done = len(self.states[name].output_token_ids)
        left, draft = self.outputs[name][done:], self.drafts.get(name, [])
        right = next((i for i, token in enumerate(draft) if left[i : i + 1] != [token]), len(draft))
        emitted = left[: right + 1]
        self.texts[name] += emitted
        self.states[name].output_token_ids += emitted
        return emitted


def ticking(seconds: float) -> Callable[[], float]:
    """A clock on which so much time passes between any two looks."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    return clock


def engine(plugin: bool = True, **options: Any) -> Engine:
    return Engine(VllmLookupProposer(configuration(**options), ticking(1e-3)), plugin)


COPIED = [*range(100, 120), 100, 101]
