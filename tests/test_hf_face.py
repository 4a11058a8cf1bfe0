"""Enabling, disabling and configuring a model: nothing else about it changes, and mistakes are named."""

import copy
import inspect
import json
import pickle
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny import VOCABULARY, llama, prompt

from lookahead import LookupConfig, MemoryStore
from lookahead.plugins import hf
from lookahead.plugins.hf_examine import examine

FIXED = {"draft_per_match": 4}  # a rule that looks at no clock, so that every run drafts the same


@pytest.fixture
def model() -> Any:
    return hf.enable(llama(), lookup=FIXED)


def generate(model: Any, **options: Any) -> torch.Tensor:
    return model.generate(prompt(), max_new_tokens=30, **options)


def test_disable_gives_the_class_back() -> None:
    plain = llama()
    cls, keys = type(plain), set(plain.__dict__)
    assert hf.enable(plain) is plain
    assert hf.is_enabled(plain)
    hf.disable(plain)
    assert type(plain) is cls
    assert set(plain.__dict__) == keys
    assert not hf.is_enabled(hf.disable(plain))


def test_enabling_twice_is_enabling_once(model) -> None:
    hf.enable(model, lookup={"max_draft": 2})
    generate(model)
    assert max(record.draft_tokens for record in hf.stats(model).records) <= 2
    hf.disable(model)
    assert type(model) is transformers.LlamaForCausalLM


def test_the_class_keeps_its_name_and_kind(model) -> None:
    assert type(model).__name__ == "LlamaForCausalLM"
    assert isinstance(model, transformers.LlamaForCausalLM)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_enabled_and_independent(model, copied) -> None:
    twin = copied(model)
    assert hf.is_enabled(twin)
    assert torch.equal(generate(twin), generate(model))
    hf.disable(model)
    assert hf.is_enabled(twin)


def test_a_saved_model_is_an_ordinary_one(model, tmp_path) -> None:
    generate(model, lookup={"max_draft": 4})
    model.save_pretrained(tmp_path)
    assert "lookup" not in (tmp_path / "generation_config.json").read_text()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.architectures == ["LlamaForCausalLM"]
    assert torch.equal(generate(loaded), generate(model))


@pytest.mark.parametrize("lookup", [{"max_draft": 2}, LookupConfig(max_draft=2)])
def test_options_arrive_by_every_road(model, lookup) -> None:
    def longest(**options: Any) -> int:
        generate(model, **options)
        return max(record.draft_tokens for record in hf.stats(model).records)

    assert longest() > 2
    assert longest(lookup=lookup) <= 2
    if isinstance(lookup, dict):
        config = transformers.GenerationConfig(lookup=lookup, max_new_tokens=30, eos_token_id=1)
        model.generate(prompt(), generation_config=config)
        assert max(record.draft_tokens for record in hf.stats(model).records) <= 2
    hf.enable(model, lookup=lookup)
    assert longest() <= 2
    assert longest(lookup=FIXED) > 2


def test_lookup_false_is_plain_for_this_call_and_as_default(model) -> None:
    generate(model, lookup=False)
    assert hf.stats(model).draft_tokens == 0
    assert hf.stats(model).steps == hf.stats(model).generated_tokens - 1
    hf.enable(model, lookup=False)
    generate(model)
    assert hf.stats(model).draft_tokens == 0
    generate(model, lookup=FIXED)
    assert hf.stats(model).draft_tokens > 0


def test_stats_add_up(model) -> None:
    text = generate(model)
    stats = hf.stats(model)
    assert stats.prompt_tokens == prompt().shape[1]
    assert stats.generated_tokens == text.shape[1] - prompt().shape[1]
    assert stats.steps == len(stats.records)
    assert stats.generated_tokens == 1 + sum(record.emitted_tokens for record in stats.records)
    assert stats.accepted_tokens <= stats.draft_tokens
    assert stats.acceptance_rate == stats.accepted_tokens / stats.draft_tokens
    assert stats.mean_acceptance_length == (stats.generated_tokens - 1) / stats.steps
    assert stats.prefill_s > 0
    assert stats.decode_s > stats.propose_s > 0
    assert stats.tokens_per_second == pytest.approx((stats.generated_tokens - 1) / stats.decode_s)
    assert all(record.accepted_tokens <= record.draft_tokens < record.width for record in stats.records)


def test_stats_before_the_first_call_are_empty(model) -> None:
    assert hf.stats(model).as_dict()["generated_tokens"] == 0


