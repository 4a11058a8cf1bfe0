"""Streamed answers: pieces that are the text, the answer at the end, and a thread that ends when nobody listens."""

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from rag_tiny import COFFEE, QUESTION, TEA, Written, byte_llama, byte_tokenizer

from lookahead.plugins import rag
from lookahead.plugins.rag_stream import TextPieces, decoded

TEXT = "Tea — 茶, in Japan お茶 — is made from the leaves of an evergreen shrub. 🍵 ☕"
TOKENIZER = byte_tokenizer()


@pytest.fixture
def model():
    return byte_llama()


def stream(model, text=TEXT, **options):
    options.setdefault("logits_processor", [Written(TOKENIZER, text)])
    return rag.stream_answer(model, TOKENIZER, QUESTION, [TEA, COFFEE], **options)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lookahead-stream"]


class Endless(transformers.LogitsProcessor):
    """Never lets the text end; counts the tokens."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, input_ids, scores):
        self.tokens += 1
        time.sleep(0.01)  # long enough for the reader to have its say
        scores = scores.clone()
        scores[:, TOKENIZER.eos_token_id] = -torch.inf
        return scores


@pytest.mark.parametrize("lookup", [None, False])
def test_the_pieces_are_the_answers_text(model, lookup) -> None:
    pieces = stream(model, lookup=lookup)
    assert "".join(pieces) == TEXT
    answer = rag.answer(model, TOKENIZER, QUESTION, [TEA, COFFEE], logits_processor=[Written(TOKENIZER, TEXT)])
    assert (pieces.answer.text, pieces.answer.citations) == (answer.text, answer.citations)
    assert pieces.answer.token_ids == answer.token_ids
    assert answer.citations
    assert list(pieces) == []


def test_the_text_comes_while_it_is_written(model) -> None:
    with stream(model, logits_processor=[Endless()], max_new_tokens=800) as pieces:
        next(pieces)
        with pytest.raises(RuntimeError, match="still being written"):
            _ = pieces.answer


def test_closing_early_ends_the_generation_and_its_thread(model) -> None:
    endless = Endless()
    pieces = stream(model, logits_processor=[endless], max_new_tokens=800)
    read = next(pieces)
    pieces.close()
    assert not threads()
    assert endless.tokens < 800
    assert pieces.answer.text.startswith(read)
    assert len(pieces.answer.token_ids) < 800
    assert list(pieces) == []


def test_leaving_the_block_closes(model) -> None:
    endless = Endless()
    with stream(model, logits_processor=[endless], max_new_tokens=800) as pieces:
        next(pieces)
    assert not threads()
    assert endless.tokens < 800


def test_a_dropped_stream_ends_its_thread(model) -> None:
    endless = Endless()
    pieces = stream(model, logits_processor=[endless], max_new_tokens=800)
    next(pieces)
    del pieces
    gc.collect()
    assert not threads()
    assert endless.tokens < 800


def test_the_users_criteria_count_too(model) -> None:
    class Three(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            self.start = getattr(self, "start", input_ids.shape[1] - 1)
            return torch.tensor([input_ids.shape[1] - self.start >= 3])

    pieces = stream(model, stopping_criteria=[Three()])
    assert "".join(pieces) == pieces.answer.text == TEXT[:3]


def test_what_goes_wrong_while_generating_is_raised(model) -> None:
    def broken(input_ids, scores):
        raise ZeroDivisionError("broken")

    pieces = stream(model, logits_processor=[broken])
    with pytest.raises(ZeroDivisionError, match="broken"):
        list(pieces)
    with pytest.raises(ZeroDivisionError, match="broken"):
        _ = pieces.answer
    assert not threads()


def test_mistakes_are_raised_at_once(model) -> None:
    with pytest.raises(TypeError, match="passages must be a list"):
        rag.stream_answer(model, TOKENIZER, QUESTION, TEA)
    assert not threads()


@pytest.mark.slow
def test_a_program_that_ends_in_the_middle_ends_well() -> None:
    code = (
        "from test_rag_stream import *\n"
        "pieces = stream(byte_llama(), logits_processor=[Endless()], max_new_tokens=800)\n"
        "print(len(next(pieces)) > 0)\n"
    )
    folder = Path(__file__).parent
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stdout.strip()) == (0, "True"), result.stderr


@given(st.lists(st.integers(0, 258), max_size=30))
def test_pieces_are_the_decoded_tokens_whatever_these_are(ids) -> None:
    pieces: list[str] = []
    streamer = TextPieces(TOKENIZER, pieces.append)
    streamer.put(torch.tensor([[5, 6, 7]]))
    for token in ids:
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert "".join(pieces) == decoded(TOKENIZER, ids)
    assert all(pieces)


@given(st.text())
def test_no_character_is_torn(text) -> None:
    pieces: list[str] = []
    streamer = TextPieces(TOKENIZER, pieces.append)
    streamer.put(torch.tensor([[5]]))
    for token in TOKENIZER(text)["input_ids"]:
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert "".join(pieces) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


def test_a_space_that_depends_on_the_token_before_is_kept() -> None:
    class Sentencepiece:
        """Drops the space in front of the first word, as these decoders do."""

        def decode(self, ids, **options):
            return "".join([" a", " b", " c"][i] for i in ids)[1:]

    pieces: list[str] = []
    streamer = TextPieces(Sentencepiece(), pieces.append)
    streamer.put(torch.tensor([[0]]))
    for token in (0, 1, 2):
        streamer.put(torch.tensor([token]))
    streamer.end()
    assert pieces == ["a", " b", " c"]
