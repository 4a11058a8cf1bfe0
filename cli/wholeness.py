"""What an answer must not be, whatever its form: cut off, empty, or short of code that it leaves out."""

from lookahead.cli.elisions import find_elision
from lookahead.cli.errors import CommandError

RETRY = "name the change more exactly or use a larger model (--model)"


def refuse_cut(cut: bool) -> None:
    """Refuse an answer that ended at the token limit instead of at its own end."""
    if cut:
        raise CommandError(
            "the answer was cut at the token limit: raise --max-new-tokens, ask for less at once, or use a larger "
            "model (--model) if this one repeats itself"
        )


def refuse_partial(edited: str, original: str) -> None:
    r"""Refuse an edited text that has nothing in it, or a phrase in the place of code.

    Args:
        edited: The text that an answer makes.
        original: The text before the edit; a phrase that stands in it is never taken for an elision.

    Raises:
        CommandError: It is empty or leaves code out.

    Example:
        >>> refuse_partial("x = 2\n", "x = 1\n")
    """
    if not edited.strip():
        raise CommandError(f"the answer makes a file that is empty: {RETRY}")
    elision = find_elision(edited, original)
    if elision is not None:
        raise CommandError(f"the answer leaves code out ({elision[:60]!r}): {RETRY}")
