"""On a real model in fp32, lookup writes token for token what plain `generate` writes, in fewer steps.

One of the twenty prompts runs by default, greedily and once sampled. With `-m slow` all of them do where tokens are
compared, and every fourth where the call is made in another way. Prompts are those of `specdec-lookup edit`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from threading import Thread
from typing import Any

import pytest
import torch
from edit_requests import EDITS
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer, pipeline
from transformers.generation.stopping_criteria import StoppingCriteria

from lookahead.cli.models import default_model_path
from lookahead.cli.prompts import edit_prompt
from lookahead.plugins import hf

NEW = 32
FIXED = {"draft_per_match": 4}  # a rule that looks at no clock, so that every run drafts the same
DEFAULT = 12
MODES = {"greedy": {"do_sample": False}, "sampled": {"do_sample": True, "temperature": 0.8, "top_p": 0.95}}
OPTIONS = {"plain": {}, "repetition penalty": {"repetition_penalty": 1.1}}


def cases(*values: Iterable[str], default: set[tuple[str, ...]], every: int = 4) -> list[Any]:
    """Prompts with every combination of values; those in ``default`` run by default for one prompt."""
    return [
        pytest.param(i, *chosen, marks=[] if i == DEFAULT and chosen in default else pytest.mark.slow)
        for i in range(0, len(EDITS), every)
        for chosen in product(*values)
    ]


PROMPTS = cases(default={()})
CASES = cases(MODES, default={("greedy",)})
ALL_CASES = cases(
    MODES, OPTIONS, default={("greedy", "plain"), ("sampled", "plain"), ("greedy", "repetition penalty")}, every=1
)


@pytest.fixture(scope="module")
def real() -> tuple[Any, Any]:
    return _real()


@cache
def _real() -> tuple[Any, Any]:
    path = default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return hf.enable(model, tokenizer), tokenizer


def encoded(tokenizer: Any, index: int) -> torch.Tensor:
    text, instruction = EDITS[index]
    return torch.tensor([edit_prompt(tokenizer, "example.py", text, instruction).ids])


def generate(real: tuple[Any, Any], index: int, lookup: Any, **options: Any) -> list[int]:
    """The new tokens, sampled from the same seed every time."""
    model, tokenizer = real
    torch.manual_seed(index)
    ids = encoded(tokenizer, index)
    options = {"max_new_tokens": NEW, "do_sample": False, **options}
    return model.generate(ids, lookup=lookup, **options)[0, ids.shape[1] :].tolist()


@cache
def plain_of(index: int, mode: str, option: str = "plain") -> list[int]:
    """What plain generation writes, computed once for all the tests that compare with it."""
    return generate(_real(), index, False, **MODES[mode], **OPTIONS[option])


@pytest.mark.parametrize(("index", "mode", "option"), ALL_CASES)
def test_same_tokens_in_no_more_steps(real, index, mode, option) -> None:
    plain = plain_of(index, mode, option)
    assert generate(real, index, FIXED, **MODES[mode], **OPTIONS[option]) == plain
    stats = hf.stats(real[0])
    assert stats.generated_tokens == len(plain)
    assert stats.steps <= len(plain) - 1
    if (mode, option) == ("greedy", "plain"):
        assert stats.steps < len(plain) - 1


@pytest.mark.parametrize(("index", "mode"), CASES)
def test_same_tokens_at_the_pace_that_pays_here(real, index, mode) -> None:
    assert generate(real, index, True, **MODES[mode]) == plain_of(index, mode)


@pytest.mark.parametrize(("index", "mode"), CASES)
def test_stop_strings_end_the_text_where_plain_ends_it(real, index, mode) -> None:
    options = MODES[mode] | {"stop_strings": [":\n", "},\n"], "tokenizer": real[1]}
    plain = generate(real, index, False, **options)
    assert generate(real, index, FIXED, **options) == plain
    assert len(plain) <= NEW


class AfterNewlines(StoppingCriteria):
    """Ends after the fifth line, and remembers every length it was asked at."""

    def __init__(self, tokenizer: Any, prompt_length: int) -> None:
        self.tokenizer, self.prompt_length, self.asked = tokenizer, prompt_length, []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.asked.append(input_ids.shape[1])
        lines = self.tokenizer.decode(input_ids[0, self.prompt_length :]).count("\n")
        return torch.full((1,), lines >= 5)


@pytest.mark.slow
@pytest.mark.parametrize(("index", "mode"), CASES)
def test_a_custom_criterion_is_asked_once_a_token(real, index, mode) -> None:
    length = encoded(real[1], index).shape[1]
    plain, ours = AfterNewlines(real[1], length), AfterNewlines(real[1], length)
    expected = generate(real, index, False, stopping_criteria=[plain], **MODES[mode])
    assert generate(real, index, FIXED, stopping_criteria=[ours], **MODES[mode]) == expected
    assert ours.asked == plain.asked


@pytest.mark.parametrize("index", PROMPTS)
def test_the_text_generation_pipeline_is_sped_up_and_says_the_same(real, index) -> None:
    model, tokenizer = real
    generator = pipeline("text-generation", model=model, tokenizer=tokenizer)
    options = {"max_new_tokens": NEW, "do_sample": False, "return_full_text": False}
    prompt = tokenizer.decode(encoded(tokenizer, index)[0])
    plain = generator(prompt, lookup=False, **options)
    assert generator(prompt, lookup=FIXED, **options) == plain
    assert hf.stats(model).steps <= hf.stats(model).generated_tokens - 1


def streamed(real: tuple[Any, Any], index: int, **options: Any) -> Iterator[str]:
    model, tokenizer = real
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=120)
    call = {"max_new_tokens": NEW, "do_sample": False, "streamer": streamer, **options}
    Thread(target=model.generate, args=(encoded(tokenizer, index),), kwargs=call).start()
    yield from streamer


@pytest.mark.slow
@pytest.mark.parametrize("index", PROMPTS)
def test_the_iterator_streamer_yields_the_same_pieces(real, index) -> None:
    assert list(streamed(real, index)) == list(streamed(real, index, lookup=False))
    assert hf.stats(real[0]).generated_tokens > 1


def test_a_prediction_given_as_text_shortens_the_work(real) -> None:
    """The same request, once more, with the earlier answer as the expected output."""
    model, tokenizer = real
    plain = plain_of(1, "greedy")
    generate(real, 1, FIXED)
    without = hf.stats(model).steps
    assert generate(real, 1, FIXED | {"prediction": tokenizer.decode(plain)}) == plain
    assert hf.stats(model).steps < without
