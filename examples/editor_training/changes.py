"""Edits that change a value, or delete or move a definition."""

import ast
import re
from itertools import pairwise
from typing import Any

from editor_training.code import Code
from editor_training.edits import Edit, Impossible, Setting
from editor_training.phrases import say

_NOT_LAST = 0.85  # share of deletions, in training, that rather delete something else than the file's end
_SETS_OFF = 0.5  # share of these that rather delete what is set off otherwise from what is behind it than before it
_PLAIN = re.compile(r"\"[^\"\\]+\"|'[^'\\]+'|\d+(\.\d+)?|True|False")


def change_constant(s: Setting) -> Edit:
    """Change a constant, the default of a parameter or field, or a text."""
    return s.random.choice([_change_value, _change_value, _change_default, _change_text])(s)


def _change_value(s: Setting) -> Edit:
    nodes = [node for scope in [s.code.tree, *s.code.classes] for node in scope.body]
    found = [(target.id, node.value) for node in nodes for target in _targets(node) if isinstance(target, ast.Name)]
    names = [name for name, _ in found]
    clear = [(n, v) for n, v in found if names.count(n) == 1 and s.may_edit(n) and _is_simple(s.code, v)]
    name, value = s.pick(clear)
    return _changed(s, value, _other(s, value), "constant", (name,), name=name)


def _targets(node: Any) -> list[Any]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) and len(node.targets) == 1 else []


def _change_default(s: Setting) -> Edit:
    found = []
    for function in s.code.functions:
        arguments = [*function.args.posonlyargs, *function.args.args]
        given = zip(reversed(arguments), reversed(function.args.defaults), strict=False)
        found += [(function.name, argument.arg, value) for argument, value in given if s.may_edit(argument.arg)]
    function, name, value = s.pick([(f, n, v) for f, n, v in found if _is_simple(s.code, v)])
    place = function if s.random.random() < 0.6 or sum(n == name for _, n, _ in found) > 1 else None
    if place and sum(other.name == function for other in s.code.functions) > 1:
        raise Impossible
    return _changed(s, value, _other(s, value), "default", (name,), name=name, place=place)


def _change_text(s: Setting) -> Edit:
    values = [node for node in ast.walk(s.code.tree) if isinstance(node, ast.Constant)]
    texts = [v for v in values if isinstance(v.value, str) and re.fullmatch(r"[\w ,.:%-]{4,60}", v.value)]
    texts = [v for v in texts if not (s.varied and v.value == "__main__")]
    value = s.pick([v for v in texts if _is_simple(s.code, v) and s.code.text.count(v.value) == 1])
    words = value.value.split()
    words[s.random.randrange(len(words))] = s.words.noun(s.random)
    new = " ".join(words) if s.random.random() < 0.7 else f"{s.words.noun(s.random)} {value.value}"
    if s.varied and s.random.random() < 0.5:
        new = " ".join(s.words.sentence(s.random).rstrip(".").split()[: s.random.randint(1, 6)])
    quote = _source(s.code, value)[0]
    return _changed(s, value, quote + new + quote, "text", ())


def _changed(s: Setting, value: ast.Constant, new: str, form: str, names: tuple[str, ...], **slots: Any) -> Edit:
    old, row = _source(s.code, value), value.lineno - 1
    if new == old:
        raise Impossible
    lines = list(s.code.lines)
    lines[row] = lines[row][: value.col_offset] + new + lines[row][value.end_col_offset :]
    return Edit("change_constant", say(s.random, form, old=old, new=new, **slots), s.code.text, "\n".join(lines), names)


def _other(s: Setting, node: ast.Constant) -> str:
    """Return another value of the same type."""
    random, value = s.random, node.value
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(random.choice([value + 1, value * 2, value * 10, random.randint(0, 20), random.randint(20, 5000)]))
    if isinstance(value, float):
        return str(random.choice([value + 0.5, value * 2, round(random.uniform(0, 10), 2)]))
    quote, noun = _source(s.code, node)[0], s.words.noun(random)
    return quote + random.choice([noun, f"{noun}_{s.words.noun(random)}"]) + quote


def _is_simple(code: Code, value: Any) -> bool:
    """Whether an expression is one number, truth value or text in plain quotes, and not on a line of its own."""
    if not isinstance(value, ast.Constant) or value.lineno != value.end_lineno:
        return False
    alone = code.lines[value.lineno - 1].strip().startswith(('"', "'"))
    return _PLAIN.fullmatch(_source(code, value)) is not None and not alone


def _source(code: Code, value: ast.Constant) -> str:
    return code.lines[value.lineno - 1][value.col_offset : value.end_col_offset]


def delete_function(s: Setting) -> Edit:
    """Delete a function, method or class that nothing else in the file uses."""
    found: list[tuple[Any, str, Any]] = [(f, "function", s.code.tree) for f in s.code.top_functions]
    found += [(c, "class", s.code.tree) for c in s.code.classes]
    found += [(m, "method", c) for c in s.code.classes for m in s.code.methods(c)] * 2
    unused = [one for one in found if len(re.findall(rf"\b{one[0].name}\b", s.code.text)) == 1]
    allowed = [(n, w, o) for n, w, o in unused if s.may_edit(n.name) and len(o.body) > 1 and _is_apart(s.code, n)]
    if s.varied and s.random.random() < _NOT_LAST:
        allowed = [(n, w, o) for n, w, o in allowed if s.code.span(n)[1] < len(s.code.lines) - 1] or allowed
        if s.random.random() < _SETS_OFF:
            allowed = [(n, w, o) for n, w, o in allowed if _is_set_off(s.code, n)] or allowed
    node, what, _ = s.pick(allowed)
    after = without(s.code, node)
    Code(after)
    return Edit("delete_function", say(s.random, "delete", what=what, name=node.name), s.code.text, after, (node.name,))


