"""Every text architecture of the installed transformers writes plain's tokens, or says why it is decoded plainly."""

import re
from functools import lru_cache

import pytest
import torch
import transformers
from conformance.architectures import CASES, small
from conformance.claims import CLAIMS
from conformance.table import COLUMNS, RECORDED, outcome, recorded
from conformance.untried import UNTRIED

from lookahead.plugins import hf
from lookahead.plugins.hf_known import EXACT

NAMED = (
    *("llama", "gpt2", "mistral", "gemma2", "gemma3_text", "gpt_oss", "qwen2", "qwen3", "qwen3_moe", "phi3"),
    *("deepseek_v3", "mamba2", "falcon_h1", "granitemoehybrid", "bamba", "zamba2", "nemotron_h", "lfm2", "qwen3_next"),
    *("qwen3_5_text", "t5", "bart (encoder-decoder)"),
)
"""The ones that a release must not lose."""

QUICK = ("gpt_oss", "qwen3_moe", "deepseek_v3", "zamba2", "nemotron_h", "qwen3_next", "bart (encoder-decoder)")
"""The default run tries these beside the tiny models of the other suites, the slow run every case and claim."""

TRIED = [case for case in CASES if case not in UNTRIED]
SAME_VERSION = transformers.__version__ in RECORDED.read_text(encoding="utf-8")
torch.set_num_threads(1)


def _marked(case: str, claim: str) -> object:
    quick = case in QUICK and claim == "greedy"
    return pytest.param(case, claim, marks=() if quick else pytest.mark.slow, id=f"{case}-{claim}")


@lru_cache(maxsize=2)
def model_of(case: str) -> transformers.PreTrainedModel:
    return hf.enable(small(case))


@pytest.mark.parametrize(("case", "claim"), [_marked(case, claim) for case in TRIED for claim in CLAIMS])
def test_the_tokens_are_plains_and_the_table_says_how(case, claim) -> None:
    result = outcome(model_of(case), claim)
    if SAME_VERSION and claim in COLUMNS:
        assert result == recorded()[case][claim]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case in UNTRIED])
def test_what_is_not_tried_still_can_not_be(case) -> None:
    assert not _works(case)


def _works(case: str) -> bool:
    try:
        CLAIMS["greedy"](hf.enable(small(case)))
    except AssertionError:
        raise
    except Exception:
        return False
    return True


def test_the_named_ones_are_drafted_for() -> None:
    table = recorded()
    assert {case for case in NAMED if table[case]["greedy"] != "exact"} == set()
    assert {case for case in NAMED if table[case]["sampled"] != "exact"} == set()


@pytest.mark.slow
def test_what_is_known_to_be_exact_was_seen_to_be() -> None:
    """The self-check is left out for these alone."""
    exact = {small(case).config.model_type for case in TRIED if recorded()[case]["greedy"] == "exact"}
    assert exact == EXACT


def test_the_table_covers_the_version_that_it_names() -> None:
    if SAME_VERSION:
        assert set(recorded()) == set(TRIED)
    assert re.search(r"with transformers 5\.\d+\.\d+", RECORDED.read_text(encoding="utf-8"))
