"""A tree of draft tokens is read in one forward pass, and the text is still plain generation's."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from conformance.architectures import build as built
from conformance.architectures import small_config
from tiny import VOCABULARY, as_argument, cache_of, gpt2, llama, mistral, prompt
from transformers import AutoModelForCausalLM, DynamicCache

from lookahead.draft import EMPTY, Draft
from lookahead.plugins import hf, hf_call
from lookahead.plugins.hf_check import tree_error
from lookahead.plugins.hf_known import TREES
from lookahead.plugins.hf_trust import reads_trees
from lookahead.stats import StepRecord

NEW = 40


class Trees:
    """A proposer of random trees: the right continuation is never the first branch, and leaves it at once or later."""

    def __init__(self, continuation: Sequence[int], seed: int) -> None:
        self.continuation, self.random = list(continuation), random.Random(seed)
        self.branches, self.done, self.drafted = False, 0, 0

    def extend(self, tokens: Sequence[int]) -> None:
        self.done += len(tokens)

    def propose(self, room: int) -> Draft:
        assert self.branches
        if room <= 0:
            return EMPTY
        right = self.continuation[self.done : self.done + self.random.randint(0, min(room, 5))]
        wrong = [self.random.randrange(VOCABULARY) for _ in range(self.random.randint(1, min(room, 4)))]
        common = self.random.randint(0, min(len(right), len(wrong) - 1))
        wrong[:common] = right[:common]
        tokens, parents = list(wrong), [-1, *range(len(wrong) - 1)]
        if right[common:] and right[common] != wrong[common]:
            parents += [common - 1, *range(len(tokens), len(tokens) + len(right) - common - 1)]
            tokens += right[common:]
            self.drafted += 1
        if len(wrong) > 1:  # a fork below the first level
            taken = {token for token, parent in zip(tokens, parents, strict=True) if parent == 0}
            tokens.append(min(set(range(VOCABULARY)) - taken))
            parents.append(0)
        return Draft(tuple(tokens), tuple(parents))

    def observe(self, step: StepRecord) -> None:
        pass

    def finish(self) -> None:
        pass


def generate(model: Any, **options: Any) -> Any:
    torch.manual_seed(11)
    settings = {"max_new_tokens": NEW, "return_dict_in_generate": True, "eos_token_id": None, "pad_token_id": 0}
    return model.generate(prompt(), **settings | options)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_p": 0.9}, {"repetition_penalty": 1.3}], ids=str)
@pytest.mark.parametrize("builder", [llama, gpt2], ids=lambda builder: builder.__name__)
def test_the_tokens_and_the_cache_are_plains(builder, options, attention, monkeypatch) -> None:
    model = builder()
    model.set_attn_implementation(attention)
    plain = generate(model, **options)
    text = plain.sequences[0, prompt().shape[1] :].tolist()
    hf.enable(model)
    for seed in range(4):
        trees = Trees(text, seed)
        monkeypatch.setattr(hf_call, "_proposers", lambda *_, trees=trees: [trees])
        ours = generate(model, **options)
        assert torch.equal(ours.sequences, plain.sequences)
        stats = hf.stats(model)
        assert trees.drafted > 3
        assert stats.accepted_tokens > 5
        assert stats.steps < NEW - 1
        for mine, theirs in zip(cache_of(ours).layers, cache_of(plain).layers, strict=True):
            assert torch.allclose(mine.keys, theirs.keys, atol=1e-4)
            assert torch.allclose(mine.values, theirs.values, atol=1e-4)


def test_a_padded_prompt_is_not_seen_by_any_branch(monkeypatch) -> None:
    model = llama()
    ids = torch.cat([torch.zeros(1, 5, dtype=torch.long), prompt()], dim=1)
    mask = (torch.arange(ids.shape[1]) >= 5).long()[None]
    options = {"attention_mask": mask, "max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(ids, **options)
    trees = Trees(plain[0, ids.shape[1] :].tolist(), 1)
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [trees])
    assert torch.equal(hf.enable(model).generate(ids, **options), plain)
    assert trees.drafted > 3


def test_a_stop_inside_a_branch_stops_the_text(monkeypatch) -> None:
    model = llama()
    plain = generate(model)
    text = plain.sequences[0, prompt().shape[1] :].tolist()
    end = text[17]
    expected = generate(model, eos_token_id=end).sequences
    hf.enable(model)
    for seed in range(6):
        monkeypatch.setattr(hf_call, "_proposers", lambda *_, seed=seed: [Trees(text, seed)])
        assert torch.equal(generate(model, eos_token_id=end).sequences, expected)


def test_the_nodes_that_came_true_are_those_of_one_branch() -> None:
    tree = Draft((5, 6, 7, 8, 9), (-1, 0, -1, 2, 2))
    assert tree.path([5, 6, 1]) == [0, 1]
    assert tree.path([7, 9, 1]) == [2, 4]
    assert tree.path([3]) == []


def test_windows_static_caches_and_unknown_architectures_get_chains() -> None:
    def takes(model: Any) -> bool:
        return reads_trees(model, DynamicCache(config=model.config))

    assert takes(llama())
    assert not takes(mistral())  # its window hides what a mask of ours would show
    assert not reads_trees(mistral(), DynamicCache())  # also where the cache keeps it
    odd = llama()
    odd.config.model_type = "never-seen"
    assert not takes(odd)


def test_a_window_holds_in_a_cache_that_knows_of_none(monkeypatch) -> None:
    monkeypatch.setattr(hf_call.LookupProposer, "_grown", lambda self, length, limit: Draft((1, 2), (-1, -1)))
    options = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}
    plain = mistral().generate(prompt(40), **as_argument(DynamicCache(), mistral()), **options)
    ours = hf.enable(mistral()).generate(prompt(40), **as_argument(DynamicCache(), mistral()), **options)
    assert torch.equal(ours, plain)


def test_trees_can_be_switched_off(monkeypatch) -> None:
    seen = []
    propose = hf_call.LookupProposer.propose

    def watched(self: Any, room: int) -> Draft:
        seen.append(self.branches)
        return propose(self, room)

    monkeypatch.setattr(hf_call.LookupProposer, "propose", watched)
    model = hf.enable(llama())
    generate(model)
    generate(model, lookup={"trees": False})
    generate(model, lookup={"fixed_width": 8})
    assert seen[0] is True
    assert set(seen) == {True, False}
    assert seen[-1] is False


def _case(kind: str) -> Any:
    """A small model all of whose layers see every position."""
    config = small_config(kind)
    settings: dict[str, Any] = {}
    if "sliding_window" in vars(config):
        settings["sliding_window"] = None
    if "use_sliding_window" in vars(config):
        settings["use_sliding_window"] = False
    if getattr(config, "layer_types", None):
        settings["layer_types"] = ["full_attention"] * config.num_hidden_layers
    return built(small_config(kind, **settings), AutoModelForCausalLM.from_config)


QUICK = ("gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_neox", "opt")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in sorted(TREES)]
)
def test_every_architecture_that_is_given_trees_reads_them_exactly(kind) -> None:
    try:
        model = _case(kind)
    except ValueError as error:
        pytest.skip(f"this version builds no small one: {error}")
    for attention in ("sdpa", "eager"):
        try:
            model.set_attn_implementation(attention)
        except ValueError:
            continue
        assert tree_error(model) < 1e-4
