"""The automaton is that of the definition: one state for each set of end positions, reached by its substrings."""

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import ends_of, substrings

from lookahead import automaton as kernels
from lookahead import index as index_module
from lookahead.automaton import (
    COUNT,
    EDGES,
    FIRST,
    HEAD,
    LABEL,
    LATEST,
    LEN,
    LENGTH,
    LINK,
    ROOT,
    STATE,
    STATES,
    TARGET,
    Automaton,
)
from lookahead.index import SuffixIndex

DOCUMENTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=20), min_size=1, max_size=4)


def automaton_of(documents, **options):
    """The automaton after all documents were closed, so that every position is counted."""
    index = SuffixIndex(**options)
    for document in documents:
        index.extend(document)
        index.end_document()
    return Automaton(*index._arrays)


def read(automaton, pattern):
    """The state after reading `pattern` from the root, 0 when the automaton stops."""
    state = ROOT
    for token in pattern:
        state = int(kernels.goto(automaton, state, token))
        if state == ROOT:
            break
    return state


def text_of(automaton):
    return automaton.text[: automaton.registers[LENGTH]].tolist()


def transitions(automaton):
    """All (state, token, target) as a set, however they are stored."""
    states = automaton.nodes[: automaton.registers[STATES]].tolist()
    inline = {(state, row[kernels.TOKEN], row[kernels.NEXT]) for state, row in enumerate(states) if row[kernels.NEXT]}
    hashed = {(row[STATE], row[LABEL], row[TARGET]) for row in automaton.edges.tolist() if row[TARGET]}
    assert len(hashed) == automaton.registers[EDGES]
    assert not inline & hashed
    return inline | hashed


@given(documents=DOCUMENTS)
@settings(deadline=None)
def test_every_substring_is_read_and_leads_to_its_ends(documents):
    automaton = automaton_of(documents)
    text = text_of(automaton)
    for pattern in substrings(text):
        node = automaton.nodes[read(automaton, pattern)]
        ends = ends_of(list(pattern), text)
        assert (node[FIRST], node[LATEST], node[COUNT]) == (ends[0], ends[-1], len(ends))


@given(documents=DOCUMENTS, pattern=st.lists(st.integers(0, 2), min_size=1, max_size=6))
@settings(deadline=None)
def test_nothing_but_substrings_is_read(documents, pattern):
    automaton = automaton_of(documents)
    assert (read(automaton, pattern) != ROOT) == (tuple(pattern) in substrings(text_of(automaton)))


@given(documents=DOCUMENTS)
@settings(deadline=None)
def test_there_is_one_state_for_each_set_of_ends(documents):
    automaton = automaton_of(documents)
    text = text_of(automaton)
    sets_of_ends = {tuple(ends_of(list(pattern), text)) for pattern in substrings(text)}
    assert automaton.registers[STATES] == len(sets_of_ends) + 1


@given(documents=DOCUMENTS)
@settings(deadline=None)
def test_a_link_leads_to_the_longest_suffix_with_more_ends(documents):
    automaton = automaton_of(documents)
    nodes = automaton.nodes
    for pattern in substrings(text_of(automaton)):
        state = read(automaton, pattern)
        if len(pattern) == nodes[state, LEN]:
            shorter = [read(automaton, pattern[cut:]) for cut in range(1, len(pattern))]
            assert nodes[state, LINK] == next((other for other in shorter if other != state), ROOT)


@given(document=st.lists(st.integers(0, 2), min_size=2, max_size=120), data=st.data())
@settings(deadline=None)
def test_the_same_text_gives_the_same_states_in_any_chunks_and_sizes(document, data):
    cut = data.draw(st.integers(1, len(document) - 1))
    whole, chunked = SuffixIndex(document), SuffixIndex(document[:cut])
    with mock.patch.multiple(
        index_module, _MIN_ROWS=1, _GROWTH=1.0, _TABLE_GROWTH=1.0, _STATES_PER_TOKEN=0.0, _SLOTS_PER_TOKEN=0.0
    ):
        grown = SuffixIndex(document)
    chunked.extend(document[cut:])
    first = Automaton(*whole._arrays)
    states = first.registers[STATES]
    for other in (Automaton(*chunked._arrays), Automaton(*grown._arrays)):
        assert np.array_equal(first.registers, other.registers)
        assert np.array_equal(first.nodes[:states, :HEAD], other.nodes[:states, :HEAD])
        assert transitions(first) == transitions(other)


@given(document=st.lists(st.integers(0, 2), min_size=1, max_size=80))
@settings(deadline=None)
def test_the_table_chains_exactly_the_transitions_of_each_state(document):
    automaton = automaton_of([document])
    for state in range(automaton.registers[STATES]):
        in_table = sorted(row[LABEL] for row in automaton.edges.tolist() if row[TARGET] and row[STATE] == state)
        chained, entry = [], automaton.nodes[state, HEAD]
        while entry:
            chained.append(int(automaton.edges[entry - 1, LABEL]))
            assert automaton.edges[entry - 1, STATE] == state
            entry = automaton.edges[entry - 1, kernels.SIBLING]
        assert sorted(chained) == in_table


def test_rows_start_on_a_cache_line():
    automaton = automaton_of([list(range(5000))])
    assert automaton.nodes.ctypes.data % 64 == 0
    assert automaton.edges.ctypes.data % 64 == 0
