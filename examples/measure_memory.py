"""What does a memory store of real text cost: time to build, bytes a token, time to load, time of a query?

Reads the sources and texts of the running interpreter's installed packages through the default model's tokenizer,
builds a store, saves it, and loads it in a process of its own. A query takes the last 64 tokens of a text that goes
on 4 tokens at a time, finds the longest match and takes 16 tokens of what follows; the text is, by turns, one that is
in the store (from a random place on, with every twentieth token changed) and one that is not (packages left out).

    python examples/measure_memory.py --tokens 10000000 [--store FILE] [--degenerate]
    python examples/measure_memory.py --replay edits.jsonl --replay answers.jsonl

Where arctic-inference is installed, its suffix cache holds the same documents in the same run, in a process of its own.
With --replay it measures something else: the tokens per step on recorded outputs of which every twentieth token was
changed, with the original outputs in memory and without them.

Prints JSON lines. --degenerate adds the time to index as many tokens of one token, of a period of two, and of one
document again and again.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from lookahead.cli.console import Console, Environment
from lookahead.cli.corpus_files import CorpusFiles
from lookahead.cli.models import default_model_path
from lookahead.cli.records import Limits, load_tokenizer, read_records
from lookahead.config import LookupConfig
from lookahead.cost import CostCurve
from lookahead.memory import MemoryStore, tokenizer_identity
from lookahead.replay import Recording, replay
from lookahead.replay_methods import LookupMethod
from lookahead.segment import Segment
from lookahead.store_file import verify

QUERIES, STRIDE, DRAFT, CHANGED = 20_000, 4, 16, 20
Ids = NDArray[np.int32]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--store", type=Path, help="where to keep the store; a temporary file without it")
    parser.add_argument("--degenerate", action="store_true")
    parser.add_argument("--replay", type=Path, action="append", default=[], metavar="FILE.jsonl")
    parser.add_argument("--arctic", type=Path, help=argparse.SUPPRESS)  # the process of the other system
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)  # the process that loads
    arguments = parser.parse_args()
    if arguments.load:
        tell(loaded(arguments.load))
        return
    if arguments.arctic:
        tell(arctic(arguments.arctic))
        return
    if arguments.replay:
        for path in arguments.replay:
            tell(near_duplicates(path))
        return
    versions = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    tell({"machine": platform.platform(), "cpus": os.cpu_count()} | versions)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.store or Path(folder, "packages.store")
        build(path, arguments.tokens)
        measured = [sys.executable, __file__, "--load", str(path)]
        subprocess.run(measured, check=True)
        if importlib.util.find_spec("arctic_inference") is not None:
            subprocess.run([sys.executable, __file__, "--arctic", str(path)], check=True)
    if arguments.degenerate:
        degenerate(arguments.tokens)


def tell(figures: dict[str, Any]) -> None:
    """Print one line."""
    print(json.dumps(figures), flush=True)


def build(path: Path, count: int) -> None:
    """Build and save a store of so many tokens, and tell of it; the text that is left out goes beside it."""
    started = time.perf_counter()
    tokenizer, documents, unseen = corpus(count)
    read_s = time.perf_counter() - started
    Segment.build(["warm-up"], [documents[0][1]], 0.0)
    store = MemoryStore(tokenizer_identity(tokenizer.get_vocab()))
    started = time.perf_counter()
    store.add_all("packages", documents)
    index_s = time.perf_counter() - started
    started = time.perf_counter()
    store.save(path, overwrite=True)
    save_s = time.perf_counter() - started
    np.save(path.with_suffix(".unseen.npy"), unseen)
    info = store.namespaces()["packages"]
    tell(
        {
            "tokens": info.tokens,
            "documents": info.documents,
            "read_and_tokenize_s": round(read_s, 2),
            "index_s": round(index_s, 2),
            "save_s": round(save_s, 2),
            "file_bytes": path.stat().st_size,
            "bytes_per_token": round(path.stat().st_size / info.tokens, 3),
            "rss_mb": resident(),
        }
    )


def corpus(count: int) -> tuple[Any, list[tuple[str, Ids]], Ids]:
    """Return the tokenizer, documents of so many tokens, and 200 000 tokens of files that are not among them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(default_model_path() / "tokenizer.json"))
    files = CorpusFiles([Path(sysconfig.get_paths()["stdlib"], "asyncio")])
    unseen = np.concatenate([ids for _, ids in files.documents(tokenizer, lambda line: None)])
    documents, left = [], count
    for name, ids in package_files().documents(tokenizer, lambda line: None):
        documents.append((name, ids[:left]))
        left -= len(documents[-1][1])
        if left == 0:
            return tokenizer, documents, unseen[:200_000]
    print(f"the installed packages have {count - left} tokens only", file=sys.stderr)
    return tokenizer, documents, unseen[:200_000]


def package_files() -> CorpusFiles:
    """The sources and texts of the installed packages."""
    return CorpusFiles([Path(sysconfig.get_paths()["purelib"])])


