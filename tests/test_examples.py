"""Every example runs, and shows what it says it shows: the same tokens as plain generation, in fewer passes."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
RIGHT = {
    "Rename the class OutOfStockError to StockError.": ("OutOfStockError", "StockError"),
    "Change the default of reorder_level to 10.": ("reorder_level: int = 5", "reorder_level: int = 10"),
    "Rename the class Item to Product.": (r"\bItem\b", "Product"),
    "Rename the method add to put.": (r"add\(", "put("),
    "Rename the method find to search.": (r"find\(", "search("),
}


def output_of(name: str, *argv: object) -> str:
    call = [sys.executable, EXAMPLES / name, *map(str, argv)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_edit_a_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n  "port": 80\n}\n')
    text = output_of("edit_a_file.py", path, "Change the port to 8080.")
    assert "same tokens: True" in text
    assert '+  "port": 8080' in text
    steps = [int(found) for found in re.findall(r"tokens in (\d+) steps", text)]
    assert steps[1] < steps[0]
    assert path.read_text() == '{\n  "port": 80\n}\n'


def test_use_from_python():
    text = output_of("use_from_python.py")
    assert "same tokens: True" in text
    assert "same sample: True" in text
    lengths = [float(found) for found in re.findall(r"^([\d.]+) (?:tokens per|with)", text, re.MULTILINE)]
    assert len(lengths) == 2
    assert min(lengths) > 1


def test_a_pipeline():
    text = output_of("pipeline.py")
    assert "same texts: True" in text
    assert float(re.search(r"^([\d.]+) tokens per row", text, re.MULTILINE)[1]) > 1


@pytest.mark.slow
def test_answers_from_a_folder_of_documents(tmp_path):
    pytest.importorskip("bm25s")
    (tmp_path / "tea.md").write_text("# Tea\n\nGreen tea is brewed with water of 70 to 80 degrees for two minutes.\n")
    text = output_of("rag_docs.py", tmp_path, "-q", "How is green tea brewed?", "--tokens", 24)
    assert "same tokens: True" in text


@pytest.mark.slow
def test_a_benchmark_on_your_data(tmp_path):
    data = tmp_path / "mine.jsonl"
    data.write_text(json.dumps({"before": "x = 1\ny = 2\n", "instruction": "Rename x to z."}) + "\n")
    text = output_of("benchmark_generate.py", "--data", f"mine={data}", "--items", 1, "--tokens", 12)
    assert "mine" in text
    assert "plain" in text


@pytest.mark.slow
def test_how_long_the_command_takes_to_begin():
    text = output_of("measure_start.py", "--repeats", 1)
    shown, first = (float(found) for found in re.findall(r"^(?:--help|edit).* (\d+\.\d+)  ", text, re.MULTILINE))
    assert 0 < shown < first


@pytest.mark.slow
@pytest.mark.parametrize("instruction", RIGHT)
def test_the_first_command_edits_the_module_rightly(instruction, tmp_path):
    path, before = tmp_path / "inventory.py", (EXAMPLES / "inventory.py").read_text()
    path.write_text(before)
    command = Path(sysconfig.get_path("scripts")) / "specdec-lookup"
    subprocess.run([command, "edit", path, "-i", instruction, "-w"], check=True, timeout=600)
    assert path.read_text() == re.sub(*RIGHT[instruction], before)
