"""Inside vLLM a draft fits the engine's limits, is the same on every rank, and leaves nothing behind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vllm_fakes import COPIED, LONGEST, Engine, configuration, engine, ticking

from lookahead.plugins import vllm_hooks
from lookahead.plugins.vllm import VllmLookupProposer, extra_args
from lookahead.plugins.vllm_rows import Row


@pytest.mark.usefixtures("eager")
class TestDrafts:
    def test_go_on_with_what_followed_before(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120))
        assert made.step() == [list(range(103, 111))]
        assert made.step()[0][0] == 112

    def test_are_never_longer_than_k(self) -> None:
        made = engine(tokens=3)
        made.add("a", COPIED, range(102, 120))
        assert made.step() == [[103, 104, 105]]

    def test_end_before_the_request_does(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120), most=4)
        assert made.step() == [[103, 104]]

    def test_end_before_the_longest_text_does(self) -> None:
        made = engine()
        made.add("a", [*range(LONGEST - 10), *range(7)], [7])
        assert made.step() == [[8]]
        made.add("b", [*range(LONGEST - 10), *range(8)], [8])
        assert made.step(["b"]) == [[]]

    def test_end_before_ids_that_the_model_lacks_and_before_placeholders(self) -> None:
        made = engine()
        made.add("a", [5, 6, 1000, 7, 5], [6])
        made.add("b", [5, 6, 7, 3, 7, 5, 6], [7])
        made.add("c", [5, 6, 7, 8, 2, 7, 5, 6], [7])
        assert made.step() == [[], [], [8, 2]]

    def test_are_none_in_the_middle_of_a_prefill(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120))
        made.add("b", COPIED, [])
        assert made.step()[1] == []

    def test_are_of_a_prediction_that_the_prompt_lacks(self) -> None:
        made = engine()
        made.add("a", [5, 6], range(200, 230), **extra_args(prediction=range(200, 230)))
        assert made.step() == [list(range(201, 209))]

    def test_are_of_references(self) -> None:
        made = engine()
        made.add("a", [5, 6], range(200, 230), **extra_args(references=[range(300, 310), range(200, 230)]))
        assert made.step() == [list(range(201, 209))]

    def test_are_none_for_who_wants_none(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120), **extra_args(enabled=False))
        assert made.step() == [[]]
        assert made.proposer.stats()["rows"] == 0

    @pytest.mark.parametrize("extra", [{"lookahead_prediction": "?"}, {"lookahead_references": 5}])
    def test_go_on_where_a_client_is_wrong(self, extra) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120), **extra)
        assert len(made.step()[0]) == 8


@pytest.mark.usefixtures("eager")
def test_counts_are_those_of_the_predictions_own_tokens() -> None:
    made = engine()
    prediction = [*range(200, 210), 999, *range(211, 230)]
    made.add("a", [5, 6], range(200, 230), **extra_args(prediction=prediction), lookahead_key="mine")
    accepted = drafted = 0
    for _ in range(6):
        before = len(made.states["a"].output_token_ids)
        draft = made.drafts.get("a", [])
        made.step()
        accepted += max(len(made.states["a"].output_token_ids) - before - 1, 0)
        drafted += len(draft)
    kept, lost = made.proposer.counts("mine")
    assert 0 < kept <= accepted
    assert lost > 0
    assert kept + lost <= drafted
    assert made.proposer.counts("mine") is None


@pytest.mark.usefixtures("eager")
def test_counts_are_known_of_this_engines_requests_alone() -> None:
    made = engine()
    for place, enabled in enumerate([True, False]):
        extra = extra_args(prediction=[5, 6, 7], enabled=enabled)
        made.add(str(place), [5, 6], range(200, 230), **extra, lookahead_key=f"mine {place}")
    made.step()
    keys = ["mine 0", "mine 1", "another engine's"]
    assert [made.proposer.counts(key) for key in keys] == [(0, 0), (0, 0), None]


@pytest.mark.usefixtures("eager")
def test_texts_longer_than_the_model_reads_are_left_out_wherever_they_come_from(caplog) -> None:
    made = engine()
    made.add("a", [5, 6], range(200, 230), **extra_args(prediction=range(200, 200 + LONGEST + 1)))
    made.add("b", [5, 6], range(200, 230), **extra_args(references=[range(200, 200 + 2 * LONGEST + 1)] * 2))
    made.add("c", [5, 6], range(200, 230), **extra_args(prediction=range(200, 200 + LONGEST)))
    assert [len(draft) for draft in made.step()] == [0, 0, 8]
    assert f"lookahead_prediction must be at most {LONGEST} tokens long, got {LONGEST + 1}" in caplog.text
    assert f"lookahead_references must be at most {4 * LONGEST} tokens long, got {4 * LONGEST + 2}" in caplog.text


@pytest.mark.usefixtures("eager")
def test_a_step_that_fails_is_decoded_without_drafts(monkeypatch, caplog) -> None:
    made = engine()
    made.add("a", COPIED, range(102, 120))
    monkeypatch.setattr(VllmLookupProposer, "_seats", lambda *_: 1 / 0)
    assert [made.step(), made.step()] == [[[]], [[]]]
    assert sum("lookup failed" in record.message for record in caplog.records) == 1


@pytest.mark.usefixtures("eager")
def test_ids_that_are_none_are_decoded_without_drafts(caplog) -> None:
    made = engine()
    made.add("a", [5, -1, 6, 5], [6])
    made.add("b", COPIED, range(102, 120))
    assert [len(draft) for draft in made.step()] == [0, 8]
    assert "decoded without drafts" in caplog.text


def drafts_of(backend: str | None, seconds: float) -> list[list[list[int]]]:
    """All drafts on the way through three texts, on a clock of this speed."""
    made = Engine(VllmLookupProposer(configuration(backend=backend, ranks=2), ticking(seconds)))
    made.add("a", COPIED, [*range(102, 110), 7, *range(111, 120)])
    made.add("b", COPIED[::-1], range(102, 120))
    made.add("c", range(30, 40), [*range(30, 40), *range(30, 38)])
    return [made.step() for _ in range(14)]


def test_ranks_that_decide_alone_decide_alike_whatever_their_clocks_say() -> None:
    """torchrun's ranks each have a scheduler of their own."""
    assert drafts_of("external_launcher", 1e-3) == drafts_of("external_launcher", 7.0)
    assert any(draft for step in drafts_of("external_launcher", 1e-3) for draft in step)


