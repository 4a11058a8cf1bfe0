"""Logs of chats as prompts and outputs, in the shapes that servers and clients write."""

from collections.abc import Iterator
from typing import Any

_BESIDE = ("prediction", "prediction_ids", "references", "reference_ids")
_OUTPUTS = ("output", "response", "completion", "answer")


def as_turns(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a line of a log says was asked and answered: one record, or one for every answer of a chat.

    A line with an answer of its own beside the messages is one request, whose earlier answers stand in other lines.

    Example:
        >>> as_turns({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})
        [{'prompt': 'Hi', 'output': 'Hello'}]
    """
    request = record["request"] if isinstance(record.get("request"), dict) else record
    messages = request.get("messages")
    answer = _answer(record)
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        if answer is None:
            return list(_answers(messages))
        turns = list(_answers([*messages, {"role": "assistant", "content": answer}]))
        return [{**turn, **_texts_beside({**record, **request})} for turn in turns[-1:] if answer]
    known = {"prompt", "prompt_ids", "output", "output_ids"}
    if answer is not None and not known & {"output", "output_ids"} & set(record):
        return [{**record, "output": answer}]
    return [record]


def _texts_beside(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a request says that its answer may be copied from; a prediction may be an object, as OpenAI's."""
    found = {name: request[name] for name in _BESIDE if request.get(name) is not None}
    if isinstance(found.get("prediction"), dict):
        found["prediction"] = _text(found["prediction"].get("content"))
    return found


def _answers(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a record for every answer, with all that was said before it as its prompt."""
    said: list[str] = []
    for message in messages:
        text = _text(message.get("content"))
        if message.get("role") == "assistant" and said and text:
            yield {"prompt": "\n\n".join(said), "output": text}
        said.append(text)


def _answer(record: dict[str, Any]) -> str | None:
    """Return the answer that stands beside the request, wherever that is."""
    for name in _OUTPUTS:
        value = record.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and (found := _chosen(value)) is not None:
            return found
    return _chosen(record)


def _chosen(response: dict[str, Any]) -> str | None:
    """Return the first choice of an OpenAI-style response."""
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    message = choices[0].get("message")
    text = message.get("content") if isinstance(message, dict) else choices[0].get("text")
    return text if isinstance(text, str) else None


def _text(content: Any) -> str:
    """Return a message's text: itself, or its text parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
