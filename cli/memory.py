"""`specdec-lookup memory`: stores of documents that later generations draft from."""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli.console import Console, Environment, printable
from lookahead.cli.errors import CommandError, ExitStatus, UsageError, os_reason
from lookahead.cli.help import EXIT_CODES, HelpFormatter
from lookahead.cli.options import add_tokenizer_option, named_path
from lookahead.cli.status import live_status
from lookahead.cli.units import duration, size

if TYPE_CHECKING:
    from lookahead.memory import MemoryStore

_DEFAULT = "default"
_DESCRIPTION = """\
Make a store of documents (texts, repositories, earlier outputs) that generations in Python then draft from
(`hf.enable(model, tokenizer, memory=store)`), and look after it. A store serves the model whose tokenizer it was built
with: name it with --tokenizer.
Documents are in namespaces, which never see each other. A file is a document; its name is its path as it was given."""


_EPILOG = f"""\
examples:
  specdec-lookup memory build src.store src docs
  specdec-lookup memory add src.store tests --namespace tests --budget 500M
  specdec-lookup memory info src.store --documents
  specdec-lookup memory forget src.store --namespace tests
  specdec-lookup memory verify src.store
{EXIT_CODES}"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of the subcommand."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="memory_command", required=True)
    build = _command(commands, "build", "make a store of files and folders")
    _add_sources(build)
    build.add_argument("--force", action="store_true", help="replace STORE if it exists and is a store")
    _add_sources(_command(commands, "add", "add files and folders to a store; files of the same name are replaced"))
    info = _command(commands, "info", "show what a store holds")
    info.add_argument("--documents", action="store_true", help="list the documents too")
    forget = _command(commands, "forget", "remove documents, or a whole namespace")
    forget.add_argument("documents", nargs="*", metavar="DOCUMENT", help="names, as `info --documents` shows them")
    forget.add_argument(
        "--namespace",
        metavar="NAME",
        help=f"where the documents are (default: {_DEFAULT}); without documents: what to remove",
    )
    _command(commands, "verify", "check every byte of a store")


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Run the command that was asked for."""
    commands = {"build": _build, "add": _add, "info": _info, "forget": _forget, "verify": _verify}
    with _store_errors(args.store):
        commands[args.memory_command](args, Console(environment))
    return ExitStatus.OK


def _command(commands: Any, name: str, summary: str) -> argparse.ArgumentParser:
    example = next(line for line in _EPILOG.splitlines() if line.startswith(f"  specdec-lookup memory {name} "))
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{example}\n{EXIT_CODES}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("store", type=named_path, metavar="STORE", help="the store's file")
    command.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return command


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", type=named_path, nargs="+", metavar="PATH", help="files, and folders to read whole")
    parser.add_argument("--namespace", default=_DEFAULT, metavar="NAME", help=f"whose they are (default: {_DEFAULT})")
    add_tokenizer_option(parser)
    parser.add_argument(
        "--budget", type=size, metavar="BYTES", help="largest size, such as 500M or 2G: the least useful make room"
    )
    parser.add_argument(
        "--expire",
        type=duration,
        metavar="TIME",
        help="how long documents stay, such as 12h or 30d (default: always)",
    )


def _build(args: argparse.Namespace, console: Console) -> None:
    from lookahead.memory import MemoryStore
    from lookahead.store_file import is_store

    if args.store.exists() and not is_store(args.store):
        raise UsageError(
            f"{args.store} is there and no memory store: the first name is STORE, and no other file gives way"
        )
    if args.store.exists() and not args.force:
        raise CommandError(f"{args.store} exists: `specdec-lookup memory add` adds to it, --force replaces it")
    tokenizer, identity = _tokenizer(args, console)
    _take_in(MemoryStore(identity), tokenizer, args, console)


def _add(args: argparse.Namespace, console: Console) -> None:
    from lookahead.memory import MemoryStore

    if not args.store.exists():
        raise CommandError(f"there is no {args.store}: `specdec-lookup memory build` makes it")
    tokenizer, identity = _tokenizer(args, console)
    _take_in(MemoryStore.load(args.store, tokenizer=identity), tokenizer, args, console)


def _take_in(store: "MemoryStore", tokenizer: Any, args: argparse.Namespace, console: Console) -> None:
    """Add the documents, save, and say what was done."""
    from lookahead.cli.corpus_files import CorpusFiles

    started = time.monotonic()
    store.budget, store.expiry = args.budget or store.budget, args.expire or store.expiry
    files = CorpusFiles(args.paths)
    with live_status(console, "Looking for files ...") as show:
        documents = list(files.documents(tokenizer, show))
        tokens = sum(len(ids) for _, ids in documents)
        if not documents:
            raise CommandError("there is no text file under the given paths: nothing was written")
        show(f"Indexing {tokens:,} tokens ...")
        store.add_all(args.namespace, documents)
        show("Writing ...")
        store.save(args.store, overwrite=args.memory_command == "build" and args.force)
    seconds = time.monotonic() - started
    _tell(
        console,
        args,
        {"documents": len(documents), "tokens": tokens, "left_out": files.left_out, "seconds": round(seconds, 3)},
        f"{_counted(len(documents), 'document')}, {tokens:,} tokens in {seconds:.1f} s"
        + (f"; left out what is no text: {_counted(files.left_out, 'file')}" if files.left_out else ""),
    )


