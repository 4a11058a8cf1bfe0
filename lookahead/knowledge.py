"""Knowledge: what one model has taught under each of its circumstances, kept across calls and, if saved, processes."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from lookahead.batch_pacing import BatchPacing
from lookahead.durable import replace_file
from lookahead.pacing import Pacing

_BETWEEN, _OF_BATCHES = "/", "batches"


class Knowledge:
    """A pacing for each of the circumstances that change costs: precision, device, batch size.

    Batches whose rows share each step have a pacing of their own, for all sizes.

    Example:
        >>> knowledge = Knowledge()
        >>> knowledge.under("bfloat16", "cpu", 1) is knowledge.under("bfloat16", "cpu", 1)
        True
    """

    def __init__(self) -> None:
        self._pacings: dict[str, Pacing] = {}
        self._batches: dict[str, BatchPacing] = {}

    def under(self, *circumstances: Any) -> Pacing:
        """Return the pacing under these circumstances, new at the first time."""
        return self._pacings.setdefault(",".join(map(str, circumstances)), Pacing())

    def of_batches(self, *circumstances: Any) -> BatchPacing:
        """Return the pacing of batches whose rows share each step, under these circumstances."""
        return self._batches.setdefault(",".join([_OF_BATCHES, *map(str, circumstances)]), BatchPacing())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to a file, atomically.

        Raises:
            OSError: The file can't be written.
        """
        kept: dict[str, Pacing | BatchPacing] = {**self._pacings, **self._batches}
        arrays = {
            name + _BETWEEN + part: array for name, pacing in kept.items() for part, array in pacing.state().items()
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        replace_file(Path(path), lambda file: file.write(buffer.getvalue()))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over what :meth:`save` wrote, instead of what is known under the same circumstances.

        Raises:
            OSError: The file can't be read.
            ValueError: It is damaged, no such file, or was written by a version that measured other things.
        """
        content = io.BytesIO(Path(path).read_bytes())  # from here on nothing is wrong but the content
        states: dict[str, dict[str, Any]] = {}
        try:
            with np.load(content, allow_pickle=False) as file:
                for name in file.files:
                    circumstances, _, part = name.rpartition(_BETWEEN)
                    states.setdefault(circumstances, {})[part] = file[name]
            batches = {name: states.pop(name) for name in list(states) if name.startswith(_OF_BATCHES)}
            pacings = {circumstances: Pacing.from_state(state) for circumstances, state in states.items()}
            of_batches = {circumstances: BatchPacing.from_state(state) for circumstances, state in batches.items()}
        except Exception as error:  # whatever zipfile, zlib and numpy make of damaged bytes
            raise ValueError(
                f"path {os.fspath(path)!r} holds no knowledge of this version ({error}): delete it, it is learned anew"
            ) from None
        self._pacings.update(pacings)
        self._batches.update(of_batches)
