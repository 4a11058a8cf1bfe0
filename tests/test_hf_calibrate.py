"""The cost of a step can be measured before the first call."""

from functools import wraps
from typing import Any

import pytest
import torch
from tiny import build, llama, mamba2, prompt, t5
from transformers import BloomConfig

from lookahead.plugins import hf, hf_calibrate
from lookahead.plugins.hf_calibrate import calibrate
from lookahead.plugins.hf_state import unwrapped


def test_the_measured_seconds_pace_the_drafts(monkeypatch) -> None:
    """The clock is ours: a pass over w tokens takes 1 + w / 4 seconds."""
    now = [0.0]
    model = hf.enable(llama())
    forward = model.forward

    @wraps(forward)
    def slow(*args: Any, **kwargs: Any) -> Any:
        now[0] += 1 + kwargs["input_ids"].shape[1] / 4
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", slow)
    monkeypatch.setattr(hf_calibrate, "perf_counter", lambda: now[0])
    measured = calibrate(model, context=40, widths=(1, 2, 5))
    assert measured == [(1, 1.25), (2, 1.5), (5, 2.25)]
    cost = model._lookup_state.pacing(model, 1).cost(40)
    assert cost.seconds[[1, 2, 5]] == pytest.approx([1.25, 1.5, 2.25])


def test_calibration_changes_no_text() -> None:
    plain = llama().generate(prompt(), max_new_tokens=20)
    model = hf.enable(llama())
    calibrate(model, context=30, widths=(1, 4), repeats=1)
    assert torch.equal(model.generate(prompt(), max_new_tokens=20), plain)


def test_what_can_not_be_measured_is_said() -> None:
    with pytest.raises(ValueError, match="context must be from 1 to"):
        calibrate(hf.enable(llama()), context=10**6)
    with pytest.raises(ValueError, match="can't be cropped"):
        calibrate(hf.enable(mamba2()), context=20, widths=(1, 2))
    with pytest.raises(ValueError, match="model must be a decoder-only one, got T5"):
        calibrate(hf.enable(t5()), context=20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 0}, "context must be from 1 to 508 tokens for this model, got 0"),
        ({"widths": []}, r"widths must be one or more numbers of tokens from 1 on, got \[\]"),
        ({"widths": [0, 4]}, r"got \[0, 4\]"),
        ({"widths": [512]}, "widths must stay below the model's 512 positions, got 512"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_refused(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        calibrate(hf.enable(llama()), **{"context": 16, "widths": (1, 4), "repeats": 1} | options)


def test_a_model_without_a_limit_of_positions_has_none_in_the_message() -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    with pytest.raises(ValueError, match="context must be at least 1 tokens for this model, got 0"):
        calibrate(hf.enable(build(BloomConfig(**sizes))), context=0)


def test_what_is_measured_of_a_wrapped_model_paces_its_drafts() -> None:
    peft = pytest.importorskip("peft")
    adapters = peft.LoraConfig(r=2, target_modules=["q_proj"])
    for wrapped in (peft.get_peft_model(llama(), adapters).eval(), torch.compile(llama(), backend="eager")):
        hf.enable(wrapped)
        calibrate(wrapped, context=30, widths=(1, 4), repeats=1)
        inner = unwrapped(wrapped)
        assert inner._lookup_state.pacing(inner, 1).cost(30).seconds[4] > 0
        assert list(inner._lookup_state.knowledge._pacings) == ["torch.float32,cpu,1"]
