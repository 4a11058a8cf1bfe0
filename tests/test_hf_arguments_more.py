"""Every logits processor of transformers, asynchronous streamers, wrapped models and decoding methods not ours."""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from tiny import llama, mistral, prompt
from transformers.generation import logits_process as lp

from lookahead.plugins import hf
from lookahead.plugins.hf_plain import BY_ROW

NEW = 30
LENGTH = 24
WATERMARK = {"vocab_size": 64, "device": "cpu", "greenlist_ratio": 0.5, "bias": 3.0}

PROCESSORS: dict[str, Callable[[Any], Any]] = {
    "MinLengthLogitsProcessor": lambda model: lp.MinLengthLogitsProcessor(40, [3, 9, 17]),
    "MinNewTokensLengthLogitsProcessor": lambda model: lp.MinNewTokensLengthLogitsProcessor(LENGTH, 12, [3, 9, 17]),
    "TemperatureLogitsWarper": lambda model: lp.TemperatureLogitsWarper(0.6),
    "RepetitionPenaltyLogitsProcessor": lambda model: lp.RepetitionPenaltyLogitsProcessor(1.3),
    "EncoderRepetitionPenaltyLogitsProcessor": lambda model: lp.EncoderRepetitionPenaltyLogitsProcessor(1.5, prompt()),
    "TopPLogitsWarper": lambda model: lp.TopPLogitsWarper(0.7),
    "TopKLogitsWarper": lambda model: lp.TopKLogitsWarper(4),
    "TopHLogitsWarper": lambda model: lp.TopHLogitsWarper(0.4),
    "MinPLogitsWarper": lambda model: lp.MinPLogitsWarper(0.2),
    "TypicalLogitsWarper": lambda model: lp.TypicalLogitsWarper(0.7),
    "EpsilonLogitsWarper": lambda model: lp.EpsilonLogitsWarper(0.05),
    "EtaLogitsWarper": lambda model: lp.EtaLogitsWarper(0.05),
    "NoRepeatNGramLogitsProcessor": lambda model: lp.NoRepeatNGramLogitsProcessor(3),
    "EncoderNoRepeatNGramLogitsProcessor": lambda model: lp.EncoderNoRepeatNGramLogitsProcessor(2, prompt()),
    "SequenceBiasLogitsProcessor": lambda model: lp.SequenceBiasLogitsProcessor([[[5], 3.0], [[9, 3], 6.0]]),
    "NoBadWordsLogitsProcessor": lambda model: lp.NoBadWordsLogitsProcessor([[3], [7, 8]], [1]),
    "PrefixConstrainedLogitsProcessor": lambda model: lp.PrefixConstrainedLogitsProcessor(
        lambda row, ids: range(2 + len(ids) % 5, 50), 1
    ),
    "ForcedBOSTokenLogitsProcessor": lambda model: lp.ForcedBOSTokenLogitsProcessor(7),
    "ForcedEOSTokenLogitsProcessor": lambda model: lp.ForcedEOSTokenLogitsProcessor(LENGTH + NEW, 5),
    "InfNanRemoveLogitsProcessor": lambda model: lp.InfNanRemoveLogitsProcessor(),
    "ExponentialDecayLengthPenalty": lambda model: lp.ExponentialDecayLengthPenalty((4, 1.3), [3, 9], LENGTH),
    "LogitNormalization": lambda model: lp.LogitNormalization(),
    "SuppressTokensAtBeginLogitsProcessor": lambda model: lp.SuppressTokensAtBeginLogitsProcessor([2, 3, 4], LENGTH),
    "SuppressTokensLogitsProcessor": lambda model: lp.SuppressTokensLogitsProcessor(list(range(2, 30))),
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": lambda model: lp.UnbatchedClassifierFreeGuidanceLogitsProcessor(
        1.5, model
    ),
    "BarkEosPrioritizerLogitsProcessor": lambda model: lp.BarkEosPrioritizerLogitsProcessor(1, 0.9),
    "WatermarkLogitsProcessor": lambda model: lp.WatermarkLogitsProcessor(**WATERMARK),
    "SynthIDTextWatermarkLogitsProcessor": lambda model: lp.SynthIDTextWatermarkLogitsProcessor(
        5, [3, 1, 4, 1, 5], 64, 0, 16, torch.device("cpu")
    ),
    "WhisperTimeStampLogitsProcessor": lambda model: lp.WhisperTimeStampLogitsProcessor(
        transformers.GenerationConfig(no_timestamps_token_id=50, eos_token_id=1, max_initial_timestamp_index=3), LENGTH
    ),
}
ELSEWHERE = {
    "LogitsProcessor": "is the base class",
    "ClassifierFreeGuidanceLogitsProcessor": "takes two rows for one",
    "DiaClassifierFreeGuidanceLogitsProcessor": "takes two rows for one",
    "AlternatingCodebooksLogitsProcessor": "writes codes of sound",
    "DiaEOSChannelFilterLogitsProcessor": "writes channels of sound",
    "DiaEOSDelayPatternLogitsProcessor": "writes channels of sound",
    "WhisperNoSpeechDetection": "needs the states of Whisper's encoder",
}


