"""A MemoryStore finds what brute force finds, in its own namespace only, and names what is wrong."""

import random

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import matched

from lookahead.memory import MemoryStore, tokenizer_identity
from lookahead.memory_reader import MAX_MATCH, NO_MATCH
from lookahead.segment import Segment
from lookahead.suffix_array import sorted_contexts

LONG = 2_000 if numba.config.DISABLE_JIT else 300_000
REQUESTS = 300 if numba.config.DISABLE_JIT else 5_000
ALPHABETS = [[7], [0, 1], [3, 5, 9], [0, 2**31 - 2, 2**31 - 1]]


@st.composite
def texts(draw):
    """Documents over a small alphabet, some of them copies, and a text whose end to look for."""
    token = st.sampled_from(draw(st.sampled_from(ALPHABETS)))
    documents = draw(st.lists(st.lists(token, min_size=1, max_size=20), min_size=1, max_size=8))
    copies = draw(st.lists(st.integers(0, len(documents) - 1), max_size=3))
    return documents + [documents[number] for number in copies], draw(st.lists(token, max_size=12))


def occurrences(documents, suffix):
    """Every (document, position behind it) where `suffix` occurs and the document goes on."""
    size = len(suffix)
    return [
        (number, end)
        for number, document in enumerate(documents)
        for end in range(size, len(document))
        if list(document[end - size : end]) == suffix
    ]


def naive_match(documents, text):
    """The length of the longest end of `text` that goes on in a document, and where it does."""
    for length in range(min(len(text), MAX_MATCH), 0, -1):
        places = occurrences(documents, text[-length:])
        if places:
            return length, places
    return 0, []


def naive_contexts(tokens):
    def context(position):
        return [max(token, -1) for token in tokens[position::-1]]

    known = [p for p in range(len(tokens) - 1) if tokens[p] >= 0 and tokens[p + 1] >= 0]
    return sorted(known, key=context)


@given(documents=st.lists(st.lists(st.sampled_from([0, 1, 5]), max_size=12), max_size=6), shift=st.sampled_from([0, 9]))
@settings(deadline=None)
def test_contexts_are_in_the_order_of_brute_force(documents, shift):
    tokens = [-1] + [token for document in documents for token in [*(shift * 10**8 + id_ for id_ in document), -1]]
    assert sorted_contexts(np.array(tokens, np.int32)).tolist() == naive_contexts(tokens)


def test_a_text_whose_repeats_nest_is_in_the_order_of_brute_force():
    shorter, word = [1], [1, 2]
    while len(word) < 600:
        shorter, word = word, word + shorter
    tokens = [-1, *word, -1, *reversed(word), -1, *word, -1]
    assert sorted_contexts(np.array(tokens, np.int32)).tolist() == naive_contexts(tokens)


