"""Whatever is drafted, every kind of model and cache writes what plain `generate` writes."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from tiny import MODELS, Random, Scripted, as_argument, cache_of, llama, mamba1, mamba2, mistral, prompt, slow
from transformers.cache_utils import LinearAttentionLayer

from lookahead.plugins import hf, hf_call, hf_check
from lookahead.plugins.hf_cache import CropRollback

NEW = 40


@pytest.fixture(scope="module")
def models() -> dict[str, transformers.PreTrainedModel]:
    return {name: hf.enable(builder()) for name, builder in MODELS.items()}


@pytest.fixture
def draft_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace the proposers of the calls that follow, one for each row."""

    def use(*proposers: Any) -> None:
        monkeypatch.setattr(hf_call, "_proposers", lambda model, call, config: list(proposers))

    return use


def generate(model: Any, ids: torch.Tensor, lookup: Any, seed: int | None = None, **options: Any) -> torch.Tensor:
    if seed is not None:
        torch.manual_seed(seed)
        options |= {"do_sample": True, "temperature": 0.8, "top_p": 0.95}
    options.setdefault("max_new_tokens", NEW)
    return model.generate(ids, lookup=lookup, **options)


def continuation(text: torch.Tensor, ids: torch.Tensor) -> list[int]:
    return text[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [None, 7], ids=["greedy", "sampled"])
def test_lookup_writes_what_plain_generate_writes(models, name, seed) -> None:
    assert torch.equal(generate(models[name], prompt(), True, seed), generate(models[name], prompt(), False, seed))


@pytest.mark.parametrize("name", MODELS)
def test_lookup_takes_fewer_steps(models, name) -> None:
    ids = prompt()
    text = generate(models[name], ids, False)
    again = torch.cat([ids, text[:, ids.shape[1] :], ids], dim=1)[:, -100:]
    options = {"max_new_tokens": 20}
    plain = generate(models[name], again, False, **options)
    reference = continuation(plain, again)
    assert torch.equal(
        generate(models[name], again, {"references": [again[0, -2:].tolist() + reference]}, **options), plain
    )
    assert hf.stats(models[name]).steps < len(reference) - 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [None, 7], ids=["greedy", "sampled"])
@pytest.mark.parametrize("wrong_at", [slow(None), 0, slow(1), 3, slow(6)])
def test_a_draft_that_goes_wrong_at_any_depth_changes_nothing(models, draft_with, name, seed, wrong_at) -> None:
    ids = prompt()
    plain = generate(models[name], ids, False, seed)
    draft_with(Scripted(continuation(plain, ids), 7, wrong_at))
    assert torch.equal(generate(models[name], ids, True, seed), plain)
    stats = hf.stats(models[name])
    if wrong_at:
        assert stats.accepted_tokens > 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [0, slow(1)])
def test_random_drafts_change_nothing(models, draft_with, name, seed) -> None:
    ids = prompt(seed=seed)
    draft_with(Random(seed))
    assert torch.equal(generate(models[name], ids, True), generate(models[name], ids, False))


