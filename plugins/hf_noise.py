"""The random numbers of plain batched sampling, for rows that advance at different speeds."""

import torch
from torch import Tensor

_BUDGET = 256 * 2**20
_LEAST_SPAN = 8


class Noise:
    """Gives each row, at each of its steps, the random numbers that plain batched sampling would give it there.

    ``torch.multinomial(probs, 1)`` is ``argmax(probs / q)`` with ``q = empty_like(probs).exponential_(1)``, so the
    randomness of plain generation's step s is one ``[rows, vocabulary]`` tensor. These are drawn in step order from
    the default generator, which therefore ends where plain generation leaves it, and kept until the last row has
    passed them.

    Args:
        rows: Rows of the batch.
    """

    def __init__(self, rows: int) -> None:
        self.span = _LEAST_SPAN
        self._rows = rows
        self._drawn: dict[int, Tensor] = {}
        self._next = 0

    def choose(self, probs: Tensor, row: int, step: int) -> int:
        """Return the token that plain sampling draws for a row at a step.

        Args:
            probs: Shape ``[1, vocabulary]``.
            row: Index of the row in the batch.
            step: Tokens the row has emitted before.

        Raises:
            RuntimeError: As plain sampling does where a probability is no number.
        """
        while self._next <= step:
            noise = probs.new_empty((self._rows, probs.shape[-1])).exponential_(1)
            self._drawn[self._next] = noise
            self._next += 1
            self.span = max(_LEAST_SPAN, _BUDGET // max(1, noise.nbytes))
        token = int((probs[0] / self._drawn[step][row]).argmax())
        if not probs[0, token].isfinite():  # what is no number is the largest
            torch.multinomial(probs, num_samples=1)  # refuses it
        return token

    def forget(self, steps: int) -> None:
        """Drop the random numbers of the first ``steps`` steps."""
        for step in [step for step in self._drawn if step < steps]:
            del self._drawn[step]
