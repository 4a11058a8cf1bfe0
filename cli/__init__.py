"""The ``specdec-lookup`` command."""

if __name__ != "lookahead.cli":
    raise ImportError(
        f"this package is lookahead.cli, not {__name__!r}: a second copy of it would not share state with the "
        "first. Import lookahead.cli, after `pip install specdec-lookup` or, in a checkout, `pip install -e .`"
    )
