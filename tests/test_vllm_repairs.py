"""Faults of vLLM are found and mended; what is right is left alone."""

import sys
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from lookahead.plugins.vllm_repairs import RejectingPlaceholders, expand, repair_kernel_scan, repair_sampling


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


def reading_in_front(output, ends, drafts, draft_probs, target_probs, bonus, recovered, uniform, greedy, most, rates):
    """vLLM's rule, with the chance of token -1 read in front of its row."""
    flat = target_probs.flatten()
    for row, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        for place in range(start, end):
            token = int(drafts[place])
            if flat[place * target_probs.shape[1] + token] < uniform[place]:
                output[row, place - start] = recovered[place]
                break
            output[row, place - start] = token
        else:
            output[row, end - start] = bonus[row]


def rejecting(output, ends, drafts, *others):
    """The same without the fault."""
    RejectingPlaceholders(reading_in_front)(output, ends, drafts, *others)


@pytest.mark.parametrize(
    ("function", "cpu", "mended"),
    [(reading_in_front, True, True), (rejecting, True, False), (reading_in_front, False, False)],
)
def test_only_a_cpu_sampler_that_accepts_placeholders_is_mended(monkeypatch, caplog, function, cpu, mended) -> None:
    sampler = SimpleNamespace(expand_batch_to_tokens=expand, _rejection_random_sample=function)
    platform = SimpleNamespace(is_cpu=lambda: cpu)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=platform))
    monkeypatch.setitem(sys.modules, "vllm.v1.sample.rejection_sampler", sampler)
    assert repair_sampling() is mended
    assert (sampler._rejection_random_sample is not function) is mended
    assert ("accepts placeholders" in caplog.text) is mended
    assert not repair_sampling()


@pytest.mark.parametrize("draft_probs", [None, torch.tensor([[0.0, 1.0]] * 3)])
def test_placeholders_are_rejected_whatever_lies_in_front_of_them(draft_probs) -> None:
    output = torch.full((2, 3), -1, dtype=torch.int32)
    probs = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    ends, drafts, recovered = torch.tensor([1, 3]), torch.tensor([1, -1, -1]), torch.tensor([0, 1, 1])
    uniform, bonus = torch.full((3,), 0.5, dtype=torch.float64), torch.tensor([[0], [0]])
    rejecting(output, ends, drafts, draft_probs, probs, bonus, recovered, uniform, torch.zeros(2), 2, None)
    assert output.tolist() == [[1, 0, -1], [1, -1, -1]]
    assert drafts.tolist() == [1, -1, -1]


def test_a_mended_sampler_keeps_the_methods_of_vllms() -> None:
    class Kernel:
        """As vLLM's, which further engines of a process register again."""

        def __call__(self, *_: object) -> None: ...

        def register_warmup(self, **options: bool) -> dict[str, bool]:
            return options

    assert RejectingPlaceholders(Kernel()).register_warmup(synthetic_mode=False) == {"synthetic_mode": False}


class HasEverything:
    """As llvmlite's library: whatever attribute is asked for, there is one."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        return print


@pytest.mark.parametrize("fails", [False, True])
def test_vllm_does_not_see_the_library_that_its_scan_stumbles_over(monkeypatch, fails) -> None:
    library = HasEverything()
    module = SimpleNamespace(lib=library, other=1)
    seen = []

    class Platform:
        @staticmethod
        def register_triton_kernel_overrides() -> None:
            seen.append([*vars(module)])
            if fails:
                raise RuntimeError

    platform = Platform()
    monkeypatch.setitem(sys.modules, "llvmlite.binding.ffi", module)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=platform))
    assert repair_kernel_scan()
    assert not repair_kernel_scan()
    with pytest.raises(RuntimeError) if fails else nullcontext():
        platform.register_triton_kernel_overrides()
    assert seen == [["other"]]
    assert module.lib is library


def test_a_platform_without_such_a_scan_is_left_alone(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=SimpleNamespace()))
    assert not repair_kernel_scan()
