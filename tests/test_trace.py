"""A trace holds every step of a run, whole and true, however the run ends."""

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import environment, run
from tiny import llama, mistral

from lookahead.cli import models
from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError
from lookahead.cli.generation import Generator, Sampling
from lookahead.cli.shared_prefix import SharedPrefix, shared_length
from lookahead.cli.trace import VERSION, Places, Trace
from lookahead.cli.trace_file import read_trace, tracing
from lookahead.stats import DecodingStats, StepRecord

PROMPT = [5, 6, 7, 8, 9, 10, 11] * 4


class Letters:
    """A token is a character, of which there are 64."""

    chat_template = None

    def __call__(self, text: str, add_special_tokens: bool = False) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) % 64 for char in text]}

    def decode(self, ids: list[int], **options: bool) -> str:
        return "".join(chr(48 + number) for number in ids)


def entries(trace: Trace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.lines()]


def traced(*, lookup: Any = True, streamer: Any = None, **arguments: Any) -> list[dict[str, Any]]:
    trace = Trace("generate", {"seed": 1})
    generator = Generator(llama(), Letters(), Sampling(), lookup=bool(lookup), trace=trace)
    arguments |= {"lookup": lookup} if isinstance(lookup, dict) else {}
    generator.complete(PROMPT, 40, streamer, "a name", **arguments)
    return entries(trace)


def test_the_texts_of_the_steps_make_up_the_output():
    header, generation, prefill, *steps, end = traced()
    assert (header["kind"], header["version"], header["command"]) == ("trace", VERSION, "generate")
    assert header["model"]["class"].endswith("LlamaForCausalLM")
    assert (generation["name"], generation["texts"]) == ("a name", {"prompt": Letters().decode(PROMPT)})
    assert {step["kind"] for step in steps} == {"step"}
    assert prefill["text"] + "".join(step["text"] for step in steps) == end["output"]
    assert len(end["output"]) == end["stats"]["generated_tokens"] == 40
    assert end["finish"] == "length"


def test_the_figures_of_the_steps_are_those_of_the_generation():
    *_, end = found = traced()
    steps = [entry for entry in found if entry["kind"] == "step"]
    for name, total in (("drafted", "draft_tokens"), ("accepted", "accepted_tokens")):
        assert sum(step[name] for step in steps) == end["stats"][total] > 0
    assert len(steps) == end["stats"]["steps"]


