"""Measure how long the command takes to begin: to its help, and to the first token of an edit.

    python examples/measure_start.py [--repeats 5] [--threads 2]

The default model is fetched before the first measurement. The time to the first token is that of the whole process less
that of the decoding behind the first token, as the command's own statistics give it: no less than the true one.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

EDITED = Path(__file__).with_name("inventory.py")
EDIT = ("edit", str(EDITED), "-i", "Change the default of reorder_level to 10", "--json", "--check")


def main() -> None:
    """Print a line for each of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch; as many as it chooses when left out")
    options = parser.parse_args()
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    first_token()
    print(f"{os.cpu_count()} CPUs, {options.repeats} runs each; median and range, seconds")
    for name, measure in (("--help", help_shown), ("edit, to the first token", first_token)):
        seconds = [measure() for _ in range(options.repeats)]
        print(f"{name:26}{statistics.median(seconds):>7.2f}  {min(seconds):.2f} to {max(seconds):.2f}", flush=True)


def help_shown() -> float:
    """Return the seconds that ``--help`` takes."""
    return run("--help")[0]


def first_token() -> float:
    """Return the seconds of an edit without those behind its first token."""
    seconds, output = run(*EDIT)
    return seconds - float(json.loads(output)["stats"]["decode_s"])


def run(*words: str) -> tuple[float, str]:
    """Return how long the command took, and what it printed."""
    beside = Path(sysconfig.get_path("scripts")) / "specdec-lookup"
    command = str(beside) if beside.is_file() else shutil.which("specdec-lookup")
    if command is None:
        sys.exit("specdec-lookup is not installed here: pip install specdec-lookup")
    start = time.perf_counter()
    done = subprocess.run([command, *words], stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        sys.exit(f"specdec-lookup {' '.join(words)} ended with exit code {done.returncode}")
    return seconds, done.stdout


if __name__ == "__main__":
    main()
