"""A probe in a foreign loop counts what lookup would have done, and changes nothing."""

import pytest
import torch
from tiny import llama, prompt

from lookahead.plugins import hf
from lookahead.plugins.hf_probe import LookupProbe


def test_the_probe_counts_what_lookup_does() -> None:
    model, probe = llama(), LookupProbe({"draft_per_match": 4})
    plain = model.generate(prompt(), max_new_tokens=60)
    assert torch.equal(model.generate(prompt(), max_new_tokens=60, logits_processor=[probe]), plain)
    hf.enable(model).generate(prompt(), max_new_tokens=60, lookup={"draft_per_match": 4})
    real = hf.stats(model)
    assert probe.stats.accepted_tokens == pytest.approx(real.accepted_tokens, abs=real.records[-1].accepted_tokens + 1)
    assert probe.stats.steps == pytest.approx(real.steps, abs=1)


def test_scores_are_handed_back_untouched() -> None:
    scores = torch.randn(2, 8)
    assert LookupProbe()(torch.tensor([[1, 2], [3, 4]]), scores) is scores


def test_steps_are_those_of_the_drafts() -> None:
    probe, scores = LookupProbe({"max_draft": 2, "draft_per_match": 4}), torch.zeros(1, 9)
    text = [1, 2, 3, 4, 1]
    for token in (2, 3, 4, 1, 2, 8, 1):
        probe(torch.tensor([text]), scores)
        text.append(token)
    assert [(s.draft_tokens, s.accepted_tokens) for s in probe.stats.records] == [(2, 2), (2, 1)]


def test_a_text_that_does_not_continue_starts_anew() -> None:
    probe, scores = LookupProbe(), torch.zeros(1, 9)
    for text in ([1, 2, 1], [1, 2, 1, 2], [5, 6, 5, 6], [5, 6, 5, 6, 5], [7, 8]):
        probe(torch.tensor([text]), scores)
    assert probe.stats.rows == 3


def test_texts_need_a_tokenizer_that_a_probe_has_not() -> None:
    with pytest.raises(ValueError, match="token ids"):
        LookupProbe({"prediction": "text"})


def test_padding_behind_the_end_of_a_row_is_not_counted() -> None:
    ids, settings = torch.cat([prompt(), prompt(seed=5)]), {"max_new_tokens": 60, "eos_token_id": 7, "pad_token_id": 0}
    both, alone = (LookupProbe({"draft_per_match": 4}, end_tokens=[7]) for _ in range(2))
    text = llama().generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[both], **settings)[:, 24:]
    lengths = [row.index(7) + 1 if 7 in row else len(row) for row in text.tolist()]
    assert min(lengths) < text.shape[1] - 8
    for row in ids:
        llama().generate(row[None], logits_processor=[alone], **settings)
    assert both.stats.generated_tokens <= sum(lengths)
    assert both.stats.generated_tokens == alone.stats.generated_tokens
    assert (both.stats.steps, both.stats.accepted_tokens) == (alone.stats.steps, alone.stats.accepted_tokens)