def spans(found: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every copied span as the output has it, and where the trace says that it stood."""
    for step in (entry for entry in found if entry["kind"] == "step"):
        at = 0
        for span in step["copied"]:
            yield step["text"][at : at + span["characters"]], span
            at += span["characters"]
        assert at == step["accepted_characters"] == step["accepted"]


def plain_output(prompt: list[int] = PROMPT) -> list[int]:
    text = Generator(llama(), Letters(), Sampling(), lookup=False).complete(prompt, 40).text
    return [ord(char) - 48 for char in text]


@pytest.mark.parametrize("source", ["prompt", "prediction", "reference 2"])
def test_what_was_copied_stands_where_the_trace_says(source):
    lookup: Any = True
    if source == "prediction":
        lookup = {"prediction": plain_output()}
    elif source == "reference 2":
        lookup = {"references": [[7, 7, 7], [50, *plain_output(), 51]]}
    found = traced(lookup=lookup)
    texts = {**found[1]["texts"], "output": found[-1]["output"]}
    named = set()
    for text, span in spans(found):
        named.add(span["from"])
        assert texts[span["from"]][span["start"] : span["end"]] == text
    assert named <= {"prompt", "output", "prediction", "reference 1", "reference 2"}
    assert source in named or source == "prompt"
    assert named


def test_origins_of_all_kinds_are_told_apart():
    texts = {"prompt": [1, 2, 3], "prediction": [4, 5], "reference 1": [6, 7], "output": [3, 4, 5, 7, 1, 2, 3, 9, 8]}
    stats = DecodingStats(reference_starts=(0,), text_start=8)  # 6 7 | frame 4 5 frame | 1 2 3 ...
    places = Places(Letters(), texts, stats)
    step = StepRecord(8, 8, 9, 9, "context", 1, 0.0, 0.0, origins=(5, 6, 1, 8, 9, 10, 11, -3))
    names = [(span["characters"], span["from"], span.get("start"), span.get("end")) for span in places.copied(step, 1)]
    assert names == [
        (2, "prediction", 0, 2),
        (1, "reference 1", 1, 2),
        (3, "prompt", 0, 3),
        (1, "output", 0, 1),
        (1, "memory", None, None),
    ]


def test_plain_decoding_is_one_token_a_step():
    _, _, _, *steps, end = traced(lookup=False)
    assert [(step["emitted"], step["drafted"]) for step in steps] == [(1, 0)] * 39
    assert end["plain_reason"] == ""
    assert end["output"].endswith("".join(step["text"] for step in steps))


class CtrlC:
    """A streamer during which Ctrl-C comes."""

    def __init__(self, after: int) -> None:
        self._left = after

    def put(self, value: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt

    def end(self) -> None:
        raise AssertionError("the generation did not end")


@pytest.mark.parametrize("after", [0, 1, 2, 20])
def test_a_trace_of_an_interrupted_generation_is_valid_and_holds_what_came(tmp_path, after):
    path = tmp_path / "t.trace"
    args = Namespace(trace=str(path), command="generate", prompt="x", diff=True, seed=None)

    def generate() -> None:
        with tracing(args, Console(environment())) as trace:
            Generator(llama(), Letters(), Sampling(), trace=trace).complete(PROMPT, 40, CtrlC(after))

    with pytest.raises(KeyboardInterrupt):
        generate()
    header, generation, *_, end = read_trace(str(path))
    assert header["settings"] == {"prompt": "x"}
    assert generation["texts"]["prompt"] == Letters().decode(PROMPT)
    assert end["finish"] == "interrupted"
    assert len(end["output"]) == after
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.trace"]


@pytest.fixture
def tiny_model(monkeypatch):
    monkeypatch.setattr(models, "load", lambda *_, **__: (llama(), Letters()))


def test_generate_writes_a_trace_beside_the_text(tiny_model, tmp_path):
    path = tmp_path / "t.trace"
    done = run("generate", "--raw", "abcabcabc", "--max-new-tokens", 8, "--trace", path)
    *_, end = read_trace(str(path))
    assert (done.status, done.stdout.decode()) == (0, end["output"])
    assert done.stderr == f"trace: {path}; `specdec-lookup report {path}` shows it\n"


def test_a_trace_replaces_an_earlier_one_and_fails_before_the_model_is_loaded_where_it_can_not_be_written(
    tiny_model, tmp_path, monkeypatch
):
    path = tmp_path / "t.trace"
    for length in (2, 3):
        run("generate", "--raw", "abc", "--max-new-tokens", length, "--trace", path)
        assert len(read_trace(str(path))[-1]["output"]) == length
    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    for bad in (tmp_path, tmp_path / "no" / "t.trace"):
        done = run("generate", "x", "--trace", bad)
        assert (done.status, done.stdout) == (2, b"")
        assert f"--trace {bad} can't be written" in done.stderr


@pytest.mark.parametrize("command", ["edit", "generate"])
def test_only_an_earlier_trace_gives_way_to_a_trace(tmp_path, monkeypatch, command):
    path = tmp_path / "app.py"
    path.write_text("beta = 2\n")
    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    argv = {"edit": ["edit", path, "-i", "x", "--diff"], "generate": ["generate", "x"]}[command]
    done = run(*argv, "--trace", path)
    assert (done.status, done.stdout, path.read_text()) == (2, b"", "beta = 2\n")
    assert f"--trace {path} is there and no trace: name another file" in done.stderr


def test_a_run_that_generates_nothing_leaves_an_earlier_trace(tiny_model, tmp_path):
    path = tmp_path / "t.trace"
    run("generate", "--raw", "abc", "--max-new-tokens", 2, "--trace", path)
    before = path.read_bytes()
    done = run("edit", tmp_path / "missing.py", "-i", "x", "--trace", path)
    assert (done.status, path.read_bytes()) == (3, before)
    assert "trace:" not in done.stderr
    run("edit", tmp_path / "missing.py", "-i", "x", "--trace", tmp_path / "new.trace")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.trace"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_run_whose_trace_is_lost_has_failed(tiny_model):
    done = run("generate", "--raw", "abc", "--max-new-tokens", 2, "--trace", "/dev/full")
    assert (done.status, len(done.stdout)) == (3, 2)
    assert done.stderr == "error: --trace /dev/full can't be written: no space left on device\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no trace"),
        ("{", "is no trace"),
        ("[1]\n", "is no trace"),
        ('{"kind": "step"}\n', "another version"),
        ('{"kind": "trace", "version": 99}\n', "another version"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, text, reason):
    path = tmp_path / "t.trace"
    path.write_text(text)
    with pytest.raises(CommandError, match=reason):
        read_trace(str(path))


def test_a_trace_holds_any_text_and_name(tmp_path):
    """JSON may hold other newlines than those between its lines, and names of files need be no UTF-8."""
    trace = Trace("edit", {})
    trace.begin("odd \udcff", Letters(), {"prompt": [1]})
    path = tmp_path / "a.trace"
    with tracing(Namespace(trace=str(path), command="edit"), Console(environment())) as written:
        assert written is not None
        written.generations = trace.generations
        written.describe({"note": "a\u2028b\x85c\u2029"})
    header, generation, *_ = read_trace(str(path))
    assert "\\udcff" in path.read_text("utf-8")
    assert (header["note"], generation["name"]) == ("a\u2028b\x85c\u2029", "odd \udcff")


@pytest.mark.parametrize("model", [llama, mistral])
def test_prompts_that_begin_alike_are_answered_as_without_the_cache(model):
    prompts = [[*PROMPT, 20, 21], [*PROMPT, 20, 22, 23], [*PROMPT, 20, 22, 23], [30, 31, *PROMPT], PROMPT]
    alone = [Generator(model(), Letters(), Sampling()).complete(ids, 12).text for ids in prompts]
    together = Generator(model(), Letters(), Sampling(), share=True)
    assert [together.complete(ids, 12).text for ids in prompts] == alone


def test_the_shared_beginning_is_not_read_again():
    prefix = SharedPrefix(model := llama())
    generator = Generator(model, Letters(), Sampling(), share=True)
    generator._prefix = prefix
    generator.complete([*PROMPT, 20, 21], 12)
    (cache,) = prefix.arguments([*PROMPT, 20, 25]).values()
    assert cache.get_seq_length() == len(PROMPT) + 1
    assert SharedPrefix(mistral()).arguments(PROMPT) == {}


def test_after_an_interrupted_generation_nothing_is_shared():
    generator = Generator(llama(), Letters(), Sampling(), share=True)
    expected = generator.complete(PROMPT, 12).text
    with pytest.raises(KeyboardInterrupt):
        generator.complete(PROMPT, 12, CtrlC(5))
    assert generator.complete(PROMPT, 12).text == expected


@pytest.mark.parametrize(("one", "other", "length"), [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 3], 1)])
def test_shared_length(one, other, length):
    assert shared_length(one, other) == length
