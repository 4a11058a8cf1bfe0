"""What is unusual but right in plain generation is right with lookup: vocabularies, adapters, training mode."""

from typing import Any

import numpy as np
import pytest
import torch
from tiny import COMMON, VOCABULARY, build, gpt2, llama, prompt
from transformers import MarianConfig, MarianMTModel, MixtralConfig, OPTConfig

from lookahead.framing import Frame
from lookahead.plugins import hf
from lookahead.plugins.hf_probe import LookupProbe


class LargerTokenizer:
    """A tokenizer with ids that the model has no embedding for."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) for char in text]}


def generate(model: Any, **options: Any) -> torch.Tensor:
    torch.manual_seed(3)
    return model.generate(prompt(), max_new_tokens=30, eos_token_id=None, pad_token_id=0, **options)


def test_a_prediction_of_foreign_tokens_is_no_draft() -> None:
    plain = generate(llama())
    model = hf.enable(llama(), LargerTokenizer())
    text = "".join(map(chr, [*plain[0, 24:30].tolist(), 3000, 3001])) * 4
    assert torch.equal(generate(model, lookup={"prediction": text, "references": [text]}), plain)


def test_a_frame_of_another_models_tokens_is_no_draft() -> None:
    plain = generate(llama())
    model = hf.enable(llama())
    model._lookup_state.pacing(model, 1).frame = Frame((VOCABULARY + 5,), (VOCABULARY + 7,))
    assert torch.equal(generate(model, lookup={"prediction": plain[0, 24:].tolist()}), plain)


@pytest.mark.parametrize(("encoder", "decoder"), [(64, 32), (32, 64)])
def test_encoder_and_decoder_may_have_vocabularies_of_their_own(encoder, decoder) -> None:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = MarianConfig(
        vocab_size=encoder,
        decoder_vocab_size=decoder,
        share_encoder_decoder_embeddings=False,
        pad_token_id=0,
        eos_token_id=None,
        decoder_start_token_id=1,
        **sizes,
    )
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    read = torch.arange(20)[None] % (encoder - 2) + 2
    start = torch.tensor([[decoder - 1]])
    options = {"max_new_tokens": 20, "num_beams": 1, "do_sample": False, "decoder_input_ids": start}
    plain = model.generate(read, **options)
    assert torch.equal(hf.enable(model).generate(read, **options), plain)


def test_virtual_tokens_of_an_adapter_are_decoded_plainly() -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    wanted = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=6)
    model = peft.get_peft_model(llama(), wanted).eval()
    plain = model.generate(input_ids=prompt(), max_new_tokens=20, pad_token_id=0)
    hf.enable(model)
    assert torch.equal(model.generate(input_ids=prompt(), max_new_tokens=20, pad_token_id=0), plain)
    assert "virtual tokens" in hf.stats(model).plain_reason


@pytest.mark.parametrize("rows", [1, 2])
def test_a_prefix_in_the_cache_leaves_the_text_as_it_is(rows) -> None:
    peft = pytest.importorskip("peft")
    wanted = peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    model = peft.get_peft_model(llama(), wanted).eval()
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter)
    ids = torch.cat([prompt(seed=seed) for seed in range(rows)])
    plain = model.generate(input_ids=ids, max_new_tokens=20, eos_token_id=None, pad_token_id=0)
    hf.enable(model)
    assert torch.equal(model.generate(input_ids=ids, max_new_tokens=20, eos_token_id=None, pad_token_id=0), plain)
    assert ("virtual tokens" in hf.stats(model).plain_reason) == (rows > 1)


def test_a_model_in_training_mode_is_decoded_plainly() -> None:
    model = gpt2()
    model.config.resid_pdrop = 0.3
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    model.train()
    plain = generate(model)
    hf.enable(model)
    assert torch.equal(generate(model), plain)
    assert "training mode" in hf.stats(model).plain_reason
    model.eval()
    generate(model)
    assert not hf.stats(model).plain_reason


def with_adapter() -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    wanted = peft.LoraConfig(r=4, lora_alpha=64, lora_dropout=0.5, target_modules=["q_proj"], init_lora_weights=False)
    return peft.get_peft_model(llama(), wanted)


def jittering() -> Any:
    return build(MixtralConfig(**COMMON, num_local_experts=4, num_experts_per_tok=2, router_jitter_noise=0.3))


def dropping_layers() -> Any:
    sizes = {"hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 48, "num_hidden_layers": 4}
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "layerdrop": 0.4}
    return build(OPTConfig(vocab_size=VOCABULARY, num_attention_heads=4, max_position_embeddings=256, **sizes, **rates))


@pytest.mark.parametrize("make", [with_adapter, jittering, dropping_layers])
def test_whatever_is_random_in_training_mode_is_left_to_plain_generation(make) -> None:
    model = make().train()
    options = {"input_ids": prompt(), "max_new_tokens": 30, "eos_token_id": None, "pad_token_id": 0}
    torch.manual_seed(3)
    plain, state = model.generate(**options), torch.get_rng_state()
    hf.enable(model)
    torch.manual_seed(3)
    assert torch.equal(model.generate(**options), plain)
    assert torch.equal(torch.get_rng_state(), state)
    assert "training mode" in hf.stats(model).plain_reason
    model.eval()
    model.generate(**options)
    assert not hf.stats(model).plain_reason


def test_a_model_in_training_mode_without_chance_has_drafts() -> None:
    model = hf.enable(llama().train())
    assert torch.equal(generate(model), generate(llama()))
    assert hf.stats(model).draft_tokens > 0


@pytest.mark.parametrize("rows", [1, 2])
def test_probabilities_that_are_no_numbers_are_refused_as_in_plain_sampling(rows) -> None:
    model = hf.enable(llama())
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    for lookup in (False, True):
        with pytest.raises(RuntimeError, match="probability tensor contains"):
            model.generate(prompt().expand(rows, -1), do_sample=True, max_new_tokens=3, pad_token_id=0, lookup=lookup)


@pytest.mark.parametrize("ids", [prompt().float(), torch.zeros(0, 5, dtype=torch.long)], ids=["floats", "no rows"])
def test_ids_that_are_none_meet_plains_own_error(ids) -> None:
    errors = []
    for model in (llama(), hf.enable(llama())):
        with pytest.raises(RuntimeError) as caught:
            model.generate(ids, max_new_tokens=3)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("width", [257, 258, 400])
def test_a_very_wide_step_is_a_step(width) -> None:
    assert torch.equal(generate(hf.enable(llama()), lookup={"fixed_width": width}), generate(llama()))


def test_options_beyond_all_measure_are_refused() -> None:
    with pytest.raises(ValueError, match="min_match must be at most"):
        generate(hf.enable(llama()), lookup={"min_match": 2**70})


def test_a_probe_lets_a_prompt_of_embeddings_pass() -> None:
    model = llama()
    embeds = model.get_input_embeddings()(prompt())
    plain = model.generate(inputs_embeds=embeds, max_new_tokens=10, pad_token_id=0)
    probe = LookupProbe()
    options = {"max_new_tokens": 10, "pad_token_id": 0, "logits_processor": [probe]}
    assert torch.equal(model.generate(inputs_embeds=embeds, **options), plain)
    assert np.isfinite(probe.stats.mean_acceptance_length)


@pytest.mark.parametrize("placeholder", [-200, VOCABULARY, 10**6])
def test_ids_beside_embeddings_may_be_placeholders_of_no_token(placeholder) -> None:
    model = llama()
    ids = prompt()
    embeds = model.get_input_embeddings()(ids).detach()
    ids[:, 3:6] = placeholder
    options = {"inputs_embeds": embeds, "max_new_tokens": 30, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(ids, **options)
    hf.enable(model)
    assert torch.equal(model.generate(ids, **options), plain)
    assert hf.stats(model).draft_tokens > 0
    with pytest.raises(ValueError, match=f"token id {placeholder}"):
        model.generate(ids, max_new_tokens=3)


@pytest.mark.parametrize("rows", [1, 2])
def test_ids_of_32_bits_become_64_as_in_plain_generation(rows) -> None:
    ids = torch.cat([prompt(seed=row) for row in range(rows)]).int()
    options = {"max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    plain = llama().generate(ids, **options)
    model = hf.enable(llama())
    ours = model.generate(ids, **options)
    assert torch.equal(ours, plain)
    assert ours.dtype == plain.dtype == torch.long
    assert not hf.stats(model).plain_reason
