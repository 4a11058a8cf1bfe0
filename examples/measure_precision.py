"""How often does low precision part the text from plain generation, and what does a fixed width cost?

Runs one set of edit requests plainly, with transformers' prompt lookup, and with ours in several modes, interleaved,
and prints for each the share of texts that equal plain's, tokens per second after the prefill, and the margin between
the two best logits where texts first part (median, maximum).

    python examples/measure_precision.py --dtype bfloat16 --prompts 30 --tokens 160 [--data FILE.jsonl]

FILE.jsonl holds objects with ``before`` (a file) and ``instruction``; without it the example files are used.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.cli.models import default_model_path
from lookahead.cli.prompts import edit_prompt
from lookahead.draft import Draft
from lookahead.plugins import hf, hf_call
from lookahead.stats import StepRecord

WIDTHS = (8,)


class AnyDraft:
    """Drafts random tokens of random length: the worst drafter there is."""

    def __init__(self, vocabulary: int, width: int) -> None:
        self.random, self.vocabulary, self.width = random.Random(0), vocabulary, width

    def extend(self, tokens: Sequence[int]) -> None:
        """Learn nothing."""

    def propose(self, room: int) -> Draft:
        """Return up to ``room`` random tokens."""
        length = self.random.randint(0, max(0, min(room, self.width)))
        return Draft(tuple(self.random.randrange(self.vocabulary) for _ in range(length)))

    def observe(self, step: StepRecord) -> None:
        """Learn nothing here either."""

    def finish(self) -> None:
        """Nothing to take note of."""


@contextmanager
def drafting_with(proposer: Any) -> Iterator[None]:
    """Replace the proposer of the calls inside."""
    original = hf_call._proposers
    hf_call._proposers = lambda model, call, config: [proposer]
    try:
        yield
    finally:
        hf_call._proposers = original


def modes(vocabulary: int) -> dict[str, dict[str, Any]]:
    """The ways of generating that are compared; ``drafter`` replaces ours."""
    found: dict[str, dict[str, Any]] = {
        "plain": {"lookup": False},
        "prompt_lookup_num_tokens=10": {"lookup": False, "prompt_lookup_num_tokens": 10},
        "lookup": {"lookup": True},
    }
    for width in WIDTHS:
        found[f"fixed_width={width}"] = {"lookup": {"fixed_width": width}}
        found[f"fixed_width={width}, no draft"] = {"lookup": {"fixed_width": width, "max_draft": 0}}
        drafter = {"drafter": AnyDraft(vocabulary, width)}
        found[f"fixed_width={width}, random drafts"] = {"lookup": {"fixed_width": width}} | drafter
    return found


def requests(path: str | None, count: int) -> list[tuple[str, str]]:
    """Return (file, instruction) pairs."""
    if path is None:
        here = Path(__file__).parent
        texts = [file.read_text() for file in sorted(here.glob("*.py"))]
        return [(text, "Add type hints.") for text in texts][:count]
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").split("\n") if line.strip()]
    rows = [row for row in rows if len(row["before"]) < 6000]
    return [(row["before"], row["instruction"]) for row in rows[:: max(1, len(rows) // count)][:count]]


def generate(model: Any, ids: torch.Tensor, tokens: int, mode: dict[str, Any]) -> tuple[list[int], float]:
    """Return the new tokens and the seconds of the call."""
    options = {key: value for key, value in mode.items() if key != "drafter"}
    started = time.perf_counter()
    call = {"max_new_tokens": tokens, "do_sample": False, **options}
    if "drafter" in mode:
        with drafting_with(mode["drafter"]):
            text = model.generate(ids, **call)
    else:
        text = model.generate(ids, **call)
    return text[0, ids.shape[1] :].tolist(), time.perf_counter() - started


@torch.no_grad()
def margin(model: Any, ids: torch.Tensor, text: list[int], place: int) -> float:
    """Return the distance of the two best logits after ``place`` tokens of the text."""
    logits = model(torch.cat([ids, torch.tensor([text[:place]], dtype=ids.dtype)], dim=1)).logits[0, -1].float()
    best = logits.topk(2).values
    return float(best[0] - best[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further prompt after so many")
    arguments = parser.parse_args()
    path = default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, arguments.dtype))
    hf.enable(model, tokenizer)
    compared = modes(len(tokenizer))
    texts: dict[str, list[list[int]]] = {name: [] for name in compared}
    seconds: dict[str, list[float]] = {name: [] for name in compared}
    margins: dict[str, list[float]] = {name: [] for name in compared}
    wanted = requests(arguments.data, arguments.prompts)
    until = time.monotonic() + 60 * arguments.minutes
    for number, (file, instruction) in enumerate(wanted, 1):
        if time.monotonic() > until:
            wanted = wanted[: number - 1]
            break
        ids = torch.tensor([edit_prompt(tokenizer, "example.py", file, instruction).ids])
        _, prefill = generate(model, ids, 1, compared["plain"])
        for name, mode in compared.items():
            text, took = generate(model, ids, arguments.tokens, mode)
            texts[name].append(text)
            seconds[name].append((took - prefill) / max(1, len(text) - 1))
            plain = texts["plain"][-1]
            if text != plain:
                place = next(i for i, (a, b) in enumerate(zip([*text, -1], [*plain, -2], strict=False)) if a != b)
                margins[name].append(margin(model, ids, plain, place))
        print(f"{number}/{len(wanted)}", file=sys.stderr)
    print(f"{arguments.dtype}, {len(wanted)} prompts, {arguments.tokens} tokens, torch {torch.__version__}")
    print(f"{'mode':36} {'equal plain':>11} {'equal good drafts':>18} {'tokens/s':>9} {'margin at parting':>18}")
    for name in compared:
        good = name.split(",")[0]
        equal = sum(a == b for a, b in zip(texts[name], texts["plain"], strict=True))
        invariant = sum(a == b for a, b in zip(texts[name], texts[good], strict=True))
        speed = 1 / statistics.mean(seconds[name])
        parted = f"{statistics.median(margins[name]):.3f}, {max(margins[name]):.3f}" if margins[name] else "-"
        print(f"{name:36} {equal:>8}/{len(wanted)} {invariant:>15}/{len(wanted)} {speed:>9.1f} {parted:>18}")


if __name__ == "__main__":
    main()
