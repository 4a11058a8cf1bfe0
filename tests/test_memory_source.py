"""Earlier outputs are drafted from where the caller names their namespace, and from nowhere else."""

import random
from typing import Any

import pytest
import torch
from tiny import llama, prompt

from lookahead import LookupConfig, LookupProposer, MemoryStore
from lookahead.memory_source import MemorySource
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED
from lookahead.plugins import hf


@pytest.fixture(autouse=True)
def whole_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pacing, "length", lambda self, plan, context: int(plan.chosen[FOLLOWED]))


def proposer(store: MemoryStore, namespace: str, text: list[int], **options: Any) -> LookupProposer:
    return LookupProposer(LookupConfig(), text, memory=MemorySource(store, namespace), stop_tokens=[0], **options)


def test_the_longest_match_in_memory_goes_on_as_it_did_there() -> None:
    store = MemoryStore()
    store.add("ann", [*range(50, 80), 0])
    draft = proposer(store, "ann", [1, 2, 50, 51]).propose(64)
    assert draft.source == "memory"
    assert draft.tokens == tuple(range(52, 52 + len(draft)))
    assert len(draft) > 5
    assert draft.match_length == 2


def test_a_draft_from_memory_ends_where_the_document_or_the_output_did() -> None:
    store = MemoryStore()
    store.add_all("ann", [("", [50, 51, 52]), ("", [60, 61, 0, 62])])
    assert proposer(store, "ann", [50]).propose(9).tokens == (51, 52)
    assert proposer(store, "ann", [60]).propose(9).tokens == (61, 0)


def test_nothing_is_drafted_from_another_namespace() -> None:
    """The same prefixes, and continuations that tell the namespaces apart."""
    store, draw = MemoryStore(), random.Random(7)
    for number in range(200):
        prefix = [draw.randrange(1, 6) for _ in range(8)]
        store.add("ann", [*prefix, *range(1000, 1008)], name=f"{number}")
        store.add("bob", [*prefix, *range(2000, 2008)], name=f"{number}")
    drafted = {"ann": 0, "bob": 0}
    for _ in range(3000):
        name = draw.choice(["ann", "bob"])
        draft = proposer(store, name, [draw.randrange(1, 6) for _ in range(12)]).propose(16)
        foreign = range(2000, 2008) if name == "ann" else range(1000, 1008)
        assert not set(draft.tokens) & set(foreign)
        drafted[name] += any(token >= 1000 for token in draft.tokens)
    assert min(drafted.values()) > 100


def test_the_text_itself_and_memory_compete_by_what_came_true() -> None:
    """Memory says 7 after 5, 6 and is always wrong; the prompt says 8 and is right: soon the prompt is drafted from."""
    store, pacing = MemoryStore(), Pacing()
    store.add("ann", [4, 5, 6, 7, 7, 7])
    sources = []
    for _ in range(30):
        made = LookupProposer(LookupConfig(), [5, 6, 8, 9, 4, 5, 6], pacing=pacing, memory=MemorySource(store, "ann"))
        sources.append(made.propose(1).source)
        made.extend([8])
    assert set(sources[-10:]) == {"context"}


def test_what_served_is_the_last_to_be_evicted() -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])
    store.add("ann", [50, 51, 52, 53], name="good")
    store.add("ann", [60, 61, 62, 63], name="idle")
    now[0] = 10.0
    made = proposer(store, "ann", [1, 50, 51])
    made.propose(4)
    made.extend([52, 53])
    assert {info.name: info.useful for info in store.documents("ann")} == {"good": 10.0, "idle": 0.0}


def test_what_served_beside_a_likelier_continuation_served_too() -> None:
    """The prompt goes on with 30, memory with 52, and 52 comes."""
    now = [0.0]
    store, pacing = MemoryStore(clock=lambda: now[0]), Pacing()
    store.add("ann", [50, 51, 52, 53, 54])
    for width in (1, 2, 65) * 20:
        pacing.observe(width, 1.0 + 0.004 * width, 1)
    made = proposer(store, "ann", [50, 51, 30, 31, 32, 50, 51], pacing=pacing)
    made.branches = True
    draft = made.propose(64)
    now[0] = 10.0
    nodes = draft.path([52, 53, 54, 9])
    assert len(nodes) == 3
    assert draft.source_of(nodes) == ("memory", 2)
    assert draft.source_of(draft.path([30, 31])) == ("context", 2)
    made.extend([52, 53, 54, 9])
    assert [info.useful for info in store.documents("ann")] == [10.0]


