"""Edits of inventory.py by the embedded editor: whether they are right, and how fast, plain, built-in and ours.

    python examples/measure_edits.py [--repeats 3] [--model MODEL]

The methods take turns. In float32 all three write the same tokens.
"""

import argparse
import re
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from lookahead.cli.answers import extract_file
from lookahead.cli.errors import CommandError
from lookahead.cli.machine import machine
from lookahead.cli.models import ModelOptions, editor_model_path, load, silence_transformers
from lookahead.cli.prompts import edit_prompt
from lookahead.plugins import hf

FILE = Path(__file__).with_name("inventory.py")
METHODS: dict[str, dict[str, Any]] = {
    "plain": {"lookup": False},
    "builtin": {"lookup": False, "prompt_lookup_num_tokens": 10},
    "ours": {},
}


def edits(text: str) -> dict[str, str]:
    """Instructions, and what they make of the file."""
    start = text.index("    def find(")
    return {
        "Rename the class OutOfStockError to StockError.": text.replace("OutOfStockError", "StockError"),
        "Rename the method low_stock to running_low.": text.replace("low_stock", "running_low"),
        "Change the default of reorder_level to 10.": text.replace("reorder_level: int = 5", "reorder_level: int = 10"),
        "Rename the class Inventory to Stock.": text.replace("Inventory", "Stock"),
        "Rename the class Item to Product.": re.sub(r"\bItem\b", "Product", text),
        "Rename the method find to search.": text.replace("find(", "search("),
        "Rename the method add to put.": text.replace("add(", "put("),
        "Delete the method find.": text[:start] + text[text.index("    def total(", start) :],
    }


def written(answer: str, text: str) -> str:
    """Return the file that an answer holds; empty if it holds none."""
    try:
        return extract_file(answer, text)
    except CommandError:
        return ""


def main() -> None:
    """Edit, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or hub id (default: the embedded editor)")
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    silence_transformers(progress=False)
    model, tokenizer = load(ModelOptions(arguments.model, dtype="float32"), default=editor_model_path)
    hf.enable(model, tokenizer)
    text = FILE.read_text(encoding="utf-8")
    print(machine())
    print(f"{'right':>6}{'same':>6}{'tokens':>8}" + "".join(f"{method + ', tok/s':>16}" for method in METHODS))
    for instruction, wanted in edits(text).items():
        prompt = edit_prompt(tokenizer, FILE.name, text, instruction)
        speeds: dict[str, list[float]] = {method: [] for method in METHODS}
        outputs = []
        for _ in range(arguments.repeats):
            for method, options in METHODS.items():
                lookup = {"lookup": {"prediction": text}} if method == "ours" else {}
                start = time.perf_counter()
                output = model.generate(
                    torch.tensor([prompt.ids], device=model.device),
                    do_sample=False,
                    max_new_tokens=1300,
                    **options,
                    **lookup,
                )[0, len(prompt.ids) :].tolist()
                speeds[method].append(len(output) / (time.perf_counter() - start))
                outputs.append(output)
        edited = written(prompt.opening + tokenizer.decode(outputs[-1], skip_special_tokens=True), text)
        same = all(output == outputs[0] for output in outputs)
        figures = "".join(f"{statistics.median(speeds[method]):>16.1f}" for method in METHODS)
        right = "yes" if edited == wanted else "no"
        print(f"{right:>6}{'yes' if same else 'no':>6}{len(outputs[0]):>8}{figures}  {instruction}", flush=True)


if __name__ == "__main__":
    main()