@pytest.mark.parametrize("name", MODELS)
def test_a_perfect_draft_costs_one_forward_for_its_length(models, draft_with, name) -> None:
    ids = prompt()
    plain = generate(models[name], ids, False)
    emitted = plain.shape[1] - ids.shape[1]
    draft_with(Scripted(continuation(plain, ids), 7, None))
    assert torch.equal(generate(models[name], ids, True), plain)
    assert hf.stats(models[name]).steps == -(-(emitted - 1) // 8)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wrong_at", [slow(0), 2, slow(5)])
def test_a_rejection_costs_no_extra_forward(models, draft_with, name, wrong_at) -> None:
    model, ids, calls = models[name], prompt(), []
    plain = generate(model, ids, False)
    draft_with(Scripted(continuation(plain, ids), 7, wrong_at))
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        generate(model, ids, True)
    finally:
        handle.remove()
    assert len(calls) == 1 + hf.stats(model).steps


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wrong_at", [slow(0), 2, slow(5)])
def test_the_returned_cache_is_that_of_the_text(models, draft_with, name, wrong_at) -> None:
    """A second turn on the returned cache goes on as it does after plain generation."""
    model, ids = models[name], prompt()
    options = {"max_new_tokens": 30, "return_dict_in_generate": True}
    plain = generate(model, ids, False, **options)
    draft_with(Scripted(continuation(plain.sequences, ids), 7, wrong_at))
    ours = generate(model, ids, True, **options)
    assert torch.equal(ours.sequences, plain.sequences)
    if name != "mamba2":  # a recurrent state has no length
        assert cache_of(ours).get_seq_length() == cache_of(plain).get_seq_length()
    with torch.no_grad():
        after = [
            model(input_ids=result.sequences[:, -1:], use_cache=True, **as_argument(cache_of(result), model)).logits
            for result in (plain, ours)
        ]
    torch.testing.assert_close(after[0], after[1], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "gemma3", "lfm2", "falcon_h1"])
def test_static_caches_are_rolled_back(models, draft_with, name) -> None:
    ids = prompt()
    options = {"cache_implementation": "static"}
    plain = generate(models[name], ids, False, **options)
    for wrong_at in (None, 0, 3):
        draft_with(Scripted(continuation(plain, ids), 7, wrong_at))
        assert torch.equal(generate(models[name], ids, True, **options), plain)
    assert hf.stats(models[name]).draft_tokens > 0


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3", "lfm2"])
def test_steps_without_a_draft_are_right_on_a_static_cache_too(models, draft_with, name) -> None:
    """They read one token alone, and the places behind it are empty."""
    options = {"cache_implementation": "static", "eos_token_id": None, "max_new_tokens": 20}
    for seed in range(2):
        ids = prompt(seed=seed)
        plain = generate(models[name], ids, False, **options)
        draft_with(Scripted([], 0, None))
        assert torch.equal(generate(models[name], ids, True, **options), plain)
    assert not hf.stats(models[name]).plain_reason


def test_drafts_stop_where_learned_positions_end(draft_with) -> None:
    model = hf.enable(MODELS["gpt2"]())
    ids = prompt()
    room = model.config.n_positions - ids.shape[1]
    plain = generate(model, ids, False, max_new_tokens=room)
    draft_with(Scripted(continuation(plain, ids), 20, None))
    assert torch.equal(generate(model, ids, True, max_new_tokens=room), plain)


def test_a_user_cache_goes_on_in_the_second_turn(models) -> None:
    for name in ("llama", "mistral", "falcon_h1"):
        turns = []
        for lookup in (False, True):
            cache = as_argument(transformers.DynamicCache(config=models[name].config), models[name])
            first = generate(models[name], prompt(), lookup, **cache, max_new_tokens=20)
            longer = torch.cat([first, prompt(seed=5)], dim=1)
            turns.append(generate(models[name], longer, lookup, **cache, max_new_tokens=20))
        assert torch.equal(*turns), name


def test_a_model_whose_block_forward_is_inexact_is_decoded_plainly(caplog) -> None:
    model, ids = hf.enable(mamba1()), prompt()
    assert torch.equal(generate(model, ids, True), generate(model, ids, False))
    assert "mamba" in hf.stats(model).plain_reason or "mamba" in caplog.text


def test_the_self_check_measures_the_difference() -> None:
    assert hf_check.block_forward_error(mamba2()) < hf_check.block_forward_tolerance(torch.float32)
    assert hf_check.block_forward_error(mamba1()) > hf_check.block_forward_tolerance(torch.float32)


UNMASKED = isinstance(inspect.getattr_static(LinearAttentionLayer, "is_compileable", None), property)


