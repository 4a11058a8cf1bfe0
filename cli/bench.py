"""`specdec-lookup bench`: what lookup costs and gains on this machine."""

import argparse
import json
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli import bench_generate
from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus
from lookahead.cli.help import EXIT_CODES, HelpFormatter
from lookahead.cli.machine import machine
from lookahead.cli.options import add_tokenizer_option
from lookahead.cli.records import load_tokenizer
from lookahead.cli.status import live_status

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from lookahead.index_bench import IndexFigures, IndexMethod

_METHODS = ("ours", "proposer", "builtin", "vllm-ngram", "suffix-decoding")
_SIZES = "1k,8k,32k,128k,1M"
_UNITS = {"": 1, "k": 1024, "M": 1024**2}
_LARGEST = 16 * 1024**2
_NOT_TEXT = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
_COLUMNS = ("method", "tokens", "build ns/token", "step us p50", "step us p99", "bytes/token")
_DESCRIPTION = """\
Measure what lookup costs and gains on this machine: the index alone, or generation with a model."""
_EPILOG = f"""\
examples:
  specdec-lookup bench generate --tokens 64 --repeats 1
  specdec-lookup bench index --sizes 8k,128k
{EXIT_CODES}"""
_INDEX_EPILOG = f"""\
examples:
  specdec-lookup bench index
  specdec-lookup bench index --sizes 8k,128k --methods ours,proposer --repeats 3
  specdec-lookup bench index --json
{EXIT_CODES}"""
_INDEX_DESCRIPTION = """\
Measure the index alone, with no model, on real text: Python's standard library in the model's tokens. A step appends
4 tokens, finds the longest match and drafts 16 tokens; `proposer` is all that a step of decoding spends outside the
model: it also learns, lets candidates compete and paces the draft. Other systems' lookups run by turns with ours:
transformers' prompt lookup (builtin), vLLM's n-gram proposer and Arctic's suffix decoding where they are installed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks to the parser of the subcommand."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", dest="benchmark", required=True)
    index = benchmarks.add_parser(
        "index",
        help="the suffix index beside other systems' lookups",
        description=_INDEX_DESCRIPTION,
        epilog=_INDEX_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    index.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    index.add_argument(
        "--sizes", type=_sizes, default=_sizes(_SIZES), metavar="N,...", help=f"tokens of text (default: {_SIZES})"
    )
    index.add_argument(
        "--methods",
        type=_methods,
        default=list(_METHODS),
        metavar="NAME,...",
        help=f"what to measure (default: all of {', '.join(_METHODS)})",
    )
    add_tokenizer_option(index)
    index.add_argument(
        "--repeats", type=_repeats, default=5, metavar="N", help="builds per size and method (default: 5)"
    )

    bench_generate.configure(
        benchmarks.add_parser(
            "generate",
            help="generation with a model: plain, transformers' prompt lookup and ours",
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
    )


def run(args: argparse.Namespace, environment: Environment | None = None) -> int:
    """Run the benchmark that was asked for; returns the exit code."""
    console = Console(environment or Environment.from_system())
    return bench_generate.run(args, console) if args.benchmark == "generate" else _bench_index(args, console)


def _bench_index(args: argparse.Namespace, console: Console) -> ExitStatus:
    from lookahead.index_bench import measure, tokens_needed

    console.say(machine())
    methods = _load_methods(args.methods, console)
    if not methods:
        raise CommandError("none of the methods is installed: add `ours` to --methods")
    text = _standard_library(args.tokenizer, tokens_needed(args.sizes), console)
    console.say(
        f"Text: the standard library in {len(text):,} tokens. Medians of {args.repeats} builds (more at small sizes) "
        "by turns, after one as a warm-up; percentiles over the steps behind them."
    )
    if not args.json:
        console.data(_row(_COLUMNS))
    with live_status(console, "Measuring ...") as show:
        for size in args.sizes:
            show(f"Measuring at {size} tokens ...")
            for figures in measure(methods, text, size, args.repeats):
                console.data(_line(figures, args.json))
    return ExitStatus.OK


def _load_methods(names: list[str], console: Console) -> "dict[str, Callable[[], IndexMethod]]":
    """The methods that can be measured here; says which cannot."""
    from lookahead.cli.peers import PEERS
    from lookahead.index_bench import ProposerMethod, SuffixIndexMethod

    mine = {"ours": SuffixIndexMethod, "proposer": ProposerMethod}
    methods: dict[str, Any] = {}
    for name in names:
        try:
            methods[name] = mine.get(name) or PEERS[name]()
        except ImportError as error:
            console.say(f"{name} is not measured: it is not installed ({error})")
    return methods


def _standard_library(tokenizer: Path | None, count: int, console: Console) -> "NDArray[np.int32]":
    """The first `count` tokens of the standard library's sources."""
    import numpy as np

    encode = load_tokenizer(tokenizer, console).encode_batch
    ids: list[int] = []
    with live_status(console, "Reading the standard library ..."):
        for source in _sources():
            ids += encode([source], add_special_tokens=False)[0].ids
            if len(ids) >= count:
                return np.array(ids[:count], np.int32)
    raise CommandError(
        f"the standard library here has {len(ids)} tokens, but these sizes need {count}: name smaller ones with --sizes"
    )


def _sources() -> Iterator[str]:
    """The texts of the standard library's modules, in the order of their paths."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if _NOT_TEXT.isdisjoint(path.relative_to(root).parts):
            yield path.read_text(encoding="utf-8", errors="replace")


def _line(figures: "IndexFigures", as_json: bool) -> bytes:
    if as_json:
        return (json.dumps(asdict(figures)) + "\n").encode()
    return _row(tuple(asdict(figures).values()))


def _row(cells: tuple[Any, ...]) -> bytes:
    name, *numbers = (f"{cell:,}" if isinstance(cell, int | float) else cell for cell in cells)
    return (f"{name:<16}" + "".join(f"{number:>16}" for number in numbers) + "\n").encode()


def _sizes(text: str) -> list[int]:
    """Sizes such as `1k,128k,1M`, where k is 1024 and M its square.

    >>> _sizes("500,8k")
    [500, 8192]
    """
    return [_size(part.strip()) for part in text.split(",")]


def _size(text: str) -> int:
    number = re.fullmatch(r"([1-9]\d{0,8})([kM]?)", text)
    size = int(number[1]) * _UNITS[number[2]] if number else 0
    if not 64 <= size <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 64 to 16M, such as 8k")
    return size


def _methods(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in _METHODS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(_METHODS)}")
    return list(dict.fromkeys(names))


def _repeats(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 9999")
    return int(text)