@pytest.mark.parametrize("period", [[7], [3, 9], [1, 2, 1, 1, 2], list(range(50))])
def test_a_period_repeated_without_end_is_indexed_and_found(period):
    text = np.tile(np.array(period, np.int32), LONG // len(period))
    segment = Segment.build(["a"], [text], now=0.0)
    end = text[: 2 * len(period)].copy()
    found = segment.find(end)
    assert found.length == len(end)
    assert found.occurrences == len(range(len(end), len(text), len(period)))


@given(given_texts=texts())
@settings(max_examples=300, deadline=None)
def test_the_longest_match_is_that_of_brute_force(given_texts):
    documents, text = given_texts
    store = MemoryStore()
    store.add_all("a", [("", document) for document in documents])
    length, places = naive_match(documents, text)
    match = store.reader("a").longest_match(text)
    assert (match.length, match.occurrences) == (length, len(places))


@given(given_texts=texts())
@settings(max_examples=300, deadline=None)
def test_the_continuation_is_that_of_an_occurrence_and_starts_as_most_do(given_texts):
    documents, text = given_texts
    store = MemoryStore()
    store.add_all("a", [("", document) for document in documents])
    _, places = naive_match(documents, text)
    reader = store.reader("a")
    match = reader.longest_match(text)
    following = reader.continuation(match, 100).tolist()
    assert (following == []) == (places == [])
    if 0 < len(places) <= 16:
        assert following in [documents[number][end:] for number, end in places]
        first = [documents[number][end] for number, end in places]
        assert first.count(following[0]) == max(map(first.count, first))
        assert match.agreement == first.count(following[0]) / len(first)


@given(given_texts=texts(), batches=st.lists(st.integers(1, 3), max_size=8), gone=st.sets(st.integers(0, 10)))
@settings(max_examples=200, deadline=None)
def test_additions_one_by_one_and_removals_leave_what_brute_force_has(given_texts, batches, gone):
    documents, text = given_texts
    store, left = MemoryStore(), dict(enumerate(documents))
    numbers = iter(range(len(documents)))
    for size in [*batches, len(documents)]:
        store.add_all("a", [(f"d{number}", documents[number]) for _, number in zip(range(size), numbers, strict=False)])
    for number in gone & left.keys():
        assert store.forget("a", f"d{number}") == 1
        del left[number]
    assert sorted(info.name for info in store.documents("a")) == sorted(f"d{number}" for number in left)
    length, places = naive_match(list(left.values()), text)
    match = store.reader("a").longest_match(text)
    assert (match.length, match.occurrences) == (length, len(places))


def test_a_match_is_exact_up_to_its_limit():
    store = MemoryStore()
    store.add("a", [*range(100), 7])
    for size in (1, 63, 64, 65, 99):
        assert store.reader("a").longest_match(list(range(size))).length == min(size, MAX_MATCH)


def test_no_match_or_continuation_crosses_a_documents_end():
    store = MemoryStore()
    store.add_all("a", [("x", [1, 2, 3]), ("y", [4, 5, 6])])
    assert matched(store, "a", [1, 2]) == (2, 1, [3])
    assert matched(store, "a", [2, 3]) == (0, 0, [])
    assert matched(store, "a", [3, 4]) == (1, 1, [5, 6])


def test_negative_tokens_match_nothing_and_hide_what_is_before_them():
    store = MemoryStore()
    store.add_all("a", [("x", [1, 2, 3]), ("y", [1, 2, 4])])
    assert matched(store, "a", [-1]) == (0, 0, [])
    assert matched(store, "a", [-1, 1])[:2] == (1, 2)
    assert matched(store, "a", [1, -1, 2])[:2] == (1, 2)


def test_a_follower_goes_on_in_the_document_behind_a_match():
    store = MemoryStore()
    store.add("a", [1, 2, 3, 4, 5])
    reader = store.reader("a")
    match = reader.longest_match([1])
    assert reader.continuation(match, 2).tolist() == [2, 3]
    assert reader.continuation(match, 2, skip=2).tolist() == [4, 5]
    assert reader.continuation(match, 2, skip=9).tolist() == []
    with pytest.raises(ValueError, match="length and skip must not be negative"):
        reader.continuation(match, -1)


def test_a_document_of_the_same_name_is_replaced():
    store = MemoryStore()
    store.add("a", [1, 2, 3], name="x")
    store.add("b", [1, 2, 4], name="x")
    store.add("a", [1, 5, 6], name="x")
    assert matched(store, "a", [1]) == (1, 1, [5, 6])
    assert matched(store, "b", [1]) == (1, 1, [2, 4])


def test_a_match_whose_document_is_gone_gives_nothing():
    store = MemoryStore()
    store.add_all("a", [("x", [1, 2, 3]), ("y", [8, 9])])
    reader = store.reader("a")
    match = reader.longest_match([1])
    assert reader.document(match) == "x"
    store.forget("a", "x")
    assert reader.continuation(match, 5).tolist() == []
    assert reader.document(match) == ""
    assert reader.longest_match([1]) == NO_MATCH


def test_a_match_of_another_namespace_gives_nothing():
    store = MemoryStore()
    store.add("a", [1, 2, 3], name="x")
    store.add("b", [1, 2, 4], name="y")
    match = store.reader("a").longest_match([1])
    assert store.reader("b").continuation(match, 5).tolist() == []
    assert store.reader("b").document(match) == ""


class Tenants:
    """Two namespaces whose documents begin alike and go on differently."""

    def __init__(self, store, rng):
        self.store, self.rng, self.number = store, rng, 0

    def add(self, tenant):
        self.number += 1
        own = [1_000 * (1 + "ab".index(tenant)) + self.rng.randrange(50) for _ in range(30)]
        self.store.add(tenant, [*(self.rng.randrange(4) for _ in range(10)), *own], name=f"{tenant}{self.number}")

    def assert_isolated(self, requests):
        drafted = 0
        for _ in range(requests):
            tenant = self.rng.choice("ab")
            reader = self.store.reader(tenant)
            text = [self.rng.randrange(4) for _ in range(self.rng.randrange(1, 12))]
            text += self.rng.choices(range(1_000, 3_000), k=self.rng.choice([0, 0, 1]))
            match = reader.longest_match(text)
            following = reader.continuation(match, 50).tolist()
            other = 1_000 * (2 - "ab".index(tenant))
            assert not any(other <= token < other + 1_000 for token in following)
            assert reader.document(match)[:1] in ("", tenant)
            drafted += len(following) > 0
        assert drafted > requests / 4

    def documents(self, tenant):
        return [
            segment.tokens[start : start + length].tolist()
            for segment in self.store._live(tenant)
            for start, length in zip(segment.documents.starts.tolist(), segment.lengths.tolist(), strict=True)
        ]


def test_no_token_ever_stems_from_another_namespace(tmp_path):
    rng = random.Random(0)
    tenants = Tenants(MemoryStore(budget=20_000), rng)
    for _ in range(20):
        tenants.add("a")
        tenants.add("b")
    tenants.assert_isolated(REQUESTS)
    for _ in range(60):  # the budget is passed, and documents are evicted
        tenants.add(rng.choice("ab"))
    assert sum(len(tenants.store.documents(name)) for name in "ab") < 100
    tenants.assert_isolated(REQUESTS)
    for name in [info.name for info in tenants.store.documents("a")][::2]:
        assert tenants.store.forget("a", name) == 1
    tenants.assert_isolated(REQUESTS)
    tenants.store.save(tmp_path / "store")
    tenants.store = MemoryStore.load(tmp_path / "store")
    tenants.assert_isolated(REQUESTS)
    tenants.store.forget("a")
    assert tenants.documents("a") == []
    tenants.assert_isolated(REQUESTS)
    tenants.add("a")
    tenants.assert_isolated(50)


def test_damaged_arrays_never_make_a_kernel_read_elsewhere():
    """With the JIT off, numpy would raise for a position beyond the end."""
    rng = np.random.default_rng(0)
    good = Segment.build(["a", "b"], [rng.integers(0, 4, 60).astype(np.int32)] * 2, now=0.0)
    for _ in range(300):
        arrays = [good.tokens.copy(), good.order.copy()]
        part = arrays[rng.integers(2)]
        places = rng.integers(0, len(part), 20)
        part[places] = rng.choice([-(2**31), -7, -1, 0, 3, len(good.tokens), 2**31 - 1], 20)
        segment = Segment(*arrays, good.documents)
        found = segment.find(rng.integers(0, 4, 12).astype(np.int32))
        assert -1 <= found.position < len(good.tokens) - 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.add("", [1]), "namespace must be text"),
        (lambda store: store.add("a", [1], name="x\0y"), "name must be text without NUL"),
        (lambda store: store.add("a", []), "must be a flat list of ids, not empty"),
        (lambda store: store.add("a", [[1]]), "must be a flat list of ids"),
        (lambda store: store.add("a", [0.5]), "must be a flat list of ids"),
        (lambda store: store.add("a", [1, -100]), "must be from 0 to 2147483647, got -100"),
        (lambda store: store.add("a", [2**31]), "got 2147483648"),
        (lambda store: MemoryStore(budget=0), "budget must be above 0"),
        (lambda store: MemoryStore(expiry=-1.0), "expiry must be above 0"),
        (lambda store: setattr(store, "budget", -5), "budget must be above 0"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(MemoryStore())


def test_a_tokenizers_identity_is_its_vocabulary():
    one = tokenizer_identity({"a": 0, "b": 1})
    assert one == tokenizer_identity({"b": 1, "a": 0})
    assert len({one, tokenizer_identity({"a": 1, "b": 0}), tokenizer_identity({"a": 0}), tokenizer_identity({})}) == 4


def test_a_budget_is_a_whole_number_of_bytes():
    store = MemoryStore(budget=1e9)
    assert (store.budget, type(store.budget)) == (10**9, int)
    store.budget = 2e9
    assert (store.budget, type(store.budget)) == (2 * 10**9, int)
    with pytest.raises(ValueError, match=r"budget must be a whole number of bytes, got 1\.5"):
        MemoryStore(budget=1.5)
    with pytest.raises(TypeError, match="budget must be a number, got '1G'"):
        MemoryStore(budget="1G")
