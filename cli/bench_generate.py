"""`specdec-lookup bench generate`: plain decoding, transformers' prompt lookup and ours by turns, on this machine."""

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookahead.cli.bench_measure import METHODS, Measured, run_once, warm_up
from lookahead.cli.bench_prompts import TASKS
from lookahead.cli.bench_prompts import prompts as task_prompts
from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError, ExitStatus, os_reason
from lookahead.cli.files import check_new, write_new
from lookahead.cli.machine import machine
from lookahead.cli.options import add_model_options, named_path, positive_integer
from lookahead.cli.status import live_progress

_DESCRIPTION = """\
Measure generation with a model: plain decoding, transformers' prompt lookup (builtin) and ours, by turns on the same
prompts, after a warm-up. Prefill and decoding are timed apart; the table shows decoding, medians and ranges over the
prompts and repeats. Without --data the prompts are ours: edits, answers from passages, rewrites, and chat, where there
is little to copy; chat is measured beside your own prompts and any choice of tasks too."""
_EPILOG = """\
examples:
  specdec-lookup bench generate --tokens 64 --repeats 1
  specdec-lookup bench generate --model Qwen/Qwen2.5-Coder-1.5B-Instruct --dtype bfloat16 --plot speed.svg
  specdec-lookup bench generate --data prompts.jsonl

A line of --data holds a prompt, or before (a file's text) and instruction.
exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"""

