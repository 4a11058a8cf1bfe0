"""In a batch each row drafts and advances by itself, and writes what it writes in plain batched generation."""

from typing import Any

import pytest
import torch
from test_defects import letters
from tiny import MODELS, Random, Scripted, as_argument, falcon_h1, gemma3, gpt2, llama, mistral, prompt, slow
from transformers import DynamicCache, GenerationConfig
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
from transformers.generation.stopping_criteria import MaxLengthCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from lookahead.plugins import hf, hf_call
from lookahead.plugins.hf_batch import HFBatchTarget
from lookahead.plugins.hf_output import HFOutput

NEW = 32
ATTENTION = {builder.__name__: builder for builder in (llama, gpt2, mistral, gemma3)}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {name: hf.enable(builder()) for name, builder in ATTENTION.items()}


def ragged(rows: int = 4, seed: int = 0) -> dict[str, torch.Tensor]:
    """Prompts of different lengths, padded on the left."""
    lengths = [24, 10, 18, 30, 14, 22, 28, 12][:rows]
    ids, mask = torch.zeros(rows, max(lengths), dtype=torch.long), torch.zeros(rows, max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, -length:] = prompt(length, seed=seed + row)
        mask[row, -length:] = 1
    return {"input_ids": ids, "attention_mask": mask}


def generate(model: Any, lookup: Any, rows: int = 4, seed: int = 0, **options: Any) -> torch.Tensor:
    torch.manual_seed(seed)
    options = {"max_new_tokens": NEW, "eos_token_id": [1, 9, 30], "pad_token_id": 0, **options}
    lookup = {"draft_per_match": 4} if lookup is True else lookup  # a rule that looks at no clock
    return model.generate(**ragged(rows, seed), lookup=lookup, **options)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("seed", [0, slow(1)])
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
def test_rows_equal_plain_batched_rows(models, name, seed, sampled) -> None:
    options = {"do_sample": True, "top_k": 8, "repetition_penalty": 1.1} if sampled else {}
    plain = generate(models[name], False, seed=seed, **options)
    state = torch.get_rng_state()
    assert torch.equal(generate(models[name], True, seed=seed, **options), plain)
    assert torch.equal(torch.get_rng_state(), state)
    assert not hf.stats(models[name]).plain_reason


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("depths", [(None, 0, 3, None), slow((0, 0, 0, 0)), (5, 4, 3, 2), slow((None,) * 4)])
def test_rows_may_accept_different_lengths(models, name, depths, monkeypatch) -> None:
    plain = generate(models[name], False)
    start = ragged()["input_ids"].shape[1]
    scripts = [Scripted(plain[row, start:].tolist(), 3 + row, depth) for row, depth in enumerate(depths)]
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: scripts)
    assert torch.equal(generate(models[name], True), plain)
    assert hf.stats(models[name]).draft_tokens > 0


def test_holes_are_masked_until_they_are_many_and_then_closed(models, monkeypatch) -> None:
    """One row accepts whole drafts and three accept nothing: the cache holds a quarter more than the longest text."""
    model, lengths = models["llama"], []
    plain = generate(model, False, max_new_tokens=96, eos_token_id=None)
    start = ragged()["input_ids"].shape[1]
    scripts = [Scripted(plain[row, start:].tolist(), 3, 0 if row else None) for row in range(4)]
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: scripts)
    commit = HFBatchTarget.commit

    def noted(target: HFBatchTarget, emitted: Any) -> None:
        commit(target, emitted)
        if target._text:
            lengths.append((target.cache.get_seq_length(), max(target._text)))

    monkeypatch.setattr(HFBatchTarget, "commit", noted)
    assert torch.equal(generate(model, True, max_new_tokens=96, eos_token_id=None), plain)
    assert any(held > longest for held, longest in lengths)
    assert all(held <= 1.25 * longest for held, longest in lengths)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("seed", [0, slow(1)])
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
def test_random_drafts_change_no_row(models, name, seed, sampled, monkeypatch) -> None:
    options = {"do_sample": True, "top_p": 0.9} if sampled else {}
    plain = generate(models[name], False, rows=8, seed=seed, **options)
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: [Random(seed * 8 + row) for row in range(8)])
    assert torch.equal(generate(models[name], True, rows=8, seed=seed, **options), plain)


