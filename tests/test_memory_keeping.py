"""A MemoryStore keeps no more than it may, and is whole for readers while threads merge, remove and add."""

import gc
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import Clock, matched

from lookahead import holdings, memory
from lookahead.memory import MemoryStore
from lookahead.memory_reader import NO_MATCH
from lookahead.retention import without_names
from lookahead.segment import Segment


@pytest.fixture
def merged_by_thread(monkeypatch):
    """Leave every merge to the thread."""
    monkeypatch.setattr(memory, "AT_ONCE", 0)
    monkeypatch.setattr(holdings, "AT_ONCE", 0)


def test_the_least_recently_useful_documents_make_room():
    clock = Clock()
    store = MemoryStore(budget=1_000, clock=clock)
    for number in range(9):
        clock.now += 1
        store.add("a" if number % 2 else "b", [100 + number, *range(9)], name=f"d{number}")
    assert sum(len(store.documents(name)) for name in "ab") == 9
    clock.now += 1
    reader = store.reader("b")
    oldest = store.documents("b")[0]
    reader.mark_useful(reader.longest_match([100 + int(oldest.name[1:])]))
    clock.now += 1
    store.add("c", range(40), name="large")
    left = {info.name: info for name in "abc" for info in store.documents(name)}
    assert {"large", oldest.name} < left.keys()
    assert left[oldest.name].useful == clock.now - 1
    gone = {f"d{number}" for number in range(9)} - left.keys()
    assert gone
    assert max(int(name[1:]) for name in gone) < min(int(name[1:]) for name in left.keys() - {"large", oldest.name})
    assert store.nbytes <= 1_000


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=25), budget=st.integers(600, 2_000))
@settings(max_examples=50, deadline=None)
def test_the_budget_is_never_exceeded_and_the_newest_document_is_there(sizes, budget):
    store = MemoryStore(budget=budget)
    for number, size in enumerate(sizes):
        store.add(f"n{number % 3}", [number] * size, name=str(number))
        assert store.nbytes <= budget
        assert str(number) in {info.name for info in store.documents(f"n{number % 3}")}


class Counted(str):
    """A name that counts how often one is looked at, for comparing begins with a hash."""

    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)


def test_an_addition_looks_at_no_name_but_those_it_replaces():
    """Else remembering one output after the other would take the square of their number."""
    names = [Counted(f"output-{number}") for number in range(500)]
    held = {"ann": (Segment.build(names, [np.array([5, 6], np.int32)] * len(names), now=0.0),)}
    Counted.looks = 0
    assert without_names(held, "ann", {"output-500", "output-501"})["ann"] == held["ann"]
    assert Counted.looks == 0
    (left,) = without_names(held, "ann", {"output-7"})["ann"]
    assert len(left) == len(names) - 1


def test_documents_over_the_budget_are_refused_and_nothing_changes():
    store = MemoryStore(budget=300)
    store.add("a", [1, 2, 3], name="x")
    with pytest.raises(ValueError, match="more than the budget of 300"):
        store.add("a", [1] * 100, name="x")
    assert matched(store, "a", [1]) == (1, 1, [2, 3])


def test_a_smaller_budget_removes_documents_at_once():
    store = MemoryStore()
    store.add_all("a", [(str(number), [number, 1, 2]) for number in range(10)])
    store.budget = 200
    assert 0 < store.nbytes <= 200


def test_a_document_expires_for_readers_and_in_the_books():
    clock = Clock()
    store = MemoryStore(expiry=100, clock=clock)
    store.add("a", [1, 2, 3], name="old")
    clock.now += 60
    store.add("a", [1, 5, 6], name="new")
    clock.now += 39
    assert store.reader("a").longest_match([1]).occurrences == 2
    clock.now += 1
    assert matched(store, "a", [1]) == (1, 1, [5, 6])
    assert [info.name for info in store.documents("a")] == ["new"]
    clock.now += 60
    assert store.reader("a").longest_match([1]) == NO_MATCH
    assert store.namespaces() == {}


def test_of_a_large_store_a_thread_removes_what_has_expired(merged_by_thread):
    clock = Clock()
    store = MemoryStore(expiry=100, clock=clock)
    store.add("a", [1, 2, 3], name="old")
    clock.now += 60
    store.add("a", [1, 5, 6], name="new")
    store.settle()
    clock.now += 40
    assert matched(store, "a", [1]) in ((0, 0, []), (1, 1, [5, 6]))
    store.settle()
    assert [len(segment) for segment in store._holdings.namespaces["a"]] == [1]
    assert matched(store, "a", [1]) == (1, 1, [5, 6])


def test_an_expired_document_is_not_used_while_another_thread_changes_the_store():
    clock = Clock()
    store = MemoryStore(expiry=100, clock=clock)
    store.add("a", [1, 2, 3])
    clock.now += 100
    answers = []
    with store._holdings.lock:  # as a long merge holds it
        thread = threading.Thread(target=lambda: answers.append(store.reader("a").longest_match([1])))
        thread.start()
        thread.join(timeout=60)
        assert answers == [NO_MATCH]
        assert (store.documents("a"), store.namespaces()) == ([], {})


