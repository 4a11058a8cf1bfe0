"""A source file, and writing it as the command does."""

from pathlib import Path

from lookahead.cli.files import read_source, write_source

NEW = b"new\n"


def old_file(folder: Path) -> Path:
    path = folder / "a.py"
    path.write_bytes(b"old\n")
    return path


def rewrite(path: Path, data: bytes = NEW, **options: bool) -> None:
    write_source(read_source(str(path)), data, **options)
