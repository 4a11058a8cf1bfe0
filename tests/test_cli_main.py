"""The process: instant help, one-sentence errors, exit codes, and what a terminal and a pipe see."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_fakes import run
from cli_terminal import command, variables

import lookahead
from lookahead.cli import edit, generate
from lookahead.cli.errors import CommandError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("beta\n")
    return path


def test_version():
    assert run("--version").stdout.decode() == f"specdec-lookup {lookahead.__version__}\n"


@pytest.mark.parametrize("name", ["edit", "generate", "bench"])
def test_every_command_has_help_with_exit_code_0(name):
    done = run(name, "--help")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.decode().startswith(f"usage: specdec-lookup {name}")
    assert name in run("--help").stdout.decode()


@pytest.mark.parametrize("argv", [["--help"], ["edit", "--help"], ["generate", "--help"], ["bench", "--help"]])
def test_help_loads_nothing_heavy(argv):
    code = (
        "import sys\nfrom lookahead.cli.main import main\nmain(sys.argv[1:])\n"
        "heavy = {'numpy', 'torch', 'numba', 'rich', 'transformers'} & {*sys.modules}\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


WRONG = [
    ([], "the following arguments are required"),
    (["edti"], "invalid choice"),
    (["edit", "-i", "x"], "required: FILE"),
    (["edit", "a", "-i", "x", "--max-new-tokens", "-5"], "not a whole number of at least 1"),
    (["edit", "a", "-i", "x", "--max-new-tokens", "0"], "not a whole number of at least 1"),
    (["edit", "a", "-i", "x", "--max-new-tokens", "1.5"], "not a whole number of at least 1"),
    (["edit", "a", "-i", "x", "--max-new-tokens", "9" * 20], "is too large: use a number below 2**30"),
    (["replay", "a", "--max-draft", "9" * 20], "is too large: use a number below 2**30"),
    (["edit", "a", "-i", "x", "--top-k", "many"], "not a whole number of at least 1"),
    (["edit", "a", "-i", "x", "--temperature", "-1"], "is no temperature"),
    (["edit", "a", "-i", "x", "--temperature", "nan"], "is no temperature"),
    (["edit", "a", "-i", "x", "--temperature", "1e-40"], "use 0 (greedy), or 0.0001 or more"),
    (["edit", "a", "-i", "x", "--temperature", "hot"], "is not a number"),
    (["edit", "a", "-i", "x", "--top-p", "1.5"], "is out of range"),
    (["edit", "a", "-i", "x", "--top-p", "0"], "is out of range"),
    (["edit", "a", "-i", "x", "--min-p", "2"], "is out of range"),
    (["edit", "a", "-i", "x", "--seed", "-1"], "not a whole number of at least 0"),
    (["edit", "a", "-i", "x", "--seed", str(2**64)], "is too large"),
    (["edit", "a", "-i", "x", "--device", "gpu"], "is no device"),
    (["edit", "a", "-i", "x", "--dtype", "int8"], "invalid choice"),
    (["edit", "a", "-i", "x", "--color", "blue"], "invalid choice"),
    (["edit", "a", "-i", "x", "--jsno"], "unrecognized arguments: --jsno (see `specdec-lookup edit --help`)"),
    (["memory", "info", "a", "b"], "unrecognized arguments: b (see `specdec-lookup memory info --help`)"),
    (["generate"], "give the prompt"),
    (["generate", "a", "--file", "b"], "give the prompt"),
    (["generate", ""], "the prompt is empty"),
    (["generate", "--file", ""], "--file is empty: name the file"),
]


@pytest.mark.parametrize(("argv", "reason"), WRONG)
def test_wrong_usage_is_one_sentence_and_exit_code_2(argv, reason):
    done = run(*argv)
    assert (done.status, done.stdout) == (2, b"")
    assert reason in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status"), [(CommandError("it failed: mend it"), 3), (ValueError("odd"), 3), (KeyboardInterrupt(), 130)]
)
def test_no_traceback_leaks_and_no_failure_is_exit_code_1(monkeypatch, error, status):
    def fail(args, environment):
        raise error

    monkeypatch.setattr(edit, "run", fail)
    monkeypatch.setattr(generate, "run", fail)
    for argv in (["edit", "a", "-i", "x"], ["generate", "x"]):
        done = run(*argv)
        assert done.status == status
        assert done.stderr.count("\n") == 1
        assert str(error) in done.stderr


def test_debug_shows_where_an_error_came_from(monkeypatch):
    def fail(args, environment):
        raise ValueError("odd")

    monkeypatch.setattr(edit, "run", fail)
    done = run("edit", "a", "-i", "x", variables={"SPECDEC_LOOKUP_DEBUG": "1"})
    assert done.status == 3
    assert "Traceback" in done.stderr
    assert "SPECDEC_LOOKUP_DEBUG=1 shows where" in run("edit", "a", "-i", "x").stderr


def test_a_pipe_gets_the_diff_and_no_escape_codes(file):
    done = subprocess.run(
        command("edit", "-i", "x", file), env=variables(TERM="xterm"), stdin=subprocess.DEVNULL, capture_output=True
    )
    assert done.returncode == 0
    assert b"-beta\n+[i]gamma[/i]\n" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_slow_reader_gets_all_of_a_long_diff(file, unbuffered):
    file.write_text("beta\n" * 20_000)
    done = subprocess.run(
        command("edit", "-i", "x", file), env=variables(PYTHONUNBUFFERED=unbuffered), stdout=subprocess.PIPE
    )
    assert done.stdout.count(b"+[i]gamma[/i]\n") == 20_000


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_ends_the_command_quietly(file, unbuffered):
    file.write_text("beta\n" * 20_000)
    process = subprocess.Popen(
        command("edit", "-i", "x", file),
        env=variables(PYTHONUNBUFFERED=unbuffered),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (3, b"")


def test_ctrl_c_ends_with_130_one_word_and_nothing_written(file):
    process = subprocess.Popen(
        command("edit", "-w", "-i", "be slow", file), env=variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"working\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, b"interrupted\n")
    assert [path.name for path in file.parent.iterdir()] == ["a.py"]
    assert file.read_text() == "beta\n"


CTRL_C_WHILE_STARTING = """
import os, signal, sys

