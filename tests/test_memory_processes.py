"""Threads, processes and children of forks may use one store and its file."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lookahead import store_file
from lookahead.durable import locked
from lookahead.memory import MemoryStore
from lookahead.store_file import StoreFileError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


def filled() -> MemoryStore:
    store = MemoryStore()
    store.add("ann", [1, 2, 3], name="x.py")
    return store


def test_threads_may_save_one_store(path):
    store, failures = filled(), []

    def save():
        for _ in range(25):
            try:
                store.save(path)
            except OSError as error:
                failures.append(error)

    threads = [threading.Thread(target=save) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert os.listdir(path.parent) == [path.name]


SAVED_BY_TWO = """
import sys, time
from lookahead.memory import MemoryStore

path, name, rounds, start = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
time.sleep(max(0.0, start - time.time()))
saved = 0
while saved < rounds:
    store = MemoryStore.load(path)
    store.add(name, [1, 2, 3, saved], name=str(saved))
    try:
        store.save(path)
    except FileExistsError:
        continue
    saved += 1
"""


def test_two_processes_lose_nothing_that_they_have_saved(path):
    filled().save(path)
    start = str(time.time() + 3)
    command = [sys.executable, "-c", SAVED_BY_TWO, str(path)]
    writers = [subprocess.Popen([*command, name, "60", start]) for name in ("one", "two")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    store = MemoryStore.load(path)
    assert [len(store.documents(name)) for name in ("one", "two")] == [60, 60]


FORKED_WHILE_MERGING = """
import os, signal, threading, time
from lookahead import memory
from lookahead.memory import MemoryStore
from lookahead.segment import Segment

memory.AT_ONCE = 0
merge, begun = Segment.merge, threading.Event()
def slowly(segments):
    begun.set()
    time.sleep(1)
    return merge(segments)
Segment.merge = slowly
store = MemoryStore()
for number in range(40):
    store.add("a", [number, *range(20)])
assert begun.wait(30)
child = os.fork()
if not child:
    signal.alarm(20)
    store.add("b", [1, 2, 3])
    store.settle()
    os._exit(0 if len(store.documents("b")) == 1 else 1)
store.settle()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


FORKED_WHILE_LOCKED = """
import os, signal, threading
from lookahead.memory import MemoryStore

store, held, go = MemoryStore(), threading.Event(), threading.Event()
def hold():
    with store._holdings.lock:
        held.set()
        go.wait(2)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    store.add("a", [1, 2, 3])
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_of_a_fork_finds_no_lock_held():
    assert subprocess.run([sys.executable, "-c", FORKED_WHILE_LOCKED], timeout=120).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_of_a_fork_goes_on_without_the_parents_thread():
    assert subprocess.run([sys.executable, "-c", FORKED_WHILE_MERGING], timeout=120).returncode == 0


def test_nobody_comes_between_the_look_and_the_replacement(path, monkeypatch):
    filled().save(path)
    mine, theirs = MemoryStore.load(path), MemoryStore.load(path)
    mine.add("ann", [8, 8], name="mine")
    theirs.add("ann", [9, 9], name="theirs")
    replace, errors = os.replace, []

    def other():
        try:
            theirs.save(path)
        except FileExistsError as error:
            errors.append(error)

    thread = threading.Thread(target=other)

    def meanwhile(*names):
        monkeypatch.setattr(os, "replace", replace)
        thread.start()
        thread.join(timeout=1)  # it waits for the lock
        replace(*names)

    monkeypatch.setattr(os, "replace", meanwhile)
    mine.save(path)
    thread.join()
    assert len(errors) == 1
    assert "mine" in {info.name for info in MemoryStore.load(path).documents("ann")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_lock_is_free_when_its_holder_is_through_whoever_was_forked_meanwhile(tmp_path):
    with locked(tmp_path):
        forked = os.fork()
        if not forked:
            time.sleep(20)
            os._exit(0)
    waited = []
    with locked(tmp_path, on_wait=lambda: waited.append(True)):
        pass
    os.kill(forked, signal.SIGKILL)
    os.waitpid(forked, 0)
    assert waited == []


def test_who_has_no_patience_is_told_that_somebody_else_holds_the_lock(tmp_path):
    with locked(tmp_path), pytest.raises(TimeoutError), locked(tmp_path, patience=0):
        pass


def test_who_may_read_a_new_store_is_for_the_process_to_say(path):
    before = os.umask(0o027)
    try:
        MemoryStore().save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
def test_a_pipe_is_refused_instead_of_waited_for(path):
    os.mkfifo(path)
    for use in (MemoryStore.load, store_file.verify, MemoryStore().save):
        with pytest.raises(StoreFileError, match="is no regular file"):
            use(path)
