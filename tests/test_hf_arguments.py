"""Processors, criteria, streamers and result options see and give what they do in plain `generate`."""

from functools import partial
from typing import Any

import pytest
import torch
import transformers
from tiny import llama, prompt, slow
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteria

from lookahead.plugins import hf

NEW = 32
FIXED = {"draft_per_match": 4}  # a rule that looks at no clock, so that every run drafts the same


@pytest.fixture(scope="module")
def model() -> Any:
    return hf.enable(llama())


def looping(seed: int = 0) -> torch.Tensor:
    """A prompt whose greedy continuation copies a lot."""
    return prompt(30, seed)


def generate(model: Any, lookup: Any, seed: int = 3, **options: Any) -> Any:
    torch.manual_seed(seed)
    options.setdefault("max_new_tokens", NEW)
    return model.generate(looping(seed), lookup=FIXED if lookup is True else lookup, **options)


OPTIONS: dict[str, dict[str, Any]] = {
    "temperature": {"do_sample": True, "temperature": 0.7},
    "top_k": {"do_sample": True, "top_k": 5},
    "top_p": {"do_sample": True, "top_p": 0.6},
    "min_p": {"do_sample": True, "min_p": 0.1},
    "typical_p": {"do_sample": True, "typical_p": 0.8},
    "epsilon_cutoff": {"do_sample": True, "epsilon_cutoff": 0.02},
    "eta_cutoff": {"do_sample": True, "eta_cutoff": 0.02},
    "repetition_penalty": {"repetition_penalty": 1.3},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "bad_words_ids": {"bad_words_ids": [[3], [7, 8]]},
    "min_new_tokens": {"min_new_tokens": 30, "eos_token_id": list(range(1, 40))},
    "min_length": {"min_length": 50, "eos_token_id": [3, 9]},
    "several end tokens": {"eos_token_id": [3, 9, 17, 22]},
    "forced_eos_token_id": {"forced_eos_token_id": 5},
    "suppress_tokens": {"suppress_tokens": [2, 3, 4, 5]},
    "begin_suppress_tokens": {"begin_suppress_tokens": list(range(30))},
    "sequence_bias": {"sequence_bias": {(5,): 4.0, (9, 3): 8.0}},
    "exponential_decay": {"exponential_decay_length_penalty": (5, 1.2)},
    "renormalize_logits": {"do_sample": True, "renormalize_logits": True},
    "remove_invalid_values": {"remove_invalid_values": True},
    "guidance_scale": {"guidance_scale": 1.5},
    "watermarking": {"watermarking_config": transformers.WatermarkingConfig(bias=4.0)},
    "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": lambda row, ids: range(2 + ids.shape[-1] % 7, 40)},
    "max_length": {"max_length": 37, "max_new_tokens": None},
    "one token": {"max_new_tokens": 1},
    "two tokens": {"max_new_tokens": 2},
    "chunked prefill": {"prefill_chunk_size": 8},
    "max_time": {"max_time": 600.0},
    "num_return_sequences": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("seed", [0, slow(1)])
def test_an_option_gives_plain_tokens(model, name, seed) -> None:
    plain = generate(model, False, seed, **OPTIONS[name])
    state = torch.get_rng_state()
    assert torch.equal(generate(model, True, seed, **OPTIONS[name]), plain)
    assert torch.equal(torch.get_rng_state(), state)


