"""``specdec-lookup report``: a trace in, one HTML page out."""

import argparse
from pathlib import Path

from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus, UsageError, os_reason

_STDOUT = "-"
_DESCRIPTION = """\
Show a trace of edit or generate as one HTML page that needs no network: headline figures, the output with every copied
span and where it was copied from, drafted and accepted tokens by step, accepted lengths, acceptance by position, where
the time went, the sources, and the configuration."""
_EPILOG = """\
examples:
  specdec-lookup report app.trace
  specdec-lookup report app.trace --output report.html
  specdec-lookup report app.trace --output - | gzip > report.html.gz
exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("trace", metavar="TRACE", help="file that --trace of edit or generate has written")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file for the page; - for stdout (default: TRACE with the ending .html)",
    )


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Read the trace and write the page."""
    from lookahead.cli.files import write_new
    from lookahead.cli.report_page import report_page
    from lookahead.cli.trace_file import read_trace

    console = Console(environment)
    entries = read_trace(args.trace)
    try:
        page = report_page(entries).encode("utf-8", "replace")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # fields of odd kinds
        raise CommandError(f"{args.trace} is no trace: make one with --trace of edit or generate") from error
    if args.output == _STDOUT:
        console.data(page)
        return ExitStatus.OK
    target = Path(args.output or Path(args.trace).with_suffix(".html"))
    if target.exists() and target.samefile(args.trace):
        raise UsageError(f"{target} is the trace itself: name another file with --output")
    if args.output is None and not _may_replace(target):
        raise UsageError(f"{target} is there and no report: name another file with --output, or this one")
    try:
        write_new(target, page)
    except OSError as error:
        raise CommandError(f"{target} can't be written: {os_reason(error)}; name another file with --output") from None
    console.say(f"report: {target}")
    return ExitStatus.OK


def _may_replace(path: Path) -> bool:
    """Whether a file that nobody named is missing, or an earlier report."""
    try:
        with path.open("rb") as file:
            return b'content="specdec-lookup report"' in file.read(2048)
    except FileNotFoundError:
        return True
    except OSError:
        return path.is_dir()  # then writing says what is wrong
