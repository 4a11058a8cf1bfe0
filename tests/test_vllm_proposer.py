"""Inside vLLM a draft fits the engine's limits, is the same on every rank, and leaves nothing behind."""

import gc
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.plugins import vllm_hooks
from lookahead.plugins.vllm import VllmLookupProposer, extra_args
from lookahead.plugins.vllm_hooks import StepView

LONGEST = 60


def configuration(tokens: int = 8, backend: str | None = None, ranks: int = 1, **options: Any) -> SimpleNamespace:
    """As much of a VllmConfig as is read."""
    return SimpleNamespace(
        additional_config={"lookahead": options} if options else {},
        speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=1000),
        parallel_config=SimpleNamespace(world_size=ranks, distributed_executor_backend=backend),
        model_config=SimpleNamespace(
            max_model_len=LONGEST,
            get_vocab_size=lambda: 1000,
            hf_config=SimpleNamespace(eos_token_id=2, image_token_id=3),
        ),
    )


class Engine:
    """Verifies drafts against known outputs, as vLLM's runner does, and looks after its arrays."""

    def __init__(self, proposer: VllmLookupProposer, plugin: bool = True) -> None:
        self.proposer, self.plugin = proposer, plugin
        self.texts: dict[str, list[int]] = {}
        self.outputs: dict[str, list[int]] = {}
        self.states: dict[str, SimpleNamespace] = {}
        self.drafts: dict[str, list[int]] = {}
        self.made: list[list[int]] = []

    def add(self, name: str, prompt: Sequence[int], output: Sequence[int], most: int = 100, **extra: Any) -> None:
        params = SimpleNamespace(max_tokens=most, extra_args=extra or None, all_stop_token_ids={2})
        self.texts[name], self.outputs[name] = list(prompt), list(output)
        self.states[name] = SimpleNamespace(sampling_params=params, output_token_ids=[])

    def end(self, name: str) -> None:
        for each in (self.texts, self.outputs, self.states, self.drafts):
            each.pop(name, None)
        if self.plugin:
            self.proposer.forget([name])

    def step(self, names: Sequence[str] | None = None) -> list[list[int]]:
        """One step of the named requests, or of all; returns the drafts."""
        names = list(self.texts) if names is None else list(names)
        emitted = [self._verify(name) for name in names]
        tokens = np.full((len(names) + 2, LONGEST), 7, np.int32)  # vLLM's arrays have rows for more requests
        for place, name in enumerate(names):
            tokens[place, : len(self.texts[name])] = self.texts[name]
        lengths = np.array([*(len(self.texts[name]) for name in names), 9, 9], np.int32)
        if self.plugin:
            verified = {name: draft for name in names if (draft := self.drafts.get(name))}
            width = len(names) + sum(map(len, verified.values()))
            self.proposer.look(StepView(names, self.states, verified, width))
        self.made = self.proposer.propose(emitted, lengths, tokens)
        self.drafts = dict(zip(names, self.made, strict=True))
        return self.made

    def _verify(self, name: str) -> list[int]:
        done = len(self.states[name].output_token_ids)
        left, draft = self.outputs[name][done:], self.drafts.get(name, [])
        right = next((i for i, token in enumerate(draft) if left[i : i + 1] != [token]), len(draft))
        emitted = left[: right + 1]
        self.texts[name] += emitted
        self.states[name].output_token_ids += emitted
        return emitted


def ticking(seconds: float) -> Callable[[], float]:
    """A clock on which so much time passes between any two looks."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    return clock


def engine(plugin: bool = True, **options: Any) -> Engine:
    return Engine(VllmLookupProposer(configuration(**options), ticking(1e-3)), plugin)


COPIED = [*range(100, 120), 100, 101]


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
        monkeypatch.setattr(StepView, "options", lambda self, key: asked.append(key) or parse(self, key))
        made = engine(index_bytes=60_000)
        made.add("a", [5, 6, 7], range(100, 140))
        made.add("b", [5, 6, 7], range(100, 140), **extra_args(prediction=range(200, 300)))
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
    assert made.proposer.counts("mine") == (0, 0)


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
