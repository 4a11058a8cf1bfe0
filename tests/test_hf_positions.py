"""Positions need not be counts of tokens: padding, positions of the caller's own, and rotary ones that rescale."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import COMMON, build, gpt2, llama, prompt
from transformers import LlamaConfig, Phi3Config

from lookahead.plugins import hf

ROPE = {"rope_theta": 10_000.0}
FACTORS = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 40}


def longrope() -> Any:
    """A model whose rotary positions are others in a text of more than 40 positions."""
    rope = {"rope_type": "longrope", **ROPE, **FACTORS}
    sizes = {**COMMON, "max_position_embeddings": 160, "original_max_position_embeddings": 40}
    return build(Phi3Config(**sizes, rope_parameters=rope))


def dynamic() -> Any:
    """A model whose rotary positions change with every token beyond 40."""
    rope = {"rope_type": "dynamic", "factor": 2.0, **ROPE}
    return build(LlamaConfig(**{**COMMON, "max_position_embeddings": 40}, rope_parameters=rope))


def texts(model: Any, ids: torch.Tensor, **options: Any) -> list[list[int]]:
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 50, "eos_token_id": None, "pad_token_id": 0}
    return model.generate(ids, **{**given, **options}).tolist()


@pytest.mark.parametrize("padding", [0, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_padding_on_the_left_moves_no_limit_of_positions(padding, seed) -> None:
    ids = torch.cat([torch.zeros(1, padding, dtype=torch.long), prompt(24, seed)], dim=1)
    mask = (torch.arange(ids.shape[1]) >= padding).long()[None]
    plain = texts(longrope(), ids, attention_mask=mask)  # models are made anew: some keep what they scaled by last
    model = hf.enable(longrope(), lookup={"draft_per_match": 2})
    assert texts(model, ids, attention_mask=mask) == plain
    assert hf.stats(model).accepted_tokens > 0 or "before transformers 5.24" in hf.stats(model).plain_reason


@pytest.mark.parametrize("make", [longrope, dynamic])
@pytest.mark.parametrize(("length", "ahead"), [(24, 5), (30, 9), (38, 3)])
def test_positions_of_the_callers_own_have_limits_too(make: Callable[[], Any], length, ahead) -> None:
    for seed in range(3):
        ids, positions = prompt(length, seed), torch.arange(length)[None] + ahead
        plain = texts(make(), ids, position_ids=positions)
        assert texts(hf.enable(make()), ids, position_ids=positions) == plain


@pytest.mark.parametrize("seed", range(4))
def test_drafts_end_where_learned_positions_do(seed) -> None:
    """Of 128 positions the prompt ends at the 118th, and the text soon."""
    ids, positions = prompt(24, seed), torch.arange(24)[None] + 94
    written = texts(gpt2(), ids, position_ids=positions, max_new_tokens=9)[0][24:]
    end = next(token for place, token in reversed([*enumerate(written)]) if token not in written[:place])
    options = {"position_ids": positions, "eos_token_id": end}
    plain = texts(gpt2(), ids, **options)
    foreseen = {"prediction": [*written[:3], *ids[0].tolist()]}
    assert texts(hf.enable(gpt2()), ids, **options, lookup=foreseen) == plain
    assert texts(hf.enable(gpt2()), ids, **options) == plain


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("ahead", [(3, 3), (0, 7)])
def test_rows_of_a_batch_keep_the_callers_positions(make: Callable[[], Any], ahead) -> None:
    ids = torch.cat([prompt(24, 1), prompt(24, 2)])
    positions = torch.arange(24) + torch.tensor(ahead)[:, None]
    model = hf.enable(make())
    assert texts(model, ids, position_ids=positions) == texts(make(), ids, position_ids=positions)
    assert hf.stats(model).plain_reason == ""


@pytest.mark.parametrize("make", [longrope, dynamic])
def test_a_fixed_width_is_not_for_positions_that_rescale(make: Callable[[], Any]) -> None:
    for seed in range(3):
        ids, model = prompt(24, seed), hf.enable(make())
        assert texts(model, ids, lookup={"fixed_width": 8}) == texts(make(), ids)
        assert "beyond 40" in hf.stats(model).plain_reason
        assert texts(model, ids, max_new_tokens=16, lookup={"fixed_width": 8}) == texts(make(), ids, max_new_tokens=16)
        assert hf.stats(model).plain_reason == ""


@pytest.mark.parametrize("length", [16, 21, 22, 23])
@pytest.mark.parametrize("given", ["embeddings", "embeddings beside ids"])
def test_a_fixed_width_reads_nothing_of_the_prompt_anew(given: str, length: int) -> None:
    model, ids = llama(), prompt(24)[:, :length]
    options = {"inputs_embeds": model.get_input_embeddings()(prompt(24, 9)[:, :length]).detach()}
    options |= {"max_new_tokens": 20, "eos_token_id": None, "pad_token_id": 0}
    options |= {"input_ids": ids} if given == "embeddings beside ids" else {}
    plain = model.generate(**options)
    hf.enable(model)
    assert torch.equal(model.generate(**options, lookup={"fixed_width": 8}), plain)
    assert hf.stats(model).plain_reason == ""