def loaded(path: Path) -> dict[str, Any]:
    """Load a store several times, the kernels being compiled, and measure queries."""
    before = resident()
    MemoryStore().reader("warm-up")
    ready = resident()
    times = []
    for _ in range(7):
        started = time.perf_counter()
        store = MemoryStore.load(path)
        times.append(1_000 * (time.perf_counter() - started))
    resident_loaded = resident()
    started = time.perf_counter()
    verify(path)
    verify_ms = 1_000 * (time.perf_counter() - started)
    (segment,) = store._live("packages")
    unseen = np.load(path.with_suffix(".unseen.npy"))
    figures: dict[str, Any] = {
        "first_load_ms": round(times[0], 1),
        "load_ms": round(sorted(times)[3], 1),
        "verify_ms": round(verify_ms, 1),
        "rss_mb": {"imported": before, "kernels": ready, "loaded": resident_loaded},
    }
    for name, texts in (("seen", changed(segment.tokens)), ("unseen", [unseen])):
        figures[name] = queried(store, texts)
    figures["rss_mb"]["queried"] = resident()
    return figures


def arctic(path: Path) -> dict[str, Any]:
    """Put the documents of a store into Arctic's suffix cache (depth 24, vLLM's default), and measure its queries."""
    from arctic_inference.suffix_decoding import SuffixDecodingCache

    (segment,) = MemoryStore.load(path)._live("packages")
    before, cache, start = resident(), SuffixDecodingCache(max_tree_depth=24), 0
    started = time.perf_counter()
    for number, length in enumerate(segment.lengths.tolist(), 1):
        end = segment.document_end(start)
        cache.start_request(number, [0])
        cache.add_active_response(number, np.array(segment.tokens[end - length : end], np.int32))
        cache.stop_request(number)
        start = end + 1
    built, count = time.perf_counter() - started, int(segment.lengths.sum())
    held = resident() - before
    cache.start_request(0, [0])
    spans: list[int] = []
    for text in changed(segment.tokens):
        for stop in range(64, len(text), STRIDE):
            suffix = text[stop - 24 : stop].tolist()
            started_ns = time.perf_counter_ns()
            cache.speculate(0, suffix, max_spec_tokens=DRAFT)
            spans.append(time.perf_counter_ns() - started_ns)
        if len(spans) >= QUERIES:
            break
    p50, p99 = (round(float(value) / 1_000, 2) for value in np.percentile(spans, [50, 99]))
    figures = {"system": "arctic suffix cache", "tokens": count, "index_s": round(built, 2)}
    return figures | {"bytes_per_token": round(1e6 * held / count, 1), "speculate_us_p50": p50, "speculate_us_p99": p99}


def changed(tokens: Ids) -> Iterator[Ids]:
    """Yield pieces of a text from random places, with every twentieth token changed."""
    rng = np.random.default_rng(0)
    while True:
        start = int(rng.integers(len(tokens) - 400))
        piece = tokens[start : start + 400].copy()
        piece[rng.integers(0, 400, 400 // CHANGED)] = 11
        yield piece


def queried(store: MemoryStore, texts: Any) -> dict[str, float]:
    """Return microseconds of a query and of a continuation, and what was found."""
    reader, spans, lengths, ends = store.reader("packages"), [], [], []
    for text in texts:
        for stop in range(64, len(text), STRIDE):
            suffix = text[stop - 64 : stop]
            started = time.perf_counter_ns()
            match = reader.longest_match(suffix)
            found = time.perf_counter_ns()
            reader.continuation(match, DRAFT)
            spans.append(found - started)
            ends.append(time.perf_counter_ns() - found)
            lengths.append(match.length)
        if len(spans) >= QUERIES:
            break
    p50, p99 = np.percentile(spans, [50, 99]) / 1_000
    c50, c99 = np.percentile(ends, [50, 99]) / 1_000
    shown = {"match_us_p50": p50, "match_us_p99": p99}
    shown |= {"continuation_us_p50": c50, "continuation_us_p99": c99, "match_length_median": np.median(lengths)}
    return {"queries": len(spans)} | {name: round(float(value), 2) for name, value in shown.items()}


def near_duplicates(path: Path) -> dict[str, Any]:
    """Replay near-duplicates of recorded outputs, first without and then with the originals in memory."""
    tokenizer = load_tokenizer(default_model_path(), Console(Environment.from_system()))
    recorded = read_records(path, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, Limits())
    random = np.random.default_rng(0)
    repeated = []
    for record in recorded:
        output = record.output.copy()
        places = np.arange(random.integers(CHANGED), len(output), CHANGED)
        output[places] = random.integers(1000, 40_000, len(places))
        repeated.append(Recording(record.prompt, output))
    curve, figures = CostCurve.linear(0.003), {}
    for name, remember in (("without", False), ("with_memory", True)):
        method = LookupMethod(LookupConfig(), remember=remember)
        if remember:
            replay([Recording(record.prompt, record.output) for record in recorded], method, curve)
        figures[name] = round(replay(repeated, method, curve).tokens_per_step, 3)
    return {"file": path.name, "items": len(repeated), "tokens_per_step": figures}


def degenerate(count: int) -> None:
    """Tell how long text takes that makes naive construction quadratic."""
    document = np.random.default_rng(0).integers(0, 49_000, 500).astype(np.int32)
    for name, texts in (
        ("one token", [np.full(count, 7, np.int32)]),
        ("period of two", [np.tile(np.array([3, 9], np.int32), count // 2)]),
        ("one document", [document] * (count // 500)),
    ):
        started = time.perf_counter()
        Segment.build([""] * len(texts), texts, 0.0)
        tell({"degenerate": name, "tokens": count, "index_s": round(time.perf_counter() - started, 2)})


def resident() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    main()
