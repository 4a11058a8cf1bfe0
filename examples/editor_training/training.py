"""The training of an adapter, which can be stopped and resumed."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.nn import functional

from editor_training import lora, team
from editor_training.attention import Branches
from editor_training.packing import Packed, fitting, pack
from editor_training.scoring import predict
from editor_training.tasks import stream

_BYTES = 32_000  # characters of a row times bytes of a number at most: some 6 GB to learn from


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train.

    Attributes:
        minutes: Processor time to use in each process, that before a resumption included.
        rate: Highest learning rate.
        tokens: Tokens of a step at least, in each process.
        rank: Of the adapter.
        seed: Of the data.
        folder: Where checkpoints are.
        scored: Held-out files that are tried with every checkpoint.
        dtype: Precision of all but the adapter.
    """

    minutes: float
    rate: float
    tokens: int
    rank: int
    seed: str
    folder: Path
    scored: int
    dtype: torch.dtype = torch.float32


@dataclass(slots=True)
class Progress:
    """Where a training stands."""

    step: int = 0
    files: int = 0
    edits: int = 0
    seen: int = 0
    seconds: float = 0.0
    loss: float = 0.0


class Trainer:
    """Trains a low-rank adapter of a model.

    Args:
        model: A causal language model in float32.
        tokenizer: Its tokenizer.
        plan: How to train.
        start: A written adapter to go on from; None for a new one.
    """

    def __init__(self, model: Any, tokenizer: Any, plan: Plan, start: Path | None = None) -> None:
        torch.manual_seed(0)
        self.model, self.tokenizer, self.plan = model, tokenizer, plan
        self.attention = Branches(model)
        self.adapter = lora.attach(model, plan.rank, 2.0, plan.dtype)
        if start:
            lora.read(self.adapter, start)
        self.parameters = [p for layer in self.adapter.values() for p in (layer.a, layer.b)]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.progress = Progress()
        self._stopping = False
        self._resume()
        self._refresh()
        self._tests = [pack(tokenizer, edits[:2]) for edits in islice(stream("test", True), plan.scored)]

    def run(self) -> Iterator[Progress]:
        """Yield the progress after every step until the time is over; checkpoints are written on the way."""
        files = islice(stream(self._seed()), self.progress.files, None)
        while self.progress.seconds < self.plan.minutes * 60 and not self._stopping:
            self._step(files)
            if self.progress.step % 10 == 0:
                self.save()
            yield self.progress
        self.save()

    def stop(self) -> None:
        """End the run behind the step that is under way."""
        self._stopping = True

    def _seed(self) -> str:
        """Return the seed of this process's data."""
        return f"{self.plan.seed}-{team.rank()}" if team.rank() else self.plan.seed

    def _step(self, files: Iterator[Any]) -> None:
        progress, began = self.progress, time.process_time()
        taken, total, weight = 0, 0.0, 0.0
        while taken < self.plan.tokens:
            edits = fitting(next(files), _BYTES // self.plan.dtype.itemsize)
            packed = pack(self.tokenizer, edits, Random(f"{self._seed()}-cut-{progress.files}"))
            losses = self._losses(packed) * packed.weights
            losses.sum().backward()
            taken += packed.ids.shape[1]
            total, weight = total + float(losses.detach().sum()), weight + float(packed.weights.sum())
            progress.files, progress.edits = progress.files + 1, progress.edits + len(edits)
        gradients: list[Any] = [parameter.grad for parameter in self.parameters]
        seconds = time.process_time() - began
        sums = torch.tensor([taken, total, weight, seconds / team.size(), self._stopping], dtype=torch.float32)
        team.add_up([*gradients, sums])
        taken, total, weight, seconds, stopping = sums.tolist()
        for gradient in gradients:
            gradient.div_(weight)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate * self._pace()
        self.optimizer.step()
        self._refresh()
        self.optimizer.zero_grad()
        progress.step, progress.seen = progress.step + 1, progress.seen + int(taken)
        progress.loss, progress.seconds = total / weight, progress.seconds + seconds
        self._stopping = stopping > 0

    def _refresh(self) -> None:
        for layer in self.adapter.values():
            layer.refresh()

    def _pace(self) -> float:
        """Return the share of the learning rate: up in 15 steps, down to a twentieth in the last 40 % of the time."""
        left = 1 - self.progress.seconds / (self.plan.minutes * 60)
        return min(1.0, (self.progress.step + 1) / 15, max(0.05, left / 0.4))

    def _losses(self, packed: Packed) -> torch.Tensor:
        logits = predict(self.model, self.attention, packed)
        return functional.cross_entropy(logits.float(), packed.targets, reduction="none")

    @torch.no_grad()
    def score(self) -> tuple[int, int]:
        """Return how many held-out edits would be written right as whole files, and of how many.

        An answer that is right token by token given the right tokens before is the greedy answer.
        """
        right = total = 0
        for packed in self._tests[team.rank() :: team.size()]:
            wrong = predict(self.model, self.attention, packed).argmax(-1) != packed.targets
            owners = packed.owners.unique()
            right += sum(not wrong[packed.owners == owner].any() for owner in owners)
            total += len(owners)
        sums = torch.tensor([right, total], dtype=torch.float32)
        team.add_up([sums])
        return int(sums[0]), int(sums[1])

    def save(self) -> None:
        """Write a checkpoint: the adapter, and what resuming needs."""
        if team.rank():
            return
        self.plan.folder.mkdir(parents=True, exist_ok=True)
        progress = {name: getattr(self.progress, name) for name in Progress.__slots__}
        state = {"progress": progress, "optimizer": self.optimizer.state_dict()}
        state["adapter"] = [parameter.detach() for parameter in self.parameters]
        partial = self.plan.folder / "state.partial"
        torch.save(state, partial)
        os.replace(partial, self.plan.folder / "state.pt")
        lora.save(self.adapter, self.plan.folder / "adapter.safetensors")

    def export(self, path: Path) -> None:
        """Write the adapter as it is shipped, in float16."""
        lora.save(self.adapter, path, torch.float16)

    def _resume(self) -> None:
        path = self.plan.folder / "state.pt"
        if not path.is_file():
            return
        state = torch.load(path, weights_only=True)
        self.progress = Progress(**state["progress"])
        self.optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            for parameter, saved in zip(self.parameters, state["adapter"], strict=True):
                parameter.copy_(saved)
