"""The benchmark measures plain decoding, the built-in prompt lookup and ours by turns, and says so in one table."""

import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from cli_fakes import Run, environment
from tiny import llama, mamba2

from lookahead.cli import models
from lookahead.cli.bench_generate import _row
from lookahead.cli.bench_measure import Measured
from lookahead.cli.bench_prompts import TASKS, prompts
from lookahead.cli.chart import bar_chart
from lookahead.cli.main import main


class Tokenizer:
    """A token is a character; no chat template, nothing special."""

    all_special_tokens = ()

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) % 64 for char in text][-200:]}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "load", lambda *_: (llama(), Tokenizer()))


def bench(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Run:
    from lookahead.cli import bench as command

    surroundings = environment()
    monkeypatch.setattr(command.Environment, "from_system", classmethod(lambda cls: surroundings))
    status = main(["bench", "generate", "--tokens", "12", "--repeats", "2", *map(str, arguments)], surroundings)
    return Run(status, surroundings.stdout.getvalue(), surroundings.stderr.getvalue())


def test_every_task_has_a_line_for_every_method_and_all_texts_are_plains(monkeypatch) -> None:
    lines = [json.loads(line) for line in bench(monkeypatch, "--json").stdout.splitlines()]
    assert [(line["task"], line["method"]) for line in lines] == [
        (task, method) for task in TASKS for method in ("plain", "builtin", "ours")
    ]
    for line in lines:
        assert line["runs"] == 2 * len(prompts(line["task"]))
        assert line["tokens_per_second"] > 0
        low, high = line["tokens_per_second_range"]
        assert low <= line["tokens_per_second_median"] <= high
        if line["method"] != "builtin":
            assert line["same_tokens"] == line["runs"]
        assert (line["acceptance_rate"] is not None) == (line["method"] == "ours")
        assert line["tokens_per_step"] == 1 if line["method"] == "plain" else line["tokens_per_step"] >= 1
    assert {line["speedup"] for line in lines if line["method"] == "plain"} == {1.0}


def test_the_table_has_a_heading_and_the_machine_stands_on_stderr(monkeypatch) -> None:
    done = bench(monkeypatch, "--tasks", "chat", "--methods", "ours")
    heading, *rows = done.stdout.decode().splitlines()
    assert heading.split()[:3] == ["task", "method", "tokens/s"]
    assert [row.split()[:2] for row in rows] == [["chat", "plain"], ["chat", "ours"]]
    assert "CPUs" in done.stderr
    assert "LlamaForCausalLM, float32, on cpu" in done.stderr


def test_own_prompts_are_measured(monkeypatch, tmp_path) -> None:
    data = tmp_path / "mine.jsonl"
    data.write_text('{"prompt": "abc abc abc"}\n{"before": "x = 1", "instruction": "Rename x."}\n')
    lines = [json.loads(line) for line in bench(monkeypatch, "--json", "--data", data).stdout.splitlines()]
    assert {(line["task"], line["runs"]) for line in lines} == {("mine", 4), ("chat", 2 * len(prompts("chat")))}


def test_own_prompts_are_told_apart_from_the_chat_that_always_comes_too(monkeypatch, tmp_path) -> None:
    data = tmp_path / "chat.jsonl"
    data.write_text('{"prompt": "abc abc abc", "before": "x = 1", "instruction": null}\n')
    done = bench(monkeypatch, "--json", "--data", data, "--methods", "ours", "--repeats", 1)
    runs = {line["task"]: line["runs"] for line in map(json.loads, done.stdout.splitlines())}
    assert runs == {"your chat": 1, "chat": len(prompts("chat"))}


def test_what_the_model_refuses_is_not_measured(monkeypatch) -> None:
    """transformers' prompt lookup is not for models that keep a state."""
    monkeypatch.setattr(models, "load", lambda *_: (mamba2(), Tokenizer()))
    done = bench(monkeypatch, "--tasks", "chat")
    rows = [row.split()[:2] for row in done.stdout.decode().splitlines()[1:]]
    assert rows == [["chat", "plain"], ["chat", "ours"]]
    assert "builtin is not measured: assisted generation is not supported" in done.stderr


@pytest.mark.parametrize(
    ("line", "arguments", "words"),
    [
        ({"prompt": 5}, [], "prompt must be text, got 5"),
        ({"before": ["x"]}, [], "before must be text"),
        ({"before": "x", "instruction": 5}, [], "instruction must be text, got 5"),
        ({"prompt": "a"}, ["--plot", "nowhere/x.svg"], "--plot nowhere/x.svg can't be written"),
        ({"prompt": "a"}, ["--plot", "/"], "--plot / can't be written (is a directory)"),
        ({"prompt": "a"}, ["--tokens", 10**6], "--tokens 1000000 is beyond the model's context of "),
    ],
)
def test_mistakes_are_named_before_anything_is_measured(monkeypatch, tmp_path, line, arguments, words) -> None:
    data = tmp_path / "mine.jsonl"
    data.write_text(json.dumps(line))
    done = bench(monkeypatch, "--data", data, *arguments)
    assert done.status != 0
    assert done.stdout == b""
    assert words in done.stderr


def test_columns_stand_apart_however_fast_a_model_is() -> None:
    fast = Measured(speeds=[10_762.3, 20_762.3], prefills=[0.1, 0.1], tokens=20, seconds=0.001, same=2)
    assert _row("edit", "plain", fast, fast).decode().split()[:5] == ["edit", "plain", "15762.3", "10762.3", "to"]


def test_chat_is_measured_whatever_is_asked_for(monkeypatch) -> None:
    lines = [json.loads(line) for line in bench(monkeypatch, "--json", "--tasks", "rewrite").stdout.splitlines()]
    assert list(dict.fromkeys(line["task"] for line in lines)) == ["rewrite", "chat"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "as JSON lines"),
        ("[1]", "every line needs a prompt"),
        ("", "every line needs"),
        ('{"before": "x = 1"}', "every line needs a prompt, or before and instruction"),
        ('{"before": "x = 1", "instruction": null}', "every line needs a prompt, or before and instruction"),
    ],
)
def test_a_file_that_holds_no_prompts_is_one_sentence(monkeypatch, tmp_path, content, message) -> None:
    data = tmp_path / "mine.jsonl"
    data.write_text(content)
    done = bench(monkeypatch, "--data", data)
    assert done.status == 3
    assert message in done.stderr


def test_the_chart_is_a_picture_of_the_speeds(monkeypatch, tmp_path) -> None:
    bench(monkeypatch, "--tasks", "chat", "--plot", tmp_path / "speed.svg")
    root = ElementTree.parse(tmp_path / "speed.svg").getroot()
    bars = list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    assert len(bars) == 3
    assert max(int(bar.get("width", 0)) for bar in bars) == 360


def test_a_chart_shows_names_as_they_are() -> None:
    chart = bar_chart("a < b", "x", {"t&u": {"<m>": 1.0}})
    assert "a &lt; b" in chart
    assert ElementTree.fromstring(chart) is not None
