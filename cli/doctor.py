"""`specdec-lookup doctor`: whether lookup will help here, on this model, this machine and this text."""

import argparse
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lookahead import __version__
from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus
from lookahead.cli.machine import cpu, version_of
from lookahead.cli.options import add_model_options, named_path, positive_integer
from lookahead.cli.status import live_status

if TYPE_CHECKING:
    from lookahead.cli.advice import Advice
    from lookahead.cli.records import Records
    from lookahead.plugins.hf_examine import Examination

_DESCRIPTION = """\
Examine a model on this machine: what can be sped up and what can't, the self-check, and the cost of a step by the
tokens it reads. With --data, records of prompts and outputs are replayed at that cost, and say whether lookup pays."""
_EPILOG = """\
examples:
  specdec-lookup doctor
  specdec-lookup doctor --model Qwen/Qwen2.5-Coder-1.5B-Instruct --dtype bfloat16 --data logs.jsonl

A line of --data holds prompt and output, or the messages of a chat; see `specdec-lookup replay --help`.
exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"""
_LIBRARIES = ("torch", "transformers", "numba", "numpy")
_BAR = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--data", type=named_path, metavar="FILE", help="your own prompts and outputs, JSON lines")
    parser.add_argument(
        "--context",
        type=positive_integer,
        default=512,
        metavar="N",
        help="tokens in the cache while steps are timed (default: 512)",
    )
    add_model_options(parser)


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Examine, advise, and write both."""
    from lookahead.cli.models import ModelOptions, load
    from lookahead.cli.records import Records

    console = Console(environment)
    records = None if args.data is None else Records.read(args.data)
    surroundings = _surroundings()
    model, tokenizer = load(ModelOptions.from_args(args), console)
    with live_status(console, "examining the model ..."):
        examination = _examine(model, args.context)
    advice = None
    if records is not None:
        with live_status(console, f"replaying {records.path.name} ..."):
            advice = _advise(records, tokenizer, examination)
    if args.json:
        console.data(_as_json(surroundings, examination, advice))
    else:
        console.data(("\n".join(_as_text(surroundings, examination, advice)) + "\n").encode())
    return ExitStatus.OK


def _surroundings() -> dict[str, str]:
    """Return the machine and the versions."""
    import torch

    found = {"specdec-lookup": __version__, "python": platform.python_version()}
    found |= {name: version_of(name) for name in _LIBRARIES}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else cpu()
    return {**found, "system": platform.platform(), "processor": device, "threads": str(torch.get_num_threads())}


def _examine(model: Any, context: int) -> "Examination":
    from lookahead.plugins.hf_examine import examine

    try:
        return examine(model, context)
    except ValueError as error:
        raise CommandError(f"the model can't be examined: {error}") from None


def _advise(records: "Records", tokenizer: Any, examination: "Examination") -> "Advice":
    from lookahead.cli.advice import advise
    from lookahead.cli.prompts import encode
    from lookahead.cli.records import Limits
    from lookahead.cost import CostCurve

    recordings = records.recordings(lambda text: list(encode(tokenizer, text)), Limits())
    curve = CostCurve.from_points(examination.steps) if examination.steps else CostCurve.linear(0.02)
    return advise(recordings, curve)


def _as_json(surroundings: dict[str, str], examination: "Examination", advice: "Advice | None") -> bytes:
    record: dict[str, Any] = {"environment": surroundings, "model": asdict(examination)}
    if advice is not None:
        settings = [{"system": name, "settings": text, "speed": speed} for name, text, speed in advice.settings()]
        record["data"] = {**asdict(advice), "settings": settings}
    return (json.dumps(record) + "\n").encode()


def _as_text(surroundings: dict[str, str], found: "Examination", advice: "Advice | None") -> list[str]:
    checked = "not measured" if found.block_error is None else f"{found.block_error:.1e}"
    exact = found.block_error is not None and found.block_error <= found.block_tolerance
    lines = [
        "Environment  " + ", ".join(f"{name} {value}" for name, value in surroundings.items()),
        f"Model        {found.model} ({found.architecture}), {found.parameters / 1e6:,.0f}M parameters, {found.dtype}, "
        f"on {found.device}, attention {found.attention}",
        f"Cache        {_counted(found.cache)}; rejected tokens are {found.rollback}",
        f"Self-check   several tokens in one pass against one by one: relative difference {checked} "
        f"({'exact' if exact else 'not exact'} within {found.block_tolerance:.0e})",
        f"Drafts       {_drafts(found)}",
    ]
    lines += _chart(found.steps)
    if advice is not None:
        lines += ["", advice.sentences(), ""]
        lines += [f"  {name:<15}{speed:5.2f}x  {text}" for name, text, speed in advice.settings()]
    return lines


def _counted(layers: dict[str, int]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in layers.items()) or "none that is known"


def _drafts(found: "Examination") -> str:
    if found.plain_reason:
        return f"none: every call is decoded plainly, because {found.plain_reason}"
    return "yes, chains and trees" if found.trees else "yes, chains"


def _chart(steps: list[tuple[int, float]]) -> list[str]:
    """Return the cost of a step by its width as bars."""
    if not steps:
        return ["Step cost    not measured here: it is learned while generating"]
    longest = max(seconds for _, seconds in steps)
    plain = steps[0][1]
    lines = ["Step cost    tokens read, milliseconds, plain steps"]
    for width, seconds in steps:
        bar = "#" * max(1, round(_BAR * seconds / longest))
        lines.append(f"  {width:>9}  {1e3 * seconds:9.1f}  {seconds / plain:5.2f}  {bar}")
    return lines
