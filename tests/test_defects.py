"""What the built-in prompt lookup of transformers gets wrong, one claim for each: ours writes plain's tokens there."""

from typing import Any

import pytest
import tokenizers
import torch
import transformers
from conformance.test_images import inputs_for, seeing
from tiny import Scripted, as_argument, falcon_h1, gpt2, llama, prompt, slow, t5
from transformers.generation.stopping_criteria import StoppingCriteria

from lookahead.plugins import hf, hf_call

NEW = 40
SETTINGS = {"max_new_tokens": NEW, "eos_token_id": None, "pad_token_id": 0}


@pytest.fixture(scope="module")
def model() -> Any:
    return hf.enable(llama())


def both(model: Any, ids: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    """Generate plainly and with lookup; return the text when both are the same."""
    inputs = options.pop("inputs", None) or {"input_ids": prompt() if ids is None else ids}
    plain, ours = (model.generate(**inputs, lookup=lookup, **SETTINGS | options) for lookup in (False, True))
    assert torch.equal(ours, plain)
    return ours


def drafted(model: Any) -> bool:
    stats = hf.stats(model)
    return not stats.plain_reason and stats.draft_tokens > 0


LETTERS = "".join(map(chr, range(ord("!"), ord("!") + 26))) + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"


def letters() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer whose tokens are single letters."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(LETTERS)}, []))
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def test_stop_strings_never_stop_it(model) -> None:
    text = both(model)[0, prompt().shape[1] :].tolist()
    stop = "".join(LETTERS[token] for token in text[9:12])
    assert both(model, stop_strings=[stop], tokenizer=letters()).shape[1] <= prompt().shape[1] + 12
    assert drafted(model)


class Enough(StoppingCriteria):
    """Stops after 17 new tokens."""

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), input_ids.shape[1] >= prompt().shape[1] + 17)


def test_custom_stopping_criteria_overshoot(model, monkeypatch) -> None:
    text = both(model)[0, prompt().shape[1] :].tolist()
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted(text, 7, None)])
    assert both(model, stopping_criteria=[Enough()]).shape[1] == prompt().shape[1] + 17
    assert drafted(model)


def test_a_prefilled_cache_with_full_ids_gives_wrong_text(model) -> None:
    texts = []
    for lookup in (False, True):
        cache = as_argument(transformers.DynamicCache(config=model.config), model)
        with torch.no_grad():
            model(input_ids=prompt()[:, :15], use_cache=True, **cache)
        texts.append(model.generate(prompt(), **cache, lookup=lookup, **SETTINGS))
    assert torch.equal(*texts)
    assert torch.equal(texts[0], both(model))
    assert drafted(model)


def test_guidance_scale_gives_wrong_text(model) -> None:
    assert not torch.equal(both(model, guidance_scale=2.0), both(model))
    both(model, guidance_scale=2.0)
    assert drafted(model)


def test_inputs_embeds_with_input_ids_gives_wrong_text(model) -> None:
    embeds = model.get_input_embeddings()(prompt()).detach() * 1.5
    guided = both(model, inputs={"inputs_embeds": embeds, "input_ids": prompt()})
    assert drafted(model)
    assert not torch.equal(guided, both(model))


def test_an_image_placeholder_drafted_for_a_vlm_crashes() -> None:
    model = hf.enable(seeing("llava"))
    both(model, inputs=inputs_for(model))
    assert drafted(model)


def test_a_static_cache_raises_near_the_limit_because_the_draft_ignores_the_room_left(model, monkeypatch) -> None:
    text = both(model)[0, prompt().shape[1] :].tolist()
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted([*text, *text], 20, None)])
    both(model, cache_implementation="static")
    assert drafted(model)


def test_learned_positions_raise_near_the_limit_because_the_draft_ignores_the_room_left(monkeypatch) -> None:
    model = hf.enable(gpt2())
    room = model.config.n_positions - prompt().shape[1]
    text = both(model, max_new_tokens=room)[0, prompt().shape[1] :].tolist()
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted([*text, *text], 20, None)])
    both(model, max_new_tokens=room)
    assert drafted(model)


@pytest.mark.parametrize("option", [{"top_p": 0.5}, {"top_h": 0.3}], ids=str)
def test_its_filter_takes_tokens_that_top_p_and_top_h_allow_for_forbidden(model, option, monkeypatch) -> None:
    torch.manual_seed(0)
    plain = model.generate(prompt(), do_sample=True, lookup=False, **option, **SETTINGS)
    text = plain[0, prompt().shape[1] :].tolist()
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Scripted(text, 7, None)])
    torch.manual_seed(0)
    assert torch.equal(model.generate(prompt(), do_sample=True, lookup=True, **option, **SETTINGS), plain)
    assert hf.stats(model).accepted_tokens == hf.stats(model).draft_tokens > 0


def test_recurrent_hybrids_are_refused() -> None:
    model = hf.enable(falcon_h1())
    both(model)
    assert drafted(model)


@pytest.mark.parametrize("backend", [slow("quanto"), "hqq", "fp8"])  # quanto compiles for a minute
def test_quantized_caches_are_refused(model, backend) -> None:
    settings = {"backend": backend} if backend == "fp8" else {"backend": backend, "nbits": 4, "q_group_size": 8}
    both(model, cache_implementation="quantized", cache_config=settings)
    assert drafted(model)


def test_encoder_decoder_models_never_look_at_the_encoders_text() -> None:
    model = t5()
    for name, parameter in model.named_parameters():
        if "EncDecAttention.o" in name:
            torch.nn.init.zeros_(parameter)
    hf.enable(model)
    text = both(model)
    assert torch.equal(both(model, text), text)
    assert hf.stats(model).steps < NEW // 2


def test_no_draft_ends_at_the_end_of_sequence(model, monkeypatch) -> None:
    end, drafts = 33, []
    propose = hf_call.LookupProposer.propose

    def watched(self: Any, room: int) -> Any:
        draft = propose(self, room)
        drafts.append(draft)
        return draft

    monkeypatch.setattr(hf_call.LookupProposer, "propose", watched)
    everything_ends = [token for first in range(2, 64) for token in (first, end, 5, 6)]
    settings = SETTINGS | {"eos_token_id": end}
    plain = model.generate(prompt(), lookup=False, **settings)
    assert torch.equal(model.generate(prompt(), lookup={"references": [everything_ends]}, **settings), plain)
    assert any(end in draft.tokens for draft in drafts)
    for draft in drafts:
        parents = draft.parents or range(-1, len(draft) - 1)
        assert end not in {draft.tokens[parent] for parent in parents if parent >= 0}
