"""Logs as prompts and outputs, in the shapes that servers and clients write."""

from collections.abc import Iterator
from typing import Any

_PROMPTS = ("prompt", "prompt_ids")
_BESIDE = ("prediction", "prediction_ids", "references", "reference_ids")
_OUTPUTS = ("output", "response", "completion", "answer")


def as_turns(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a line of a log says was asked and answered: one record, or one for every answer of a chat.

    A record has ``prompt`` and ``output``, ``prediction`` and ``references`` (or these as ids) as far as the line has
    them; what is no text there stays as it is. A line with an answer of its own beside the messages is one request,
    whose earlier answers stand in other lines; and what a line says that may be copied from is meant for its last one.

    Example:
        >>> as_turns({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})
        [{'prompt': 'Hi', 'output': 'Hello'}]
    """
    request = record["request"] if isinstance(record.get("request"), dict) else record
    asked = {**record, **request}
    beside, answer, messages = _given(asked, _BESIDE), _answer(record), asked.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return [{**_given(asked, _PROMPTS), **answer, **beside}]
    if answer:
        is_turn = messages and all(value not in ("", []) for value in answer.values())
        turns = [{"prompt": _joined(messages), **answer}] if is_turn else []
    else:
        turns = list(_answers(messages))
    return [*turns[:-1], *({**turn, **beside} for turn in turns[-1:])]


def _given(record: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of these names that are given, texts as texts; a prediction may be an object, as OpenAI's."""
    given = {name: record[name] for name in names if record.get(name) is not None}
    texts = {name: _text(value) for name, value in given.items() if name != "references"}
    return given | {name: text for name, text in texts.items() if text is not None}


def _answers(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a record for every answer, with all that was said before it as its prompt."""
    for number, message in enumerate(messages):
        text = _text(message)
        if message.get("role") == "assistant" and number and text:
            yield {"prompt": _joined(messages[:number]), "output": text}


def _joined(messages: list[dict[str, Any]]) -> str:
    return "\n\n".join(_text(message) or "" for message in messages)


def _answer(record: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that stands beside the request, wherever that is; nothing where there is none."""
    if record.get("output_ids") is not None:
        return {"output_ids": record["output_ids"]}
    written = [record.get(name) for name in _OUTPUTS] + [{"choices": record.get("choices")}]
    texts = [text for text in map(_text, written) if text is not None]
    return {"output": texts[0]} if texts else _given(record, _OUTPUTS[:1])


def _text(value: Any) -> str | None:
    """Return the text of what a server or client writes: a response, a choice, a message, its parts; None if none."""
    if isinstance(value, list):  # the parts of a message
        texts = [_text(part) for part in value] if all(isinstance(part, dict) for part in value) else []
        return "".join(text for text in texts if text is not None) if texts else None
    if not isinstance(value, dict):
        return value if isinstance(value, str) else None
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    texts = [_text(found) for found in (first, value.get("message"), value.get("content"), value.get("text"))]
    return next((text for text in texts if text is not None), None)