def test_elsewhere_only_the_rank_that_the_scheduler_asks_drafts(monkeypatch) -> None:
    first = drafts_of("mp", 1e-3)
    monkeypatch.setattr(vllm_hooks, "tensor_rank", lambda: 1)
    assert any(draft for step in first for draft in step)
    assert drafts_of("mp", 1e-3) == [[[] for _ in step] for step in first]


def test_options_are_checked_at_the_start() -> None:
    with pytest.raises(ValueError, match="did you mean 'max_draft'"):
        VllmLookupProposer(configuration(max_drafts=3))
    with pytest.raises(ValueError, match=r"index_bytes in .* must be an integer"):
        VllmLookupProposer(configuration(index_bytes="1 GB"))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("plugin", [True, False])
def test_what_fails_for_one_request_costs_no_other_its_drafts(monkeypatch, caplog, plugin) -> None:
    follow = Row.follow

    def failing(self: Row, tokens: Any) -> bool:
        return 1 / 0 if 999 in tokens else follow(self, tokens)

    monkeypatch.setattr(Row, "follow", failing)
    made = engine(plugin)
    made.add("a", [999, *COPIED], range(102, 120))
    made.add("b", COPIED, range(102, 120))
    assert [[len(draft) > 0 for draft in made.step()] for _ in range(3)] == [[False, True]] * 3
    assert sum("decoded without drafts" in record.message for record in caplog.records) == 1


@pytest.mark.usefixtures("eager")
def test_ids_that_stop_a_request_but_are_none_of_the_models_change_nothing() -> None:
    made = engine()
    made.add("a", COPIED, range(102, 120))
    made.states["a"].sampling_params.all_stop_token_ids = {2, 105, -1, 1000, 2**63}
    assert made.step() == [[103, 104, 105]]


texts = st.lists(st.integers(4, 7), min_size=1, max_size=20)


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4), st.data())
def test_whatever_the_engine_does_drafts_fit_and_texts_are_followed(requests, data) -> None:
    """Requests come, go, pause and change places; every draft has room, and every row knows its request's text."""
    made = engine(tokens=5, index_bytes=300_000)
    for place, (prompt, output, prediction) in enumerate(requests):
        made.add(str(place), prompt, output, **extra_args(prediction=prediction))
    for _ in range(data.draw(st.integers(1, 8))):
        names = data.draw(st.permutations(sorted(made.texts)))
        for name, draft in zip(names, made.step(names), strict=True):
            assert len(draft) <= 5
            assert all(4 <= token <= 7 for token in draft)
            row = made.proposer._rows.get(name)
            if row is not None and row.known == len(made.texts[name]):
                assert row.index.tokens[-row.known :].tolist() == made.texts[name]
        if len(made.texts) > 1 and data.draw(st.booleans()):
            made.end(names[0])
