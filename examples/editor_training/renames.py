"""Renames, only of names of which it is certain where they stand."""

import ast
import re
from collections import Counter

from editor_training.code import Code, Function, Name, binders, defaults, local_names, parameters
from editor_training.edits import Edit, Setting
from editor_training.phrases import say

# Methods of built-in types: their calls can't be told from those of a class's own.
_BUILTIN = frozenset(name for kind in (str, list, dict, set, int, bytes, float, tuple) for name in dir(kind))
_BUILTIN |= {"close", "read", "write", "open"}


def rename_function(s: Setting) -> Edit:
    """Rename a function of the module."""
    old = s.pick_used(_global_names(s, [function.name for function in s.code.top_functions]))
    return _renamed(s, "rename_function", "function", old, _kept_private(s, old, s.new(s.words.function)))


def rename_class(s: Setting) -> Edit:
    """Rename a class."""
    old = s.pick_used(_global_names(s, [owner.name for owner in s.code.classes]))
    is_error = old.endswith("Error")
    what = "exception" if is_error and s.random.random() < 0.5 else "class"
    new = s.new(lambda random: s.words.klass(random) + ("Error" if is_error else ""))
    return _renamed(s, "rename_class", what, old, new)


def rename_method(s: Setting) -> Edit:
    """Rename a method that only one class has."""
    owners = [(method.name, owner.name) for owner in s.code.classes for method in s.code.methods(owner)]
    times = Counter(name for name, _ in owners)
    free = {name.text for name in s.code.names if not name.attribute and not _is_def(s.code, name)}
    old, owner = s.pick(
        [
            (method, owner)
            for method, owner in owners
            if times[method] == 1
            and method not in free
            and _is_member(s, method)
            and not s.is_said(method, as_word=False)
        ]
    )
    new = _kept_private(s, old, s.new(s.words.method))
    return _renamed(s, "rename_method", "method", old, new, owner, s.code.replaced(old, new, lambda _: True, dot=True))


def rename_attribute(s: Setting) -> Edit:
    """Rename an attribute of one class: a field of a dataclass or what `self` gets."""
    fields = {name for owner in s.code.classes for name in _fields(owner)}
    owners = [(name, owner.name) for owner in s.code.classes for name in sorted(_assigned(owner) | _fields(owner))]
    times = Counter(name for name, _ in owners)
    taken = {method.name for owner in s.code.classes for method in s.code.methods(owner)}
    keywords = {name.text for name in s.code.names if name.keyword}
    old, owner = s.pick(
        [
            (name, owner)
            for name, owner in owners
            if times[name] == 1 and name not in taken and _is_member(s, name) and not s.is_said(name)
            and (_is_clear_field(s.code, name, owner) if name in fields else name not in keywords)
        ]
    )  # fmt: skip
    is_field = old in fields
    new = ("_" if old.startswith("_") else "") + s.new(s.words.variable)
    what = s.random.choice(["attribute", "attribute", "field"]) if is_field else "attribute"
    after = s.code.replaced(old, new, lambda name: name.attribute or is_field, dot=True)
    return _renamed(s, "rename_attribute", what, old, new, owner, after)


def rename_variable(s: Setting) -> Edit:
    """Rename a variable of one function, a constant of the module, or a variable in all functions."""
    chance = s.random.random()
    if chance < 0.2:
        return _rename_constant(s)
    if chance < 0.35:
        return _rename_everywhere(s)
    function, old = s.pick(
        [(f, name) for f in s.code.functions for name in local_names(f) if s.may_edit(name) and _is_one(s, f, name)]
    )
    new = s.new(lambda random: random.choice([s.words.variable(random), random.choice(s.words.locals)]))
    place = function.name if _is_outside(s, function, old) or s.random.random() < 0.4 else None
    return _renamed(s, "rename_variable", "variable", old, new, place, _within(s, function, old, new))


