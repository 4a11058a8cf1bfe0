"""Calibration: the seconds of a step by its width, measured at once instead of step by step while generating."""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch

from lookahead.plugins.hf_cache import CropRollback, rollback_for
from lookahead.plugins.hf_check import Reading
from lookahead.plugins.hf_state import state_of, unwrapped

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@torch.no_grad()
def calibrate(
    model: Any, context: int = 512, widths: Sequence[int] = WIDTHS, repeats: int = 3
) -> list[tuple[int, float]]:
    """Measure what a forward pass over so many tokens costs, and let the model's drafts be paced by that.

    Generation measures the same while it runs; this is for a first call that shall know already, and for reports. The
    widths are measured in turn, ``repeats`` rounds of them after one that warms up.

    Args:
        model: An enabled model whose cache can be cropped.
        context: Tokens in the cache.
        widths: Tokens per forward pass.
        repeats: Measurements of each width.

    Returns:
        Pairs of width and median seconds.

    Raises:
        ValueError: The cache of this model can't be cropped, or ``context`` exceeds its positions.

    Example:
        >>> calibrate(model, context=256)                          # doctest: +SKIP
        [(1, 0.048), (2, 0.083), ...]
    """
    model = unwrapped(model)
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if context < 1 or (limit is not None and context + max(widths) > limit):
        raise ValueError(f"context must be from 1 to {(limit or 0) - max(widths)} tokens for this model, got {context}")
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = torch.arange(context + max(widths), device=model.device)[None] * 31 % vocabulary
    reading = Reading(model, {}, static=False)
    reading.read(ids[:, :context])
    rollback = rollback_for(reading.cache, context)
    if not isinstance(rollback, CropRollback):
        raise ValueError(
            f"model has a cache that can't be cropped ({type(model).__name__}): its steps measure themselves"
        )
    seconds: dict[int, list[float]] = {width: [] for width in widths}
    for _ in range(repeats + 1):
        for width in widths:
            seconds[width].append(_timed(partial(reading.read, ids[:, : context + width], context), model.device))
            rollback.keep(context + width, context)
    pacing = state_of(model).pacing(model, 1)
    for rounds in zip(*(seconds[width][1:] for width in widths), strict=True):
        for width, took in zip(widths, rounds, strict=True):
            pacing.observe(width, took, 1.0, context)
    return [(width, sorted(took[1:])[repeats // 2]) for width, took in seconds.items()]


def _timed(forward: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds that a forward pass takes on its device."""
    _wait(device)
    started = perf_counter()
    forward()
    _wait(device)
    return perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