def test_fewer_steps_than_plain_and_neither_ended_rows_nor_padding_are_read(models) -> None:
    model, read = models["llama"], []
    handle = model.register_forward_pre_hook(
        lambda _, __, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        text = generate(model, True, rows=8)
    finally:
        handle.remove()
    stats = hf.stats(model)
    assert stats.steps < text.shape[1] - ragged(8)["input_ids"].shape[1] - 1
    assert [record.rows + record.draft_tokens for record in stats.records] == read[1:]
    assert stats.records[-1].rows < 8
    assert stats.generated_tokens == int((text[:, ragged(8)["input_ids"].shape[1] :] != 0).sum())


def test_figures_of_plain_batches_are_counted_alike(models) -> None:
    generate(models["llama"], False, rows=8)
    plain = hf.stats(models["llama"])
    generate(models["llama"], True, rows=8)
    ours = hf.stats(models["llama"])
    assert (plain.generated_tokens, plain.rows, plain.mean_acceptance_length) == (ours.generated_tokens, 8, 1.0)
    assert ours.mean_acceptance_length > 1


class Columns(BaseStreamer):
    def __init__(self) -> None:
        self.log: list[Any] = []

    def put(self, value: torch.Tensor) -> None:
        self.log.append(value.tolist())

    def end(self) -> None:
        self.log.append("end")


def test_a_streamer_gets_plains_columns(models) -> None:
    logs = []
    for lookup in (False, True):
        streamer = Columns()
        generate(models["llama"], lookup, streamer=streamer)
        logs.append(streamer.log)
    assert logs[0] == logs[1]


def test_several_sequences_of_one_prompt(models) -> None:
    for lookup in (False, True):
        torch.manual_seed(1)
        text = models["llama"].generate(
            prompt(), do_sample=True, num_return_sequences=5, max_new_tokens=NEW, lookup=lookup
        )
        if not lookup:
            plain = text
    assert torch.equal(text, plain)
    assert not hf.stats(models["llama"]).plain_reason


def test_sampling_keeps_the_lead_of_fast_rows_within_its_memory(models, monkeypatch) -> None:
    from lookahead.plugins import hf_noise

    monkeypatch.setattr(hf_noise, "_BUDGET", 0)
    options = {"do_sample": True, "top_k": 5}
    plain = generate(models["llama"], False, **options)
    scripts = [Scripted(plain[row, 30:].tolist(), 20, None if row == 0 else 0) for row in range(4)]
    monkeypatch.setattr(hf_call, "_proposers", lambda *_: scripts)
    assert torch.equal(generate(models["llama"], True, **options), plain)
    assert max(record.draft_tokens for record in hf.stats(models["llama"]).records) < 20 + 3 * 8


class Anything(LogitsProcessor):
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - input_ids.float().mean()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"logits_processor": [Anything()]}, "Anything sees all rows"),
        ({"max_time": 100.0}, "criteria see all rows"),
        ({"return_dict_in_generate": True}, "returned row-aligned"),
        ({"cache_implementation": "static"}, "can't be realigned in StaticLayer"),
        ({"prefix_allowed_tokens_fn": lambda row, ids: [row + 2, row + 3]}, "PrefixConstrained"),
    ],
)
def test_what_needs_all_rows_at_once_runs_plainly(options, reason) -> None:
    model = hf.enable(llama())
    plain, ours = generate(model, False, **options), generate(model, True, **options)
    assert reason in hf.stats(model).plain_reason
    assert torch.equal(getattr(ours, "sequences", ours), getattr(plain, "sequences", plain))


def test_a_batch_padded_on_the_right_runs_plainly() -> None:
    model, inputs = hf.enable(llama()), ragged()
    flipped = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"].flip(1)}
    texts = [model.generate(**flipped, max_new_tokens=9, lookup=lookup) for lookup in (False, True)]
    assert torch.equal(*texts)
    assert "padded on the left" in hf.stats(model).plain_reason


def test_recurrent_batches_run_plainly() -> None:
    model = hf.enable(falcon_h1())
    assert torch.equal(generate(model, True), generate(model, False))
    assert "LinearAttention" in str(model._lookup_state.logged)


def test_every_tiny_model_is_covered_by_one_of_the_two_claims() -> None:
    assert set(ATTENTION) < set(MODELS)


def test_the_mask_of_a_batch_lies_where_the_model_does(monkeypatch) -> None:
    """Prompts may lie elsewhere, where hooks carry what a forward reads; no tensor can lie on a second CPU."""
    model, inputs = llama(), ragged()
    criteria = StoppingCriteriaList([MaxLengthCriteria(40)])
    config = GenerationConfig(do_sample=False)
    config._pad_token_tensor = None
    output = HFOutput(inputs["input_ids"], LogitsProcessorList(), criteria, config, None)
    kwargs = {"attention_mask": inputs["attention_mask"], **as_argument(DynamicCache(config=model.config), model)}
    with monkeypatch.context() as elsewhere, torch.no_grad():
        elsewhere.setattr(type(model), "device", torch.device("meta"))
        target = HFBatchTarget(model, output, config, {**kwargs, "use_cache": True}, 40)
        elsewhere.undo()
        target.prefill()
    assert target._seen.device == target._leading([1, 2, 1, 3], 3).device == torch.device("meta")
    assert target._text == [24, 10, 18, 30]


@pytest.mark.usefixtures("eager")
def test_the_tokenizer_of_stop_strings_leaves_a_batch_its_drafts() -> None:
    ids = torch.cat([prompt(24, seed=seed) for seed in range(2)])
    options = {"stop_strings": ["AB"], "tokenizer": letters(), "max_new_tokens": 24, "eos_token_id": 1}
    plain = llama().generate(ids, pad_token_id=0, **options)
    model = hf.enable(llama())
    assert torch.equal(model.generate(ids, pad_token_id=0, lookup={"draft_per_match": 4}, **options), plain)
    assert not hf.stats(model).plain_reason
    assert hf.stats(model).draft_tokens > 0