class CtrlC:
    def find_spec(name, path=None, target=None):
        if name == "lookahead.cli.main":
            os.kill(os.getpid(), signal.{name})

sys.meta_path.insert(0, CtrlC)
from lookahead.cli.start import entry_point
entry_point()
"""


@pytest.mark.parametrize(("name", "status", "said"), [("SIGINT", 130, b"interrupted\n"), ("SIGTERM", 143, b"")])
def test_a_signal_while_the_command_starts_leaves_no_traceback(name, status, said):
    code = CTRL_C_WHILE_STARTING.replace("{name}", name)
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", said)
    pyproject = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert 'specdec-lookup = "lookahead.cli.start:entry_point"' in pyproject


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95])
def test_ctrl_c_at_any_moment_leaves_every_file_whole(tmp_path, share):
    old = "".join(f"beta_{number} = {number}\n" for number in range(60))
    paths = [tmp_path / f"{name}.py" for name in "abc"]
    for path in paths:
        path.write_text(old)
    process = subprocess.Popen(
        command("edit", "-w", "--json", "-i", "stream", *paths),
        env=variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # the first file is written
    time.sleep(share * random.random())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.py", "b.py", "c.py"]
    assert paths[0].read_text() == old.replace("beta", "gamma")
    assert {path.read_text() for path in paths} <= {old, old.replace("beta", "gamma")}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_behind_stdout_is_one_sentence():
    code = "from lookahead.cli.main import entry_point; entry_point()"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code, "--version"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (3, b"error: the output can't be written: no space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    ("argv", "status"), [(["edit", "missing", "-i", "x", "--check"], 3), (["edit"], 2), (["--version"], 0)]
)
def test_a_full_disk_behind_stderr_changes_no_exit_code(argv, status):
    code = "from lookahead.cli.main import entry_point; entry_point()"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-c", code, *argv], stdout=subprocess.DEVNULL, stderr=full)
    assert done.returncode == status


def test_json_of_a_path_that_is_no_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/a\xff.py"
    Path(os.fsdecode(path)).write_text("beta\n")
    done = subprocess.run(
        [os.fsencode(part) for part in command("edit", "-i", "x", "--json")] + [path],
        env=variables(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.fsencode(json.loads(done.stdout)["path"]) == path
