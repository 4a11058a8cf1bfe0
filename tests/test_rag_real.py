"""With a real model in fp32, answers over passages have plain generation's tokens, and their citations are exact."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import slow
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.cli.models import default_model_path
from lookahead.plugins import hf, rag

DRINKS = Path(__file__).parents[1] / "examples" / "drinks"
QUESTIONS = [
    "How is green tea made and brewed?",
    "How is espresso made?",
    "What happens to the seeds of the cacao tree?",
]
CASES = [question if question is QUESTIONS[0] else slow(question) for question in QUESTIONS]


@pytest.fixture(scope="module")
def real() -> tuple[Any, Any]:
    path = default_model_path()
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return hf.enable(model.eval()), AutoTokenizer.from_pretrained(path)


@pytest.fixture(scope="module")
def passages() -> list[rag.Passage]:
    return [rag.Passage(path.read_text(encoding="utf-8"), path.name) for path in sorted(DRINKS.glob("*.md"))]


def plain(model: Any, tokenizer: Any, question: str, passages: list[rag.Passage], **options: Any) -> rag.Answer:
    return rag.answer(model, tokenizer, question, passages, lookup=False, **options)


@pytest.mark.parametrize("question", CASES)
def test_answers_are_plain_generations(real, passages, question) -> None:
    options = {"max_new_tokens": 48, "do_sample": False}
    answer = rag.answer(*real, question, passages, **options)
    assert answer.token_ids == plain(*real, question, passages, **options).token_ids
    assert answer.stats.steps < len(answer.token_ids) - 1


def test_citations_are_the_passages_words(real, passages) -> None:
    answer = rag.answer(*real, QUESTIONS[0], passages, max_new_tokens=48, do_sample=False)
    assert answer.citations
    for citation in answer.citations:
        source = (DRINKS / citation.id).read_text(encoding="utf-8")
        assert answer.text[citation.start : citation.end] == source[citation.passage_start : citation.passage_end]


@pytest.mark.slow
def test_passages_outside_the_prompt_change_no_token(real, passages) -> None:
    options = {"max_new_tokens": 48, "do_sample": False, "max_prompt_tokens": 150}
    answer = rag.answer(*real, "Tell me of green tea.", passages, **options)
    assert answer.passages_in_prompt == ()
    assert answer.token_ids == plain(*real, "Tell me of green tea.", passages, **options).token_ids


@pytest.mark.slow
def test_a_streamed_answer_is_the_answer(real, passages) -> None:
    options = {"max_new_tokens": 48, "do_sample": False}
    with rag.stream_answer(*real, QUESTIONS[0], passages, **options) as pieces:
        text = "".join(pieces)
    assert text == pieces.answer.text == rag.answer(*real, QUESTIONS[0], passages, **options).text
