"""Functions and classes of Python's standard library as files to be edited (PSF licence)."""

import ast
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from editor_training.words import is_held_out

_LEAST, _MOST = 120, 6000  # characters


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive top-level definitions of a module."""

    module: str
    text: str


@cache
def pieces(held_out: bool) -> list[Piece]:
    """Return the pieces of the modules for training, or of those held out."""
    root = Path(sysconfig.get_path("stdlib"))
    found: list[Piece] = []
    for path in sorted([*root.glob("*.py"), *root.glob("[a-z]*/*.py")]):
        module = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
        known = module.split(".")[0] in sys.stdlib_module_names and not module.startswith(
            ("lib2to3", "idlelib", "test", "this")
        )
        if known and is_held_out(module) == held_out:
            found += _pieces(module, path)
    return found


def _pieces(module: str, path: Path) -> list[Piece]:
    try:
        source = path.read_text("utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return []
    lines = source.split("\n")
    blocks = [_block(lines, node) for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    blocks = [block for block in blocks if len(block) < _MOST and block.isascii() and "\t" not in block]
    runs = [blocks[i : i + n] for n in (1, 2, 3, 5) for i in range(0, len(blocks) - n + 1, n)]
    texts = ["\n\n\n".join(run) + "\n" for run in runs]
    return [Piece(module, text) for text in texts if _LEAST <= len(text) <= _MOST and "```" not in text]


def _block(lines: list[str], node: ast.FunctionDef | ast.ClassDef) -> str:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return "\n".join(line.rstrip() for line in lines[first - 1 : node.end_lineno])
