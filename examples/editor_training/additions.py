"""Edits that add something: an import, a parameter, a docstring, type hints."""

import ast
import re
from typing import Any

from editor_training.code import Code, Function, parameters
from editor_training.edits import Edit, Impossible, Setting
from editor_training.phrases import say

_MODULES = """argparse array base64 bisect calendar collections copy csv datetime decimal enum functools glob hashlib
heapq html io itertools json logging math operator os pathlib pickle platform queue random re secrets shutil signal
socket sqlite3 statistics string struct subprocess sys tempfile textwrap threading time timeit tomllib traceback typing
unicodedata urllib uuid warnings weakref zipfile"""
_NAMES = """pathlib.Path typing.Any collections.Counter collections.defaultdict functools.cache functools.partial
datetime.date datetime.timedelta decimal.Decimal enum.Enum itertools.chain dataclasses.field random.Random math.sqrt
time.sleep contextlib.suppress collections.abc.Iterator fractions.Fraction tempfile.TemporaryDirectory
operator.itemgetter"""


def add_import(s: Setting) -> Edit:
    """Add an import where it belongs: `import` before `from`, each in alphabetical order."""
    if s.random.random() < 0.7:
        name = module = s.random.choice(_MODULES.split())
        statement, form = f"import {name}", "import"
    else:
        module, _, name = s.random.choice(_NAMES.split()).rpartition(".")
        statement, form = f"from {module} import {name}", "from"
    if re.search(rf"\bimport {name}\b|from {module} ", s.code.text):
        raise Impossible
    instruction = say(s.random, form, name=name, module=module, statement=statement)
    return Edit("add_import", instruction, s.code.text, with_import(s.code, statement))


def with_import(code: Code, statement: str) -> str:
    """Return the text of a file with an import in its place.

    Raises:
        Impossible: The file's imports are not in alphabetical order, or not one block.
    """
    lines = code.lines
    imports = [node for node in code.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not imports:
        return _with_first_import(code, statement)
    present = [lines[node.lineno - 1] for node in imports]
    first, last = imports[0].lineno - 1, imports[-1].end_lineno or 0
    if last - first != len(imports) or present != sorted(present, key=_order) or "__future__" in present[0]:
        raise Impossible
    where = first + sum(_order(line) < _order(statement) for line in present)
    return "\n".join([*lines[:where], statement, *lines[where:]])


def _with_first_import(code: Code, statement: str) -> str:
    start = (code.tree.body[0].end_lineno or 1) if ast.get_docstring(code.tree) is not None else 0
    rest = "\n".join(code.lines[start:]).lstrip("\n")
    if not rest:
        raise Impossible
    gap = "\n\n\n" if re.match(r"@|class |def |async def ", rest) else "\n\n"
    return "\n".join([*code.lines[:start], *([""] if start else []), statement]) + gap + rest


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line.split()[1].lower()


def add_parameter(s: Setting) -> Edit:
    """Add a parameter with a default behind the others, with its type where the others have theirs."""
    function = s.pick([f for f in s.code.functions if _takes_more(s, f)])
    kind = s.random.choice(["int", "int", "str", "bool", "float", "None"])
    words = s.words
    pool = {"int": words.ints, "str": words.strings, "bool": words.bools, "float": words.floats, "None": words.locals}
    name = s.new(lambda random: random.choice(pool[kind]))
    value = _value(s, kind)
    hinted = any(argument.annotation for argument in parameters(function))
    if hinted and kind == "None":
        raise Impossible
    typed = kind != "None" and (hinted or function.returns is not None)
    text = f"{name}: {kind} = {value}" if typed else f"{name}={value}"
    owner = next((owner.name for owner in s.code.classes if function in owner.body), None)
    place = owner if function.name == "__init__" and s.random.random() < 0.5 else function.name
    assigned = text if s.random.random() < 0.5 else f"{name}={value}"
    instruction = say(s.random, "parameter", name=name, value=value, assigned=assigned, place=place)
    return Edit(
        "add_parameter", instruction, s.code.text, _with_parameter(s.code, function, text), (function.name, name)
    )


def _takes_more(s: Setting, function: Function) -> bool:
    """Whether a parameter can stand at the end of a signature, and the function is the only one of its name."""
    arguments = function.args
    plain = not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs)
    single = sum(other.name == function.name for other in s.code.functions) == 1
    allowed = s.may_edit(function.name) or function.name == "__init__"
    return plain and single and allowed and signature(s.code, function) is not None


def _value(s: Setting, kind: str) -> str:
    if kind == "int":
        return str(s.random.randint(0, 100))
    if kind == "bool":
        return s.random.choice(["True", "False"])
    if kind == "float":
        return f"{s.random.randint(0, 9)}.5"
    return f'"{s.words.noun(s.random)}"' if kind == "str" else "None"


def _with_parameter(code: Code, function: Function, text: str) -> str:
    row, span = function.lineno - 1, signature(code, function)
    assert span is not None
    lines, line = list(code.lines), code.lines[function.lineno - 1]
    inside = line[span[0] : span[1]]
    lines[row] = line[: span[0]] + (f"{inside}, {text}" if inside.strip() else text) + line[span[1] :]
    if len(lines[row]) > 140:
        raise Impossible
    return "\n".join(lines)


