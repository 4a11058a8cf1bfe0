"""Every generated edit is what a careful programmer would write."""

import ast
import difflib
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from editor_training import additions, changes, renames, rewrites  # noqa: E402
from editor_training.code import Code  # noqa: E402
from editor_training.edits import Edit, Impossible, Setting  # noqa: E402
from editor_training.words import words  # noqa: E402

FILE = '''\
"""Books and their shelves."""

import json
from dataclasses import dataclass

LIMIT = 20


class MissingBookError(Exception):
    """Raised when a book is not there."""


@dataclass
class Book:
    title: str
    pages: int = 100


class Shelf:
    def __init__(self, room: int = 5) -> None:
        self.room = room
        self._books = {}

    def place(self, title: str, book: Book) -> None:
        if title in self._books:
            raise ValueError(f"duplicate title: {title}")
        self._books[title] = book

    def fetch(self, title: str) -> Book:
        try:
            return self._books[title]
        except KeyError:
            raise MissingBookError(f"no such title: {title!r:>{LIMIT}}") from None


def longest(books: list[Book]) -> int:
    most = 0
    for book in books:
        if book.pages > most:
            most = book.pages
    return most


def describe(book: Book) -> str:
    return f"{book.title} ({book.pages})"


if __name__ == "__main__":
    shelf = Shelf(room=2)
    shelf.place("x", Book(title="x", pages=longest([])))
    print("pages:", longest([]))
'''


code = cache(Code)


def setting(text: str = FILE, seed: int = 0) -> Setting:
    return Setting(code(text), Random(seed), words(False), held_out=False, made_up=True)


def edits(kind, text: str = FILE, tries: int = 40) -> Iterator[Edit]:
    """Yield all that the kind makes of the file."""
    for seed in range(tries):
        with suppress(Impossible):
            yield kind(setting(text, seed))


def changed(edit: Edit) -> list[str]:
    lines = difflib.ndiff(edit.before.splitlines(), edit.after.splitlines())
    return [line[0] + line[2:] for line in lines if line[0] in "+-"]


def tokens(text: str) -> list[str]:
    return [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)]


def renamed(kind, old: str, text: str = FILE) -> tuple[str, str]:
    """Return what the file becomes when `old` is renamed, and the new name."""
    edit = next(edit for edit in edits(kind, text, 400) if edit.names[0] == old)
    return edit.after, edit.names[1]


def test_a_function_is_renamed_where_it_is_defined_and_called():
    after, new = renamed(renames.rename_function, "longest")
    assert after == FILE.replace("longest", new)


def test_a_class_is_renamed_in_annotations_and_calls_but_not_in_words():
    after, new = renamed(renames.rename_class, "Book")
    assert after == re.sub(r"\bBook\b", new, FILE)
    assert "class MissingBookError" in after
    assert after.startswith('"""Books and')


def test_an_exception_is_renamed_where_it_is_raised():
    after, new = renamed(renames.rename_class, "MissingBookError")
    assert after == FILE.replace("MissingBookError", new)
    assert new.endswith("Error")


def test_a_method_is_renamed_where_it_is_called():
    after, new = renamed(renames.rename_method, "place")
    assert after == FILE.replace("def place", f"def {new}").replace("shelf.place", f"shelf.{new}")


def test_an_attribute_is_renamed_without_the_parameter_of_its_name():
    text = FILE.replace("Shelf(room=2)", "Shelf(2)")
    after, new = renamed(renames.rename_attribute, "room", text)
    assert after == text.replace("self.room = room", f"self.{new} = room")


def test_a_field_is_renamed_in_calls_of_its_class_and_in_f_strings():
    after, new = renamed(renames.rename_attribute, "pages")
    expected = FILE.replace("pages: int", f"{new}: int").replace("book.pages", f"book.{new}")
    assert after == expected.replace("pages=longest", f"{new}=longest")
    assert '"pages:"' in after


def test_a_name_of_an_attribute_and_a_parameter_alike_is_left_alone():
    assert "title" not in {edit.names[0] for edit in edits(renames.rename_attribute)}


def test_a_variable_is_renamed_in_its_function_only():
    after, new = renamed(renames.rename_variable, "most")
    assert after == FILE.replace("most", new)


def test_a_parameter_is_renamed_in_f_strings_too_and_elsewhere_not():
    text = FILE.replace('title="x", ', '"x", ')
    found = edits(renames.rename_parameter, text, 400)
    edit = next(e for e in found if e.names[0] == "title" and "place(self, title" not in e.after)
    new = edit.names[1]
    old, rest = text.split("    def fetch")
    head, body = old.split("    def place")
    body = body.replace("title:", f"{new}:", 1).replace("if title", f"if {new}").replace("[title]", f"[{new}]")
    assert edit.after == head + "    def place" + body.replace("{title}", f"{{{new}}}") + "    def fetch" + rest


def test_a_constant_changes_its_value_and_nothing_else():
    for edit in edits(changes.change_constant):
        before, after = changed(edit)
        assert before[0] == "-"
        assert after[0] == "+"
        differing = [pair for pair in zip(tokens(edit.before), tokens(edit.after), strict=True) if len({*pair}) > 1]
        assert len(differing) == 1
        assert differing[0][1] in edit.instruction


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("describe", 'def describe(book: Book) -> str:\n    return f"{book.title} ({book.pages})"\n\n\n'),
        ("fetch", FILE[FILE.index("\n    def fetch") : FILE.index("\n\ndef longest")]),
    ],
)
def test_a_definition_goes_with_the_blank_lines_that_set_it_apart(name, gone):
    edit = next(edit for edit in edits(changes.delete_function, tries=200) if edit.names == (name,))
    assert edit.after == FILE.replace(gone, "")


