"""Citations stand word for word in their passage, the longest first, and never begin or end inside a word."""

import sys
import unicodedata
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.plugins import citations
from lookahead.plugins.citations import Citation, Copy, Passage, as_passages, cite

TEA = "Tea is made from the leaves of an evergreen shrub. It is drunk hot."
COFFEE = "Coffee is made from roasted beans. It is drunk hot."


def spans(text: str, found: list[Citation]) -> list[tuple[str, int]]:
    return [(text[citation.start : citation.end], citation.passage) for citation in found]


def brute_force(text: str, passages: list[str], min_chars: int, whole_words: bool) -> list[Citation]:
    """Try every span of the text at every place of every passage; take the longest, then look again beside it."""
    units = citations._units(text, whole_words)
    sources = [citations._units(passage, whole_words) for passage in passages]
    free, chosen = [True] * len(units), []
    while True:
        best = (min_chars - 1, 0, Citation(0, 0, 0, 0, 0, 0), range(0))
        for first in range(len(units)):
            for last in range(first + 1, len(units) + 1):
                span = units[first:last]
                length = len("".join(span))
                allowed = citations._may_start(span[0][0]) and citations._may_end(span[-1][0]) and all(free[first:last])
                if not allowed or length <= best[0]:
                    continue
                start = len("".join(units[:first]))
                for number, source in enumerate(sources):
                    at = next((i for i in range(len(source)) if source[i : i + len(span)] == span), None)
                    if at is not None:
                        there = len("".join(source[:at]))
                        citation = Citation(start, start + length, number, there, there + length, number)
                        best = (length, first, citation, range(first, last))
                        break
        if not best[3]:
            return sorted(chosen, key=lambda citation: citation.start)
        chosen.append(best[2])
        for unit in best[3]:
            free[unit] = False


words = st.text(alphabet="ab. ", max_size=24)


@given(words, st.lists(words, max_size=3), st.integers(1, 6), st.booleans())
def test_citations_are_those_of_brute_force(text, passages, min_chars, whole_words) -> None:
    assert cite(text, passages, min_chars=min_chars, whole_words=whole_words) == brute_force(
        text, passages, min_chars, whole_words
    )


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=3), st.booleans(), st.data())
def test_every_citation_is_equal_to_its_passage_and_none_overlap(text, passages, whole_words, data) -> None:
    if passages:  # arbitrary texts have nothing in common, so some of a passage is copied
        source = data.draw(st.sampled_from(passages))
        start, end = sorted((data.draw(st.integers(0, len(source))), data.draw(st.integers(0, len(source)))))
        text += source[start:end]
    numbers = st.integers(-2, 50)
    copies = data.draw(st.lists(st.builds(Copy, numbers, numbers, numbers, numbers), max_size=4))
    ends = 0
    for citation in cite(text, passages, min_chars=3, whole_words=whole_words, copies=copies):
        passage = passages[citation.passage]
        assert text[citation.start : citation.end] == passage[citation.passage_start : citation.passage_end]
        assert citation.end - citation.start >= 3
        assert citation.start >= ends
        ends = citation.end


def test_a_span_of_several_passages_is_cited_from_the_one_it_was_copied_from() -> None:
    text = "I think that it is so. It is drunk hot."
    start = text.index("It is")
    copied = [Copy(start + 3, len(text), 1, COFFEE.index("is drunk"))]
    assert spans(text, cite(text, [TEA, COFFEE], min_chars=10)) == [("It is drunk hot.", 0)]
    (citation,) = cite(text, [TEA, COFFEE], min_chars=10, copies=copied)
    assert (citation.passage, citation.passage_start) == (1, COFFEE.index("It is"))


def test_most_of_the_span_decides_and_an_earlier_place_in_the_same_passage_does_not() -> None:
    twice = "Yes, it is drunk hot. No, it is drunk hot."
    text = "it is drunk hot"
    second = twice.rindex("it is")
    copies = [Copy(0, 5, 0, TEA.index("It is")), Copy(5, 15, 1, second + 5)]
    (citation,) = cite(text, ["it is drunk hot", twice], min_chars=10, copies=copies)
    assert (citation.passage, citation.passage_start) == (1, second)


def test_a_copy_that_the_passage_does_not_show_is_not_believed() -> None:
    (citation,) = cite("It is drunk hot.", [TEA, COFFEE], min_chars=10, copies=[Copy(0, 16, 1, 3), Copy(0, 16, 7, 0)])
    assert citation.passage == 0


@given(st.text())
def test_units_are_the_text_in_pieces(text) -> None:
    assert "".join(citations._units(text, whole_words=True)) == text


