"""Fields of a chat request that lookup adds or brings to life, taken out of its JSON body."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lookahead.plugins.vllm_request import ENABLED, KEY, NAMES, PREDICTION, REFERENCES, WAY_OUT, FieldError

FIELDS = ("prediction", "lookahead_references", "lookahead")
_BYTES_PER_TOKEN = 16  # of the model's context
_MOST_REFERENCES = 256


@dataclass(frozen=True, slots=True)
class LookupFields:
    """What a request's body says about lookup.

    Attributes:
        prediction: Text that the output is expected to resemble; empty for none.
        references: Texts to copy from.
        enabled: Whether to draft at all.

    Example:
        >>> body = {"prediction": {"type": "content", "content": "x = 1"}, "messages": []}
        >>> LookupFields.take(body, max_model_len=100).prediction, body
        ('x = 1', {'messages': []})
    """

    prediction: str = ""
    references: tuple[str, ...] = ()
    enabled: bool = True

    @classmethod
    def take(cls, body: dict[str, Any], max_model_len: int) -> "LookupFields":
        """Take the fields out of a body, and check them; ``max_model_len`` bounds how long the texts may be.

        Raises:
            FieldError: A field is wrong.
        """
        prediction = _prediction(body.pop("prediction", None))
        references = _references(body.pop("lookahead_references", None))
        enabled = body.pop("lookahead", None)
        if enabled is not None and not isinstance(enabled, bool):
            raise FieldError(f"lookahead must be true or false, got {_brief(enabled)}")
        _check_bytes("prediction", [prediction], max_model_len)
        _check_bytes("lookahead_references", references, max_model_len)
        return cls(prediction, references, enabled is not False)

    def add_to(self, body: dict[str, Any], key: str, prediction: str, references: list[str]) -> None:
        """Put what they say into the body's ``vllm_xargs``, texts as packed token ids.

        Raises:
            FieldError: ``vllm_xargs`` is no object, or names one of our entries.
        """
        given = body.get("vllm_xargs")
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise FieldError(f"vllm_xargs must be an object, got {_brief(given)}")
        for name in NAMES:
            if name in given:
                raise FieldError(
                    f"vllm_xargs.{name} is set by the server: use {', '.join(FIELDS)} in the request instead"
                )
        told: dict[str, Any] = {PREDICTION: prediction, REFERENCES: references, KEY: key}
        ours = {name: value for name, value in told.items() if value} | ({} if self.enabled else {ENABLED: 0})
        if ours:
            body["vllm_xargs"] = {**given, **ours}


def concern(body: Mapping[str, Any]) -> bool:
    """Whether a body says anything about lookup.

    Example:
        >>> concern({"messages": []}), concern({"lookahead": False})
        (False, True)
    """
    given = body.get("vllm_xargs")
    return any(name in body for name in FIELDS) or (isinstance(given, Mapping) and any(name in given for name in NAMES))


def _prediction(value: Any) -> str:
    """Return the text of OpenAI's `prediction`: {"type": "content", "content": text or text parts}."""
    if value is None:
        return ""
    if not isinstance(value, Mapping) or value.get("type") != "content":
        raise FieldError(f'prediction must be an object {{"type": "content", "content": ...}}, got {_brief(value)}')
    content = value.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise FieldError(f"prediction.content must be a text or a list of text parts, got {_brief(content)}")
    return "".join(_part(place, part) for place, part in enumerate(content))


def _part(place: int, part: Any) -> str:
    if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise FieldError(f'prediction.content[{place}] must be {{"type": "text", "text": ...}}, got {_brief(part)}')
    return part["text"]


def _references(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise FieldError(f"lookahead_references must be a list of texts, got {_brief(value)}")
    if len(value) > _MOST_REFERENCES:
        raise FieldError(f"lookahead_references must be at most {_MOST_REFERENCES} texts, got {len(value)}: join some")
    return tuple(text for text in value if text)


def _check_bytes(name: str, texts: Iterable[str], max_model_len: int) -> None:
    """Refuse what can't be text, and what would take long to tokenise."""
    try:
        size = sum(len(text.encode()) for text in texts)
    except UnicodeEncodeError:
        raise FieldError(f"{name} must be text, got a half of a surrogate pair in it") from None
    most = _BYTES_PER_TOKEN * max_model_len
    if size > most:
        raise FieldError(
            f"{name} must be at most {most} bytes long ({_BYTES_PER_TOKEN} for each of the {max_model_len} tokens that "
            f"the model reads), got {size}: {WAY_OUT}"
        )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
