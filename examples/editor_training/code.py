"""A Python file as tokens and tree: where a name stands, what it binds to, and how to replace it."""

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FIELD = re.compile(r"\{[^{}'\"]*\}")  # of an f-string on one line; those with texts in them count as text
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Name:
    """One place where an identifier stands outside strings.

    Attributes:
        line, column: Place, lines from 1.
        attribute: Whether a dot stands before it.
        keyword: Whether it names an argument in a call.
    """

    text: str
    line: int
    column: int
    attribute: bool
    keyword: bool


class Code:
    """A parsed file.

    Args:
        text: The file.

    Raises:
        SyntaxError: The text is no Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.tree = ast.parse(text)

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The file's tokens as Python reads them."""
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @cached_property
    def names(self) -> list[Name]:
        """All identifiers, keywords of the language left out, without those in strings."""
        keywords = {(k.lineno, k.col_offset) for k in ast.walk(self.tree) if isinstance(k, ast.keyword) and k.arg}
        found, before = [], ""
        for token in self.tokens:
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                found.append(Name(token.string, *token.start, before == ".", token.start in keywords))
            if token.type not in (tokenize.NL, tokenize.COMMENT):
                before = token.string
        return found

    @cached_property
    def strings(self) -> list[tokenize.TokenInfo]:
        """Strings and comments."""
        return [token for token in self.tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]

    @cached_property
    def functions(self) -> list[Function]:
        """All functions and methods, inner ones too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTIONS)]

    @cached_property
    def top_functions(self) -> list[Function]:
        """The functions of the module itself."""
        return [node for node in self.tree.body if isinstance(node, _FUNCTIONS)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """The classes of the module itself."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def methods(self, owner: ast.ClassDef) -> list[Function]:
        """Return the methods of a class."""
        return [node for node in owner.body if isinstance(node, _FUNCTIONS)]

    def has(self, name: str) -> bool:
        """Whether the identifier stands anywhere, strings included."""
        return re.search(rf"\b{re.escape(name)}\b", self.text) is not None

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """Return first and last line of a statement, decorators included, counted from 0, the last exclusive."""
        decorators = getattr(node, "decorator_list", [])
        return min([node.lineno, *(d.lineno for d in decorators)]) - 1, node.end_lineno or node.lineno

    def count(self, name: str) -> int:
        """Return how often an identifier stands outside strings."""
        return sum(found.text == name for found in self.names)

    def mentions(self, name: str) -> bool:
        """Whether a string or comment has the word outside the braces of an f-string."""
        return any(_word(name).search(_without_fields(token.string)) for token in self.strings)

    def replaced(
        self, old: str, new: str, choose: Callable[[Name], bool], lines: range | None = None, *, dot: bool = False
    ) -> str:
        """Return the text with chosen identifiers replaced, in the fields of f-strings too.

        Args:
            old: Identifier.
            new: What takes its place.
            choose: Which of its places.
            lines: Lines from 0; None for all.
            dot: Whether in f-strings attributes are meant, else free names are.
        """
        rows = range(len(self.lines)) if lines is None else lines
        edits = [
            (name.line - 1, name.column, name.column + len(old), new)
            for name in self.names
            if name.text == old and name.line - 1 in rows and choose(name)
        ]
        for token in self.strings:
            row = token.start[0] - 1
            if row in rows and is_f(token.string) and row == token.end[0] - 1:
                edits.append((row, token.start[1], token.end[1], _in_fields(token.string, old, new, dot)))
        return splice(self.lines, edits)


def splice(lines: list[str], edits: list[tuple[int, int, int, str]]) -> str:
    """Return the lines with (line, from, to, text) replaced."""
    result = list(lines)
    for line, start, end, text in sorted(edits, reverse=True):
        result[line] = result[line][:start] + text + result[line][end:]
    return "\n".join(result)


def is_f(string: str) -> bool:
    """Whether a token is an f-string."""
    return re.match(r"(?i)(f|rf|fr)['\"]", string) is not None


def binders(node: ast.AST) -> set[str]:
    """Return the names that scopes inside a function bind anew."""
    found: set[str] = set()
    for scope in ast.walk(node):
        if scope is node or not isinstance(scope, _SCOPES):
            continue
        if hasattr(scope, "args"):
            found |= {argument.arg for argument in ast.walk(scope.args) if isinstance(argument, ast.arg)}
        found |= {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def local_names(function: Function) -> list[str]:
    """Return the variables that a function binds itself, in order, without parameters."""
    parameters = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    outer = {name for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    inner = binders(function)
    stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [name for name in dict.fromkeys(stored) if name not in parameters | outer | inner]


def parameters(function: Function) -> list[ast.arg]:
    """Return the parameters, without self and cls and without * and **."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [argument for argument in arguments if argument.arg not in ("self", "cls")]


def defaults(function: Function) -> list[ast.expr]:
    """Return what is computed outside of a function when it is defined: defaults, annotations, decorators."""
    arguments = function.args
    hints = [a.annotation for a in ast.walk(arguments) if isinstance(a, ast.arg)] + [function.returns]
    values = [*arguments.defaults, *arguments.kw_defaults, *hints, *function.decorator_list]
    return [value for value in values if value is not None]


def is_plain(name: str) -> bool:
    """Whether a name is an ordinary one, no dunder."""
    return not (name.startswith("__") and name.endswith("__")) and len(name) > 1


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b")


def _without_fields(string: str) -> str:
    return _FIELD.sub("{}", string) if is_f(string) and "\n" not in string else string


def _in_fields(string: str, old: str, new: str, dot: bool) -> str:
    pattern = re.compile(rf"(?<=\.){re.escape(old)}\b" if dot else rf"(?<![.\w]){re.escape(old)}\b")

    def change(match: re.Match[str]) -> str:
        # What follows a colon is the format, in which names stand in braces of their own only.
        expression, colon, form = match[0].partition(":")
        return pattern.sub(new, expression) + colon + form

    return _FIELD.sub(change, string)
