"""Train the adapter that makes the embedded model an editor, on the CPU, or score one.

The data are generated on the way: files made up and files of Python's standard library (PSF licence), with edits made
by program, in the prompt of `specdec-lookup edit`. Stop the training with Ctrl-C; the same command goes on.

    python examples/train_editor.py                                  # 150 minutes on one core
    torchrun --nproc-per-node 2 examples/train_editor.py             # or on two, with twice the data
    python examples/train_editor.py --score editor-training/editor.safetensors
    python examples/train_editor.py --score plain --cases 5          # the model before
    python examples/train_editor.py --score cli/data/editor.safetensors --data examples/edits_by_hand.jsonl
    python examples/train_editor.py --mean editor-training/editor.safetensors cli/data/editor.safetensors
"""

import argparse
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from editor_training import lora, team
from editor_training.scoring import Scorer, cases, read_cases
from editor_training.tasks import KINDS
from editor_training.training import Plan, Trainer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from lookahead.cli.adapter import ADAPTER, lead_with_instruction, merge_adapter
from lookahead.cli.models import load_folder, plain_model_path, silence_transformers


def main() -> None:
    """Train, or score with --score."""
    args = _arguments()
    if args.mean:
        args.folder.mkdir(parents=True, exist_ok=True)
        lora.mean(args.mean, args.folder / "mean.safetensors")
        return
    torch.set_num_threads(args.threads)
    silence_transformers(progress=False)
    model, tokenizer = load_folder(plain_model_path())
    if args.score != "plain":
        lead_with_instruction(tokenizer)
    if args.score:
        _score(args, model, tokenizer)
    else:
        team.join()
        dtype = getattr(torch, args.dtype)
        plan = Plan(args.minutes, args.rate, args.tokens, args.rank, args.seed, args.folder, args.tests, dtype)
        _train(Trainer(model, tokenizer, plan, args.start), args)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--folder", type=Path, default=Path("editor-training"), help="checkpoints, result (default: %(default)s)")
    add("--minutes", type=float, default=150, help="processor time of a process (default: %(default)s)")
    add("--from", dest="start", type=Path, metavar="ADAPTER", help=f"adapter to go on from, such as {ADAPTER.name}")
    add("--rank", type=int, default=16, help="of the adapter (default: %(default)s)")
    add("--rate", type=float, default=5e-4, help="highest learning rate (default: %(default)s)")
    add("--tokens", type=int, default=700, help="tokens of a step and process at least (default: %(default)s)")
    add(
        "--dtype",
        choices=("float32", "bfloat16"),
        default="float32",
        help="bfloat16 where the processor has AMX (default: %(default)s)",
    )
    add("--threads", type=int, default=1, help="of the processor (default: %(default)s)")
    add("--seed", default="edits", help="of the data (default: %(default)s)")
    add("--tests", type=int, default=12, help="held-out files tried on the way (default: %(default)s)")
    add("--every", type=int, default=40, help="steps between tries (default: %(default)s)")
    add("--score", metavar="ADAPTER", help="score an adapter, or `plain` for the model without, and train nothing")
    add("--cases", type=int, default=30, help="held-out cases of a kind (default: %(default)s)")
    add("--data", type=Path, metavar="FILE", help="score these: JSON lines of kind, instruction, before and after")
    add("--mean", nargs="+", type=Path, metavar="ADAPTER", help="write the mean of adapters, and train nothing")
    add("--kinds", nargs="*", default=[], choices=list(KINDS), metavar="KIND", help="kinds to score (default: all)")
    return parser.parse_args()


def _train(trainer: Trainer, args: argparse.Namespace) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: trainer.stop())
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    first = team.rank() == 0
    with Progress(*columns, console=console, disable=not (first and console.is_terminal)) as bar:
        task = bar.add_task("starting", total=args.minutes * 60)
        held_out = ""
        for progress in trainer.run():
            if progress.step % args.every == 0:
                right, total = trainer.score()
                held_out = f"  held-out {right}/{total}"
            line = (
                f"step {progress.step}  {progress.seconds / 60:.1f} min  {progress.edits} edits  "
                f"{progress.seen} tokens  loss {progress.loss:.4f}{held_out}"
            )
            bar.update(task, completed=progress.seconds, description=line)
            if first and not console.is_terminal:
                print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)
    if first:
        trainer.export(args.folder / "editor.safetensors")


def _score(args: argparse.Namespace, model: Any, tokenizer: Any) -> None:
    """Print how many held-out edits of each kind would be right, and, as it goes, what is wrong."""
    if args.score != "plain":
        merge_adapter(model, Path(args.score))
    scorer = Scorer(model, tokenizer)
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for group in read_cases(args.data) if args.data else cases(args.kinds, args.cases):
        for tried in scorer(group):
            total[tried.edit.kind] += 1
            right[tried.edit.kind] += not tried.wrong
            if tried.wrong:
                print(f"{tried.edit.kind}: {tried.edit.instruction!r}: {tried.wrong}", file=sys.stderr, flush=True)
    for kind in total:
        print(f"{kind:<18}{right[kind]:>5} of{total[kind]:>4}")
    print(f"{'all':<18}{right.total():>5} of{total.total():>4}")


if __name__ == "__main__":
    main()
