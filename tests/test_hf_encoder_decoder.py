"""Models with an encoder: drafts are confirmed by the decoder, and what the encoder reads is a source of drafts."""

from functools import partial
from typing import Any

import pytest
import torch
import transformers
from tiny import Scripted, build, cache_of, prompt, t5

from lookahead.plugins import hf, hf_call

NEW = 40
SETTINGS = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}


def bart() -> transformers.PreTrainedModel:
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    sizes = {"vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 128}
    tokens = {"decoder_start_token_id": 0, "forced_eos_token_id": None, "bos_token_id": 0, "pad_token_id": 0}
    return build(transformers.BartConfig(**sizes, **heads, **tokens), transformers.BartForConditionalGeneration)


MODELS = {builder.__name__: builder for builder in (t5, bart)}


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> Any:
    return hf.enable(MODELS[request.param]())


def generate(model: Any, ids: torch.Tensor, lookup: Any, **options: Any) -> Any:
    torch.manual_seed(5)
    return model.generate(ids, lookup=lookup, **SETTINGS | options)


@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("wrong_at", [None, 0, 2, 6])
def test_a_draft_that_goes_wrong_at_any_depth_changes_nothing(model, wrong_at, sampled, monkeypatch) -> None:
    ids, options = prompt(), {"do_sample": True, "top_p": 0.9} if sampled else {}
    plain = generate(model, ids, False, **options)
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted(plain[0, 1:].tolist(), 7, wrong_at)])
    assert torch.equal(generate(model, ids, True, **options), plain)
    assert hf.stats(model).steps == -(-(NEW - 1) // (8 if wrong_at is None else wrong_at + 1))


def deaf(builder: Any) -> Any:
    """A model whose text does not depend on what its encoder reads, so that the encoder can be given that text."""
    model = builder()
    for name, parameter in model.named_parameters():
        if "EncDecAttention.o" in name or "encoder_attn.out_proj" in name:
            torch.nn.init.zeros_(parameter)
    return hf.enable(model)


@pytest.mark.parametrize("name", MODELS)
def test_the_decoder_copies_what_the_encoder_reads(name) -> None:
    model = deaf(MODELS[name])
    text = generate(model, prompt(), False)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), text], dim=1)
    mask = torch.ones_like(padded)
    mask[0, :3] = 0
    assert torch.equal(generate(model, padded, True, attention_mask=mask), text)
    steps = hf.stats(model).steps
    assert torch.equal(generate(model, prompt(), True), text)
    assert steps < hf.stats(model).steps
    assert steps <= NEW // 4


def test_the_second_door_drafts_from_the_decoders_text_alone() -> None:
    model = MODELS["t5"]()
    plain = model.generate(prompt(), **SETTINGS)
    assert torch.equal(model.generate(prompt(), custom_generate=hf.lookup_generate, **SETTINGS), plain)


def test_result_objects_are_those_of_plain(model) -> None:
    options = {"return_dict_in_generate": True, "output_scores": True, "repetition_penalty": 1.2}
    plain, ours = (generate(model, prompt(), lookup, **options) for lookup in (False, True))
    assert type(ours) is type(plain)
    assert torch.equal(ours.sequences, plain.sequences)
    assert len(ours.scores) == len(plain.scores)
    assert cache_of(ours).get_seq_length() == cache_of(plain).get_seq_length()


def test_the_users_own_decoder_prompt_goes_on(model) -> None:
    begun = torch.cat([torch.zeros(1, 1, dtype=torch.long), prompt(10, seed=4)], dim=1)
    mask = torch.ones_like(begun)
    options = {"decoder_input_ids": begun, "decoder_attention_mask": mask}
    assert torch.equal(*(generate(model, prompt(), lookup, **options) for lookup in (False, True)))
    assert not hf.stats(model).plain_reason


def test_batches_run_plainly_and_say_why(model) -> None:
    rows = torch.cat([prompt(seed=1), prompt(seed=2)])
    assert torch.equal(*(generate(model, rows, lookup) for lookup in (False, True)))
    assert "encoder-decoder batch" in hf.stats(model).plain_reason


def test_several_sequences_and_beams_run_as_they_do(model) -> None:
    for options in ({"num_beams": 3}, {"do_sample": True, "num_return_sequences": 3}):
        plain, ours = map(partial(generate, model, prompt(), **options), (False, True))
        assert torch.equal(plain, ours)


def test_drafts_stop_where_learned_positions_end(monkeypatch) -> None:
    model = hf.enable(MODELS["bart"]())
    plain = generate(model, prompt(), False, max_new_tokens=127)
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted(plain[0, 1:].tolist(), 20, None)])
    assert torch.equal(generate(model, prompt(), True, max_new_tokens=127), plain)
