"""What is claimed of every model: the tokens of plain `generate`, whatever is drafted; or the plain path, and why."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from tiny import Random, Scripted, cache_of, prompt

from lookahead.draft import EMPTY, Draft
from lookahead.plugins import hf, hf_call
from lookahead.plugins.hf_cache import CropRollback, rollback_for

NEW = 32
DRAFT = 7
SAMPLING = {"do_sample": True, "temperature": 0.8, "top_p": 0.95}
PAUSE = 2


class Pausing(Scripted):
    """Drafts once, and then leaves out some steps."""

    steps = 0

    def propose(self, room: int) -> Draft:
        self.steps += 1
        return super().propose(room) if self.steps % (PAUSE + 1) == 1 else EMPTY


class Unsupported(Exception):
    """Plain `generate` refuses the call as well."""


def greedy(model: Any) -> str:
    """Every depth of rejection behind a prompt longer than the windows, and drafts at random across them."""
    _run(model, prompt(24), {}, [_wrong_at(depth) for depth in (None, *range(DRAFT))])
    return _run(model, prompt(6), {}, [_wrong_at(2), _random(0), _random(1)])


def sampled(model: Any) -> str:
    """The same tokens and the same state of the random numbers after seeded sampling."""
    return _run(model, prompt(24), SAMPLING, [_wrong_at(None), _wrong_at(0), _wrong_at(3), _random(2)])


def batch(model: Any) -> str:
    """Rows of different lengths that accept different lengths and end at different steps, greedy and sampled."""
    options = {"eos_token_id": [1, 9, 30], "pad_token_id": 0, "max_new_tokens": 24}
    _run(model, _ragged(), options, [_wrong_at(None, 0, 3, 5), _random(3, 4, 5, 6)])
    return _run(model, _ragged(), options | SAMPLING, [_wrong_at(4, None, 0, 1), _random(7, 8, 9, 10)])


def static(model: Any) -> str:
    """A cache of fixed size, filled by steps of several tokens and of one."""
    options = {"cache_implementation": "static"}
    _run(model, prompt(6), options, [_wrong_at(2), _with_pauses])
    return _run(model, prompt(24), options, [_wrong_at(depth) for depth in (None, 0, 3)])


def lookup(model: Any) -> str:
    """The real proposer, on a prompt that repeats itself."""
    return _run(model, prompt(24, seed=3), {}, [None])


CLAIMS = {claim.__name__: claim for claim in (greedy, sampled, batch, static, lookup)}


def rollback(model: Any) -> str:
    """Return how rejected tokens leave the model's cache, or a dash where it is decoded plainly."""
    start = {"decoder_start_token_id": 0} if model.config.is_encoder_decoder else {}
    options = {"max_new_tokens": 1, "num_beams": 1, "use_cache": True, "return_dict_in_generate": True, **start}
    cache = cache_of(model.generate(prompt(6), lookup=True, **options))
    if hf.stats(model).plain_reason:
        return "-"
    return "crop" if isinstance(rollback_for(cache, 6), CropRollback) else "restore and read again"


def _wrong_at(*depths: int | None) -> Any:
    """Drafts of plain's own tokens, each row's spoilt at its depth."""
    return lambda rows: [Scripted(row, DRAFT, depth) for row, depth in zip(rows, depths, strict=True)]


def _with_pauses(rows: list[list[int]]) -> list[Scripted]:
    """Drafts wrong at depth 1, each followed by steps without one."""
    return [Pausing(row, DRAFT, 1) for row in rows]


def _random(*seeds: int) -> Any:
    return lambda rows: [Random(seed) for seed in seeds]


def _run(model: Any, inputs: Any, options: dict[str, Any], drafters: Sequence[Any]) -> str:
    """Compare plain's result with ours under each drafter; return why the plain path was taken, or nothing."""
    inputs = inputs if isinstance(inputs, dict) else {"input_ids": inputs}
    try:
        plain, state = _generate(model, inputs, options, False)
    except Exception as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from error
    start = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    for drafter in drafters:
        with drafting(drafter and drafter(plain[:, start:].tolist())):
            ours, after = _generate(model, inputs, options, True)
        assert ours.tolist() == plain.tolist()
        assert torch.equal(after, state)
        stats = hf.stats(model)
        if stats.plain_reason:
            return stats.plain_reason
        assert stats.draft_tokens > 0 or drafter is None
    return ""


def _generate(model: Any, inputs: dict[str, Any], options: dict[str, Any], drafted: bool) -> Any:
    torch.manual_seed(7)
    settings = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0, "num_beams": 1, "use_cache": True}
    settings |= options | ({"decoder_start_token_id": 0} if model.config.is_encoder_decoder else {})
    text = model.generate(**inputs, lookup=drafted, **settings)
    return text, torch.get_rng_state()


@contextmanager
def drafting(proposers: Sequence[Any] | None) -> Iterator[None]:
    """Replace the proposers of the call inside, one for each row."""
    if proposers is None:
        yield
    else:
        with patch.object(hf_call, "_proposers", lambda *_: list(proposers)):
            yield


def _ragged() -> dict[str, torch.Tensor]:
    """Four prompts of different lengths, padded on the left."""
    lengths = (24, 10, 18, 30)
    ids, mask = torch.zeros(4, 30, dtype=torch.long), torch.zeros(4, 30, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, -length:] = prompt(length, seed=row)
        mask[row, -length:] = 1
    return {"input_ids": ids, "attention_mask": mask}