@pytest.fixture(scope="module")
def model() -> Any:
    return hf.enable(llama())


def generate(model: Any, lookup: Any, ids: torch.Tensor | None = None, **options: Any) -> Any:
    torch.manual_seed(2)
    settings = {"max_new_tokens": NEW, "pad_token_id": 0, **options}
    return model.generate(prompt(LENGTH) if ids is None else ids, lookup=lookup, **settings)


def test_every_processor_of_transformers_is_tried_or_has_a_reason() -> None:
    found = {name for name, kind in vars(lp).items() if inspect.isclass(kind) and issubclass(kind, lp.LogitsProcessor)}
    assert found <= PROCESSORS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", [name for name in PROCESSORS if hasattr(lp, name)])
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
def test_a_processor_gives_plains_tokens(model, name, sampled) -> None:
    texts = []
    for lookup in (False, True):
        processors = lp.LogitsProcessorList([PROCESSORS[name](model)])
        texts.append(generate(model, lookup, do_sample=sampled, logits_processor=processors, eos_token_id=[1, 3, 9]))
    assert torch.equal(*texts)
    assert not hf.stats(model).plain_reason


@pytest.mark.parametrize("name", sorted(kind.__name__ for kind in BY_ROW))
def test_a_processor_of_single_rows_may_be_asked_row_by_row(model, name) -> None:
    ids = torch.cat([prompt(LENGTH, seed=row) for row in range(3)])
    texts = []
    for lookup in (False, True):
        processors = lp.LogitsProcessorList([PROCESSORS[name](model)])
        texts.append(generate(model, lookup, ids, logits_processor=processors, eos_token_id=[1, 3, 9]))
    assert torch.equal(*texts)
    assert not hf.stats(model).plain_reason


class Words:
    """A tokenizer that writes token ids as words."""

    def decode(self, ids: Any, **options: Any) -> str:
        return "".join(f"{int(token)} " for token in ids)


def test_a_text_iterator_streams_plains_text(model) -> None:
    texts = []
    for lookup in (False, True):
        streamer = transformers.TextIteratorStreamer(Words(), skip_prompt=True, timeout=60)  # type: ignore[arg-type]
        thread = threading.Thread(target=generate, args=(model, lookup), kwargs={"streamer": streamer})
        thread.start()
        texts.append(list(streamer))
        thread.join()
    assert texts[0] == texts[1]
    assert "".join(texts[0]).split() == [str(token) for token in generate(model, False)[0, LENGTH:].tolist()]


def test_an_asynchronous_iterator_streams_plains_text(model) -> None:
    async def streamed(lookup: bool) -> list[str]:
        streamer = transformers.AsyncTextIteratorStreamer(Words(), skip_prompt=True)  # type: ignore[arg-type]
        thread = threading.Thread(target=generate, args=(model, lookup), kwargs={"streamer": streamer})
        thread.start()
        pieces = [piece async for piece in streamer]
        thread.join()
        return pieces

    assert asyncio.run(streamed(False)) == asyncio.run(streamed(True))


def test_a_model_wrapped_by_peft_is_drafted_for() -> None:
    import peft

    adapters = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(llama(), adapters).eval()
    hf.enable(wrapped)
    assert hf.is_enabled(wrapped)
    assert torch.equal(*(wrapped.generate(input_ids=prompt(), max_new_tokens=NEW, lookup=w) for w in (False, True)))
    assert hf.stats(wrapped).draft_tokens > 0
    with wrapped.disable_adapter():
        without = wrapped.generate(input_ids=prompt(), max_new_tokens=NEW, lookup=True)
    assert torch.equal(without, generate(hf.enable(llama()), False))
    assert hf.disable(wrapped) is wrapped
    assert not hf.is_enabled(wrapped)


def test_a_compiled_forward_is_drafted_for() -> None:
    model = hf.enable(mistral())
    plain = generate(model, False, max_new_tokens=12)
    model.forward = torch.compile(model.forward, backend="eager", dynamic=True)
    assert torch.equal(generate(model, True, max_new_tokens=12), plain)
    assert hf.stats(model).draft_tokens > 0


def test_a_compiled_model_is_enabled_inside() -> None:
    model = torch.compile(llama(), backend="eager", dynamic=True)
    hf.enable(model)
    assert torch.equal(*(model.generate(prompt(), max_new_tokens=12, lookup=lookup) for lookup in (False, True)))
    assert hf.stats(model).draft_tokens > 0


def test_a_model_loaded_with_a_device_map_is_drafted_for(tmp_path) -> None:
    llama().save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map={"": "cpu"})
    hf.enable(model)
    assert torch.equal(*(generate(model, lookup) for lookup in (False, True)))
    assert hf.stats(model).draft_tokens > 0


