"""The figures of a replay, as a table for people and as JSON lines for machines."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookahead.replay_methods import Results

_COLUMNS = ("tok/step", "draft/step", "accepted", "us p50", "us p99")


def heading(costs: Iterable[str]) -> bytes:
    """Return the table's first line; each cost has a column of speedups and of shares of the length oracle's."""
    cells = [f"{'file':<18}{'method':<16}{'items':>6}{'tokens':>8}", *(f"{name:>11}" for name in _COLUMNS)]
    cells += [f"{f'x {cost}':>11}{'share':>7}" for cost in costs]
    return ("".join(cells) + "\n").encode()


def row(path: Path, results: "Results", oracle: "Results") -> bytes:
    """Return a method's line of the table."""
    figures = results.figures
    cells = [f"{path.stem[:17]:<18}{results.method[:15]:<16}{figures.items:>6}{figures.tokens:>8}"]
    cells += [f"{figures.tokens_per_step:>11.3f}{figures.drafted_per_step:>11.2f}{figures.acceptance_rate:>11.1%}"]
    cells += [f"{figures.propose_us(50):>11.1f}{figures.propose_us(99):>11.1f}"]
    cells += [f"{speedup:>11.3f}{speedup / oracle.speedup[cost]:>7.1%}" for cost, speedup in results.speedup.items()]
    return ("".join(cells) + "\n").encode()


def json_line(path: Path, results: "Results", oracle: "Results") -> bytes:
    """Return a method's figures as one line of JSON."""
    figures = results.figures
    shares = {cost: round(speedup / oracle.speedup[cost], 4) for cost, speedup in results.speedup.items()}
    entry = {
        "file": str(path),
        "method": results.method,
        "items": figures.items,
        "tokens": figures.tokens,
        "tokens_per_step": round(figures.tokens_per_step, 4),
        "drafted_per_step": round(figures.drafted_per_step, 4),
        "acceptance_rate": round(figures.acceptance_rate, 4),
        "speedup": {cost: round(speedup, 4) for cost, speedup in results.speedup.items()},
        "length_oracle_share": shares,
        "propose_us_p50": round(figures.propose_us(50), 2),
        "propose_us_p99": round(figures.propose_us(99), 2),
    }
    return (json.dumps(entry) + "\n").encode()
