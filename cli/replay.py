"""`specdec-lookup replay`: what drafting would have gained on recorded outputs, in seconds and without a model."""

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus, os_reason
from lookahead.cli.options import add_tokenizer_option, named_path, positive_integer
from lookahead.cli.prompts import encodable
from lookahead.cli.records import Limits, load_tokenizer, read_records
from lookahead.cli.replay_table import heading, json_line, row
from lookahead.cli.status import live_status

if TYPE_CHECKING:
    from lookahead.cost import CostCurve
    from lookahead.replay import Recording
    from lookahead.replay_methods import Factory, Results

_METHODS = ("ours", "builtin", "vllm-ngram", "linear:best", "copy", "anchored", "length")
_SUFFIX_DECODING = "suffix-decoding"
_MORE = ("chains", "remembering", _SUFFIX_DECODING)
_COSTS = "0.003,0.02,0.1"
_DESCRIPTION = """\
Replay recorded outputs through our drafting and that of others, with no model: the recording says what the target
would have said, and a cost curve what each step would have cost. Records are JSON lines with prompt and output as
text or as token ids (prompt_ids, output_ids), and prediction and references where there are any."""
_EPILOG = """\
methods: ours; chains (ours without trees); remembering (ours with the outputs of earlier records in memory);
builtin (transformers' prompt lookup); vllm-ngram; suffix-decoding (where arctic-inference is installed);
linear:A,B (a draft of A x match length + B); linear:best (the best of ten such rules, chosen on the very
file and cost); and the oracles copy, anchored and length. What a method drafts may depend on the cost: the columns of
tokens and drafts are those at the first cost, and a speedup is that of a replay at its own cost.

examples:
  specdec-lookup replay logs.jsonl
  specdec-lookup replay edits.jsonl rag.jsonl --methods ours,builtin --cost 0.003,0.1
  specdec-lookup replay logs.jsonl --json
exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("files", type=named_path, nargs="+", metavar="FILE", help="recorded outputs, JSON lines")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument(
        "--methods",
        type=_methods,
        default=list(_METHODS),
        metavar="NAME,...",
        help=f"what to replay (default: {','.join(_METHODS)})",
    )
    parser.add_argument(
        "--cost",
        type=_costs,
        metavar="C,...",
        help=f"cost of a draft token, in plain steps (default: {_COSTS}, or none with --cost-curve)",
    )
    parser.add_argument(
        "--cost-curve",
        type=named_path,
        metavar="FILE",
        help="JSON file of measured curves by name, [[width, seconds], ...]",
    )
    add_tokenizer_option(parser)
    parser.add_argument(
        "--max-draft",
        type=positive_integer,
        default=64,
        metavar="N",
        help="longest draft (default: 64); above 64 only of linear rules and suffix-decoding, for ours has 64 at most, "
        "and so have the oracles",
    )
    parser.add_argument(
        "--prediction", action="store_true", help="give ours the records' prediction and references too"
    )
    parser.add_argument(
        "--hide-prompt", action="store_true", help="draft from prediction, references and output, not from the prompt"
    )


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Replay every file and write its figures."""
    from lookahead.candidates import MAX_DEPTH

    console = Console(environment)
    curves = _curves(args)
    methods = args.methods
    encode = _encoder(args.tokenizer, console)
    others = _others(methods, args.max_draft, console)
    methods = [name for name in methods if name != _SUFFIX_DECODING or name in others]
    if args.max_draft > MAX_DEPTH:
        console.say(f"--max-draft {args.max_draft}: ours and the oracles draft {MAX_DEPTH} tokens at most")
    if not args.json:
        console.data(heading(curves))
    write = json_line if args.json else row
    with live_status(console, "Replaying ...") as show:
        for path in args.files:
            show(f"Replaying {path.name} ...")
            recordings = _visible(read_records(path, encode, Limits()), args)
            for results, oracle in _replayed(recordings, methods, curves, args.max_draft, others):
                console.data(write(path, results, oracle))
    return ExitStatus.OK


