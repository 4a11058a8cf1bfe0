"""Models that see an image before their text: plain's tokens, and no draft offers an image placeholder."""

from typing import Any

import pytest
import torch
import transformers
from conformance.architectures import build, small_config
from conformance.claims import drafting
from tiny import Random, Scripted, prompt, slow
from transformers import AutoModelForImageTextToText

from lookahead.plugins import hf
from lookahead.proposer import LookupProposer

IMAGE = 60
NEW = 40
SETTINGS = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}
MODELS: dict[str, dict[str, Any]] = {
    "llava": {"image_token_index": IMAGE},
    "gemma3": {"image_token_index": IMAGE, "boi_token_index": 61, "eoi_token_index": 62, "mm_tokens_per_image": 4},
    "qwen2_5_vl": {
        "image_token_id": IMAGE,
        "video_token_id": 61,
        "vision_start_token_id": 62,
        "vision_end_token_id": 63,
    },
}


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> Any:
    return hf.enable(seeing(request.param))


def seeing(kind: str) -> transformers.PreTrainedModel:
    settings = dict(MODELS[kind])
    if kind == "qwen2_5_vl":
        vision = {"out_hidden_size": 32, "fullatt_block_indexes": [1], "depth": 2, "window_size": 32}
        settings["vision_config"] = small_config("qwen2_5_vl").vision_config.to_dict() | vision
        rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
        settings["text_config"] = small_config("qwen2_5_vl").text_config.to_dict() | {"rope_parameters": rope}
    return build(small_config(kind, **settings), AutoModelForImageTextToText.from_config)


def inputs_for(model: Any) -> dict[str, torch.Tensor]:
    """A prompt in which a repeated span was followed by the image, and the image."""
    span = prompt(6, seed=2).remainder(50) + 2
    ids = torch.cat([span, torch.full((1, 4), IMAGE), prompt(8, seed=3).remainder(50) + 2, span], dim=1)
    generator = torch.Generator().manual_seed(0)
    if model.config.model_type == "qwen2_5_vl":
        patches = torch.randn(16, 3 * 2 * 8 * 8, generator=generator)
        kinds = (ids == IMAGE).long()
        image = {"pixel_values": patches, "image_grid_thw": torch.tensor([[1, 4, 4]]), "mm_token_type_ids": kinds}
    else:
        image = {"pixel_values": torch.randn(1, 3, 16, 16, generator=generator)}
        if model.config.model_type == "gemma3":
            image["token_type_ids"] = (ids == IMAGE).long()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **image}


def generate(model: Any, lookup: Any, **options: Any) -> torch.Tensor:
    torch.manual_seed(3)
    return model.generate(**inputs_for(model), lookup=lookup, **SETTINGS | options)


@pytest.mark.parametrize("sampled", [False, slow(True)], ids=["greedy", "sampled"])
def test_the_tokens_behind_an_image_are_plains(model, sampled) -> None:
    options = {"do_sample": True, "top_p": 0.9} if sampled else {}
    plain = generate(model, False, **options)
    start = inputs_for(model)["input_ids"].shape[1]
    scripts = [Scripted(plain[0, start:].tolist(), 7, depth) for depth in (None, 0, 2, 5)]
    for drafter in (*scripts, Random(1), Random(2)):
        with drafting([drafter]):
            assert torch.equal(generate(model, True, **options), plain)
        assert not hf.stats(model).plain_reason
        assert hf.stats(model).draft_tokens > 0


def test_the_image_matters(model) -> None:
    seen = inputs_for(model)
    other = seen | {"pixel_values": seen["pixel_values"] + 1}
    texts = [
        model.generate(**inputs, lookup=True, output_logits=True, return_dict_in_generate=True, **SETTINGS)
        for inputs in (seen, other)
    ]
    assert not torch.equal(texts[0].logits[0], texts[1].logits[0])


def test_no_draft_offers_a_placeholder(model, monkeypatch) -> None:
    drafted: list[tuple[int, ...]] = []
    propose = LookupProposer.propose

    def recorded(self: LookupProposer, room: int) -> Any:
        draft = propose(self, room)
        drafted.append(draft.tokens)
        return draft

    monkeypatch.setattr(LookupProposer, "propose", recorded)
    assert torch.equal(generate(model, True), generate(model, False))
    assert drafted
    assert all(IMAGE not in tokens for tokens in drafted)


def test_a_batch_with_images_runs_plainly(model) -> None:
    inputs = inputs_for(model)
    rows = {name: torch.cat([value, value]) for name, value in inputs.items()}
    texts = [model.generate(**rows, lookup=lookup, **SETTINGS) for lookup in (False, True)]
    assert torch.equal(*texts)
    assert hf.stats(model).plain_reason


@pytest.mark.parametrize("behind", [2, 5])
def test_blocks_of_a_fixed_width_begin_behind_an_image(model, behind) -> None:
    inputs = inputs_for(model)
    length = inputs["input_ids"].shape[1]
    cut = {name: value[:, : 10 + behind] if value.shape[-1] == length else value for name, value in inputs.items()}
    plain = model.generate(**cut, lookup=False, **SETTINGS)
    assert torch.equal(model.generate(**cut, lookup={"fixed_width": 8}, **SETTINGS), plain)
