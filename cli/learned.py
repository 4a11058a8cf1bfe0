"""What a model's earlier runs have taught about costs and drafts, kept in the cache folder."""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lookahead.cli.cache import cache_home
from lookahead.cli.errors import CommandError


class Learned:
    """The file for one model. It only saves time: whatever is wrong with it, the command works without.

    Args:
        name: How the model was named.
        variables: The environment's, which may name the cache folder.
    """

    def __init__(self, name: str, variables: Mapping[str, str]) -> None:
        self._name, self._variables = name, variables

    def recall(self, model: Any) -> None:
        """Let the model start from what is in the file, if there is one of this version."""
        from lookahead.plugins import hf

        with contextlib.suppress(OSError, ValueError, CommandError):
            hf.load_learned(model, self._path())

    def keep(self, model: Any) -> None:
        """Write what the model has learned."""
        from lookahead.plugins import hf

        with contextlib.suppress(OSError, CommandError):
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True)
            hf.save_learned(model, path)

    def _path(self) -> Path:
        digest = hashlib.sha256(self._name.encode()).hexdigest()
        return cache_home(self._variables) / "learned" / f"{digest[:16]}.npz"
