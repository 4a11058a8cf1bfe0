"""A fault of vLLM's sampler is found and mended; what is right is left alone."""

import sys
from types import SimpleNamespace

import pytest
import torch

from lookahead.plugins.vllm_repairs import expand, repair_sampling


def stale(x, cu_num_tokens, num_tokens, replace_from=0, replace_to=0):
    """What was in memory."""
    return torch.full((num_tokens,), 7, dtype=x.dtype)


@pytest.mark.parametrize(
    ("function", "cpu", "mended"), [(stale, True, True), (expand, True, False), (stale, False, False)]
)
def test_only_a_wrong_sampler_of_the_cpu_is_mended(monkeypatch, function, cpu, mended) -> None:
    sampler = SimpleNamespace(expand_batch_to_tokens=function)
    platform = SimpleNamespace(is_cpu=lambda: cpu)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=platform))
    monkeypatch.setitem(sys.modules, "vllm.v1.sample.rejection_sampler", sampler)
    assert repair_sampling() is mended
    assert sampler.expand_batch_to_tokens is (expand if mended else function)


def test_without_vllm_nothing_is_mended() -> None:
    assert not repair_sampling()


def test_each_value_is_repeated_for_its_tokens() -> None:
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    assert expand(torch.tensor([0.0, 3.0, 0.5]), ends, 5, 0, 1).tolist() == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert expand(torch.tensor([5, 6, 7], dtype=torch.int32), ends, 5).tolist() == [5, 5, 7, 7, 7]
    assert expand(torch.tensor([0.5]), torch.tensor([0]), 0).tolist() == []


def test_no_logits_need_no_constraints(monkeypatch) -> None:
    sampler = SimpleNamespace(expand_batch_to_tokens=expand, apply_sampling_constraints=lambda logits, *_: logits.max())
    platform = SimpleNamespace(is_cpu=lambda: True)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=platform))
    monkeypatch.setitem(sys.modules, "vllm.v1.sample.rejection_sampler", sampler)
    repair_sampling()
    once = sampler.apply_sampling_constraints
    repair_sampling()
    assert sampler.apply_sampling_constraints is once
    assert once(torch.zeros(0, 5), None, None).shape == (0, 5)
    assert once(torch.ones(2, 5), None, None) == 1
