"""Adapters between the core and the frameworks that run models."""

if __name__ != "lookahead.plugins":
    raise ImportError(
        f"this package is lookahead.plugins, not {__name__!r}: a second copy of it would not share state with the "
        "first. Import lookahead.plugins, after `pip install specdec-lookup` or, in a checkout, `pip install -e .`"
    )
