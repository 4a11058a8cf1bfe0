"""Edits of settings files are those of a file that parses, and change one setting."""

import configparser
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from editor_training.edits import Edit, Impossible  # noqa: E402
from editor_training.settings import edits  # noqa: E402
from editor_training.words import words  # noqa: E402

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")


def _ini(text: str) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


READERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads, "ini": _ini,
}  # fmt: skip


def made(held_out: bool = False) -> list[Edit]:
    """Return the edits of some dozens of files."""
    found = []
    for seed in range(60):
        try:
            found += edits(Random(seed), words(held_out), 4)
        except Impossible:
            continue
    return found


def flat(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the settings of a parsed file by their sections and names."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {place: value for key, part in tree.items() for place, value in flat(part, (*path, key)).items()}


@pytest.mark.parametrize("suffix", READERS)
def test_one_setting_is_changed_renamed_or_gone(suffix) -> None:
    several = [edit for edit in made() if edit.file.endswith(suffix)]
    assert several
    ways = set()
    for edit in several:
        before, after = (flat(READERS[suffix](text)) for text in (edit.before, edit.after))
        gone, new = before.keys() - after.keys(), after.keys() - before.keys()
        changed = {place for place in before.keys() & after.keys() if before[place] != after[place]}
        ways.add((len(gone), len(new), len(changed)))
        (place,) = gone | changed if not new else gone
        assert place[-1] == edit.names[0]
        assert edit.names[0] in edit.instruction
        if changed:
            assert type(before[place]) is type(after[place])
            said = after[place] if isinstance(after[place], str) else json.dumps(after[place])
            assert said in edit.instruction
    assert {(0, 0, 1)} < ways <= {(0, 0, 1), (1, 1, 0), (1, 0, 0)}


def test_the_edits_of_a_file_are_different_ones() -> None:
    for seed in range(20):
        group = edits(Random(seed), words(False), 4)
        assert len({edit.before for edit in group}) == 1
        assert len({edit.after for edit in group}) == len(group)


def test_held_out_settings_share_no_name_with_those_for_training() -> None:
    assert not {edit.names for edit in made()} & {edit.names for edit in made(held_out=True)}