def test_two_threads_on_one_model_do_not_mix(model) -> None:
    expected = {n: model.generate(prompt(seed=n), max_new_tokens=20 + n, lookup=False) for n in range(4)}
    seen: dict[int, tuple[bool, int]] = {}

    def work(n: int) -> None:
        text = model.generate(prompt(seed=n), max_new_tokens=20 + n)
        seen[n] = torch.equal(text, expected[n]), hf.stats(model).generated_tokens

    threads = [Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {n: (True, text.shape[1] - prompt().shape[1]) for n, text in expected.items()}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prediciton": "x"}, ValueError, "unknown lookup option 'prediciton': did you mean 'prediction'"),
        ({"zzz": 1}, ValueError, "the options are max_draft"),
        ({"max_draft": -1}, ValueError, "max_draft must be at least 0, got -1"),
        ({"max_draft": 2.5}, TypeError, "max_draft must be an integer of at least 0, got float 2.5"),
        ({"max_draft": True}, TypeError, "max_draft must be an integer"),
        ({"min_match": -1}, ValueError, "min_match must be at least 0"),
        ({"draft_per_match": "4"}, TypeError, "draft_per_match must be an integer"),
        ({"fixed_width": -1}, ValueError, "fixed_width must be at least 0"),
        ({"references": "text"}, TypeError, "wrap a single text in a list"),
        ({"references": [[1, "a"]]}, TypeError, r"references\[0\] must be text or a list of token ids"),
        ({"prediction": 5}, TypeError, "prediction must be text or a list of token ids"),
        ({"prediction": b"abc"}, TypeError, "prediction must be text or a list of token ids, got bytes b'abc'"),
        ({"references": [memoryview(b"abc")]}, TypeError, r"references\[0\] must be text or a list of token ids"),
        ({"prediction": "text"}, ValueError, r"call hf.enable\(model, tokenizer\)"),
        ({"prediction": [1, VOCABULARY]}, ValueError, f"token id {VOCABULARY}.*ids 0 to {VOCABULARY - 1}"),
        ({"references": [[-3]]}, ValueError, "token id -3"),
        ("fast", TypeError, "lookup must be a dict of options"),
        (3, TypeError, "lookup must be a dict of options"),
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_the_way_out(model, options, error, words) -> None:
    with pytest.raises(error, match=words):
        generate(model, lookup=options)
    if not (isinstance(options, dict) and {"prediction", "references"} & set(options)):
        with pytest.raises(error, match=words):
            hf.enable(llama(), lookup=options)


def test_prompt_ids_outside_the_vocabulary_are_named(model) -> None:
    with pytest.raises(ValueError, match=f"input_ids contains token id 999.*ids 0 to {VOCABULARY - 1}"):
        model.generate(torch.tensor([[5, 999]]), max_new_tokens=3)


def test_a_model_without_weights_is_refused() -> None:
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(llama().config)
    with pytest.raises(ValueError, match="meta device"):
        hf.enable(empty)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="transformers model"):
        hf.enable(torch.nn.Linear(2, 2))


def test_the_lookup_option_of_a_model_that_is_not_enabled_is_an_error() -> None:
    with pytest.raises(ValueError, match="lookup"):
        generate(llama(), lookup=True)


def test_options_survive_json() -> None:
    config = LookupConfig(max_draft=7, prediction=[1, 2], references=["a", [3]])
    assert LookupConfig.parse(config.as_dict()) == config
    assert LookupConfig.parse(json.loads(json.dumps(config.as_dict()))) == config


@pytest.mark.parametrize("ids", [torch.tensor([1, 2]), np.array([1, 2]), [np.int64(1), np.int32(2)], range(1, 3)])
def test_token_ids_of_any_kind_become_plain_ones(ids) -> None:
    config = LookupConfig(prediction=ids, references=[ids, "a"])
    assert config == LookupConfig(prediction=(1, 2), references=((1, 2), "a"))
    assert {type(token) for token in config.prediction} == {int}
    assert json.loads(json.dumps(config.as_dict()))["references"] == [[1, 2], "a"]


def test_what_one_call_teaches_the_next_one_knows(model) -> None:
    generate(model, lookup=True)
    pacing = model._lookup_state.pacing(model, 1)
    weights = pacing.survival.weights.copy()
    assert pacing.cost().seconds[1] > 0
    generate(model, lookup=True)
    assert model._lookup_state.pacing(model, 1) is pacing
    assert (pacing.survival.weights != weights).any()


def test_what_was_learned_is_kept_in_a_file_across_models(model, tmp_path) -> None:
    generate(model, lookup=True)
    hf.save_learned(model, tmp_path / "learned.npz")
    other = hf.enable(llama())
    hf.load_learned(other, tmp_path / "learned.npz")
    mine, back = (m._lookup_state.pacing(m, 1).survival.weights for m in (model, other))
    assert (mine == back).all()


