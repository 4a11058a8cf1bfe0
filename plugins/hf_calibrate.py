"""Calibration: the seconds of a step by its width, measured at once instead of step by step while generating."""

import math
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
        ValueError: The model has an encoder or a cache that can't be cropped, or an argument is out of range.

    Example:
        >>> calibrate(model, context=256)                          # doctest: +SKIP
        [(1, 0.048), (2, 0.083), ...]
    """
    model = unwrapped(model)
    _check(model, context, widths, repeats)
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


def _check(model: Any, context: int, widths: Sequence[int], repeats: int) -> None:
    """Refuse what can't be measured."""
    if model.config.is_encoder_decoder:
        raise ValueError(
            f"model must be a decoder-only one, got {type(model).__name__}, which reads an encoder's output: its steps "
            "measure themselves while it generates"
        )
    if not widths or min(widths) < 1:
        raise ValueError(f"widths must be one or more numbers of tokens from 1 on, got {list(widths)}: leave them out")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}: each width is measured so often")
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    most = math.inf if limit is None else limit - max(widths)
    if most < 1:
        raise ValueError(f"widths must stay below the model's {limit} positions, got {max(widths)}: give smaller ones")
    if not 1 <= context <= most:
        span = "at least 1" if limit is None else f"from 1 to {most}"
        raise ValueError(f"context must be {span} tokens for this model, got {context}")


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
