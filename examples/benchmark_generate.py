"""Measure generation live: plain, transformers' prompt lookup, and ours, interleaved on the same prompts.

    python examples/benchmark_generate.py --data edit=edits.jsonl --data chat=chat.jsonl --items 10 --tokens 160
    python examples/benchmark_generate.py --data edit=recorded.jsonl --trace        # force the recorded outputs
    python examples/benchmark_generate.py --data edit=edits.jsonl --batch 8         # plain and ours on batches
    python examples/benchmark_generate.py --widths                                  # seconds of a step by width

Records hold ``before`` and ``instruction`` (a file to edit), or ``prompt``, or ``question`` and ``passages`` (also
``query`` and ``docs``); with ``--trace`` also ``output``: the recorded text is forced on the real forward passes by a
hook on the logits, the same for every method, so that the cost is real and the text that of the model that wrote the
record. Prompts longer than ``--context`` tokens keep their end. ``--random LAYERS,WIDTH`` builds a randomly initialised
Llama of that size instead of loading a model: with ``--trace`` and ``--device cuda`` that measures what a large model
would gain.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from lookahead.cli.models import default_model_path
from lookahead.cli.prompts import edit_prompt, encode, render
from lookahead.plugins import hf
from lookahead.plugins.hf_arguments import cache_name

METHODS: dict[str, dict[str, Any]] = {
    "plain": {"lookup": False},
    "builtin": {"lookup": False, "prompt_lookup_num_tokens": 10},
    "ours": {"lookup": True},
}
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def load(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return the model, enabled, and its tokenizer."""
    path = arguments.model or default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(path)
    dtype = getattr(torch, arguments.dtype)
    if arguments.random:
        layers, width = map(int, arguments.random.split(","))
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=width * 7 // 2,
            num_hidden_layers=layers,
            num_attention_heads=width // 128,
            num_key_value_heads=max(1, width // 512),
            max_position_embeddings=32768,
        )
        with torch.device(arguments.device):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    else:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).to(arguments.device)
    return hf.enable(model.eval(), tokenizer), tokenizer


def prompt_ids(tokenizer: Any, record: dict[str, Any]) -> list[int]:
    """Return the prompt of a record in the model's chat format."""
    if "before" in record:
        return edit_prompt(tokenizer, "example.py", record["before"], record["instruction"]).ids
    text = record.get("prompt") or record.get("turns", [""])[0]
    question = record.get("question") or record.get("query")
    if question:
        passages = record.get("passages") or record.get("docs") or []
        listed = "\n\n".join(f"[{i}] {passage}" for i, passage in enumerate(passages, 1))
        text = f"{listed}\n\nAnswer from the passages above: {question}"
    rendered, is_chat = render(tokenizer, [{"role": "user", "content": text}])
    return encode(tokenizer, rendered, special_tokens=not is_chat)