class Recorder(LogitsProcessor):
    """Bans what it has allowed too often, and remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], float]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.calls.append((input_ids[0].tolist(), float(scores.sum())))
        scores = scores.clone()
        scores[0, input_ids[0, -(len(self.calls) % 5 + 1)]] -= 3.0
        return scores


def test_a_stateful_processor_sees_exactly_plains_calls(model) -> None:
    plain, ours = Recorder(), Recorder()
    expected = generate(model, False, logits_processor=LogitsProcessorList([plain]))
    text = generate(model, True, logits_processor=LogitsProcessorList([ours]))
    assert torch.equal(text, expected)
    assert [ids for ids, _ in ours.calls] == [ids for ids, _ in plain.calls]
    assert [total for _, total in ours.calls] == pytest.approx([total for _, total in plain.calls], abs=1e-3)
    assert hf.stats(model).accepted_tokens > 0


class Events(StoppingCriteria, transformers.generation.streamers.BaseStreamer):
    """Writes down criteria and streamer calls in the order they come."""

    def __init__(self, stop_at: int) -> None:
        self.log: list[Any] = []
        self.stop_at = stop_at

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.log.append(("criteria", input_ids[0].tolist()))
        return torch.full((1,), input_ids.shape[1] >= self.stop_at)

    def put(self, value: torch.Tensor) -> None:
        self.log.append(("put", value.tolist()))

    def end(self) -> None:
        self.log.append("end")


@pytest.mark.parametrize("stop_at", [31, 36, 43, 500])
def test_criteria_and_streamer_get_the_same_calls_in_the_same_order(model, stop_at) -> None:
    logs = []
    for lookup in (False, True):
        events = Events(stop_at)
        generate(model, lookup, stopping_criteria=[events], streamer=events)
        logs.append(events.log)
    assert logs[0] == logs[1]
    assert hf.stats(model).accepted_tokens > 0 or stop_at == 31


@pytest.mark.parametrize("sampled", [False, True])
def test_scores_and_logits_are_those_of_plain(model, sampled) -> None:
    options = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    options |= {"do_sample": True, "top_k": 9} if sampled else {"repetition_penalty": 1.2}
    plain, ours = generate(model, False, **options), generate(model, True, **options)
    assert torch.equal(ours.sequences, plain.sequences)
    assert type(ours) is type(plain)
    for field in ("scores", "logits"):
        assert len(ours[field]) == len(plain[field])
        for mine, theirs in zip(ours[field], plain[field], strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("recorded", ["attentions", "hidden_states"])
def test_attentions_and_hidden_states_are_plains_and_the_reason_is_logged(recorded, caplog) -> None:
    model = hf.enable(llama())
    model.set_attn_implementation("eager")
    options = {"return_dict_in_generate": True, f"output_{recorded}": True}
    plain, ours = generate(model, False, **options), generate(model, True, **options)
    assert torch.equal(ours.sequences, plain.sequences)
    for mine, theirs in zip(ours[recorded], plain[recorded], strict=True):
        for layer, expected in zip(mine, theirs, strict=True):
            assert torch.equal(layer, expected)
    assert hf.stats(model).plain_reason in caplog.text
    assert f"output_{recorded}" in hf.stats(model).plain_reason


def test_inputs_embeds_with_and_without_ids(model) -> None:
    ids = looping()
    embeds = model.get_input_embeddings()(ids).detach()
    for inputs in ({"inputs_embeds": embeds}, {"inputs_embeds": embeds, "input_ids": ids}):
        texts = [model.generate(**inputs, max_new_tokens=NEW, lookup=lookup) for lookup in (False, True)]
        assert torch.equal(*texts)


def test_a_left_padded_prompt_is_right(model) -> None:
    ids = looping()
    padded = torch.cat([torch.zeros(1, 5, dtype=ids.dtype), ids], dim=1)
    mask = (torch.arange(padded.shape[1]) >= 5).long()[None]
    texts = [model.generate(padded, attention_mask=mask, max_new_tokens=NEW, lookup=lookup) for lookup in (False, True)]
    assert torch.equal(*texts)


def test_the_second_door_needs_no_enabling() -> None:
    model, ids = llama(), looping()
    plain = model.generate(ids, max_new_tokens=NEW)
    assert torch.equal(model.generate(ids, max_new_tokens=NEW, custom_generate=hf.lookup_generate), plain)
    assert not hf.is_enabled(model)
    assert hf.stats(model).generated_tokens == plain.shape[1] - ids.shape[1]
    options = {"lookup": FIXED | {"max_draft": 3}, "custom_generate": hf.lookup_generate}
    assert torch.equal(model.generate(ids, max_new_tokens=NEW, **options), plain)
    assert max(record.draft_tokens for record in hf.stats(model).records) == 3


@pytest.mark.parametrize("lookup", [False, {"max_draft": 2}])
def test_the_second_door_of_an_enabled_model_knows_its_options(lookup, caplog) -> None:
    door = {"max_new_tokens": NEW, "custom_generate": hf.lookup_generate}
    asked, configured = hf.enable(llama(), lookup=FIXED), hf.enable(llama(), lookup=lookup)
    asked.generate(looping(), lookup=lookup, **door)
    configured.generate(looping(), **door)
    for model in (asked, configured):
        widths = [record.draft_tokens for record in hf.stats(model).records]
        assert max(widths, default=0) == (2 if lookup else 0)
    assert "plainly" not in caplog.text


def test_the_second_door_streams_with_a_bound_streamer() -> None:
    model, logs = llama(), []
    for custom in (False, True):
        events = Events(500)
        door = {"custom_generate": partial(hf.lookup_generate, streamer=events)} if custom else {}
        model.generate(looping(), max_new_tokens=NEW, streamer=events, **door)
        logs.append(events.log)
    assert logs[0] == logs[1]


def test_an_exception_in_a_streamer_leaves_the_model_usable(model) -> None:
    class Broken(Events):
        def put(self, value: torch.Tensor) -> None:
            super().put(value)
            if len(self.log) == 9:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(model, True, streamer=Broken(500))
    assert torch.equal(generate(model, True), generate(model, False))