def test_ids_beyond_the_vocabulary_are_never_drafted() -> None:
    store = MemoryStore()
    store.add("ann", [5, 6, 7, 999, 8])
    assert proposer(store, "ann", [5, 6], vocabulary=100).propose(9).tokens == (7,)


def generate(model: Any, **lookup: Any) -> torch.Tensor:
    return model.generate(prompt(), max_new_tokens=40, lookup=lookup or None)


def test_a_remembered_output_is_drafted_when_it_comes_again() -> None:
    plain = llama().generate(prompt(), max_new_tokens=40)
    store = MemoryStore()
    model = hf.enable(llama(), memory=store)
    assert torch.equal(generate(model, memory="ann", remember=True), plain)
    first = hf.stats(model).steps
    (document,) = store.documents("ann")
    assert document.tokens == 40
    assert torch.equal(generate(model, memory="ann"), plain)
    assert hf.stats(model).steps < first
    assert "memory" in {record.source for record in hf.stats(model).records}
    assert len(store.documents("ann")) == 1


def test_an_output_that_finds_no_room_is_returned_all_the_same(caplog) -> None:
    model = hf.enable(llama(), memory=MemoryStore(budget=300))
    text = generate(model, memory="ann", remember=True)
    assert torch.equal(text, llama().generate(prompt(), max_new_tokens=40))
    assert "not remembered in ann" in caplog.text


def test_what_is_decoded_plainly_is_remembered_too() -> None:
    store = MemoryStore()
    model = hf.enable(llama(), memory=store)
    prompts = torch.cat([prompt(24, 1), prompt(24, 2)])
    plain = llama().generate(prompts, max_new_tokens=20, eos_token_id=None, pad_token_id=0)
    end = int(plain[0, 30])
    lookup = {"memory": "ann", "remember": True}
    text = model.generate(prompts, max_new_tokens=20, use_cache=False, eos_token_id=end, pad_token_id=0, lookup=lookup)
    assert hf.stats(model).plain_reason
    rows = [row[24:].tolist() for row in text]
    lengths = [row.index(end) + 1 if end in row else len(row) for row in rows]
    assert [info.tokens for info in store.documents("ann")] == lengths
    assert min(lengths) < 20
    with pytest.raises(ValueError, match="the model has no store"):
        hf.enable(llama()).generate(prompts, max_new_tokens=2, use_cache=False, lookup={"memory": "ann"})


def test_beams_say_that_nothing_was_remembered(caplog) -> None:
    store = MemoryStore()
    model = hf.enable(llama(), memory=store)
    model.generate(prompt(), max_new_tokens=5, num_beams=2, lookup={"memory": "ann", "remember": True})
    assert store.namespaces() == {}
    assert "its output was not remembered" in caplog.text


def test_nothing_is_remembered_unless_asked() -> None:
    store = MemoryStore()
    model = hf.enable(llama(), memory=store)
    generate(model, memory="ann")
    generate(model)
    assert store.namespaces() == {}


@pytest.mark.parametrize(
    ("lookup", "error", "message"),
    [
        ({"memory": 5}, TypeError, "memory must be the name of a namespace"),
        ({"memory": "ann", "remember": "yes"}, TypeError, "remember must be True or False"),
        ({"remember": True}, ValueError, "no namespace is named: add memory"),
        ({"memory": "ann"}, ValueError, "the model has no store: call hf.enable"),
    ],
)
def test_mistakes_are_named(lookup, error, message) -> None:
    with pytest.raises(error, match=message):
        generate(hf.enable(llama()), **lookup)


def test_a_store_of_another_tokenizer_is_refused() -> None:
    class Tokenizer:
        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

    with pytest.raises(ValueError, match="memory was built with the tokenizer sha256:other"):
        hf.enable(llama(), Tokenizer(), memory=MemoryStore(tokenizer="sha256:other"))