def _is_apart(code: Code, node: ast.stmt) -> bool:
    """Whether blank lines or the block's beginning and end stand around a definition."""
    start, end = code.span(node)
    before = code.lines[start - 1].strip() if start else ""
    after = code.lines[end].strip() if end < len(code.lines) else ""
    return (not before or before.endswith(":")) and not after


def _is_set_off(code: Code, node: ast.stmt) -> bool:
    """Whether more or fewer blank lines stand behind a definition than before it, or what follows is further left."""
    start, end = code.span(node)
    before, behind = "\n".join(code.lines[:start]), "\n".join(code.lines[end:])
    following = behind.lstrip("\n")
    blank = len(before) - len(before.rstrip("\n")), len(behind) - len(following)
    return bool(following) and (blank[0] != blank[1] or _indent(following.split("\n")[0]) < _indent(code.lines[start]))


def without(code: Code, node: ast.stmt) -> str:
    """Return the text without a definition and without the blank lines that set it apart.

    What follows keeps the distance from what is before it that the definition had, or, behind the last of a block, its
    own.
    """
    start, end = code.span(node)
    head, tail = "\n".join(code.lines[:start]), "\n".join(code.lines[end:])
    before, behind = head.rstrip("\n"), tail.lstrip("\n")
    if not behind:
        return before + "\n"
    if not before:
        return behind
    is_last = _indent(behind.split("\n")[0]) < _indent(code.lines[start])
    blank = len(tail) - len(behind) if is_last else len(head) - len(before)
    return before + "\n" * (blank + 1) + behind


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def reorder(s: Setting) -> Edit:
    """Move a function, method or class before or behind another or to the end, or sort functions by name."""
    groups = [[n for n in scope.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))] for scope in _scopes(s.code)]
    apart = [g for g in groups if 1 < len(g) <= 8 and all(_is_apart(s.code, node) for node in g)]
    nodes: list[Any] = s.pick([g for g in apart if _is_row(s.code, g)])
    top = nodes[0] in s.code.tree.body
    functions = all(isinstance(node, ast.FunctionDef) for node in nodes)
    if not functions and _needs_order(nodes):
        raise Impossible
    if top and functions and s.random.random() < 0.2:
        order = sorted(range(len(nodes)), key=lambda place: nodes[place].name)
        return Edit("reorder", say(s.random, "sort"), s.code.text, _in_order(s.code, nodes, order))
    moved, other = s.random.sample(range(len(nodes)), 2)
    if not (s.may_edit(nodes[moved].name) and s.may_edit(nodes[other].name)):
        raise Impossible
    at_end = top and nodes[-1] is s.code.tree.body[-1] and s.random.random() < 0.25
    form = "end" if at_end else "above" if other < moved else "below"
    order = [place for place in range(len(nodes)) if place != moved]
    order.insert({"end": len(order), "above": other, "below": other}[form], moved)
    what = "class" if isinstance(nodes[moved], ast.ClassDef) else "function" if top else "method"
    name = nodes[moved].name
    instruction = say(s.random, form, what=what, name=name, other=nodes[other].name)
    return Edit("reorder", instruction, s.code.text, _in_order(s.code, nodes, order), (name,))


def _scopes(code: Code) -> list[Any]:
    return [code.tree, *code.classes]


def _is_row(code: Code, nodes: list[Any]) -> bool:
    """Whether only blank lines stand between the definitions, as many everywhere."""
    gaps = [code.lines[code.span(a)[1] : code.span(b)[0]] for a, b in pairwise(nodes)]
    return all(gap == gaps[0] and gap and not any(line.strip() for line in gap) for gap in gaps)


def _in_order(code: Code, nodes: list[Any], order: list[int]) -> str:
    spans = [code.span(node) for node in nodes]
    gap = [""] * (spans[1][0] - spans[0][1])
    moved = [line for place in order for line in [*code.lines[slice(*spans[place])], *gap]][: -len(gap)]
    return "\n".join([*code.lines[: spans[0][0]], *moved, *code.lines[spans[-1][1] :]])


def _needs_order(nodes: list[Any]) -> bool:
    """Whether a definition needs another one when it is made, as a base class or an annotation."""
    needed: set[str] = set()
    for node in nodes:
        heads = [*node.decorator_list, *getattr(node, "bases", [])]
        for function in ast.walk(node):
            if isinstance(function, ast.FunctionDef):
                heads += [function.args, *([function.returns] if function.returns else [])]
        heads += [n for n in node.body if isinstance(node, ast.ClassDef) and not isinstance(n, ast.FunctionDef)]
        needed |= {n.id for head in heads for n in ast.walk(head) if isinstance(n, ast.Name)}
    return bool(needed & {node.name for node in nodes})