def test_a_model_partly_on_disk_is_drafted_for(tmp_path) -> None:
    llama().save_pretrained(tmp_path / "model")
    parts = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    layout = {**parts, "lm_head": "cpu", "model.layers.1": "disk"}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", device_map=layout, offload_folder=tmp_path / "offload"
    )
    hf.enable(model)
    assert torch.equal(*(generate(model, lookup) for lookup in (False, True)))
    assert torch.equal(generate(model, True), generate(hf.enable(llama()), False))


METHODS: dict[str, dict[str, Any]] = {
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 2, "do_sample": True},
    "built-in prompt lookup": {"prompt_lookup_num_tokens": 4},
    "early exit": {"assistant_early_exit": 1},
}


@pytest.mark.parametrize("method", METHODS)
def test_other_decoding_methods_run_untouched(model, method, caplog) -> None:
    never_enabled = llama()
    torch.manual_seed(2)
    expected = never_enabled.generate(prompt(LENGTH), max_new_tokens=NEW, pad_token_id=0, **METHODS[method])
    for lookup in (None, True):
        hf.enable(model)  # forgets what was said before
        caplog.clear()
        before = hf.stats(model)
        assert torch.equal(generate(model, lookup, **METHODS[method]), expected)
        assert re.search(r"another method \((beam|assisted)", caplog.text)
        assert hf.stats(model) is not before
        assert hf.stats(model).plain_reason


def test_another_method_that_was_asked_to_be_plain_is_no_news(model, caplog) -> None:
    hf.enable(model)
    generate(model, False, num_beams=2)
    assert "another method" not in caplog.text
    assert not hf.stats(model).plain_reason
    assert not hf.stats(model).generated_tokens


def test_a_loop_that_was_handed_in_is_named(model, caplog) -> None:
    hf.enable(model)
    generate(model, None, custom_generate=lambda model, input_ids, *args, **kwargs: input_ids)
    assert "custom generate" in caplog.text


def test_a_model_that_hands_its_calls_to_another_says_so(caplog) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "sep_token_id": 1}
    text = {"vocab_size": 64, "max_position_embeddings": 128, "encoder_hidden_size": 32, **sizes, **ends}
    config = transformers.BlipConfig(text_config=text, vision_config={"image_size": 16, "patch_size": 8, **sizes})
    model = hf.enable(transformers.BlipForConditionalGeneration(config).eval(), lookup={"draft_per_match": 4})
    model.generate(pixel_values=torch.zeros(1, 3, 16, 16), input_ids=prompt(), max_new_tokens=3)
    assert "a generate of its own" in caplog.text
    hf.enable(model.text_decoder)
    model.generate(pixel_values=torch.zeros(1, 3, 16, 16), input_ids=prompt(), max_new_tokens=9, lookup=False)
    assert hf.stats(model.text_decoder).generated_tokens
    assert not hf.stats(model.text_decoder).draft_tokens


def test_an_assistant_model_drafts_as_it_does(model) -> None:
    assistant = llama()
    texts = [generate(target, lookup, assistant_model=assistant) for target, lookup in ((model, None), (model, True))]
    torch.manual_seed(2)
    assert torch.equal(*texts)
    assert torch.equal(llama().generate(prompt(LENGTH), max_new_tokens=NEW, pad_token_id=0), texts[0])


def test_an_enabled_model_may_be_an_assistant(model, caplog) -> None:
    plain = generate(model, False)
    target = llama()
    text = target.generate(prompt(LENGTH), max_new_tokens=NEW, pad_token_id=0, assistant_model=hf.enable(llama()))
    assert torch.equal(text, plain)
    assert "another method" not in caplog.text
    assert torch.equal(generate(model, None, assistant_model=hf.enable(llama())), plain)
    assert "assisted" in hf.stats(model).plain_reason


def test_devices_in_lockstep_run_plainly(model) -> None:
    plain = generate(model, False)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert torch.equal(generate(model, True, synced_gpus=True), plain)
    finally:
        torch.distributed.destroy_process_group()
    assert "lockstep" in hf.stats(model).plain_reason


def test_a_generation_config_object_is_read_and_left_alone(model) -> None:
    config = transformers.GenerationConfig(max_new_tokens=NEW, pad_token_id=0, do_sample=True, top_k=7)
    before = config.to_dict()
    torch.manual_seed(1)
    plain = model.generate(prompt(), generation_config=config, lookup=False)
    torch.manual_seed(1)
    assert torch.equal(model.generate(prompt(), generation_config=config, lookup=True), plain)
    assert config.to_dict() == before


def test_negative_prompts_guide_as_they_do(model) -> None:
    options = {"guidance_scale": 2.0, "negative_prompt_ids": prompt(10, seed=7)}
    assert torch.equal(*(generate(model, lookup, **options) for lookup in (False, True)))
    assert not hf.stats(model).plain_reason
    assert hf.stats(model).draft_tokens > 0
