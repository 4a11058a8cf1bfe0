"""Tasks: every kind of edit can be had, names that are held out stay out of training, and a seed says it all."""

import ast
import builtins
import keyword
import re
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from editor_training.code import Code  # noqa: E402
from editor_training.packing import written  # noqa: E402
from editor_training.phrases import say  # noqa: E402
from editor_training.scoring import read_cases  # noqa: E402
from editor_training.shapes import Shaper  # noqa: E402
from editor_training.stdlib import pieces  # noqa: E402
from editor_training.tasks import KINDS, edit_of, several, stream  # noqa: E402
from editor_training.words import SHOWN, is_held_out, words  # noqa: E402

from lookahead.cli.answers import extract_file  # noqa: E402


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held_out", [False, True])
def test_every_kind_can_be_had_from_both_sides(kind, held_out):
    for number in range(3):
        edit = edit_of(kind, Random(f"{kind}{number}"), held_out, 120, 1500)
        assert edit.kind == kind
        assert edit.before != edit.after
        for text in (edit.before, edit.after):
            if edit.file.endswith(".py"):
                ast.parse(text)
            assert text.endswith("\n")
            assert not text.endswith("\n\n")


def test_a_rename_keeps_what_the_code_does():
    """Of every rename the tree is the same again when the name is put back."""
    for kind in [kind for kind in KINDS if kind.startswith("rename")]:
        for number in range(4):
            edit = edit_of(kind, Random(f"{kind}-{number}"), False, 120, 1500)
            old, new = edit.names
            assert not re.search(rf"\b{new}\b", edit.before)
            assert re.sub(rf"\b{new}\b", old, edit.after) == edit.before
            assert not keyword.iskeyword(new)


def test_held_out_names_are_never_edited_in_training():
    trained = {name for group in islice(stream("test"), 60) for edit in group for name in edit.names} - {"__init__"}
    tested = {name for kind in KINDS for n in range(2) for name in edit_of(kind, Random(n), True, 120, 1500).names}
    assert len(trained) > 100
    assert not trained & (tested - {"__init__"})


def test_held_out_words_are_in_no_made_up_file_for_training():
    kept = {word for group in _lists(words(True)) for word in group}
    for seed in range(40):
        text = Shaper(Random(seed), words(False)).file(4)
        found = {part.lower() for name in Code(text).names for part in re.findall(r"[A-Z]?[a-z]+", name.text)}
        assert not found & (kept - _template_words())


def test_held_out_modules_are_in_no_file_for_training():
    trained, kept = ({piece.module for piece in pieces(side)} for side in (False, True))
    assert trained
    assert kept
    assert not trained & kept
    assert all(is_held_out(module) for module in kept)


def test_the_file_that_is_shown_is_no_part_of_training():
    shown = {name.text for name in Code((ROOT / "examples/inventory.py").read_text()).names}
    shared = {"self", "dataclass", "dataclasses", "field", "default_factory", "values", "join", "get", *dir(builtins)}
    own = {name for name in shown - shared if not name.startswith("__")} - {"decimal", "Decimal"}
    assert own <= SHOWN
    for seed in range(60):
        made = {name.text for name in Code(Shaper(Random(seed), words(False)).file(4)).names}
        assert not made & (own - shared)
    assert not own & {name for group in islice(stream("test"), 40) for edit in group for name in edit.names}


def test_edits_of_one_file_begin_with_the_same_text():
    group = several(Random(3), False, 500, 1500, 6)
    assert len(group) > 1
    assert len({edit.before for edit in group}) == 1
    assert len({edit.after for edit in group}) == len(group)


def test_edits_of_one_file_are_often_of_one_kind():
    groups = [group for group in islice(stream("alike"), 150) if len(group) > 1]
    alike = sum(len({edit.kind for edit in group}) == 1 for group in groups)
    assert 0.4 < alike / len(groups) < 0.9


def test_deletions_in_training_are_seldom_of_a_files_last_definition():
    last = [
        edit.before.startswith(edit.after.rstrip("\n"))
        for edit in (edit_of("delete_function", Random(n), False, 300, 1500) for n in range(60))
    ]
    assert 0 < sum(last) / len(last) < 0.4


def test_what_the_model_learns_to_write_is_taken_as_the_right_file():
    edits = [edit for kind in KINDS for place in range(6) for edit in [edit_of(kind, Random(place), True, 120, 900)]]
    deletions = [edit_of("delete_function", Random(f"end-{place}"), True, 120, 900) for place in range(40)]
    for edit in [*edits, *deletions]:
        assert extract_file(f"```\n{written(edit)}```", edit.before) == edit.after
    assert {written(edit) == edit.after for edit in deletions} == {True, False}


def test_varied_files_are_python_whatever_the_words():
    commented = private = 0
    for seed in range(60):
        text = Shaper(Random(seed), words(False).some(Random(seed), 0.08), varied=True).file(4)
        compile(text, "made up", "exec")
        commented += "  # " in text
        private += "def _" in text.replace("def __", "")
    assert 5 < commented < 60
    assert 5 < private < 60


def test_a_share_of_the_words_is_drawn_anew_for_each_file():
    every, some = words(False), words(False).some(Random(1), 0.1)
    for few, many in zip(_lists(some), _lists(every), strict=True):
        assert len(few) == max(1, round(len(many) * 0.1))
        assert set(few) <= set(many)
    assert _lists(every.some(Random(2), 0.1)) != _lists(some)


def test_edits_written_by_hand_are_of_known_kinds_and_python():
    groups = list(read_cases(ROOT / "examples/edits_by_hand.jsonl"))
    edits = [edit for group in groups for edit in group]
    assert len(edits) == 40
    assert len(groups) == len({edit.before for edit in edits})
    for edit in edits:
        assert edit.kind in KINDS
        assert edit.before != edit.after
        for text in (edit.before, edit.after):
            compile(text, edit.kind, "exec")


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"kind": "reorder", "instruction": "x", "before": "y"}'])
def test_cases_that_lack_something_are_named_by_their_line(tmp_path, line):
    path = tmp_path / "cases.jsonl"
    path.write_text(line)
    with pytest.raises(ValueError, match="line 1, must have kind, instruction, before and after"):
        list(read_cases(path))


def test_the_same_seed_gives_the_same_edits():
    assert list(islice(stream("a"), 3)) == list(islice(stream("a"), 3))
    assert list(islice(stream("a"), 3)) != list(islice(stream("b"), 3))


def test_instructions_name_what_is_edited():
    for seed in range(50):
        text = say(Random(seed), "rename", what="class", old="Book", new="Tome", place=None)
        assert "Book" in text
        assert "Tome" in text
        assert "{" not in text


def _lists(chosen) -> list[list[str]]:
    return [getattr(chosen, name) for name in type(chosen).__slots__]


def _template_words() -> set[str]:
    """Return the words that stand in the templates themselves."""
    folder = ROOT / "examples/editor_training"
    source = "".join((folder / name).read_text() for name in ("templates.py", "methods.py"))
    return set(re.findall(r"[a-z]+", source)) | {"factory"}