def test_what_was_loaded_before_enable_and_learned_before_a_second_one_stays(model, tmp_path) -> None:
    generate(model, lookup=True)
    hf.save_learned(model, tmp_path / "learned.npz")
    known = model._lookup_state.knowledge
    hf.enable(model, lookup={"max_draft": 8})
    assert model._lookup_state.knowledge is known
    other = llama()
    hf.load_learned(other, tmp_path / "learned.npz")
    loaded = other._lookup_state.knowledge
    assert hf.enable(other)._lookup_state.knowledge is loaded


class Vocabulary:
    """A tokenizer of single characters."""

    def get_vocab(self) -> dict[str, int]:
        return {"a": 5, "b": 6}

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [self.get_vocab()[char] for char in text if char in "ab"]}


class Processor:
    """It holds a tokenizer, and takes the first thing it is given for an image."""

    tokenizer = Vocabulary()

    def __call__(self, images: Any = None, text: Any = None) -> None:
        raise ValueError("no image")


def test_a_store_of_another_tokenizer_is_refused_and_nothing_is_enabled() -> None:
    model = llama()
    with pytest.raises(ValueError, match="memory was built with the tokenizer"):
        hf.enable(model, Vocabulary(), memory=MemoryStore("sha256:other"))
    assert not hf.is_enabled(model)


def test_a_processor_is_asked_for_its_tokenizer() -> None:
    model = hf.enable(llama(), Processor())
    plain = generate(model, lookup=False)
    assert torch.equal(generate(model, lookup={"prediction": "abab", "references": ["ba"]}), plain)
    with pytest.raises(ValueError, match="memory was built with the tokenizer"):
        hf.enable(model, Processor(), memory=MemoryStore("sha256:other"))


def test_an_examination_keeps_what_enable_was_given() -> None:
    tokenizer, store = Vocabulary(), MemoryStore()
    model = hf.enable(llama(), tokenizer, lookup={"max_draft": 2}, memory=store)
    assert not examine(model, context=8).plain_reason
    state = model._lookup_state
    assert (state.tokenizer, state.memory, state.defaults.max_draft) == (tokenizer, store, 2)
    other = llama()
    examine(other, context=8)
    assert hf.is_enabled(other)


class Twice(transformers.LlamaForCausalLM):
    """A class whose generate goes on from a first text."""

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        first = super().generate(*args, **kwargs)
        return super().generate(first, **kwargs)


def twice() -> Any:
    model = Twice(llama().config).eval()
    model.load_state_dict(llama().state_dict())
    return hf.enable(model)


def test_the_options_of_a_call_hold_for_every_text_it_writes() -> None:
    model = twice()
    options = {"max_new_tokens": 15, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(prompt(), lookup=False, **options)
    assert not hf.stats(model).draft_tokens
    assert torch.equal(model.generate(prompt(), lookup={"draft_per_match": 2, "max_draft": 2}, **options), plain)
    assert max(step.draft_tokens for step in hf.stats(model).records) == 2


def test_what_a_processor_generates_has_options_of_its_own() -> None:
    model, other, drafted = hf.enable(llama()), hf.enable(llama()), []

    def processor(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        other.generate(prompt(), max_new_tokens=12, eos_token_id=None, pad_token_id=0)
        drafted.append(hf.stats(other).draft_tokens)
        return scores

    model.generate(prompt(), max_new_tokens=2, logits_processor=[processor], lookup=False)
    assert min(drafted) > 0


def test_generate_looks_like_the_models_own() -> None:
    plain, model = llama(), hf.enable(llama())
    expected, found = (dict(inspect.signature(each.generate).parameters) for each in (plain, model))
    assert found.pop("lookup").kind is inspect.Parameter.KEYWORD_ONLY
    assert found == expected
    assert model.generate.__doc__ == plain.generate.__doc__
    without_no_grad = inspect.unwrap(type(model).generate)
    assert inspect.getsource(type(plain).generate)
    options = {"max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0}
    text = without_no_grad(model, prompt(), lookup={"draft_per_match": 2, "max_draft": 2}, **options)
    assert torch.equal(text, plain.generate(prompt(), **options))
    assert max(step.draft_tokens for step in hf.stats(model).records) == 2
    assert not hasattr(Twice.generate, "__wrapped__")
    assert not hasattr(twice().generate, "__wrapped__")


def test_an_exception_of_a_processor_comes_out_as_it_is() -> None:
    tokens = iter(prompt()[0].tolist())

    def processor(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.full_like(scores, -1e9).index_fill(1, torch.tensor([next(tokens)]), 0.0)

    with pytest.raises(StopIteration):
        hf.enable(llama()).generate(prompt(), max_new_tokens=40, eos_token_id=None, logits_processor=[processor])