def test_the_longest_span_wins_and_the_rest_of_another_is_cited_beside_it() -> None:
    passages = ["one two three four", "three four five six seven"]
    text = "one two three four five six seven"
    assert spans(text, cite(text, passages, min_chars=5)) == [("one two", 0), ("three four five six seven", 1)]


def test_a_span_of_several_passages_is_cited_from_the_first() -> None:
    (citation,) = cite("It is drunk hot, they say.", [TEA, COFFEE], min_chars=10)
    assert (citation.passage, citation.passage_start) == (0, TEA.index("It is drunk hot"))


def test_what_is_left_of_a_span_is_cited_from_the_first_passage_that_holds_it() -> None:
    passages = ["green tea", "black green tea is hot", "the big black green"]
    text = "the big black green tea"
    assert spans(text, cite(text, passages, min_chars=3)) == [("the big black green", 2), ("tea", 0)]


def test_repeats_are_cited_each_time() -> None:
    text = f"{COFFEE} And again: {COFFEE}"
    assert spans(text, cite(text, [COFFEE])) == [(COFFEE, 0), (COFFEE, 0)]


def test_spans_shorter_than_the_minimum_are_not_cited() -> None:
    length = len("It is drunk hot.")
    assert cite("It is drunk hot.", [TEA], min_chars=length)
    assert not cite("It is drunk hot.", [TEA], min_chars=length + 1)


@pytest.mark.parametrize(
    ("text", "passage", "cited"),
    [
        ("he art of war", "the art of war", "art of war"),  # inside a word of the passage
        ("the art of warfare", "the art of war", "the art of"),  # inside a word of the text
        ("3.5 million people", "2.5 million people", "million people"),
        ("1,500 million people", "500 million people", "million people"),
        ("can't be drunk hot", "won't be drunk hot", "be drunk hot"),
        ("cafe\u0301 au lait", "cafe au lait", "au lait"),  # a combining accent belongs to its letter
        ("हिन्दी में लिखा है", "हिन्द में लिखा है", "में लिखा है"),
        ("我住在东京都", "他住在东京市", "住在东京"),  # written without spaces
        (". tea is drunk hot (", "is. tea is drunk hot (or", "tea is drunk hot"),
        ("“tea is hot” they say", "a “tea is hot” or", "“tea is hot”"),
        ("snake_case names are good", "case names are good", "names are good"),
        ("🎉🎉 a party is on 🎉", "say 🎉🎉 a party is on 🎉 now", "🎉🎉 a party is on 🎉"),
    ],
)
def test_citations_begin_and_end_with_whole_words(text, passage, cited) -> None:
    assert spans(text, cite(text, [passage], min_chars=3)) == [(cited, 0)]


def test_parts_of_words_are_cited_when_asked() -> None:
    text, passage = "the art of warfare", "the art of war"
    assert spans(text, cite(text, [passage], min_chars=3, whole_words=False)) == [("the art of war", 0)]


def test_nothing_is_kept_of_the_texts() -> None:
    before = citations._may_start.cache_info().currsize
    for number in range(200):
        cite(f"word{number} and other{number} words", [f"word{number} and other{number} words"], min_chars=5)
    assert citations._may_start.cache_info().currsize < before + 30
    assert citations._may_end.cache_info().currsize < before + 60


def test_combining_marks_are_all_of_unicode_s() -> None:
    marks = {code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")}
    attached = {code for code in marks if citations._units("a" + chr(code), whole_words=True) == ["a" + chr(code)]}
    assert attached == marks


def test_ids_name_the_passage() -> None:
    passages = [Passage(COFFEE, "coffee.md"), Passage(TEA)]
    text = f"{COFFEE} {TEA[:49]}"
    assert [(citation.id, citation.passage) for citation in cite(text, passages)] == [("coffee.md", 0), (1, 1)]


def test_objects_with_a_text_are_passages() -> None:
    @dataclass
    class Document:
        page_content: str
        id: str | None = None

    @dataclass
    class Node:
        text: str
        node_id: int = 0

    given = [Document("a", "x"), Document("b"), Node("c")]
    assert as_passages(given) == [Passage("a", "x"), Passage("b"), Passage("c", 0)]


def test_nothing_is_cited_from_nothing() -> None:
    assert cite("", [TEA]) == cite(TEA, []) == cite(TEA, ["", " "]) == []


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"passages must be a list, got str: wrap a single text in a list"):
        cite("text", "passage")
    with pytest.raises(TypeError, match=r"passages\[1\] must be a text or an object with a text, got int"):
        cite("text", ["passage", 3])
    with pytest.raises(ValueError, match=r"min_chars must be an integer of at least 1, got 0"):
        cite("text", [], min_chars=0)
