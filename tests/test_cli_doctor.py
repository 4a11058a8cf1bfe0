"""The doctor says what can be sped up, what can't and why, and whether it pays on the user's own text."""

import json
from typing import Any

import pytest
from cli_fakes import run
from conformance.architectures import small
from tiny import llama, mamba2, mistral

from lookahead.cli import models
from lookahead.cli.advice import advise
from lookahead.cli.chat_logs import as_turns
from lookahead.cost import CostCurve
from lookahead.replay import Recording


class Tokenizer:
    """A token is a character."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) % 64 for char in text]}

    def encode(self, text: str, **options: Any) -> list[int]:
        return self(text)["input_ids"]


def doctor(monkeypatch: pytest.MonkeyPatch, model: Any, *arguments: object) -> Any:
    monkeypatch.setattr(models, "load", lambda *_: (model, Tokenizer()))
    return run("doctor", "--context", 40, *arguments)


def test_a_model_that_can_be_sped_up_is_said_to_be(monkeypatch) -> None:
    text = doctor(monkeypatch, llama()).stdout.decode()
    assert "LlamaForCausalLM (llama)" in text
    assert "(exact within 1e-04)" in text
    assert "Drafts       yes, chains and trees" in text
    assert text.count("#") > 12


@pytest.mark.parametrize(
    ("build", "drafts", "rollback"),
    [(mistral, "yes, chains", "cropped"), (mamba2, "yes, chains", "restored, and accepted tokens read again")],
)
def test_windows_and_states_get_chains(monkeypatch, build, drafts, rollback) -> None:
    text = doctor(monkeypatch, build()).stdout.decode()
    assert f"Drafts       {drafts}\n" in text
    assert f"rejected tokens are {rollback}" in text


def test_a_model_that_can_not_be_is_named_with_the_reason(monkeypatch) -> None:
    done = doctor(monkeypatch, small("mamba"))
    assert (
        "none: every call is decoded plainly, because the multi-token forward of mamba models" in done.stdout.decode()
    )
    assert "not measured here" in done.stdout.decode()


def test_json_is_one_object_with_all_of_it(monkeypatch, tmp_path) -> None:
    data = tmp_path / "log.jsonl"
    data.write_text(json.dumps({"prompt": "abcdefghij" * 4, "output": "abcdefghij" * 6}) + "\n")
    found = json.loads(doctor(monkeypatch, llama(), "--json", "--data", data).stdout)
    assert found["environment"]["transformers"]
    assert [width for width, _ in found["model"]["steps"]][:3] == [1, 2, 3]
    assert found["data"]["items"] == 1
    assert [entry["system"] for entry in found["data"]["settings"]] == [
        "specdec-lookup",
        "transformers",
        "vLLM",
        "llama.cpp",
    ]


def test_advice_says_that_copies_pay_and_noise_does_not() -> None:
    import numpy as np

    copied = np.arange(400, dtype=np.int32)
    noise = np.random.default_rng(1).integers(0, 40_000, 400).astype(np.int32)
    cost = CostCurve.linear(0.05)
    pays = advise([Recording(copied, copied[50:300])], cost)
    assert pays.ours > 3
    assert pays.sentences().startswith("Lookup pays on this text")
    costs_nothing = advise([Recording(noise[:200], noise[200:])], cost)
    assert costs_nothing.ours == pytest.approx(1.0, abs=0.02)
    assert costs_nothing.sentences().startswith("Lookup hardly pays")


def test_references_are_advised_where_they_help() -> None:
    import numpy as np

    passage = np.arange(300, dtype=np.int32)
    with_passage = advise(
        [Recording(np.arange(500, 520, dtype=np.int32), passage, references=(passage,))], CostCurve.linear(0.05)
    )
    assert with_passage.documents is not None
    assert with_passage.documents > 2 * with_passage.ours
    assert '"references": [TEXT, ...]} in every call' in with_passage.sentences()
    assert "references" in with_passage.settings()[0][1]


def test_memory_is_advised_where_outputs_repeat_earlier_ones() -> None:
    import numpy as np

    rng = np.random.default_rng(2)
    outputs = rng.integers(0, 40_000, 300).astype(np.int32)
    prompts = [rng.integers(0, 40_000, 50).astype(np.int32) for _ in range(4)]
    repeated = advise([Recording(prompt, outputs) for prompt in prompts], CostCurve.linear(0.05))
    assert repeated.memory is not None
    assert repeated.memory > 1.5 * repeated.ours
    assert '"remember": True} in every call' in repeated.sentences()
    assert repeated.settings()[0][2] == repeated.memory


def test_prompt_and_output_are_the_source_where_nothing_else_adds() -> None:
    import numpy as np

    copied = np.arange(400, dtype=np.int32)
    advice = advise([Recording(copied, copied[50:300])] * 2, CostCurve.linear(0.05))
    assert "Prompt and output are the source to copy from" in advice.sentences()
    assert advice.settings()[0][:2] == ("specdec-lookup", "hf.enable(model, tokenizer)")


ASKED = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("line", "turns"),
    [
        ({"prompt": "a", "output": "b"}, [("a", "b")]),
        ({"prompt": "a", "response": "b"}, [("a", "b")]),
        ({"prompt": "a", "choices": [{"text": "b"}]}, [("a", "b")]),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, [("a", "b")]),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "a"}]},
                    {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"},
                    {"role": "assistant", "content": "d"},
                ]
            },
            [("a", "b"), ("a\n\nb\n\nc", "d")],
        ),
        (
            {
                "request": {"messages": [{"role": "user", "content": "a"}]},
                "response": {"choices": [{"message": {"role": "assistant", "content": "b"}}]},
            },
            [("a", "b")],
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"},
                ],
                "response": "d",
            },
            [("a\n\nb\n\nc", "d")],
        ),
        ({"messages": [ASKED], "response": ""}, []),
        ({"messages": [ASKED]}, []),
        ({"messages": [ASKED], "choices": [{"message": {"content": [{"type": "text", "text": "b"}]}}]}, [("a", "b")]),
        ({"messages": [ASKED], "choices": [{"message": {"content": None}}]}, []),
        ({"request": {"prompt": "a"}, "response": {"choices": [{"text": "b"}]}}, [("a", "b")]),
        ({"request": {"id": 7}, "prompt": "a", "output": "b"}, [("a", "b")]),
        ({"prompt": "a", "output": {"choices": [{"message": {"content": "b"}}]}}, [("a", "b")]),
        ({"prompt": "a", "response": {"message": {"role": "assistant", "content": "b"}}}, [("a", "b")]),
        ({"messages": [ASKED], "output_ids": [5, 6]}, [("a", [5, 6])]),
        ({"prompt_ids": [5], "output_ids": [6]}, [([5], [6])]),
    ],
)
def test_logs_are_read_in_the_shapes_that_servers_write(line, turns) -> None:
    def either(turn: dict, name: str) -> object:
        return turn.get(name, turn.get(f"{name}_ids"))

    assert [(either(turn, "prompt"), either(turn, "output")) for turn in as_turns(line)] == turns


@pytest.mark.parametrize("given", ["b", {"type": "content", "content": "b"}, {"content": [{"text": "b"}]}])
@pytest.mark.parametrize(
    "line",
    [
        {"prompt": "a", "output": "b"},
        {"messages": [ASKED], "response": "b"},
        {"messages": [ASKED, {"role": "assistant", "content": "b"}]},
        {"request": {"prompt": "a"}, "response": {"choices": [{"text": "b"}]}},
    ],
)
def test_a_prediction_may_be_an_object_and_stand_beside_every_shape(line, given) -> None:
    (turn,) = as_turns({**line, "prediction": given, "references": ["r", [5]]})
    assert turn == {"prompt": "a", "output": "b", "prediction": "b", "references": ["r", [5]]}


def test_what_stands_beside_a_chat_is_meant_for_its_last_answer() -> None:
    answers = [{"role": "assistant", "content": text} for text in "bd"]
    first, last = as_turns({"messages": [ASKED, answers[0], ASKED, answers[1]], "prediction": "d"})
    assert "prediction" not in first
    assert last == {"prompt": "a\n\nb\n\na", "output": "d", "prediction": "d"}


def test_what_a_request_may_be_copied_from_stands_beside_its_answer() -> None:
    asked = {"messages": [{"role": "user", "content": "a"}], "references": ["r"]}
    predicted = {
        "prediction": {"type": "content", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}
    }
    (turn,) = as_turns({"request": asked | predicted, "response": "bc"})
    assert turn == {"prompt": "a", "output": "bc", "prediction": "bc", "references": ["r"]}
    (turn,) = as_turns({**asked, "response": "x", "prediction": "y"})
    assert turn == {"prompt": "a", "output": "x", "prediction": "y", "references": ["r"]}


def test_a_file_without_an_output_is_one_sentence(monkeypatch, tmp_path) -> None:
    data = tmp_path / "log.jsonl"
    data.write_text('{"messages": []}\n')
    done = doctor(monkeypatch, llama(), "--data", data)
    assert done.status == 3
    assert "holds no output of at least 8 tokens" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read: no such file"),
        ('{"prompt": "a", "output": "abcdefghi"}\n{', "line 2 is no JSON"),
        ('{"prompt": "a", "output": "abcdefghi"}\n{"prompt": "a"}', "line 2: output must be text"),
        ('{"prompt": "a", "output": "short"}', "holds no output of at least 8 tokens"),
    ],
)
def test_mistakes_of_the_data_are_named_before_the_model_is_loaded(monkeypatch, tmp_path, text, message) -> None:
    monkeypatch.setattr(models, "load", lambda *_: pytest.fail("the model was loaded"))
    data = tmp_path / "log.jsonl"
    if text is not None:
        data.write_text(text)
    done = run("doctor", "--data", data)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (3, b"", 1)
    assert message in done.stderr
