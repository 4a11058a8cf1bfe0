"""RequestOptions: what one request to a vLLM server asks of lookup, as it travels in ``extra_args``.

Token ids travel packed, as the base64 of little-endian int32: lists of a hundred thousand numbers would be checked
one by one on the server's event loop.
"""

import base64
import binascii
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger("lookahead")

Tokens: TypeAlias = NDArray[np.int32]
Ids: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

ENABLED, PREDICTION, REFERENCES, KEY = "lookahead", "lookahead_prediction", "lookahead_references", "lookahead_key"
NAMES = (ENABLED, PREDICTION, REFERENCES, KEY)
WAY_OUT = "leave out what the output will not repeat"
_CONTEXTS = {"prediction": 1, PREDICTION: 1, REFERENCES: 4}  # that the texts of a field or an entry may fill
_LARGEST = np.iinfo(np.int32).max
_LONGEST_KEY = 64


class FieldError(ValueError):
    """A field is not what it should be; the text says which, and what would be."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestOptions:
    """What one request asks for.

    Attributes:
        enabled: Whether drafts are made for it.
        prediction: Token ids of the text that the output is expected to resemble; empty for none.
        references: Token ids of further texts to copy from.
        key: Name under which the counts of the prediction's tokens are asked for later; empty for none.

    Example:
        >>> RequestOptions.parse({"lookahead_prediction": [5, 6]}, max_model_len=100).prediction
        array([5, 6], dtype=int32)
    """

    enabled: bool = True
    prediction: Tokens = field(default_factory=lambda: np.zeros(0, np.int32))
    references: tuple[Tokens, ...] = ()
    key: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return self.prediction.nbytes + sum(text.nbytes for text in self.references)

    @classmethod
    def parse(cls, extra_args: Mapping[str, Any] | None, max_model_len: int) -> "RequestOptions":
        """Read a request's ``extra_args``; what a client got wrong there is left out, and said in the log.

        Args:
            extra_args: Whoever may send requests may send any.
            max_model_len: Bounds the tokens of the texts; what is longer is not even decoded.
        """
        if not extra_args:
            return _DEFAULTS
        try:
            prediction, references = extra_args.get(PREDICTION), extra_args.get(REFERENCES) or ()
            if not isinstance(references, Sequence) or isinstance(references, str):
                raise ValueError(f"{REFERENCES} must be a list")
            check_tokens(PREDICTION, _count(prediction), max_model_len)
            check_tokens(REFERENCES, sum(map(_count, references)), max_model_len)
            return cls(
                bool(extra_args.get(ENABLED, True)),
                _tokens(prediction),
                tuple(text for text in map(_tokens, references) if len(text)),
                _key(extra_args.get(KEY)),
            )
        except (TypeError, ValueError, OverflowError) as error:
            logger.warning("a request's lookup options were left out: %s", error)
            return _DEFAULTS


_DEFAULTS = RequestOptions()


def extra_args(prediction: Ids | None = None, references: Iterable[Ids] = (), enabled: bool = True) -> dict[str, Any]:
    """Return the ``extra_args`` of vLLM's ``SamplingParams`` (the server's ``vllm_xargs``) with lookup's options.

    Args:
        prediction: Token ids of the text that the output is expected to resemble.
        references: Token ids of further texts to copy from, each of them.
        enabled: False drafts nothing for the request.

    Raises:
        ValueError: An id is negative, or too large for int32.

    Example:
        >>> extra_args(prediction=[5, 6])
        {'lookahead_prediction': 'BQAAAAYAAAA='}
    """
    made: dict[str, Any] = {} if enabled else {ENABLED: 0}
    if prediction is not None and len(prediction):
        made[PREDICTION] = pack(prediction)
    packed = [pack(text) for text in references if len(text)]
    return made | ({REFERENCES: packed} if packed else {})


def pack(tokens: Ids) -> str:
    """Return token ids as text that :meth:`RequestOptions.parse` reads.

    Raises:
        ValueError: An id is negative, or too large for int32.

    Example:
        >>> pack([5, 6])
        'BQAAAAYAAAA='
    """
    return base64.b64encode(_checked(np.asarray(tokens)).astype("<i4").tobytes()).decode("ascii")


def check_tokens(name: str, tokens: int, max_model_len: int) -> None:
    """Check how many tokens the texts of a field or an entry have.

    Raises:
        FieldError: They are too many to be indexed beside the other requests.
    """
    most = _CONTEXTS[name] * max_model_len
    if tokens > most:
        raise FieldError(f"{name} must be at most {most} tokens long, got {tokens}: {WAY_OUT}")


def _count(value: Any) -> int:
    """Return how many ids a packed text or a list has, by its length alone."""
    if isinstance(value, str):
        return (len(value) * 3 // 4 - value[-2:].count("=")) // 4
    return len(value) if hasattr(value, "__len__") else 0


def _key(value: Any) -> str:
    """Return the key under which counts are kept; one that the middleware did not make may not be long."""
    key = str(value or "")
    if len(key) > _LONGEST_KEY:
        raise ValueError(f"{KEY} must be at most {_LONGEST_KEY} characters long, got {len(key)}")
    return key


def _tokens(value: Any) -> Tokens:
    """Return the ids of a packed text or of a list; raises ValueError or TypeError for anything else."""
    if value is None or (hasattr(value, "__len__") and not len(value)):
        return np.zeros(0, np.int32)
    if not isinstance(value, str):
        return _checked(np.asarray(value))
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("token ids that are text must be packed with lookahead.plugins.vllm_request.pack") from None
    if len(raw) % 4:
        raise ValueError(f"packed token ids must be a multiple of 4 bytes, got {len(raw)}")
    return _checked(np.frombuffer(raw, "<i4"))


def _checked(ids: NDArray[Any]) -> Tokens:
    if ids.shape == (0,):
        return ids.astype(np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"token ids must be a flat list of integers, got shape {ids.shape} of {ids.dtype}")
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) > _LARGEST):
        raise ValueError(f"token ids must be from 0 to {_LARGEST}, got {ids.min()} to {ids.max()}")
    return ids.astype(np.int32)
