"""The cache holds whole folders only, whenever and however the building of one ends."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lookahead.cli.cache import build_once, cache_home
from lookahead.cli.errors import CommandError
from lookahead.cli.learned import Learned


@pytest.mark.parametrize(
    ("variables", "platform", "home"),
    [
        ({"SPECDEC_LOOKUP_HOME": "/x/y", "XDG_CACHE_HOME": "/z"}, "linux", "/x/y"),
        ({"XDG_CACHE_HOME": "/z"}, "linux", "/z/specdec-lookup"),
        ({}, "linux", "~/.cache/specdec-lookup"),
        ({"XDG_CACHE_HOME": ""}, "linux", "~/.cache/specdec-lookup"),
        ({}, "darwin", "~/Library/Caches/specdec-lookup"),
        ({"LOCALAPPDATA": "/c/local"}, "win32", "/c/local/specdec-lookup"),
        ({}, "win32", "~/AppData/Local/specdec-lookup"),
    ],
)
def test_the_cache_is_where_the_platform_has_it(variables, platform, home):
    assert cache_home(variables, platform) == Path(home).expanduser()


def build(folder: Path) -> Path:
    finished = folder / "work"
    finished.mkdir()
    (finished / "a").write_text("a")
    return finished


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_built_once(tmp_path):
    home = tmp_path / "not" / "yet"
    assert build_once(home / "it", build) == home / "it"
    assert names(home) == ["it", "lock"]
    assert build_once(home / "it", lambda folder: pytest.fail("built twice")) == home / "it"


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_failed_build_leaves_nothing(tmp_path, error):
    def fail(folder):
        build(folder)
        raise error

    with pytest.raises(type(error)):
        build_once(tmp_path / "it", fail)
    assert names(tmp_path) == ["lock"]


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".specdec-lookup-partial-123" / "deep").mkdir(parents=True)
    build_once(tmp_path / "it", build)
    assert names(tmp_path) == ["it", "lock"]


def test_what_is_no_build_of_ours_stays(tmp_path):
    (tmp_path / "partial-results").mkdir()
    build_once(tmp_path / "it", build)
    assert names(tmp_path) == ["it", "lock", "partial-results"]


def test_without_a_home_folder_the_way_out_is_named(monkeypatch):
    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(CommandError, match="name a folder in SPECDEC_LOOKUP_HOME"):
        cache_home({}, "linux")
    Learned("a model", {}).recall(None)  # it only saves time


def test_a_cache_that_cannot_be_used_is_named_with_a_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"file can't be used .* SPECDEC_LOOKUP_HOME"):
        build_once(tmp_path / "file" / "it", build)


BUILDER = """
import sys, time
from pathlib import Path
from lookahead.cli.cache import build_once

def build(folder):
    print("building", flush=True)
    finished = folder / "work"
    finished.mkdir()
    for i in range(40):
        (finished / str(i)).write_text("x" * 1000)
        time.sleep(0.002)
    return finished

build_once(Path(sys.argv[1]), build, on_wait=lambda: print("waiting", flush=True))
"""


def start_builder(target: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUILDER, str(target)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_build_stopped_at_any_moment_publishes_all_or_nothing(tmp_path, number):
    for attempt in range(5):
        target = tmp_path / str(attempt) / "it"
        process = start_builder(target)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.uniform(0, 0.15))
        process.send_signal(number)
        process.communicate(timeout=30)
        assert not target.exists() or len(names(target)) == 40
        build_once(target, build)
        assert names(target.parent) == ["it", "lock"]


def test_a_build_killed_as_soon_as_it_is_published_leaves_nothing_else(tmp_path):
    killed = """
import os
rename = os.rename

def publish(source, target):
    rename(source, target)
    if os.path.basename(target) == "it":
        os._exit(9)

os.rename = publish
"""
    done = subprocess.run([sys.executable, "-c", killed + BUILDER, str(tmp_path / "it")], capture_output=True)
    assert done.returncode == 9
    assert names(tmp_path) == ["it", "lock"]
    assert len(names(tmp_path / "it")) == 40


def test_two_processes_build_once_and_the_second_says_that_it_waits(tmp_path):
    processes = [start_builder(tmp_path / "it") for _ in range(3)]
    said = "".join(process.communicate(timeout=30)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert said.count("building") == 1
    assert len(names(tmp_path / "it")) == 40
