"""An edit that drops functions nobody spoke of is said to."""

import time

import pytest
from cli_fakes import Recorder, answer, fenced, run

from lookahead.cli import session
from lookahead.cli.losses import left_out

TWO = """\
def keep():
    return 1


class Box:
    def keep(self):
        return 2

    def ship(self):
        return 2
"""


def test_what_is_dropped_unasked_is_named():
    assert left_out(TWO, TWO[: TWO.index("    def ship")], "Rename keep to hold.") == ["ship"]


@pytest.mark.parametrize("instruction", ["Delete the method ship.", "Delete `Box.ship`", "Rename ship to send"])
def test_what_the_instruction_names_may_go(instruction):
    assert left_out(TWO, TWO[: TWO.index("    def ship")], instruction) == []


def test_what_stood_inside_goes_with_it():
    assert left_out(TWO, "def keep():\n    return 1\n", "Delete the class Box.") == []
    assert left_out(TWO, "def keep():\n    return 1\n", "Tidy up.") == ["Box"]


def test_a_method_may_not_get_lost_as_its_class_is_renamed():
    renamed = TWO[: TWO.index("    def ship")].replace("Box", "Crate")
    assert left_out(TWO, renamed, "Rename the class Box to Crate.") == ["ship"]


@pytest.mark.parametrize("instruction", ["Rename the class Box to Crate.", "Delete Box and add Crate."])
def test_all_methods_may_not_get_lost_as_their_class_is_renamed(instruction):
    renamed = "def keep():\n    return 1\n\n\nclass Crate:\n    pass\n"
    assert left_out(TWO, renamed, instruction) == ["keep", "ship"]


def test_a_function_that_became_a_constant_is_still_there():
    assert left_out("function area(r) {\n", "export const area = (r) => 3 * r * r\n", "Use arrow functions.") == []


@pytest.mark.parametrize("use", ["keep(width=3)", "keep == 1", "print(keep)"])
def test_what_is_only_used_is_missed(use):
    assert left_out("def keep(width):\n", f"{use}\n", "Tidy up.") == ["keep"]


def test_of_two_of_the_same_name_one_may_be_missing():
    assert left_out(TWO, TWO.replace("    def keep(self):\n        return 2\n\n", ""), "Tidy up.") == ["keep"]


def test_many_losses_are_found_in_no_time():
    lost = [f"f{number}" for number in range(3000)]
    before, after = "".join(f"def {name}():\n    pass\n" for name in lost), "x(1)\n" * 30_000
    start = time.perf_counter()
    assert left_out(before, after + "f1 = f2\n", "Tidy up.") == [name for name in lost if name != "f1"]
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("after", [TWO, TWO.replace("return 1", "return 3"), "import os\n" + TWO])
def test_nothing_is_said_where_nothing_is_gone(after):
    assert left_out(TWO, after, "Return 3.") == []


@pytest.mark.parametrize(
    "line",
    [
        "async def gone(): ...",
        "export default class gone {",
        "export async function gone() {",
        "pub fn gone() {",
        "func gone() {",
        "public static class gone {",
        "pub(crate) unsafe fn gone<T>(x: T) {",
        "func (s *Store) gone(key string) {",
        "fun gone(x: Int): Int {",
        "function M.gone(x)",
        "class gone extends Base {",
        "  def self.gone",
    ],
)
def test_other_languages_have_definitions_too(line):
    assert left_out(f"{line}\n", "x\n", "Tidy up.") == ["gone"]


@pytest.mark.parametrize(
    "line", ["# the class gone", "x = 'def gone'", "undefined gone", "class that is gone", "function returns it"]
)
def test_what_is_no_definition_is_not_missed(line):
    assert left_out(f"{line}\n", "x\n", "Tidy up.") == []


def test_the_command_says_so_before_anything_is_written(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text(TWO)
    shorter = TWO[: TWO.index("    def ship")]
    editor = Recorder(lambda path, text, instruction: answer(fenced(shorter), seen=text))
    monkeypatch.setattr(session, "load_editor", lambda args, console, trace: editor)
    done = run("edit", "-i", "Change 1 to 3", path, stdin=b"n\n", terminal=True)
    assert "leaves out ship: look at the diff" in done.stderr
    assert path.read_text() == TWO