@contextmanager
def forced(model: Any, prompt_length: int, output: list[int] | None) -> Iterator[None]:
    """Make the model write ``output``: after every forward, the recorded token gets the highest logit."""
    if output is None:
        yield
        return

    def hook(module: Any, inputs: Any, kwargs: Any, outputs: Any) -> None:
        rows = outputs.logits.shape[1]
        read = int(outputs[cache_name(outputs)].get_seq_length())
        places = kwargs.get("position_ids")  # of a tree's tokens by depth, several at one place
        places = range(read - rows, read) if places is None else places[0, -rows:].tolist()
        for row, place in enumerate(places):
            token = output[min(max(place - prompt_length + 1, 0), len(output) - 1)]
            outputs.logits[0, row, token] = 1e4

    handle = model.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def synchronize(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class FirstToken(transformers.generation.streamers.BaseStreamer):
    """Notes when the first token came, so that prefill and decoding are timed apart."""

    def __init__(self) -> None:
        self.calls, self.time = 0, 0.0

    def put(self, value: torch.Tensor) -> None:
        """Count the prompt and the tokens."""
        self.calls += 1
        if self.calls == 2:
            self.time = time.perf_counter()

    def end(self) -> None:
        """Nothing to do."""


def run(model: Any, ids: torch.Tensor, tokens: int, method: str, output: list[int] | None) -> tuple[list[int], float]:
    """Return the new tokens and the seconds after the first of them."""
    streamer = FirstToken()
    options = {"max_new_tokens": tokens, "do_sample": False, "streamer": streamer, **METHODS[method]}
    if output is not None:
        options["eos_token_id"] = -1
    with forced(model, ids.shape[1], output):
        text = model.generate(ids, **options)
    synchronize(ids.device)
    return text[0, ids.shape[1] :].tolist(), time.perf_counter() - streamer.time


def measure(model: Any, tokenizer: Any, name: str, path: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Measure one set and print its line; return decoding speed by method, relative to plain."""
    rows: dict[str, list[tuple[int, float, bool, float, float]]] = {method: [] for method in METHODS}
    for record in spread(read(path), arguments.items):
        ids = torch.tensor([prompt_ids(tokenizer, record)[-arguments.context :]], device=arguments.device)
        output = encode(tokenizer, record["output"])[: arguments.tokens] if arguments.trace else None
        tokens = len(output) if output else arguments.tokens
        if tokens < 8:
            continue
        plain: list[int] = []
        for method in METHODS:
            text, seconds = run(model, ids, tokens, method, output)
            plain = plain or text
            stats = hf.stats(model)
            ours = (stats.mean_acceptance_length, stats.propose_s) if method == "ours" else (0.0, 0.0)
            rows[method].append((len(text) - 1, seconds, text == plain, *ours))
    speeds = {}
    for method, measured in rows.items():
        total, seconds = sum(row[0] for row in measured), sum(row[1] for row in measured)
        each = [row[0] / row[1] for row in measured]
        speeds[method] = total / seconds
        line = {
            "set": name,
            "method": method,
            "prompts": len(measured),
            "tokens_per_second": round(total / seconds, 2),
            "median": round(statistics.median(each), 2),
            "range": [round(min(each), 2), round(max(each), 2)],
            "speedup": round(speeds[method] / speeds["plain"], 3),
            "same_tokens": sum(row[2] for row in measured),
        }
        if method == "ours":
            line["tokens_per_step"] = round(statistics.mean(row[3] for row in measured), 2)
            line["propose_share"] = round(sum(row[4] for row in measured) / seconds, 4)
        print(json.dumps(line), flush=True)
    return speeds


def measure_batches(model: Any, tokenizer: Any, name: str, path: str, arguments: argparse.Namespace) -> None:
    """Measure plain and ours by turns on batches of different prompts, and print one line."""
    size, equal = arguments.batch, []
    tokens, seconds = dict.fromkeys(("plain", "ours"), 0), dict.fromkeys(("plain", "ours"), 0.0)
    prompts = [prompt_ids(tokenizer, record)[-arguments.context :] for record in spread(read(path), arguments.items)]
    for start in range(0, len(prompts) - size + 1, size):
        inputs = padded(prompts[start : start + size], arguments.device)
        texts = []
        for method in tokens:
            streamer = FirstToken()
            text = model.generate(
                **inputs, max_new_tokens=arguments.tokens, do_sample=False, streamer=streamer, **METHODS[method]
            )
            synchronize(text.device)
            seconds[method] += time.perf_counter() - streamer.time
            tokens[method] += hf.stats(model).generated_tokens - size
            texts.append(text.tolist())
        equal += [plain == ours for plain, ours in zip(*texts, strict=True)]
    speeds = {method: tokens[method] / seconds[method] for method in tokens}
    line = {"set": name, "dtype": arguments.dtype, "batch": size, "rows": len(equal), "equal_rows": sum(equal)}
    line |= {f"{method}_tokens_per_second": round(speed, 2) for method, speed in speeds.items()}
    print(json.dumps(line | {"speedup": round(speeds["ours"] / speeds["plain"], 3)}), flush=True)


def padded(prompts: list[list[int]], device: str) -> dict[str, torch.Tensor]:
    """Return prompts as one batch, padded on the left."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return {"input_ids": ids, "attention_mask": mask}


def read(path: str) -> list[Any]:
    """Return the records of a file."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def spread(records: list[Any], count: int) -> list[Any]:
    """Return ``count`` records taken evenly from the list."""
    return records[:: max(1, len(records) // count)][:count]


@torch.no_grad()
def widths(model: Any, arguments: argparse.Namespace) -> None:
    """Print the seconds of a step by width, behind a context of ``--context`` tokens."""
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = torch.randint(0, vocabulary, (1, arguments.context), device=arguments.device)
    outputs = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    name = cache_name(outputs)
    cache = outputs[name]
    seconds: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for _ in range(12):
        for width in WIDTHS:
            synchronize(ids.device)
            started = time.perf_counter()
            model(input_ids=ids[:, :width], use_cache=True, **{name: cache}).logits.argmax(-1).tolist()
            seconds[width].append(time.perf_counter() - started)
            cache.crop(-width)
    curve = {str(width): statistics.median(times[2:]) for width, times in seconds.items()}
    print(json.dumps({"context": arguments.context, "seconds_by_width": curve}))


def batches(arguments: argparse.Namespace) -> None:
    """Measure batches in both precisions."""
    for arguments.dtype in ("float32", "bfloat16"):
        model, tokenizer = load(arguments)
        warm = padded([[5] * 24, [7] * 32], arguments.device)
        for method in ("plain", "ours"):
            model.generate(**warm, max_new_tokens=8, do_sample=False, **METHODS[method])
        for entry in arguments.data:
            name, _, path = entry.partition("=")
            measure_batches(model, tokenizer, name, path, arguments)


def main() -> None:
    """Measure and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FILE.jsonl")
    parser.add_argument("--model")
    parser.add_argument("--random", metavar="LAYERS,WIDTH")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--items", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--widths", action="store_true")
    parser.add_argument("--batch", type=int, default=0, help="rows of a batch; in float32 and in bfloat16")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if arguments.batch:
        batches(arguments)
        return
    model, tokenizer = load(arguments)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{arguments.device}, {arguments.dtype}, {torch.get_num_threads()} threads, {versions}", file=sys.stderr)
    if arguments.widths:
        widths(model, arguments)
    warm = torch.randint(0, 100, (1, 64), device=arguments.device)
    for method in METHODS:
        run(model, warm, 8, method, None)
    ratios: list[float] = []
    for entry in arguments.data:
        name, _, path = entry.partition("=")
        speeds = measure(model, tokenizer, name, path, arguments)
        ratios.append(speeds["ours"] / speeds["builtin"])
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(json.dumps({"geometric_mean_over_builtin": round(mean, 3)}))


if __name__ == "__main__":
    main()