def _rename_constant(s: Setting) -> Edit:
    assigned = [node for node in s.code.tree.body if isinstance(node, ast.Assign)]
    names = [target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    old = s.pick(_global_names(s, names, as_word=True))
    new = s.new(lambda random: f"{random.choice(s.words.adjectives)}_{s.words.noun(random)}".upper())
    return _renamed(s, "rename_variable", s.random.choice(["constant", "variable"]), old, new)


def _rename_everywhere(s: Setting) -> Edit:
    taken = {name.text for name in s.code.names if name.attribute or name.keyword}
    names = {n for f in s.code.functions for n in [*local_names(f), *(a.arg for a in parameters(f))]}
    clear = [name for name in sorted(names) if s.may_edit(name) and name not in taken and not s.is_said(name)]
    old = s.pick([name for name in clear if s.code.count(name) > 2])
    what = s.random.choice(["", "", "variable"])
    return _renamed(s, "rename_variable", what, old, s.new(s.words.variable), "*")


def rename_parameter(s: Setting) -> Edit:
    """Rename a parameter of a function that no call names."""
    times = Counter(function.name for function in s.code.functions)
    function, old = s.pick(
        [
            (function, argument.arg)
            for function in s.code.functions
            for argument in parameters(function)
            if times[function.name] == 1 and s.may_edit(argument.arg) and _is_one(s, function, argument.arg)
            and not _may_be_named(s, function, argument.arg)
        ]
    )  # fmt: skip
    owner = next((owner.name for owner in s.code.classes if function in owner.body), None)
    place = owner if function.name == "__init__" and s.random.random() < 0.3 else function.name
    if not _is_outside(s, function, old) and s.random.random() < 0.25:
        place = None
    new, what = s.new(s.words.variable), s.random.choice(["parameter", "parameter", "argument"])
    return _renamed(s, "rename_parameter", what, old, new, place, _within(s, function, old, new))


def _may_be_named(s: Setting, function: Function, name: str) -> bool:
    """Whether some call in the file may name a parameter of this function."""
    called = _called_with(s.code, name)
    is_method = function not in s.code.tree.body
    return bool(called) and (not s.varied or is_method or function.name in called)


def _kept_private(s: Setting, old: str, new: str) -> str:
    """Return a new name, with the underscore that the old one has, most often."""
    keeps = s.varied and old.startswith("_") and s.random.random() < 0.8 and not s.code.has("_" + new)
    return "_" + new if keeps else new


def _renamed(
    s: Setting, kind: str, what: str, old: str, new: str, place: str | None = None, after: str | None = None
) -> Edit:
    """Return the edit; without `after` all that is called so is renamed."""
    result = s.code.replaced(old, new, lambda _: True) if after is None else after
    Code(result)
    return Edit(
        kind, say(s.random, "rename", what=what, old=old, new=new, place=place), s.code.text, result, (old, new)
    )


def _within(s: Setting, function: Function, old: str, new: str) -> str:
    rows = range(*s.code.span(function))
    return s.code.replaced(old, new, lambda name: not name.attribute and not name.keyword, rows)


def _global_names(s: Setting, names: list[str], *, as_word: bool = False) -> list[str]:
    """Return those names that mean one thing in the whole file."""
    odd = {name.text for name in s.code.names if name.attribute or name.keyword} | _bound_again(s.code)
    return [name for name in names if s.may_edit(name) and name not in odd and not s.is_said(name, as_word=as_word)]


def _bound_again(code: Code) -> set[str]:
    """Return the names that are bound more than once, or as parameter or attribute of the same name."""
    nodes = list(ast.walk(code.tree))
    found = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    found += [node.arg for node in nodes if isinstance(node, ast.arg)]
    found += [n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))]
    return {name for name, times in Counter(found).items() if times > 1}


def _is_member(s: Setting, name: str) -> bool:
    """Whether all attributes of this name are certainly those of the class: of `self`, or in a made-up file."""
    if not s.may_edit(name) or name in _BUILTIN:
        return False
    uses = [node for node in ast.walk(s.code.tree) if isinstance(node, ast.Attribute) and node.attr == name]
    return s.made_up or all(isinstance(use.value, ast.Name) and use.value.id == "self" for use in uses)


def _assigned(owner: ast.ClassDef) -> set[str]:
    """Return what the methods of a class assign to `self`."""
    attributes = [n for n in ast.walk(owner) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return {n.attr for n in attributes if isinstance(n.value, ast.Name) and n.value.id == "self"}


def _fields(owner: ast.ClassDef) -> set[str]:
    return {n.target.id for n in owner.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def _is_clear_field(code: Code, name: str, owner: str) -> bool:
    """Whether a field is called so only as attribute and in calls of its class."""
    nodes = list(ast.walk(code.tree))
    times = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    is_argument = any(isinstance(node, ast.arg) and node.arg == name for node in nodes)
    return times == 1 and not is_argument and _called_with(code, name) <= {owner}


def _is_one(s: Setting, function: Function, name: str) -> bool:
    """Whether the name means one thing in all of the function's lines, and no text speaks of it."""
    outer = {node.id for part in defaults(function) for node in ast.walk(part) if isinstance(node, ast.Name)}
    declared = {n for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for n in node.names}
    other = binders(function) | outer | declared | {function.name}
    return name not in other and not s.is_said(name)


def _is_outside(s: Setting, function: Function, name: str) -> bool:
    rows = range(*s.code.span(function))
    return any(found.text == name and found.line - 1 not in rows for found in s.code.names)


def _is_def(code: Code, name: Name) -> bool:
    return re.match(r"\s*(async )?def $", code.lines[name.line - 1][: name.column]) is not None


def _called_with(code: Code, name: str) -> set[str]:
    """Return what is called with this keyword argument."""
    calls = [n for n in ast.walk(code.tree) if isinstance(n, ast.Call) and any(k.arg == name for k in n.keywords)]
    return {call.func.id if isinstance(call.func, ast.Name) else "?" for call in calls}
