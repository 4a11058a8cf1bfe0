"""A call that breaks off leaves the user's cache as plain generation does: no rejected token, the same layers."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
import transformers
from test_hf_caches import EndsAt, model_of, tensors
from test_hf_positions import longrope
from test_hf_trees import Trees
from tiny import MODELS, Scripted, as_argument, prompt

from lookahead.plugins import hf, hf_call

START = prompt().shape[1]
SETTINGS = {"max_new_tokens": 30, "eos_token_id": None, "pad_token_id": 0}
STATIC = ("llama", "gemma3", "lfm2")
CASES = [*((name, "dynamic") for name in MODELS), *((name, "static") for name in STATIC)]


class Stopped(Exception):
    """Whoever reads along has seen enough."""


class StopsAt(EndsAt):
    """A criterion that breaks off where another would end the text."""

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        if input_ids.shape[1] >= self.length:
            raise Stopped
        return super().__call__(input_ids, scores, **kwargs)


class Reader:
    """A streamer that breaks off with the token that makes a text this long."""

    def __init__(self, length: int) -> None:
        self.text: list[int] = []
        self.length = length

    def put(self, tokens: torch.Tensor) -> None:
        self.text += tokens.flatten().tolist()
        if len(self.text) >= self.length:
            self.stop()

    def stop(self) -> None:
        raise Stopped

    def end(self) -> None:
        pass


def a_cache(model: Any, kind: str) -> Any:
    config = model.config.get_text_config(decoder=True)
    if kind == "static":
        return transformers.StaticCache(config, max_cache_len=80)
    return transformers.DynamicCache(config=config)


def stopped(model: Any, cache: Any, lookup: Any, **options: Any) -> Any:
    """The user's cache after a call that broke off."""
    with pytest.raises(Stopped):
        model.generate(prompt(), **as_argument(cache, model), lookup=lookup, **SETTINGS, **options)
    return cache


def written(model: Any) -> list[int]:
    return model.generate(prompt(), lookup=False, **SETTINGS)[0, START:].tolist()


def with_drafts(proposer: Any) -> Any:
    return patch.object(hf_call, "_proposers", lambda *_: [proposer])


def assert_alike(ours: Any, plain: Any, length: int) -> None:
    """Two caches of a text hold the same, in layers of the same classes."""
    for mine, wanted in zip(ours.layers, plain.layers, strict=True):
        assert type(mine) is type(wanted)
        assert getattr(mine, "record_past", None) == getattr(wanted, "record_past", None)
        if hasattr(wanted, "get_seq_length"):
            assert int(mine.get_seq_length()) == int(wanted.get_seq_length())
        for state, expected in zip(tensors(mine, length), tensors(wanted, length), strict=True):
            torch.testing.assert_close(state, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("breaks_off", ["criterion", "streamer"])
def test_the_cache_holds_all_but_the_last_token_wherever_a_call_is_stopped(name, kind, breaks_off) -> None:
    """With drafts wrong at depth 3: at an accepted token, at the one of a rejection, and at the first of all."""
    model = model_of(name)
    text = written(model)
    for length in (START + 1, START + 4, START + 5, START + 7):
        options = {"stopping_criteria": [StopsAt(length)]} if breaks_off == "criterion" else {}
        readers = [Reader(length) if breaks_off == "streamer" else None for _ in range(2)]
        plain = stopped(model, a_cache(model, kind), False, streamer=readers[0], **options)
        with with_drafts(Scripted(text, 7, 3)):
            ours = stopped(model, a_cache(model, kind), True, streamer=readers[1], **options)
        assert_alike(ours, plain, length - 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_leaves_the_branch_that_was_emitted(seed) -> None:
    model = model_of("llama")
    text = written(model)
    for length in range(START + 2, START + 12, 3):
        plain = stopped(model, a_cache(model, "dynamic"), False, streamer=Reader(length))
        with with_drafts(Trees(text, seed)):
            ours = stopped(model, a_cache(model, "dynamic"), True, streamer=Reader(length))
        assert_alike(ours, plain, length - 1)


def test_what_a_processor_refuses_to_process_leaves_no_draft() -> None:
    """Plain generation has read the whole text then."""

    class Processor(transformers.LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            if input_ids.shape[1] >= START + 9:  # the first of a step of eight
                raise Stopped
            return scores

    model = model_of("llama")
    plain = stopped(model, a_cache(model, "dynamic"), False, logits_processor=[Processor()])
    with with_drafts(Scripted(written(model), 7, None)):
        ours = stopped(model, a_cache(model, "dynamic"), True, logits_processor=[Processor()])
    assert_alike(ours, plain, START + 9)
    assert ours.get_seq_length() == plain.get_seq_length() == START + 9


class Waiting(Reader):
    """A streamer after which the next forward breaks off in the model's last layer."""

    def stop(self) -> None:
        self.layer.forward = self.forward

    def forward(self, *args: Any, **kwargs: Any) -> None:
        raise Stopped

    def watch(self, model: Any) -> "Waiting":
        base = model.model if hasattr(model, "model") else model.transformer
        self.layer = (base.layers if hasattr(base, "layers") else base.h)[-1]
        return self


@pytest.fixture
def waiting() -> Iterator[Any]:
    made: list[Waiting] = []

    def make(model: Any, length: int) -> Waiting:
        made.append(Waiting(length).watch(model))
        return made[-1]

    yield make
    for reader in made:
        reader.layer.__dict__.pop("forward", None)


@pytest.mark.parametrize(("name", "kind"), [case for case in CASES if case[0] != "mamba2"])
def test_a_forward_that_breaks_off_between_two_layers_is_undone_in_each(waiting, name, kind) -> None:
    """The next turn goes on as if nothing had been; plain generation's layers are not even of one length."""
    model = model_of(name)
    reader = waiting(model, START + 4)
    with with_drafts(Scripted(written(model), 7, 3)):
        cache = stopped(model, a_cache(model, kind), True, streamer=reader)
    reader.layer.__dict__.pop("forward")
    held = int(cache.get_seq_length())
    assert START <= held < len(reader.text)
    plain = stopped(model, a_cache(model, kind), False, streamer=Reader(held + 1))
    assert_alike(cache, plain, held)
    question = torch.tensor([[*reader.text, 7, 8, 9]])
    wanted = model.generate(question, lookup=False, **SETTINGS)
    assert torch.equal(model.generate(question, **as_argument(cache, model), lookup=False, **SETTINGS), wanted)


def test_a_cache_that_is_left_for_a_new_one_gets_its_classes_back() -> None:
    """Beyond the length of its first training longrope reads the whole text anew, into a cache of its own."""
    model = hf.enable(longrope())
    plain, ours = a_cache(model, "dynamic"), a_cache(model, "dynamic")
    for cache, lookup in ((plain, False), (ours, True)):
        model.generate(prompt(), **as_argument(cache, model), lookup=lookup, **SETTINGS)
    assert_alike(ours, plain, plain.get_seq_length())