def signature(code: Code, function: Function) -> tuple[int, int] | None:
    """Return where on its line the parameters of a one-line signature begin and end."""
    line = code.lines[function.lineno - 1]
    match = re.fullmatch(r"\s*(?:async )?def \w+\((.*)\)(?: -> [^()]+)?:", line)
    return match.span(1) if match else None


def add_docstring(s: Setting) -> Edit:
    """Add a one-line docstring: a given one, or one made of the function's name."""
    node: Any = s.pick([node for node in [*s.code.functions, *s.code.classes] if _is_bare(s, node)])
    is_class = isinstance(node, ast.ClassDef)
    what = "class" if is_class else "function" if node in s.code.tree.body else "method"
    spelled = node.name.strip("_").split("_")
    given = is_class or s.random.random() < 0.6 or len(spelled) < 2
    text = _sentence(s) if given else " ".join(spelled).capitalize() + "."
    quotes = '"""' if s.random.random() < 0.15 else '"'
    form = "docstring" if given else "own_docstring"
    instruction = say(s.random, form, text=f"{quotes}{text}{quotes}", name=node.name, what=what)
    head, first = node.body[0].lineno - 1, s.code.lines[node.body[0].lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    added = [f'{indent}"""{text}"""', *([""] if is_class else [])]
    after = "\n".join([*s.code.lines[:head], *added, *s.code.lines[head:]])
    return Edit("add_docstring", instruction, s.code.text, after, (node.name,))


def _is_bare(s: Setting, node: Any) -> bool:
    """Whether a function or class has no docstring and its body begins on the line behind its head."""
    plain = not getattr(node.body[0], "decorator_list", [])
    begins = s.code.lines[node.body[0].lineno - 2].rstrip().endswith(":")
    single = sum(function.name == node.name for function in s.code.functions) <= 1
    return ast.get_docstring(node) is None and plain and begins and single and s.may_edit(node.name)


def _sentence(s: Setting) -> str:
    verb, noun = s.random.choice(s.words.verbs).capitalize(), s.words.noun(s.random)
    forms = (
        f"{verb} the {noun}.",
        f"Return the {noun} of the {s.words.noun(s.random)}.",
        f"{verb} one {noun}",
        f"{verb} all {noun}s and return the {s.words.noun(s.random)}.",
    )
    return s.random.choice(forms)


def add_type_hints(s: Setting) -> Edit:
    """Add the type hints that a made-up file has: those of one function or of all are taken away first."""
    typed = _typed(s.code)
    clear = _clear(s)
    if not s.made_up or not clear:
        raise Impossible
    if s.random.random() < 0.25:
        if len(typed) != len(s.code.functions):
            raise Impossible
        chosen, instruction = typed, say(s.random, "all_hints")
    else:
        chosen = [s.random.choice(clear)]
        instruction = _hints_wanted(s, chosen[0])
    names = tuple(function.name for function in chosen)
    return Edit("add_type_hints", instruction, _without_hints(s.code, chosen), s.code.text, names)


def hints_apart(s: Setting, count: int) -> list[Edit]:
    """Return edits that each add the hints of one of several functions that have none; empty if these are too few."""
    clear = _clear(s) if s.made_up else []
    if len(clear) < 2:
        return []
    bare = s.random.sample(clear, min(len(clear), s.random.randint(2, max(2, count))))
    before = _without_hints(s.code, bare)
    return [
        Edit("add_type_hints", _hints_wanted(s, function), before, _without_hints(s.code, others), (function.name,))
        for function, others in ((f, [other for other in bare if other is not f]) for f in bare)
    ]


def _typed(code: Code) -> list[Function]:
    """Return the functions that have all hints on one line."""
    typed = [f for f in code.functions if f.returns and signature(code, f)]
    return [f for f in typed if all(argument.annotation for argument in parameters(f))]


def _clear(s: Setting) -> list[Function]:
    """Return those of them that a name says which."""
    names = [f.name for f in s.code.functions]
    return [f for f in _typed(s.code) if s.may_edit(f.name) and names.count(f.name) == 1]


def _hints_wanted(s: Setting, function: Function) -> str:
    what = "function" if function in s.code.tree.body else "method"
    return say(s.random, "hints", what=what, name=function.name)


def _without_hints(code: Code, functions: list[Function]) -> str:
    lines = list(code.lines)
    for function in functions:
        lines[function.lineno - 1] = unhinted(lines[function.lineno - 1])
    return "\n".join(lines)


def unhinted(line: str) -> str:
    """Return a one-line signature without its hints.

    Example:
        >>> unhinted("def f(a: int, b: str = 'x') -> None:")
        "def f(a, b='x'):"
    """
    line = re.sub(r" -> [^()]+:$", ":", line)
    return re.sub(r"(?<=[(\s])(\w+): [\w.]+(?:\[[^\]]*\])?( = )?", lambda m: m[1] + ("=" if m[2] else ""), line)
