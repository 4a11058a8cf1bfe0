"""Every accepted token is known by the place it was copied from."""

import random

import pytest
from rag_tiny import byte_tokenizer
from tiny import llama, prompt

from lookahead import MemoryStore
from lookahead.plugins import hf
from lookahead.plugins.rag_origins import CharacterCounts


@pytest.mark.parametrize("references", [[], [[], [7, 8, 9], [40, 41, 42, 43]]])
def test_accepted_tokens_stand_at_their_origins(references) -> None:
    model, ids = hf.enable(llama()), prompt(40)
    plain = model.generate(ids, max_new_tokens=48, eos_token_id=None, lookup=False)[0].tolist()
    references = [*references, plain[40:64]]
    text = model.generate(ids, max_new_tokens=48, eos_token_id=None, lookup={"references": references})[0].tolist()
    stats, position, sources = hf.stats(model), 41, set()
    assert len(stats.reference_starts) >= len(references)
    for step in stats.records:
        assert len(step.origins) == step.accepted_tokens
        for place, origin in enumerate(step.origins):
            token = text[position + place]
            if origin >= stats.text_start:
                sources.add("text")
                assert text[origin - stats.text_start] == token
                assert origin - stats.text_start < position
            else:
                sources.add("reference")
                number = max(i for i in range(len(references)) if stats.reference_starts[i] <= origin)
                assert references[number][origin - stats.reference_starts[number]] == token
        position += step.emitted_tokens
    assert position == len(text)
    assert "reference" in sources


def test_what_came_from_the_memory_is_told_apart() -> None:
    store = MemoryStore()
    model, ids = hf.enable(llama(), memory=store), prompt(12)
    plain = model.generate(ids, max_new_tokens=40, eos_token_id=None, lookup=False)[0].tolist()
    store.add("answers", plain)
    model.generate(ids, max_new_tokens=40, eos_token_id=None, lookup={"memory": "answers"})
    position, found = 13, []
    for step in hf.stats(model).records:
        if step.source == "memory":
            found += [(plain[position + place], origin) for place, origin in enumerate(step.origins)]
        position += step.emitted_tokens
    assert found
    stored = [None, *plain]  # a store begins with a separator
    assert [stored[-1 - origin] for _, origin in found] == [token for token, _ in found]


def test_characters_are_counted_without_decoding_a_text_anew() -> None:
    """Of single bytes, of which many make half a character, and control tokens, which are skipped or not."""
    tokenizer, draw, decoded = byte_tokenizer(), random.Random(1), []
    ids = [draw.randrange(259) for _ in range(3000)] + tokenizer("Tee, Öl, 茶 und Käse. " * 100)["input_ids"]
    for skips in (True, False):

        def text(tokens: list[int], skips: bool = skips) -> str:
            decoded.append(len(tokens))
            return tokenizer.decode(tokens, skip_special_tokens=skips)

        counts = CharacterCounts(text, ids)
        places = [0, 1, 511, 512, 513, len(ids), len(ids) + 9, *(draw.randrange(len(ids)) for _ in range(40))]
        found = [counts.before(place) for place in places]
        assert sum(decoded) < 2 * len(ids) + 600 * len(places)
        assert found == [len(text(ids[:place])) for place in places]
        decoded.clear()
