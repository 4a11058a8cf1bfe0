"""Every accepted token is known by the place it was copied from."""

import pytest
from tiny import llama, prompt

from lookahead import MemoryStore
from lookahead.plugins import hf


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