def _info(args: argparse.Namespace, console: Console) -> None:
    from lookahead.memory import MemoryStore

    store = MemoryStore.load(args.store)
    facts: dict[str, Any] = {
        "bytes": args.store.stat().st_size,
        "tokenizer": store.tokenizer,
        "budget": store.budget,
        "expiry": store.expiry,
        "namespaces": {name: asdict(info) for name, info in store.namespaces().items()},
    }
    if args.documents:
        for name, namespace in facts["namespaces"].items():
            namespace["listed"] = [asdict(document) for document in store.documents(name)]
    console.data(((json.dumps(facts) + "\n") if args.json else _table(facts)).encode("utf-8", "backslashreplace"))


def _table(facts: dict[str, Any]) -> str:
    """Return what is known of a store as lines for people."""
    lines = [
        f"size       {facts['bytes']:,} bytes",
        f"tokenizer  {printable(facts['tokenizer'] or 'unknown')}",
        f"budget     {_or_none(facts['budget'], 'bytes')}",
        f"expiry     {_or_none(facts['expiry'], 'seconds')}",
        "",
        f"{'documents':>12}{'tokens':>16}{'bytes':>16}  namespace",
    ]
    for name, info in facts["namespaces"].items():
        lines.append(f"{info['documents']:>12,}{info['tokens']:>16,}{info['nbytes']:>16,}  {printable(name)}")
    for name, info in facts["namespaces"].items():
        if "listed" in info:
            lines += ["", f"{'tokens':>12}  document of {printable(name)}"]
            lines += [
                f"{document['tokens']:>12,}  {printable(document['name']) or '(no name)'}"
                for document in info["listed"]
            ]
    return "\n".join(lines) + "\n"


def _or_none(value: float | None, unit: str) -> str:
    return "none" if value is None else f"{value:,} {unit}"


def _forget(args: argparse.Namespace, console: Console) -> None:
    from lookahead.memory import MemoryStore

    if not args.documents and args.namespace is None:
        raise UsageError("nothing to forget: name documents, or a whole namespace with --namespace")
    if args.namespace == "":
        raise UsageError("--namespace is empty: name a namespace, as `specdec-lookup memory info` shows them")
    namespace = _DEFAULT if args.namespace is None else args.namespace
    store = MemoryStore.load(args.store)
    if namespace not in store.namespaces():
        raise CommandError(f"{args.store} has no namespace {namespace}: `specdec-lookup memory info` shows them")
    missing = set(args.documents) - {document.name for document in store.documents(namespace)}
    if missing:
        raise CommandError(
            f"{args.store} has no document {min(missing)} in namespace {namespace}, and nothing was removed: "
            "`specdec-lookup memory info --documents` shows the names"
        )
    removed = sum(store.forget(namespace, name) for name in args.documents or [None])
    store.save(args.store)
    _tell(console, args, {"removed": removed}, f"{_counted(removed, 'document')} removed")


def _verify(args: argparse.Namespace, console: Console) -> None:
    from lookahead.store_file import verify

    with live_status(console, f"Checking {args.store} ..."):
        verify(args.store)
    _tell(console, args, {"ok": True}, f"{args.store} is whole")


def _tokenizer(args: argparse.Namespace, console: Console) -> tuple[Any, str]:
    """Return the tokenizer, cutting and padding nothing, and its identity."""
    from lookahead.cli.records import load_tokenizer
    from lookahead.memory import tokenizer_identity

    tokenizer = load_tokenizer(args.tokenizer, console)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, tokenizer_identity(tokenizer.get_vocab())


def _counted(number: int, what: str) -> str:
    """Return a number and its noun.

    >>> _counted(2, "file")
    '2 files'
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _tell(console: Console, args: argparse.Namespace, facts: dict[str, Any], sentence: str) -> None:
    """Report to a program on stdout, or to people on stderr."""
    if args.json:
        console.data((json.dumps(facts) + "\n").encode())
    else:
        console.say(sentence)


@contextmanager
def _store_errors(store: Path) -> Iterator[None]:
    """Turn what can be wrong with a store's file into one sentence."""
    try:
        yield
    except BrokenPipeError:
        raise
    except FileExistsError:
        raise CommandError(f"{store} was changed by another process meanwhile: run the command again") from None
    except OSError as error:
        raise CommandError(f"{store} can't be used: {os_reason(error)}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
