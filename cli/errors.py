"""How the command ends: exit codes, and errors that are one sentence for the user."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit code of the command."""

    OK = 0
    WOULD_CHANGE = 1  # only with --check
    USAGE = 2
    FAILED = 3
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """Something failed, and the message says in one sentence what it was and what to do."""

    status = ExitStatus.FAILED


class UsageError(CommandError):
    """The command was called with arguments that make no sense together."""

    status = ExitStatus.USAGE


class OutputError(CommandError):
    """Stdout takes no more: the disk that it goes to is full, say."""


def os_reason(error: OSError) -> str:
    """Return the operating system's words for an error, in lower case.

    Example:
        >>> os_reason(FileNotFoundError(2, "No such file or directory"))
        'no such file or directory'
    """
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]


def unexpected(error: BaseException) -> CommandError:
    """Return an error that nobody foresaw as one sentence.

    Example:
        >>> str(unexpected(RuntimeError("no kernel")))
        'something went wrong (RuntimeError: no kernel); SPECDEC_LOOKUP_DEBUG=1 shows where'
    """
    words = " ".join(str(error).split())[:300]
    what = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return CommandError(f"something went wrong ({what}); SPECDEC_LOOKUP_DEBUG=1 shows where")
