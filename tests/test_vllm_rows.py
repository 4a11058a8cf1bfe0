"""Indexes of requests live as long as their requests, within their budget."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from vllm_fakes import COPIED, configuration, engine

from lookahead.plugins.vllm import VllmLookupProposer, extra_args
from lookahead.plugins.vllm_hooks import StepView


@pytest.mark.usefixtures("eager")
class TestRows:
    def test_survive_preemption_and_a_new_place(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120))
        made.add("b", COPIED[::-1], range(102, 120))
        made.step()
        row = made.proposer._rows.get("a")
        made.step(["b"])
        made.step(["b", "a"])
        assert made.proposer._rows.get("a") is row
        assert row.known == len(made.texts["a"])

    def test_are_found_by_comparison_without_the_plugin(self) -> None:
        made = engine(plugin=False)
        for name in "abc":
            made.add(name, [*COPIED, ord(name), 100, 101], range(102, 120))
        made.step()
        rows = dict(made.proposer._rows._rows)
        made.step(["c", "a"])
        made.step(["b", "c"])
        assert dict(made.proposer._rows._rows) == rows

    def test_end_with_their_requests_also_where_no_step_follows(self) -> None:
        made = engine()
        for name in "abc":
            made.add(name, COPIED, range(102, 120), **extra_args(prediction=[5, 6, 7]))
        made.step()
        rows = [weakref.ref(made.proposer._rows.get(name)) for name in "abc"]
        made.end("a")
        made.end("b")
        gc.collect()
        assert [row() is None for row in rows] == [True, True, False]
        assert made.proposer.stats()["rows"] == 1
        assert len(made.step()[0]) > 0

    def test_are_new_where_a_request_takes_the_id_of_one_that_ended(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120))
        made.step()
        made.end("a")
        made.add("a", COPIED, range(102, 120), **extra_args(enabled=False))
        assert made.step() == [[]]

    @pytest.mark.parametrize("plugin", [True, False])
    def test_keep_their_budget(self, plugin) -> None:
        made = engine(plugin, index_bytes=200_000)
        for place in range(20):
            made.add(str(place), [place, *COPIED], range(102, 120))
        for _ in range(3):
            drafts = made.step()
        assert made.proposer.stats()["bytes"] <= 200_000
        assert any(drafts)

    def test_that_find_no_room_are_not_drafted_for(self) -> None:
        made = engine(index_bytes=10)
        made.add("a", COPIED, range(102, 120))
        assert made.step() == [[]]

    def test_that_find_no_room_are_seldom_asked_about(self, monkeypatch) -> None:
        asked: list[str] = []
        parse = StepView.options
        monkeypatch.setattr(StepView, "options", lambda self, key, most: asked.append(key) or parse(self, key, most))
        made = engine(index_bytes=60_000)
        made.add("a", [5, 6, 7], range(100, 140))
        made.add("b", [5, 6, 7], range(100, 140), **extra_args(prediction=range(200, 260)))
        for _ in range(40):
            made.step()
        assert sorted(asked) == ["a", "b"]

    def test_that_found_no_room_get_it_when_another_request_ends(self) -> None:
        made = engine(index_bytes=60_000)
        made.add("a", COPIED, range(102, 120))
        made.add("b", COPIED, range(102, 120))
        assert [len(draft) > 0 for draft in made.step()] == [True, False]
        made.end("a")
        assert len(made.step()[0]) > 0

    def test_know_what_they_hold(self) -> None:
        made = engine(index_bytes=200_000)
        rows = made.proposer._rows
        for place in range(20):
            made.add(str(place), [place, *COPIED], range(102, 120))
        made.step()
        made.end("0")
        rows.shrink(())
        assert rows._held == rows.nbytes
        assert set(rows._sizes) == set(rows._rows)

    def test_hold_their_stop_tokens_within_the_budget_too(self) -> None:
        made = engine(index_bytes=100_000)
        made.proposer._options = replace(made.proposer._options, vocabulary=10**6)
        for name, stops in (("few", 10), ("many", 20_000)):
            made.add(name, COPIED, range(102, 120))
            made.states[name].sampling_params.all_stop_token_ids = set(range(1000, 1000 + stops))
        assert [len(draft) > 0 for draft in made.step()] == [True, False]
        held = made.proposer.stats()["bytes"]
        made.end("few")
        made.add("none", COPIED, range(102, 120))
        made.states["none"].sampling_params.all_stop_token_ids = set()
        made.step(["none"])
        assert held - made.proposer.stats()["bytes"] == 10 * 16

    def test_start_anew_where_a_text_has_changed(self) -> None:
        made = engine()
        made.add("a", COPIED, range(102, 120))
        made.step()
        made.texts["a"] = [7, 8, 9, 10, 7]
        made.states["a"].output_token_ids, made.outputs["a"], made.drafts = [], [8], {}
        assert made.step()[0][:2] == [9, 10]


def test_indexes_keep_their_budget_as_outputs_grow(caplog) -> None:
    settings, budget, rows = configuration(index_bytes=2_000_000), 2_000_000, 3
    settings.model_config.max_model_len = 20_000
    proposer = VllmLookupProposer(settings)
    proposer.load_model(None)
    tokens = np.random.default_rng(0).integers(4, 900, (rows, 20_000), np.int32)
    lengths, held = np.full(rows, 100), []
    for _ in range(160):
        lengths = lengths + 100
        sampled = [tokens[row, length - 100 : length].tolist() for row, length in enumerate(lengths)]
        proposer.propose(sampled, lengths, tokens)
        held.append(proposer.stats()["bytes"])
    assert max(held) > budget / 2
    assert max(held[16::16]) <= budget * 1.4  # between two looks a table of an index may double
    assert held[-1] <= budget
    assert proposer.stats()["rows"] < rows
    assert "found no room in index_bytes any more" in caplog.text
