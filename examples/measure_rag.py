"""Measure answers over passages: plain, transformers' prompt lookup, and ours, interleaved on the same questions.

    python examples/measure_rag.py --data questions.jsonl --questions 20 --tokens 96

Records hold ``question`` and ``passages`` (also ``query`` and ``docs``). Prints the decoding speed of each method
(seconds after the first token), how many answers have the tokens of plain generation, the share of the answers'
characters that is cited, and how many citations are equal to the text of their passage.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.stopping_criteria import StoppingCriteria

from lookahead.cli.models import default_model_path
from lookahead.plugins import hf, rag

METHODS: dict[str, dict[str, Any]] = {
    "plain": {"lookup": False},
    "builtin": {"lookup": False, "prompt_lookup_num_tokens": 10},
    "ours": {},
}


class FirstToken(StoppingCriteria):
    """Notes when the first token came, so that prefill and decoding are timed apart; never stops."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Look at the clock at the first call."""
        self.time = self.time or time.perf_counter()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def read(path: Path, count: int) -> list[tuple[str, list[str]]]:
    """Return questions with their passages, taken evenly from the file."""
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    chosen = records[:: max(1, len(records) // count)][:count]
    return [(r.get("question") or r["query"], r.get("passages") or r["docs"]) for r in chosen]


def run(
    model: Any, tokenizer: Any, question: str, passages: list[str], tokens: int, method: str
) -> tuple[rag.Answer, float]:
    """Return the answer and the seconds after its first token."""
    first = FirstToken()
    options = {"max_new_tokens": tokens, "do_sample": False, "stopping_criteria": [first], **METHODS[method]}
    answer = rag.answer(model, tokenizer, question, passages, **options)
    return answer, time.perf_counter() - first.time


def is_exact(answer: rag.Answer, citation: rag.Citation) -> bool:
    """Whether the cited text is that of the passage at its place."""
    passage = answer.passages[citation.passage].text
    return answer.text[citation.start : citation.end] == passage[citation.passage_start : citation.passage_end]


def main() -> None:
    """Measure and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--model")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    path = arguments.model or default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, arguments.dtype)).to(arguments.device)
    hf.enable(model.eval(), tokenizer)
    for method in METHODS:  # the first calls compile and measure
        run(model, tokenizer, "What is tea?", ["Tea is a drink."], 8, method)

    rows: dict[str, list[tuple[int, float]]] = {method: [] for method in METHODS}
    same = dict.fromkeys(METHODS, 0)
    answers: list[rag.Answer] = []
    for question, passages in read(arguments.data, arguments.questions):
        plain = None
        for method in METHODS:
            answer, seconds = run(model, tokenizer, question, passages, arguments.tokens, method)
            plain = plain or answer
            same[method] += answer.token_ids == plain.token_ids
            rows[method].append((len(answer.token_ids) - 1, seconds))
        answers.append(answer)
    total = {method: sum(tokens for tokens, _ in row) / sum(s for _, s in row) for method, row in rows.items()}
    for method, row in rows.items():
        speeds = [tokens / seconds for tokens, seconds in row if tokens]
        paired = [p[1] / m[1] for p, m in zip(rows["plain"], row, strict=True) if m[0]]
        line = {
            "method": method,
            "questions": len(answers),
            "tokens_per_second": round(total[method], 2),
            "median": round(statistics.median(speeds), 2),
            "range": [round(min(speeds), 2), round(max(speeds), 2)],
            "over_plain": round(total[method] / total["plain"], 3),
            "median_over_plain": round(statistics.median(paired), 3),
            "same_tokens": same[method],
        }
        print(json.dumps(line), flush=True)
    cited = [(answer, citation) for answer in answers for citation in answer.citations]
    characters = sum(len(answer.text) for answer in answers)
    summary = {
        "ours_over_builtin": round(total["ours"] / total["builtin"], 3),
        "tokens_per_step": round(statistics.mean(answer.stats.mean_acceptance_length for answer in answers), 2),
        "characters": characters,
        "cited_share": round(sum(citation.end - citation.start for _, citation in cited) / characters, 3),
        "citations": len(cited),
        "exact_citations": sum(is_exact(*pair) for pair in cited),
        "machine": f"{arguments.device}, {arguments.dtype}, {torch.get_num_threads()} threads",
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