@pytest.mark.skipif(not UNMASKED, reason="this transformers masks a static cache that records its past")
def test_the_self_check_reads_a_token_alone_as_well(monkeypatch) -> None:
    """A static cache whose convolutions record the past gets no mask then, but has one for several tokens."""
    model = MODELS["lfm2"]()
    assert hf_check.block_forward_error(model, static=True) < hf_check.block_forward_tolerance(torch.float32)
    monkeypatch.setattr(hf_check, "rollback_for", CropRollback)
    assert hf_check.block_forward_error(model, static=True) > hf_check.block_forward_tolerance(torch.float32)


def test_what_is_not_drafted_for_runs_plainly_and_says_so_once(caplog) -> None:
    model, ids = hf.enable(llama()), prompt()
    for _ in range(2):
        text = generate(model, ids, True, use_cache=False)
    assert torch.equal(text, generate(model, ids, False, use_cache=False))
    assert caplog.text.count("use_cache") == 1


def test_long_runs_of_rejections_keep_the_replay_bounded(draft_with) -> None:
    model, ids = hf.enable(mamba2()), prompt()
    plain = generate(model, ids, False, max_new_tokens=150)
    draft_with(Scripted(continuation(plain, ids), 7, 5))
    assert torch.equal(generate(model, ids, True, max_new_tokens=150), plain)
    assert max(record.width for record in hf.stats(model).records) <= 32 + 2 * 8


def test_sliding_windows_shorter_than_the_prompt_are_right(draft_with) -> None:
    model, ids = hf.enable(mistral()), prompt(length=60)
    plain = generate(model, ids, False)
    draft_with(Scripted(continuation(plain, ids), 20, 13))
    assert torch.equal(generate(model, ids, True), plain)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_fixed_width_pads_every_step_and_changes_nothing(models, name) -> None:
    model, ids, widths = models[name], prompt(), []
    plain = generate(model, ids, False)
    handle = model.register_forward_pre_hook(
        lambda _, __, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        assert torch.equal(generate(model, ids, {"fixed_width": 6, "draft_per_match": 4}), plain)
    finally:
        handle.remove()
    assert widths[0] == ids.shape[1]
    assert set(widths[1:]) == {6}
    assert hf.stats(model).draft_tokens > 0


def test_a_fixed_width_ends_where_learned_positions_end() -> None:
    model, ids = hf.enable(MODELS["gpt2"]()), prompt()
    room = model.config.n_positions - ids.shape[1]
    plain = generate(model, ids, False, max_new_tokens=room)
    assert torch.equal(generate(model, ids, {"fixed_width": 8}, max_new_tokens=room), plain)


@pytest.mark.parametrize("length", [1, 5, 23, 24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_with_a_fixed_width_no_logit_depends_on_the_drafts(length, dtype, draft_with) -> None:
    """To the last bit: with good drafts, random ones, ones that are wrong at some depth, and none."""
    model, ids = hf.enable(MODELS["llama"]().to(dtype)), prompt(24)[:, :length]
    options = {"max_new_tokens": 40, "eos_token_id": None, "output_logits": True, "return_dict_in_generate": True}
    draft_with(Scripted([], 0, None))
    alone = model.generate(ids, lookup={"fixed_width": 8}, **options)
    text = alone.sequences[0, length:].tolist()
    for proposer in (Scripted(text, 20, None), Scripted(text, 5, 2), Scripted(text, 7, 6), Random(3), Random(4)):
        draft_with(proposer)
        drafted = model.generate(ids, lookup={"fixed_width": 8}, **options)
        assert hf.stats(model).draft_tokens
        assert torch.equal(drafted.sequences, alone.sequences)
        assert torch.equal(torch.stack(drafted.logits), torch.stack(alone.logits))


@pytest.mark.parametrize("name", ["falcon_h1", "mamba2", "lfm2", "mistral", "gemma3"])
def test_a_fixed_width_decodes_what_forgets_positions_plainly(models, name) -> None:
    ids = prompt()
    assert torch.equal(
        generate(models[name], ids, {"fixed_width": 6, "draft_per_match": 4}), generate(models[name], ids, False)
    )
