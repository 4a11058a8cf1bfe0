"""Advice: whether lookup pays on somebody's own text, and how to set it here and in other systems."""

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from lookahead.cost import CostCurve
    from lookahead.replay import Recording, ReplayMethod

_PAYS, _LITTLE = 1.10, 1.02
_LENGTHS = (3, 5, 10, 16, 32)
_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True)
class Advice:
    """What a replay of the user's records says.

    Attributes:
        items: Records replayed.
        tokens: Tokens of their outputs.
        ours: Modelled speed of our drafting, relative to plain decoding.
        tokens_per_step: Tokens per forward pass.
        transformers: Best ``prompt_lookup_num_tokens``, and its modelled speed.
        vllm: Best n-gram settings (shortest, longest, tokens), and their modelled speed.
        llama_cpp: Best ngram-simple settings (n, m), and their modelled speed.
        documents: Modelled speed of ours with the records' prediction and references; None where there are none.
        memory: Modelled speed of ours with the outputs of earlier records in memory; None for a single record.
    """

    items: int
    tokens: int
    ours: float
    tokens_per_step: float
    transformers: tuple[int, float]
    vllm: tuple[tuple[int, int, int], float]
    llama_cpp: tuple[tuple[int, int], float]
    documents: float | None
    memory: float | None = None

    def sentences(self) -> str:
        """Return one paragraph for a person."""
        if self.ours >= _PAYS:
            verdict = f"Lookup pays on this text: {self.ours:.2f} times the speed of plain decoding"
        elif self.ours >= _LITTLE:
            verdict = f"Lookup helps a little on this text: {self.ours:.2f} times the speed of plain decoding"
        else:
            verdict = (
                f"Lookup hardly pays on this text ({self.ours:.2f} times), and costs nothing either: it drafts rarely"
            )
        parts = [f"{verdict}, at {self.tokens_per_step:.2f} tokens per forward pass ({self.items} records)."]
        parts += self._sources()
        return " ".join(parts)

    def _sources(self) -> list[str]:
        """Return what to copy from, beside prompt and output, and how that is set."""
        parts = []
        if self.documents is not None:
            gain = self._gain(self.documents)
            parts.append(f"With prediction and references as sources it is {self.documents:.2f} times: {gain}.")
        if self.memory is not None:
            gain = self._gain(self.memory)
            parts.append(f"With earlier outputs in memory it is {self.memory:.2f} times: {gain}.")
        best = max(self.ours, self.documents or 0.0, self.memory or 0.0)
        if best < self.ours * _PAYS:
            parts.append("Prompt and output are the source to copy from; set nothing but hf.enable(model, tokenizer).")
        elif best == self.memory:
            parts.append('Set lookup={"memory": NAME, "remember": True} in every call.')
        else:
            parts.append('Set lookup={"prediction": TEXT, "references": [TEXT, ...]} in every call.')
        parts.append("Leave the other options at their defaults: lengths follow the measured costs.")
        return parts

    def _own_settings(self) -> tuple[str, float]:
        options = [("hf.enable(model, tokenizer)", self.ours)]
        if self.documents is not None:
            options.append(
                ('model.generate(..., lookup={"prediction": TEXT, "references": [TEXT, ...]})', self.documents)
            )
        if self.memory is not None:
            options.append(('model.generate(..., lookup={"memory": NAME, "remember": True})', self.memory))
        best = max(options, key=lambda option: option[1])
        return best if best[1] >= self.ours * _PAYS else options[0]

    def _gain(self, speed: float) -> str:
        return "worth setting" if speed >= self.ours * _PAYS else "not worth setting"

    def settings(self) -> list[tuple[str, str, float]]:
        """Return system, ready settings, and modelled speed."""
        (shortest, longest, drafted), vllm = self.vllm
        (size_n, size_m), llama = self.llama_cpp
        number, built_in = self.transformers
        return [
            ("specdec-lookup", *self._own_settings()),
            ("transformers", f"model.generate(..., prompt_lookup_num_tokens={number})", built_in),
            (
                "vLLM",
                f'--speculative-config \'{{"method": "ngram", "num_speculative_tokens": {drafted}, '
                f'"prompt_lookup_min": {shortest}, "prompt_lookup_max": {longest}}}\'',
                vllm,
            ),
            (
                "llama.cpp",
                "llama-server --spec-type ngram-simple "
                f"--spec-ngram-simple-size-n {size_n} --spec-ngram-simple-size-m {size_m}",
                llama,
            ),
        ]


def advise(recordings: "list[Recording]", curve: "CostCurve") -> Advice:
    """Replay records at a measured cost with ours, and with other systems' lookups at several settings.

    A speed below 1 is what a system's best setting comes to where it can't leave drafting off.
    """
    from dataclasses import replace

    from lookahead.config import LookupConfig
    from lookahead.replay import replay
    from lookahead.replay_methods import LookupMethod
    from lookahead.rules import NgramRule

    def speed(method: "ReplayMethod", items: "list[Recording]" = recordings) -> float:
        return replay(items, method, curve).speedup(curve)

    bare = [replace(recording, prediction=None, references=()) for recording in recordings]
    ours = replay(bare, LookupMethod(LookupConfig()), curve)
    built_in = {n: speed(NgramRule(longest=2, shortest=1, draft=n), bare) for n in _LENGTHS}
    vllm = {(2, n, k): speed(NgramRule(n, 2, k), bare) for n in (3, 5) for k in _LENGTHS}
    llama = {(n, m): speed(NgramRule(n, n, m), bare) for n in (4, 8, 12) for m in (16, 48)}
    knows_more = any(item.prediction is not None or item.references for item in recordings)
    return Advice(
        items=len(recordings),
        tokens=ours.tokens,
        ours=ours.speedup(curve),
        tokens_per_step=ours.tokens_per_step,
        transformers=_best(built_in),
        vllm=_best(vllm),
        llama_cpp=_best(llama),
        documents=speed(LookupMethod(LookupConfig())) if knows_more else None,
        memory=speed(LookupMethod(LookupConfig(), remember=True), bare) if len(bare) > 1 else None,
    )


def _best(speeds: "dict[_Settings, float]") -> "tuple[_Settings, float]":
    """Return the fastest settings, and how fast they are."""
    return max(speeds.items(), key=itemgetter(1))