_EDIT, _PLAIN = ("before", "instruction"), ("prompt",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--data", type=named_path, metavar="FILE", help="your own prompts, JSON lines")
    parser.add_argument(
        "--tasks",
        type=lambda text: _names(text, TASKS),
        default=list(TASKS),
        metavar="NAME,...",
        help=f"of ours; chat always comes too (default: {','.join(TASKS)})",
    )
    parser.add_argument(
        "--methods",
        type=lambda text: _names(text, tuple(METHODS)),
        default=list(METHODS),
        metavar="NAME,...",
        help=f"what to measure beside plain (default: {','.join(METHODS)})",
    )
    parser.add_argument("--tokens", type=positive_integer, default=128, metavar="N", help="new tokens (default: 128)")
    parser.add_argument("--repeats", type=positive_integer, default=3, metavar="N", help="of every prompt (default: 3)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--plot", type=named_path, metavar="FILE.svg", help="write a chart of the speeds")
    add_model_options(parser)


def run(args: argparse.Namespace, console: Console) -> ExitStatus:
    """Measure every task and write its lines."""
    from lookahead.cli.models import ModelOptions, load
    from lookahead.plugins import hf

    records = list(_tasks(args))
    if args.plot is not None:
        check_new(args.plot, "--plot")
    model, tokenizer = load(ModelOptions.from_args(args), console)
    tasks = [(task, [_prompt_ids(tokenizer, record) for record in its]) for task, its in records]
    _refuse_beyond_context(model, [ids for _, prompts in tasks for ids in prompts], args.tokens)
    hf.enable(model, tokenizer)
    console.say(f"{machine()}; {type(model).__name__}, {model.dtype}, on {model.device}".replace("torch.", ""))
    if not args.json:
        console.data(_HEADING)
    chart: dict[str, dict[str, float]] = {}
    methods = list(dict.fromkeys(["plain", *args.methods]))
    runs = sum(len(prompts) for _, prompts in tasks) * args.repeats * len(methods)
    with live_progress(console, "warming up", runs) as advance:
        for name, reason in warm_up(model, methods).items():
            console.say(f"{name} is not measured: {reason}")
            methods.remove(name)
        for task, prompts in tasks:
            measured = _measure(model, prompts, methods, args, lambda line, task=task: advance(f"{task}: {line}"))
            chart[task] = {name: figures.speed for name, figures in measured.items()}
            for name, figures in measured.items():
                write = _json_line if args.json else _row
                console.data(write(task, name, figures, measured["plain"]))
    if args.plot is not None:
        _plot(args.plot, chart)
    return ExitStatus.OK


def _tasks(args: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield names and records; chat, the honest worst case, is always among them."""
    if args.data is not None:
        name = args.data.stem
        yield f"your {name}" if name in TASKS else name, _own_records(args)
    tasks = args.tasks if args.data is None else []
    yield from ((task, task_prompts(task)) for task in dict.fromkeys([*tasks, "chat"]))


def _own_records(args: argparse.Namespace) -> list[dict[str, Any]]:
    try:
        lines = [line for line in args.data.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
        records = [json.loads(line) for line in lines]
    except UnicodeDecodeError:
        raise CommandError(f"--data {args.data} is not UTF-8 text: prompts are JSON lines") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise CommandError(f"--data {args.data} can't be read as JSON lines: {reason}") from None
    for record in records or [{}]:
        given = record if isinstance(record, dict) else {}
        wrong = [name for name in (*_PLAIN, *_EDIT) if not isinstance(given.get(name), str | None)]
        if wrong:
            raise CommandError(f"--data {args.data}: {wrong[0]} must be text, got {record[wrong[0]]!r:.60}")
        if not _needed(given):
            raise CommandError(f"--data {args.data}: every line needs a prompt, or before and instruction")
    return records


def _needed(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the fields that a record's prompt is made of, those of an edit first; none where some are missing."""
    known = {name for name, value in record.items() if value is not None}
    return next((names for names in (_EDIT, _PLAIN) if known.issuperset(names)), ())


def _measure(
    model: Any, prompts: list[list[int]], methods: list[str], args: argparse.Namespace, show: Any
) -> dict[str, Measured]:
    """Run every prompt with every method by turns; plain decoding first, to compare with."""
    measured = {name: Measured() for name in methods}
    for _ in range(args.repeats):
        for number, ids in enumerate(prompts, 1):
            plain = None
            for name in methods:
                show(f"prompt {number} of {len(prompts)}, {name}")
                text = run_once(model, ids, args.tokens, name, measured[name])
                plain = text if plain is None else plain
                measured[name].same += text == plain
    return measured


def _prompt_ids(tokenizer: Any, record: dict[str, Any]) -> list[int]:
    from lookahead.cli.prompts import edit_prompt, encode, render

    if _needed(record) == _EDIT:
        name = str(record.get("name") or "file.py")
        return edit_prompt(tokenizer, name, record["before"], record["instruction"]).ids
    rendered, is_chat = render(tokenizer, [{"role": "user", "content": record["prompt"]}])
    return encode(tokenizer, rendered, special_tokens=not is_chat)


_COLUMNS = ("tokens/s", "range", "speedup", "tok/step", "accepted", "prefill s", "same")
_HEADING = (f"{'task':<12}{'method':<10}" + "".join(f"{name:>15}" for name in _COLUMNS) + "\n").encode()


def _row(task: str, name: str, figures: Measured, plain: Measured) -> bytes:
    low, high = (min(figures.speeds), max(figures.speeds)) if figures.speeds else (0.0, 0.0)
    mean = statistics.mean
    cells = [
        f"{statistics.median(figures.speeds):.1f}" if figures.speeds else "-",
        f"{low:.1f} to {high:.1f}",
        f"{figures.speed / plain.speed:.2f}x" if plain.speed else "-",
        f"{mean(figures.tokens_per_step):.2f}" if figures.tokens_per_step else "-",
        f"{mean(figures.acceptance):.0%}" if figures.acceptance else "-",
        f"{statistics.median(figures.prefills):.2f}",
        f"{figures.same} of {len(figures.prefills)}",
    ]
    return (f"{task[:11]:<12}{name:<10}" + "".join(f" {cell:>14}" for cell in cells) + "\n").encode()


def _json_line(task: str, name: str, figures: Measured, plain: Measured) -> bytes:
    entry = {
        "task": task,
        "method": name,
        "runs": len(figures.prefills),
        "tokens_per_second": round(figures.speed, 3),
        "tokens_per_second_median": round(statistics.median(figures.speeds), 3) if figures.speeds else None,
        "tokens_per_second_range": [round(speed, 3) for speed in (min(figures.speeds), max(figures.speeds))]
        if figures.speeds
        else None,
        "speedup": round(figures.speed / plain.speed, 4) if plain.speed else None,
        "tokens_per_step": round(statistics.mean(figures.tokens_per_step), 3) if figures.tokens_per_step else None,
        "acceptance_rate": round(statistics.mean(figures.acceptance), 4) if figures.acceptance else None,
        "prefill_s": round(statistics.median(figures.prefills), 4),
        "same_tokens": figures.same,
    }
    return (json.dumps(entry) + "\n").encode()


def _refuse_beyond_context(model: Any, prompts: list[list[int]], tokens: int) -> None:
    """Refuse to measure what no model was made for."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    longest = max(map(len, prompts))
    if context is not None and longest + tokens > context:
        raise CommandError(
            f"--tokens {tokens} is beyond the model's context of {context} tokens, of which the longest prompt takes "
            f"{longest}: use fewer, shorter prompts, or a model with a larger context"
        )


def _plot(path: Path, chart: dict[str, dict[str, float]]) -> None:
    from lookahead.cli.chart import bar_chart

    try:
        write_new(path, bar_chart("Decoding speed by task and method", "tokens/s", chart).encode())
    except OSError as error:
        raise CommandError(f"--plot {path} can't be written: {os_reason(error)}") from None


def _names(text: str, known: tuple[str, ...]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
    return list(dict.fromkeys(names))
