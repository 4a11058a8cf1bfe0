"""In vLLM's real engine drafts change the speed, never the text."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from edit_requests import LOGS, PRICES, STACK
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm_engines import speculative

from lookahead.plugins.vllm import VllmLookupProposer, extra_args

PROMPTS = [f"Copy this file.\n```python\n{file}```\n\n```python\n" for file in (STACK, PRICES, LOGS)]
ASKED = [
    (STACK, "Rename the class Stack to Pile."),
    (PRICES, "Rename TAX to VAT."),
    (LOGS, "Add a docstring to read_lines."),
]


def greedy(tokens: int = 64, **options: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=tokens, **options)


def texts(engine: Any, prompts: list[Any], params: Any) -> list[list[int]]:
    """The token ids of each output."""
    return [list(output.outputs[0].token_ids) for output in engine.generate(prompts, params, use_tqdm=False)]


def stats(engine: Any) -> dict[str, int]:
    return engine.collective_rpc("lookahead_stats")[0]


def metric(engine: Any, name: str) -> int:
    return sum(int(each.value) for each in engine.get_metrics() if each.name == name)


def test_greedy_text_of_a_real_model_is_that_of_no_speculation(start, real_model) -> None:
    prompts = [f"<|im_start|>user\n{task}\n{file}<|im_end|>\n<|im_start|>assistant\n" for file, task in ASKED]
    plain = texts(start(real_model), prompts, greedy(96))
    engine = start(real_model, speculative())
    assert texts(engine, prompts, greedy(96)) == plain
    assert stats(engine)["accepted"] > 60


@pytest.mark.usefixtures("eager")
def test_greedy_text_of_a_full_batch_is_that_of_no_speculation(start, tiny_model) -> None:
    prompts = [prompt * 2 for prompt in PROMPTS] * 10
    params = [greedy(20 + place, ignore_eos=True) for place in range(len(prompts))]
    assert texts(start(tiny_model, speculative()), prompts, params) == texts(start(tiny_model), prompts, params)


@pytest.mark.usefixtures("eager")
def test_a_prediction_is_drafted_from_and_counted(start, real_model) -> None:
    engine = start(real_model, speculative())
    tokenizer = engine.get_tokenizer()
    prompt = "<|im_start|>user\nWrite a stack.<|im_end|>\n<|im_start|>assistant\n"
    expected = texts(start(real_model), [prompt], greedy(96))[0]
    extra = extra_args(prediction=expected, references=[tokenizer.encode(PRICES)]) | {"lookahead_key": "mine"}
    before = stats(engine)
    assert texts(engine, [prompt], greedy(96, extra_args=extra))[0] == expected
    after = stats(engine)
    accepted, rejected = engine.collective_rpc("lookahead_counts", args=("mine",))[0]
    assert 40 < accepted <= after["accepted"] - before["accepted"]
    assert accepted + rejected <= after["drafted"] - before["drafted"]
    assert engine.collective_rpc("lookahead_counts", args=("mine",))[0] is None


def test_a_request_that_wants_no_drafts_gets_none(start, real_model) -> None:
    engine = start(real_model, speculative())
    before = stats(engine)["drafted"]
    texts(engine, PROMPTS[:1], greedy(32, extra_args=extra_args(enabled=False)))
    assert stats(engine)["drafted"] == before


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "extra",
    [
        {"lookahead_prediction": "no base64!"},
        {"lookahead_prediction": [1.5, "x"]},
        {"lookahead_prediction": [-1, 2]},
        {"lookahead_prediction": [2**40]},
        {"lookahead_prediction": [10**6] * 50},
        {"lookahead_prediction": []},
        {"lookahead_references": "x"},
        {"lookahead_references": [[], [3], "AAAA"]},
        {"lookahead": None, "lookahead_key": 7},
    ],
)
def test_what_a_client_gets_wrong_leaves_the_engine_and_the_text_alone(start, tiny_model, extra) -> None:
    engine = start(tiny_model, speculative())
    prompt = PROMPTS[0][:200]
    assert texts(engine, [prompt], greedy(16, extra_args=extra)) == texts(start(tiny_model), [prompt], greedy(16))


def test_without_the_plugin_indexes_are_found_by_comparison(start, real_model, monkeypatch) -> None:
    monkeypatch.setattr(VllmLookupProposer, "look", lambda self, view: None)
    engine = start(real_model, speculative())
    before = stats(engine)["accepted"]
    assert texts(engine, PROMPTS, greedy(48)) == texts(start(real_model), PROMPTS, greedy(48))
    assert stats(engine)["accepted"] - before > 30


@pytest.mark.usefixtures("eager")
def test_preempted_requests_go_on_with_the_same_text_and_nothing_is_left(start, tiny_model) -> None:
    prompts = [f"{place} {PROMPTS[place % 3]}"[:160] for place in range(64)]
    params = greedy(200, ignore_eos=True)
    plain = texts(start(tiny_model), prompts, params)
    engine = start(tiny_model, speculative(8), kv_cache_memory_bytes=3 * 2**20)  # the metrics are the latest engine's
    assert texts(engine, prompts, params) == plain
    assert metric(engine, "vllm:num_preemptions") > 0
    texts(engine, prompts[:1], greedy(4))
    assert stats(engine)["rows"] == 1
    assert stats(engine)["bytes"] < 2**20


def test_aborted_requests_leave_nothing(start, tiny_model) -> None:
    engine = start(tiny_model, speculative())
    ids = [str(10**6 + place) for place in range(8)]
    for name in ids:
        engine.llm_engine.add_request(name, PROMPTS[0], greedy(200))
    for _ in range(5):
        engine.llm_engine.step()
    assert stats(engine)["rows"] == 8
    engine.llm_engine.abort_request(ids)
    texts(engine, PROMPTS[:1], greedy(4))
    assert stats(engine)["rows"] == 1


def test_no_text_outlives_its_request_on_a_server_without_others(start, tiny_model) -> None:
    engine = start(tiny_model, speculative())
    params = greedy(4, extra_args=extra_args(prediction=range(5, 100)))
    texts(engine, PROMPTS, params)
    engine.llm_engine.step()  # as the server does once more when the last request has ended
    assert (stats(engine)["rows"], stats(engine)["bytes"]) == (0, 0)


@pytest.mark.usefixtures("eager")
def test_a_text_may_reach_the_longest_length(start, tiny_model) -> None:
    """Two requests end at the limit of the model, at different times, and one long before."""
    prompts = [PROMPTS[0] * 2, PROMPTS[1] * 2, "short"]
    params = [greedy(1000, ignore_eos=True), greedy(1000, ignore_eos=True), greedy(40, ignore_eos=True)]
    plain = texts(start(tiny_model, max_model_len=320), prompts, params)
    assert texts(start(tiny_model, speculative(), max_model_len=320), prompts, params) == plain


@pytest.mark.usefixtures("eager")
def test_memory_stays_within_the_budget(start, tiny_model) -> None:
    options = {"lookahead": {"index_bytes": 300_000}}
    engine = start(tiny_model, speculative(), additional_config=options)
    prompts = [f"{place} {PROMPTS[place % 3]}" for place in range(24)]
    assert texts(engine, prompts, greedy(40)) == texts(start(tiny_model), prompts, greedy(40))
    assert stats(engine)["bytes"] <= 300_000


@pytest.mark.parametrize(
    ("shape", "valid"),
    [
        ({"regex": r"[a-z]{3,9}@(mail|post)\.(com|org)"}, re.compile(r"[a-z]{3,9}@(mail|post)\.(com|org)").fullmatch),
        (
            {
                "json": {
                    "type": "object",
                    "properties": {
                        "name": {"enum": ["Ann", "Bob"]},
                        "ages": {"type": "array", "maxItems": 3, "items": {"enum": [1, 2, 30]}},
                    },
                    "required": ["name", "ages"],
                    "additionalProperties": False,
                }
            },
            lambda text: set(json.loads(text)) == {"name", "ages"},
        ),
    ],
    ids=["regex", "json"],
)
def test_structured_output_is_valid_and_that_of_no_speculation(start, real_model, shape, valid) -> None:
    example = 'For example ann@mail.org or {"name": "Ann", "ages": [1, 2, 30]}. '
    prompts = [f"{example * 3}Now answer: {place}" for place in range(4)]
    params = greedy(60, structured_outputs=StructuredOutputsParams(**shape))
    engine = start(real_model, speculative())
    outputs = engine.generate(prompts, params, use_tqdm=False)
    assert all(valid(output.outputs[0].text) for output in outputs)
    assert [list(output.outputs[0].token_ids) for output in outputs] == texts(start(real_model), prompts, params)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("cached", [False, True])
def test_samples_follow_the_law_of_no_speculation(start, model_of_eight_tokens, cached) -> None:
    """Joint counts of three tokens, the last two drafted, with temperature and top-k; all but one may be cached."""
    sampling = {"temperature": 0.8, "top_k": 4, "max_tokens": 3, "ignore_eos": True, "detokenize": False}
    counts = []
    for config in (None, speculative(4)):
        engine = start(model_of_eight_tokens, config, skip_tokenizer_init=True)
        length = engine.llm_engine.vllm_config.cache_config.block_size + 1 if cached else 45
        prompt = {"prompt_token_ids": ([0, 1, 3, 4, 5, 6, 7, 2, 4, 1, 7, 0, 5, 3, 6] * 60)[:length]}
        engine.generate([prompt], SamplingParams(**sampling), use_tqdm=False)  # so that it is
        before = stats(engine)["drafted"] if config else 0
        outputs = engine.generate(
            [prompt] * 2000, [SamplingParams(**sampling, seed=seed) for seed in range(2000)], use_tqdm=False
        )
        assert {output.num_cached_tokens for output in outputs} == {length - 1 if cached else 0}
        counts.append(Counter(tuple(output.outputs[0].token_ids) for output in outputs))
    assert stats(engine)["drafted"] - before > 500
    plain, ours = counts
    cells = [text for text in set(plain) | set(ours) if plain[text] + ours[text] >= 10]
    distance = sum((plain[text] - ours[text]) ** 2 / (plain[text] + ours[text]) for text in cells)
    assert len(cells) > 10
    assert distance < len(cells) + 4 * (2 * len(cells)) ** 0.5