def test_what_is_used_is_not_deleted():
    names = {edit.names[0] for edit in edits(changes.delete_function, tries=200)}
    assert names == {"describe", "fetch"}


@pytest.mark.parametrize(
    ("statement", "neighbours"),
    [
        ("import io", "\n\nimport io\nimport json\n"),
        ("import re", "import json\nimport re\nfrom dataclasses"),
        ("from typing import Any", "import dataclass\nfrom typing import Any\n\nLIMIT"),
        ("from collections import Counter", "import json\nfrom collections import Counter\nfrom dataclasses"),
    ],
)
def test_an_import_goes_where_it_belongs(statement, neighbours):
    after = additions.with_import(Code(FILE), statement)
    assert neighbours in after
    assert after.replace(statement + "\n", "", 1) == FILE


def test_a_first_import_stands_behind_the_docstring():
    assert additions.with_import(Code('"""D."""\n\n\ndef f(): pass\n'), "import io") == (
        '"""D."""\n\nimport io\n\n\ndef f(): pass\n'
    )
    assert additions.with_import(Code("x = 1\n"), "import io") == "import io\n\nx = 1\n"


def test_imports_in_no_order_are_left_alone():
    with pytest.raises(Impossible):
        additions.with_import(Code("import os\nimport io\n"), "import re")


def test_a_parameter_comes_last_with_the_types_that_the_others_have():
    for edit in edits(additions.add_parameter):
        before, after = changed(edit)
        function, name = edit.names
        assert after.replace(re.search(rf"(, |(?<=\()){name}[^)]*", after)[0], "")[1:] == before[1:]
        assert f"{function}(" in after
        assert re.search(rf"{name}: \w+ = ", after)


def test_a_docstring_stands_first():
    for edit in edits(additions.add_docstring):
        node = next(n for n in ast.walk(ast.parse(edit.after)) if getattr(n, "name", None) == edit.names[0])
        doc = ast.get_docstring(node)
        own = edit.names[0].replace("_", " ").capitalize() + "."
        assert doc
        assert doc in edit.instruction or doc == own
        assert {line for line in changed(edit) if line != "+"} == {f'+    {"    " * (node.col_offset // 4)}"""{doc}"""'}


def test_type_hints_are_all_that_is_added():
    for edit in edits(additions.add_type_hints):
        assert edit.after == FILE
        bare, hinted = ast.parse(edit.before), ast.parse(edit.after)
        for node in ast.walk(hinted):
            if isinstance(node, ast.FunctionDef) and node.name in edit.names:
                node.returns = None
                for argument in ast.walk(node.args):
                    if isinstance(argument, ast.arg):
                        argument.annotation = None
        assert ast.dump(bare) == ast.dump(hinted)


def test_one_of_several_functions_without_hints_gets_its_own_back():
    def head(text: str, name: str) -> str:
        return next(line for line in text.splitlines() if f"def {name}(" in line)

    groups = [additions.hints_apart(setting(seed=seed), 3) for seed in range(20)]
    for group in groups:
        for edit in group:
            (name,) = edit.names
            assert name in edit.instruction
            assert head(edit.before, name) != head(FILE, name)
            assert edit.after == edit.before.replace(head(edit.before, name), head(FILE, name))
        assert len({edit.before for edit in group}) == 1
    assert {len(group) for group in groups} == {2, 3}


class Thing(int):
    """A number whose attributes and entries are numbers too, and as long as it is large."""

    def __getattr__(self, name: str) -> int:
        if name.startswith("__"):
            raise AttributeError(name)
        return int(self) + len(name) % 3

    def __getitem__(self, name: str) -> int:
        return int(self) * 2

    def __len__(self) -> int:
        return int(self)


def test_sum_gives_what_the_loop_gave():
    tried = 0
    for edit in edits(rewrites.loop_to_sum, tries=120):
        assert "sum(" in edit.after
        assert len(edit.after.splitlines()) < len(edit.before.splitlines())
        if f"def {edit.names[0]}(self" not in edit.after:
            results = [run(text, edit.names[0], [Thing(n) for n in (1, 2, 7)]) for text in (edit.before, edit.after)]
            assert results[0] == results[1]
            tried += 1
    assert tried > 20


def run(text: str, function: str, argument: object) -> object:
    scope: dict = {}
    exec(text.split("if __name__")[0], scope)
    return scope[function](argument)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('print("x")', 'logging.info("x")'),
        ('    print(f"{a}, {b}")', '    logging.info(f"{a}, {b}")'),
        ('print("sum:", f(a))', 'logging.info("sum: %s", f(a))'),
        ("print(f(a, b))", "logging.info(f(a, b))"),
    ],
)
def test_a_print_becomes_a_record(before, after):
    assert rewrites.logged(before) == after


@pytest.mark.parametrize("line", ["print(a, b)", "print(a, file=f)", "print(*a)", "x = print(a)", 'print("a", b, c)'])
def test_a_print_of_another_form_is_left_alone(line):
    with pytest.raises(Impossible):
        rewrites.logged(line)


def test_order_is_all_that_a_move_changes():
    for edit in edits(changes.reorder):
        assert Counter(edit.before.splitlines()) == Counter(edit.after.splitlines())
        assert edit.before != edit.after
        for text in (edit.before, edit.after):
            exec(compile(text.split("if __name__")[0], "file", "exec"), {})