def _replayed(
    recordings: "list[Recording]",
    methods: list[str],
    curves: "dict[str, CostCurve]",
    max_draft: int,
    others: "dict[str, Factory]",
) -> "Iterator[tuple[Results, Results]]":
    """Yield the results of each method, beside those of the length oracle."""
    from lookahead.replay_methods import run_method

    oracle = run_method("length", recordings, curves, max_draft)
    for name in methods:
        yield oracle if name == "length" else run_method(name, recordings, curves, max_draft, others), oracle


def _others(methods: list[str], max_draft: int, console: Console) -> "dict[str, Factory]":
    """Return the makers of other systems' methods, those that are installed."""
    if _SUFFIX_DECODING not in methods:
        return {}
    from lookahead.cli.replay_peers import load_suffix_decoding

    try:
        return {_SUFFIX_DECODING: load_suffix_decoding(max_draft)}
    except ImportError as error:
        console.say(f"{_SUFFIX_DECODING} is not replayed: it is not installed ({error})")
        return {}


def _visible(recordings: "list[Recording]", args: argparse.Namespace) -> "list[Recording]":
    """Return the recordings with what may be copied from: the prompt, the prediction and references, or all."""
    import numpy as np

    if args.hide_prompt:
        return [replace(recording, prompt=np.empty(0, np.int32)) for recording in recordings]
    if args.prediction:
        return recordings
    return [replace(recording, prediction=None, references=()) for recording in recordings]


def _curves(args: argparse.Namespace) -> "dict[str, CostCurve]":
    """Return the costs that were asked for, by name."""
    from lookahead.cost import CostCurve, read_curves

    costs = args.cost or ({} if args.cost_curve else _costs(_COSTS))
    curves = {name: CostCurve.linear(cost) for name, cost in costs.items()}
    if args.cost_curve is None:
        return curves
    try:
        return curves | read_curves(args.cost_curve)
    except OSError as error:
        raise CommandError(f"--cost-curve {args.cost_curve} can't be read: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(f"--cost-curve {args.cost_curve} is not UTF-8 text: curves are JSON") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CommandError(f"--cost-curve {args.cost_curve} holds no cost curves: {error}") from None


def _encoder(tokenizer: Path | None, console: Console) -> Callable[[str], list[int]]:
    """Return the function from text to token ids; the tokenizer is loaded when the first text comes."""

    @cache
    def load() -> Any:
        return load_tokenizer(tokenizer, console)

    return lambda text: load().encode(encodable(text), add_special_tokens=False).ids


def _methods(text: str) -> list[str]:
    """Names of methods, where a linear rule has a comma of its own.

    Example:
        >>> _methods("ours,linear:4,0,copy")
        ['ours', 'linear:4,0', 'copy']
    """
    names = [name.strip() for name in re.findall(r"linear:[\d.]+,[\d.]+|[^,]+", text)]
    for name in names or [""]:
        if name not in (*_METHODS, *_MORE) and not re.fullmatch(r"linear:(\d*\.?\d+),(\d*\.?\d+)", name):
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join((*_METHODS, *_MORE))} or linear:A,B")
    return list(dict.fromkeys(names))


def _costs(text: str) -> dict[str, float]:
    """Costs of a draft token, by the way they were written.

    Example:
        >>> _costs("0.003,.1")
        {'0.003': 0.003, '.1': 0.1}
    """
    return {part.strip(): _cost(part.strip()) for part in text.split(",")}


def _cost(text: str) -> float:
    from lookahead.cost import MOST_COST

    try:
        cost = float(text)
    except ValueError:
        cost = -1.0
    if not 0 <= cost <= MOST_COST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no cost: use plain steps per draft token, from 0 to {MOST_COST:.0f}, such as 0.02"
        )
    return cost
