"""A prediction given as text is copied from its first token on, however its start was split in the output."""

from typing import Any

import pytest
import torch
from tiny import llama

from lookahead import LookupConfig, LookupProposer
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED
from lookahead.plugins import hf, hf_call

LETTERS = {letter: 10 + number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz\n")}


class Marking:
    """A tokenizer of letters that, as SentencePiece does, marks the start of a text: its first two letters are one."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        head = [3 if text[:2] == "ab" else 4] if len(text) > 1 else []
        return {"input_ids": head + [LETTERS[letter] for letter in text[2 * len(head) :]]}


class Plain:
    """A tokenizer of letters."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [LETTERS[letter] for letter in text]}


TEXT = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("tokenizer", "ids", "start"),
    [
        (Plain(), Plain()(TEXT)["input_ids"], []),
        (Marking(), Marking()(TEXT)["input_ids"], [LETTERS["b"], *(LETTERS[letter] for letter in TEXT[2:18])]),
    ],
)
def test_a_second_start_is_known_where_the_first_tokens_split_otherwise(tokenizer, ids, start) -> None:
    assert hf_call._other_start(tokenizer, TEXT, ids) == start


def test_the_copy_goes_on_in_the_prediction_behind_either_start(monkeypatch) -> None:
    monkeypatch.setattr(Pacing, "length", lambda self, plan, context: int(plan.chosen[FOLLOWED]))
    ids = Marking()(TEXT)["input_ids"]
    other = hf_call._other_start(Marking(), TEXT, ids)
    made = LookupProposer(LookupConfig(), references=[other], prediction=ids)
    assert made.propose(5).tokens == tuple(ids[:5])
    made.extend(other[:3])
    following = [LETTERS[letter] for letter in TEXT[4:]]
    assert made.propose(40).tokens == tuple(following)[: len(made.propose(40))]
    made.extend(following[:16])  # beyond the second start's end
    assert made.propose(40).tokens[:5] == tuple(following[16:21])


def test_a_text_reaches_the_proposer_with_both_starts(monkeypatch) -> None:
    seen = []

    class Watched(LookupProposer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            seen.append(kwargs)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(hf_call, "LookupProposer", Watched)
    model = hf.enable(llama(), Marking())
    model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=3, lookup={"prediction": TEXT})
    (given,) = seen
    assert given["prediction"] == Marking()(TEXT)["input_ids"]
    assert given["references"][0][0] == LETTERS["b"]
