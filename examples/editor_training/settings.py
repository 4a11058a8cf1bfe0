"""Edits of made-up settings files: JSON, YAML, TOML and INI."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from editor_training.edits import Edit, Impossible, Setting
from editor_training.phrases import say
from editor_training.words import Words

Tree = dict[str, Any]
_FLAT = 0.4  # share of files without sections


def change_setting(s: Setting) -> Edit:
    """Change one value of a settings file, rename one setting, or remove one."""
    return edits(s.random, s.words, 1)[0]


def edits(random: Random, words: Words, count: int) -> list[Edit]:
    """Return different edits of one settings file, up to so many.

    Raises:
        Impossible: The names drawn were the same too often.
    """
    suffix = random.choice(list(_WRITERS))
    write, style = _WRITERS[suffix], random.choice([2, 2, 4])
    tree = _tree(random, words, suffix)
    before = write(tree, style)
    found: dict[str, Edit] = {}
    for _ in range(4 * count):
        section, name = random.choice([(section, name) for section, part in tree.items() for name in part])
        instruction, changed = _change(random, words, tree, section, name, suffix)
        after = write(changed, style)
        if after != before and len(found) < count:
            found[after] = Edit("change_setting", instruction, before, after, (name,), f"settings.{suffix}")
    if not found:
        raise Impossible
    return list(found.values())


def _tree(random: Random, words: Words, suffix: str) -> Tree:
    """Return settings by section; those of the section without a name stand outside of any."""
    flat = random.random() < _FLAT and suffix != "ini"
    sections = [""] if flat else random.sample(words.containers, random.randint(1, min(3, len(words.containers))))
    tree: Tree = {section: {} for section in sections}
    for section in sections:
        for _ in range(random.randint(3, 9) if flat else random.randint(2, 5)):
            name = words.variable(random)
            if _is_new(name, tree):
                tree[section][name] = _value(random, words, suffix)
    if not all(tree.values()):
        raise Impossible
    return tree


def _is_new(name: str, tree: Tree) -> bool:
    return name not in tree and not any(name in part for part in tree.values())


def _value(random: Random, words: Words, suffix: str) -> Any:
    forms: list[Callable[[], Any]] = [
        lambda: random.randint(0, 9999),
        lambda: random.choice([1, 2, 3, 5, 10, 30, 60, 80, 443, 3000, 5432, 8000, 8080]),
        lambda: words.noun(random),
        lambda: f"{words.noun(random)}-{words.noun(random)}",
        lambda: f"https://{words.noun(random)}.example.com/{words.noun(random)}",
        lambda: f"{words.noun(random)}/{words.noun(random)}.txt",
        lambda: random.random() < 0.5,
        lambda: round(random.uniform(0, 20), 2),
    ]
    if suffix != "ini":
        forms.append(lambda: [words.noun(random) for _ in range(random.randint(1, 3))])
    return random.choice(forms)()


def _change(random: Random, words: Words, tree: Tree, section: str, name: str, suffix: str) -> tuple[str, Tree]:
    """Return an instruction and the settings as it wants them."""
    place = section if section and random.random() < 0.3 else None
    part = tree[section]
    chance = random.random()
    if chance < 0.12 and len(part) > 1:
        kept = {key: value for key, value in part.items() if key != name}
        return say(random, "delete", what=random.choice(["setting", "key", "line"]), name=name), {**tree, section: kept}
    new = words.variable(random)
    if chance < 0.3 and _is_new(new, tree):
        renamed = {new if key == name else key: value for key, value in part.items()}
        what = random.choice(["setting", "key"])
        return say(random, "rename", what=what, old=name, new=new, place=place), {**tree, section: renamed}
    old, other = part[name], _value(random, words, suffix)
    while type(other) is not type(old) or other == old:
        other = _value(random, words, suffix)
    text = say(random, "setting", name=name, place=place, old=_said(old, suffix), new=_said(other, suffix))
    return text, {**tree, section: {**part, name: other}}


def _said(value: Any, suffix: str) -> str:
    """Return a value as a user writes it: a text without its quotes."""
    return value if isinstance(value, str) else _scalar(value, suffix)


def _scalar(value: Any, suffix: str) -> str:
    """Return a value as it stands in the file."""
    if isinstance(value, str) and suffix in ("yaml", "ini"):
        return value
    return json.dumps(value)


def _json(tree: Tree, style: int) -> str:
    inner = {section: part for section, part in tree.items() if section}
    return json.dumps({**tree.get("", {}), **inner}, indent=style) + "\n"


def _yaml(tree: Tree, style: int) -> str:
    lines = []
    for section, part in tree.items():
        indent = " " * style if section else ""
        lines += [f"{section}:"] if section else []
        for name, value in part.items():
            if isinstance(value, list):
                lines += [f"{indent}{name}:", *(f"{indent}  - {item}" for item in value)]
            else:
                lines.append(f"{indent}{name}: {_scalar(value, 'yaml')}")
    return "\n".join(lines) + "\n"


def _toml(tree: Tree, _: int) -> str:
    return _sections(tree, "toml", " = ")


def _ini(tree: Tree, style: int) -> str:
    return _sections(tree, "ini", " = " if style == 2 else "=")


def _sections(tree: Tree, suffix: str, between: str) -> str:
    blocks = []
    for section, part in tree.items():
        lines = [f"[{section}]"] if section else []
        blocks.append("\n".join(lines + [f"{name}{between}{_scalar(value, suffix)}" for name, value in part.items()]))
    return "\n\n".join(blocks) + "\n"


_WRITERS: dict[str, Callable[[Tree, int], str]] = {"json": _json, "yaml": _yaml, "toml": _toml, "ini": _ini}
