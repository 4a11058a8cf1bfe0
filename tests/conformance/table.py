"""Every architecture against every claim, as a table: `python tests/conformance/table.py > examples/CONFORMANCE.md`."""

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import transformers
from conformance.architectures import CASES, small
from conformance.claims import CLAIMS, Unsupported, rollback
from conformance.untried import UNTRIED

from lookahead.plugins import hf

RECORDED = Path(__file__).parents[2] / "examples" / "CONFORMANCE.md"
COLUMNS = ("greedy", "sampled", "batch", "static")
HEAD = """# Which models are drafted for

Made by `python tests/conformance/table.py` with transformers {transformers} and torch {torch}: tiny random fp32 models
of every text architecture that transformers lists, against plain `generate`. *Exact*: drafted for, and token for token
plain's output, whatever was drafted (plain's own tokens, tokens spoilt at every depth, random ones). *Plain (n)*:
decoded plainly, for reason n below. *-*: plain `generate` refuses it as well. *Rollback*: how rejected tokens leave the
cache. No architecture gives other tokens than plain `generate`.

| architecture | greedy | sampling | batch | static cache | rollback |
|---|---|---|---|---|---|
"""


def outcome(model: transformers.PreTrainedModel, claim: str) -> str:
    """Return "exact", "-", or the reason of the plain path; AssertionError when tokens differ."""
    try:
        reason = CLAIMS[claim](model)
    except Unsupported:
        return "-"
    return re.sub(r" \(relative error [^)]*\)", "", reason) or "exact"


def recorded(path: Path = RECORDED) -> dict[str, dict[str, str]]:
    """Return the outcomes that the committed table states, by architecture and claim."""
    text = path.read_text(encoding="utf-8")
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", text, flags=re.MULTILINE))
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| .+? \|$", text, flags=re.MULTILINE)
    return {
        name: {
            claim: re.sub(r"plain \((\d+)\)", lambda found: reasons[found[1]], cell)
            for claim, cell in zip(COLUMNS, cells, strict=True)
        }
        for name, *cells in rows[1:]
    }


def lines(cases: list[str]) -> Iterator[str]:
    """Yield the table, row by row, and the reasons."""
    reasons: dict[str, int] = {}
    counts = dict.fromkeys(COLUMNS, 0)
    yield HEAD.format(transformers=transformers.__version__, torch=torch.__version__.split("+")[0])
    for case in cases:
        model = hf.enable(small(case))
        cells = {claim: outcome(model, claim) for claim in COLUMNS}
        for claim, cell in cells.items():
            counts[claim] += cell == "exact"
            if cell not in ("exact", "-"):
                cells[claim] = f"plain ({reasons.setdefault(cell, len(reasons) + 1)})"
        yield f"| {case} | {' | '.join(cells.values())} | {rollback(model)} |\n"
    totals = ", ".join(f"{claim} {count}" for claim, count in counts.items())
    yield f"\nExact, of {len(cases)}: {totals}.\n\nWhy plain:\n\n"
    yield from (f"{number}. {reason}\n" for reason, number in reasons.items())
    yield "\nNot tried:\n\n"
    yield from (f"- {case}: {why}\n" for case, why in sorted(UNTRIED.items()))


def main() -> None:
    """Print the table of the cases named, or of all."""
    logging.getLogger("lookahead").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in lines(sys.argv[1:] or [case for case in CASES if case not in UNTRIED]):
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
