"""The law of sampled text is the target's, whatever is drafted: chi-squared over every text a toy model can write."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product

import pytest
import torch
from tiny import taking_at_once
from transformers import GenerationConfig
from transformers.generation.logits_process import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StoppingCriteriaList

from lookahead import decoding
from lookahead.draft import Draft
from lookahead.plugins.hf_output import HFOutput
from lookahead.stats import DecodingStats, StepRecord
from lookahead.verifier import accept, confirm

VOCABULARY, LENGTH, END, SAMPLES = 4, 4, 3, 6000
PROMPT = (1, 0)


@cache
def logits_after(prefix: tuple[int, ...]) -> torch.Tensor:
    """A fixed table of logits: any prefix has its own row, drawn once."""
    seed = 1 + sum((token + 1) * 5**i for i, token in enumerate(prefix))
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 1.5


def processors() -> LogitsProcessorList:
    return LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(1.3), TemperatureLogitsWarper(0.8), TopPLogitsWarper(0.9)]
    )


@cache
def probabilities(prefix: tuple[int, ...]) -> torch.Tensor:
    return processors()(torch.tensor([prefix]), logits_after(prefix)[None])[0].softmax(-1)


def exact_law() -> dict[tuple[int, ...], float]:
    """The probability of every text: it ends with END or at LENGTH tokens."""
    law: dict[tuple[int, ...], float] = {}
    for text in product(range(VOCABULARY), repeat=LENGTH):
        text = text[: text.index(END) + 1] if END in text else text
        if text not in law:
            law[text] = 1.0
            for i, token in enumerate(text):
                law[text] *= float(probabilities(PROMPT + text[:i])[token])
    return {text: p for text, p in law.items() if p > 0}


class Table:
    """A target model that reads its logits from the table."""

    def __init__(self, output: HFOutput) -> None:
        self.output = output

    def room(self, row: int) -> int:
        return len(PROMPT) + LENGTH - self.output.rows[0].length - 1

    def forward(self, rows: Sequence[int], drafts: Sequence[Draft]) -> tuple[list[torch.Tensor], int]:
        text = tuple(self.output.rows[0].input_ids[0].tolist())
        logits = [logits_after(text + drafts[0].tokens[:i]) for i in range(len(drafts[0]) + 1)]
        return [torch.stack(logits)], len(logits)

    def commit(self, emitted: Sequence[int]) -> None:
        pass


class Adversary:
    """Drafts what flatters or hurts the verifier most: the least or the most likely tokens, by the prefix."""

    def __init__(self) -> None:
        self.text = list(PROMPT)

    def extend(self, tokens: Sequence[int]) -> None:
        self.text.extend(tokens)

    def propose(self, room: int) -> Draft:
        tokens: list[int] = []
        for depth in range(min(room, 3)):
            ranked = probabilities((*self.text, *tokens)).argsort().tolist()
            tokens.append(ranked[-1] if (sum(self.text) + depth) % 2 else ranked[-2])
        return Draft(tuple(tokens))

    def observe(self, step: StepRecord) -> None:
        pass

    def finish(self) -> None:
        pass


def sample_text() -> tuple[int, ...]:
    criteria = StoppingCriteriaList([MaxLengthCriteria(len(PROMPT) + LENGTH), EosTokenCriteria(END)])
    config = GenerationConfig(do_sample=True)
    config._pad_token_tensor = None
    output = HFOutput(torch.tensor([PROMPT]), processors(), criteria, config, None)
    decoding.decode(Table(output), [Adversary()], output, DecodingStats())
    return tuple(output.result()[0, len(PROMPT) :].tolist())


def p_value(samples: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-squared test; texts expected less than five times are put into one bin."""
    observed, statistic, bins, rest_seen, rest_expected = Counter(samples), 0.0, 0, 0, 0.0
    for text, probability in law.items():
        expected = probability * len(samples)
        if expected < 5:
            rest_seen, rest_expected = rest_seen + observed[text], rest_expected + expected
        else:
            statistic, bins = statistic + (observed[text] - expected) ** 2 / expected, bins + 1
    if rest_expected:
        statistic, bins = statistic + (rest_seen - rest_expected) ** 2 / rest_expected, bins + 1
    assert set(observed) <= set(law)
    return float(torch.special.gammaincc(torch.tensor((bins - 1) / 2), torch.tensor(statistic / 2)))


def greedy_for_the_draft(draft: Draft, choose: Callable[[int], int]) -> Iterator[int]:
    """Broken on purpose: a drafted token gets a second chance."""
    for row in range(len(draft) + 1):
        tokens = [choose(row), choose(row)]
        if row < len(draft) and draft.tokens[row] in tokens:
            yield draft.tokens[row]
        else:
            yield tokens[0]
            return


def one_too_many(draft: Draft, choose: Callable[[int], int]) -> Iterator[int]:
    """Broken on purpose: the draft's token stands where the target's first differs."""
    for row in range(len(draft) + 1):
        token = choose(row)
        if row < len(draft) and draft.tokens[row] != token:
            yield draft.tokens[row]
            return
        yield token


def test_sampled_texts_follow_the_targets_law_under_adversarial_drafts() -> None:
    torch.manual_seed(0)
    assert p_value([sample_text() for _ in range(SAMPLES)], exact_law()) > 1e-3


@pytest.mark.parametrize("broken", [greedy_for_the_draft, one_too_many])
def test_a_broken_verifier_fails_the_same_test(broken, monkeypatch) -> None:
    monkeypatch.setattr(decoding, "confirm", taking_at_once(broken))
    torch.manual_seed(0)
    try:
        p = p_value([sample_text() for _ in range(SAMPLES // 6)], exact_law())
    except AssertionError:  # a text that the target can't write
        p = 0.0
    assert p < 1e-6


def test_the_general_rule_follows_the_targets_law_for_drafts_with_probabilities() -> None:
    """Tokens drawn from another law and judged by min(1, target/draft) and the residual are the target's."""
    generator = torch.Generator().manual_seed(0)
    target = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    draft = torch.tensor([[0.1, 0.1, 0.4, 0.4], [0.4, 0.3, 0.2, 0.1]])
    first: Counter[int] = Counter()
    for _ in range(SAMPLES):
        tokens = torch.multinomial(draft, 1, generator=generator).squeeze(1)
        first[accept(target, draft, tokens, generator).tokens[0]] += 1
    law = {(token,): float(p) for token, p in enumerate(target[0])}
    assert p_value([(token,) for token in first.elements()], law) > 1e-3


def test_one_random_draw_per_emitted_token() -> None:
    """After the same text, the generator stands where plain sampling leaves it."""
    torch.manual_seed(5)
    text = sample_text()
    after = torch.get_rng_state()
    torch.manual_seed(5)
    for i in range(len(text)):
        assert int(torch.multinomial(probabilities(PROMPT + text[:i])[None], 1)) == text[i]
    assert torch.equal(torch.get_rng_state(), after)


def test_confirm_asks_for_no_row_beyond_the_last_token_taken() -> None:
    asked: list[int] = []

    def choose(row: int) -> int:
        asked.append(row)
        return [5, 6, 7, 8][row]

    assert confirm(Draft((5, 6, 7)), choose, ends=lambda token: token == 6) == [5, 6]
    assert asked == [0, 1]
