"""Draft-free speculative decoding: the text that the model can already see is the draft model.

Names are imported on first use, so that ``import lookahead`` (and the command's ``--help``) stays instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "DecodingStats": "stats",
    "Draft": "draft",
    "LookupConfig": "config",
    "LookupProposer": "proposer",
    "Match": "index",
    "MemoryStore": "memory",
    "StepRecord": "stats",
    "SuffixIndex": "index",
}
__all__ = [
    "DecodingStats",
    "Draft",
    "LookupConfig",
    "LookupProposer",
    "Match",
    "MemoryStore",
    "StepRecord",
    "SuffixIndex",
]

if TYPE_CHECKING:
    from lookahead.config import LookupConfig
    from lookahead.draft import Draft
    from lookahead.index import Match, SuffixIndex
    from lookahead.memory import MemoryStore
    from lookahead.proposer import LookupProposer
    from lookahead.stats import DecodingStats, StepRecord


def __getattr__(name: str) -> Any:
    """Import the public name from the module that defines it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lookahead' has no attribute {name!r}")
    return getattr(import_module(f"lookahead.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