def test_readers_do_not_wait_for_who_changes_the_store():
    store = MemoryStore()
    store.add("a", [1, 2, 3])
    answers = []
    with store._holdings.lock:
        thread = threading.Thread(target=lambda: answers.append(matched(store, "a", [1])))
        thread.start()
        thread.join(timeout=60)
        assert answers == [(1, 1, [2, 3])]


@pytest.mark.parametrize("at_once", [0, 2**19])
def test_threads_that_add_forget_save_and_read_see_whole_documents_only(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(memory, "AT_ONCE", at_once)
    store = MemoryStore(budget=40_000)
    failures, stop = [], threading.Event()

    def noting(work):
        def run():
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=run)

    def write(name):
        for number in range(60):
            store.add(name, [1, 2, 3, *[ord(name)] * 20, number], name=str(number))
            if number % 7 == 0:
                store.forget(name, str(number - 3))
            if number % 20 == 0:
                store.save(tmp_path / name)

    def read(name):
        reader = store.reader(name)
        while not stop.is_set():
            match = reader.longest_match([1, 2, 3])
            following = reader.continuation(match, 20).tolist()
            assert following in ([], [ord(name)] * 20)
            reader.mark_useful(match)

    readers = [noting(lambda name=name: read(name)) for name in "ab"]
    writers = [noting(lambda name=name: write(name)) for name in "ab"]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert len(store.documents("a")) == len(store.documents("b")) > 40
    assert len(MemoryStore.load(tmp_path / "a").documents("a")) >= 35


def sizes(store, namespace):
    return [len(segment.tokens) for segment in store._live(namespace)]


def test_a_store_that_nobody_uses_is_freed_at_once():
    store = MemoryStore()
    store.add("a", [1, 2, 3])
    reader = store.reader("a")
    held = weakref.ref(store._holdings)
    gc.disable()  # a mapped file must not wait for it
    try:
        del store, reader
        assert held() is None
    finally:
        gc.enable()


def test_a_namespace_has_few_segments_however_documents_come():
    store = MemoryStore()
    for number in range(200):
        store.add("a", [number, *range(20)])
    store.settle()
    assert len(sizes(store, "a")) <= 4
    assert all(larger > 4 * smaller for larger, smaller in pairwise(sizes(store, "a")))
    assert len(store.documents("a")) == 200


@pytest.fixture
def held_merge(merged_by_thread, monkeypatch):
    """A thread that waits with every merge until it is told to go on."""
    go_on, original = threading.Event(), Segment.merge

    def merge(segments):
        assert go_on.wait(timeout=60)
        return original(segments)

    monkeypatch.setattr(Segment, "merge", merge)
    return go_on


def test_what_a_thread_merges_is_all_there_before_and_after(held_merge):
    store = MemoryStore()
    for number in range(6):
        store.add("a", [number, 1, 2, 3, 40 + number], name=str(number))
    reader = store.reader("a")
    match = reader.longest_match([1, 2, 3])
    assert (match.occurrences, len(sizes(store, "a"))) == (6, 6)
    reader.mark_useful(match)
    before = store.documents("a")
    held_merge.set()
    store.settle()
    assert len(sizes(store, "a")) == 1
    assert store.documents("a") == before
    assert reader.longest_match([1, 2, 3]).occurrences == 6


def test_documents_forgotten_during_a_merge_do_not_come_back(held_merge):
    store = MemoryStore()
    for number in range(4):
        store.add("a", [number, 1, 2, 3], name=str(number))
        store.add("b", [number, 1, 2, 3], name=str(number))
    store.forget("a", "1")
    store.forget("b")
    store.add("a", [9, 9, 9], name="9")
    held_merge.set()
    store.settle()
    assert sorted(info.name for info in store.documents("a")) == ["0", "2", "3", "9"]
    assert len(sizes(store, "a")) == 1
    assert store.namespaces().keys() == {"a"}


def test_usefulness_that_was_noted_during_a_merge_is_kept(held_merge):
    clock = Clock()
    store = MemoryStore(clock=clock)
    store.add("a", [1, 2, 3], name="x")
    store.add("a", [4, 5, 6], name="y")
    clock.now += 5
    reader = store.reader("a")
    reader.mark_useful(reader.longest_match([4]))
    held_merge.set()
    store.settle()
    assert [info.useful for info in store.documents("a")] == [1_000.0, 1_005.0]


def test_without_memory_to_merge_the_store_stays_as_it_is(merged_by_thread, monkeypatch):
    def merge(segments):
        raise MemoryError

    monkeypatch.setattr(Segment, "merge", merge)
    store = MemoryStore()
    for number in range(3):
        store.add("a", [1, 2, number])
    store.settle()
    assert store.reader("a").longest_match([1, 2]).occurrences == len(sizes(store, "a")) == 3
