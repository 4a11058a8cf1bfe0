"""Measure what the options of lookup decoding are worth: modelled speeds of recorded outputs, relative to the defaults.

    python examples/measure_options.py FILE.jsonl... [--cost 0.003,0.1] [--cost-curve CURVES.json]

Each figure is a ratio of means over the files, at one cost of a drafted token. Files whose records hold a prediction
are also replayed with it, beside the prompt and instead of it.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np

from lookahead import LookupConfig
from lookahead.cli.console import Console, Environment
from lookahead.cli.models import default_model_path
from lookahead.cli.records import Limits, load_tokenizer, read_records
from lookahead.cost import CostCurve, read_curves
from lookahead.replay import Recording, replay
from lookahead.replay_methods import LookupMethod

VARIANTS = {
    "max_draft": (16, 32),
    "min_match": (1, 2),
    "draft_per_match": (1, 2, 4),
    "trees": (False,),
}


def main() -> None:
    """Print a line for every option and value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--cost", default="0.003,0.1", help="of a drafted token, in plain steps (default: %(default)s)")
    parser.add_argument("--cost-curve", type=Path, help="measured curves, as `specdec-lookup replay` takes them")
    options = parser.parse_args()
    curves = {cost: CostCurve.linear(float(cost)) for cost in options.cost.split(",")}
    curves |= read_curves(options.cost_curve) if options.cost_curve else {}
    tokenizer = load_tokenizer(default_model_path(), Console(Environment.from_system()))
    files = {
        path.name: read_records(path, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, Limits())
        for path in options.files
    }
    prompts = [[replace(record, prediction=None, references=()) for record in records] for records in files.values()]
    print(f"{'':40}" + "".join(f"{name:>10}" for name in curves))
    usual = speeds(prompts, LookupConfig(), curves)
    for name, values in VARIANTS.items():
        for value in values:
            tell(f"{name} {value}", speeds(prompts, LookupConfig(**{name: value}), curves), usual)
    for (name, records), plain in zip(files.items(), prompts, strict=True):
        if any(record.prediction is not None for record in records):
            usual = speeds([plain], LookupConfig(), curves)
            hidden = [replace(record, prompt=np.empty(0, np.int32)) for record in records]
            tell(f"{name}, prompt and prediction", speeds([records], LookupConfig(), curves), usual)
            tell(f"{name}, prediction alone", speeds([hidden], LookupConfig(), curves), usual)


def tell(name: str, changed: list[float], usual: list[float]) -> None:
    """Print speeds relative to the usual ones."""
    ratios = [mine / other for mine, other in zip(changed, usual, strict=True)]
    print(f"{name:40}" + "".join(f"{ratio:>10.3f}" for ratio in ratios), flush=True)


def speeds(files: list[list[Recording]], config: LookupConfig, curves: dict[str, CostCurve]) -> list[float]:
    """Return the modelled speed at each cost, relative to plain decoding: the mean over the files."""
    return [statistics.mean(speed(records, config, curve) for records in files) for curve in curves.values()]


def speed(records: list[Recording], config: LookupConfig, curve: CostCurve) -> float:
    """Return the modelled speed on one file."""
    return replay(records, LookupMethod(config, branches=config.trees), curve).speedup(curve)


if __name__ == "__main__":
    main()
