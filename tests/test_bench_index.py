"""`bench index` measures every method on the same real text, and writes nothing but figures to stdout."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from lookahead.cli.main import main
from lookahead.index_bench import IndexFigures, SuffixIndexMethod, measure, tokens_needed

KEYS = ["method", "tokens", "build_ns_per_token", "step_us_p50", "step_us_p99", "bytes_per_token"]
TEXT = np.arange(4096, dtype=np.int32) % 1000


class Recorder:
    """An index method that remembers what it was given."""

    nbytes = 640

    def __init__(self, seen):
        self.seen = seen

    def build(self, tokens):
        self.seen.append((tokens.tolist(), []))

    def step(self, tokens):
        self.seen[-1][1].append(tokens)


@pytest.fixture
def tokenizer_file(tmp_path):
    """A tokenizer of single bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def bench(*arguments):
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from lookahead.cli.main import entry_point; entry_point()", "bench", "index"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )


def test_steps_continue_the_text_that_the_index_was_built_over():
    seen = []
    measure({"recorder": lambda: Recorder(seen)}, TEXT, size=128, repeats=1)
    for built, steps in seen:
        following = [token for step in steps for token in step]
        assert {len(step) for step in steps} == {4}
        assert following == [(built[-1] + 1 + i) % 1000 for i in range(len(following))]
    assert {len(built) for built, _ in seen[1:]} == {128}


def test_methods_run_by_turns_on_the_same_text_after_a_warm_up():
    first, second = [], []
    measure({"first": lambda: Recorder(first), "second": lambda: Recorder(second)}, TEXT, size=128, repeats=2)
    assert first == second
    assert len(first) == 1 + 2 * 16


def test_figures_are_per_token_of_the_text():
    (figures,) = measure({"recorder": lambda: Recorder([])}, TEXT, size=128, repeats=1)
    assert (figures.method, figures.tokens, figures.bytes_per_token) == ("recorder", 128, 5.0)


def test_our_method_drafts_what_followed_the_match():
    method = SuffixIndexMethod()
    method.build(np.array([1, 2, 3, 4, 5, 6], np.int32))
    assert method.step([1, 2, 3, 4]).tolist() == [5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2]
    assert method.step([7, 8, 9, 10]) is None
    assert method.nbytes > 0


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="text has 4096 tokens, but a size of 4096 needs 5120"):
        measure({}, TEXT, size=4096, repeats=1)
    assert tokens_needed([64, 4096]) == 5120


def test_json_is_one_object_a_line_and_all_there_is_on_stdout(tokenizer_file):
    done = bench(
        "--json", "--sizes", "64,128", "--repeats", 1, "--methods", "ours,builtin", "--tokenizer", tokenizer_file
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [(line["method"], line["tokens"]) for line in lines] == [
        ("ours", 64),
        ("builtin", 64),
        ("ours", 128),
        ("builtin", 128),
    ]
    assert all(list(line) == KEYS and min(list(line.values())[1:]) > 0 for line in lines)
    assert [line["bytes_per_token"] for line in lines if line["method"] == "builtin"] == [8.0, 8.0]
    assert "numba" in done.stderr


def test_the_table_has_a_heading_and_a_row_for_each_method(tokenizer_file):
    done = bench("--sizes", "64", "--repeats", 1, "--methods", "ours", "--tokenizer", tokenizer_file.parent)
    heading, row = done.stdout.splitlines()
    assert heading.split()[:2] == ["method", "tokens"]
    assert row.split()[:2] == ["ours", "64"]


def test_a_method_that_is_not_installed_is_named_and_left_out(tokenizer_file, monkeypatch, capsysbinary):
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    arguments = ["--sizes", "64", "--repeats", "1", "--json", "--tokenizer", str(tokenizer_file)]
    assert main(["bench", "index", "--methods", "ours,proposer,suffix-decoding", *arguments]) == 0
    out, err = capsysbinary.readouterr()
    assert [json.loads(line)["method"] for line in out.splitlines()] == ["ours", "proposer"]
    assert b"suffix-decoding is not measured: it is not installed" in err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--sizes", "10"], 2, "'10' is not a size from 64 to 16M, such as 8k"),
        (["--sizes", "8k,"], 2, "'' is not a size"),
        (["--sizes", "1G"], 2, "'1G' is not a size"),
        (
            ["--methods", "ours,theirs"],
            2,
            "'theirs' is not one of ours, proposer, builtin, vllm-ngram, suffix-decoding",
        ),
        (["--repeats", "0"], 2, "'0' is not a whole number"),
        (["--tokenizer", "/nowhere"], 3, "there is no /nowhere: --tokenizer takes"),
        (["--tokenizer", __file__], 3, "could not be read as a tokenizer"),
        ([], 2, "BENCHMARK"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(arguments, status, message, capsysbinary):
    command = ["bench", "index", "--methods", "ours", *arguments] if arguments else ["bench"]
    assert main(command) == status
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert message in err.decode()
    assert "Traceback" not in err.decode()


def test_help_loads_nothing_heavy():
    heavy = "{'numba', 'numpy', 'torch', 'transformers', 'rich'}"
    code = "import sys; from lookahead.cli.main import main; main(['bench', 'index', '--help']); "
    code += f"print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert "--tokenizer PATH" in done.stdout


def test_figures_are_plain_values():
    (figures,) = measure({"ours": SuffixIndexMethod}, TEXT, size=64, repeats=1)
    assert isinstance(figures, IndexFigures)
    assert {type(value) for value in (figures.build_ns_per_token, figures.step_us_p50, figures.step_us_p99)} == {float}
