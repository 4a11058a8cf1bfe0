"""The process of the command: Ctrl-C is noted before anything else is imported."""

import sys

from lookahead.cli.interrupts import interrupted, note_interrupts


def entry_point() -> None:
    """Run the command as a process."""
    note_interrupts()
    try:
        from lookahead.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(interrupted())
    main.entry_point()
