"""UsageSender: adds the counts of a prediction to the usage of a response, whole or streamed."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]

_DATA, _END = b"data: ", b"\n\n"


class Predicting(Protocol):
    """A request that may have a prediction."""

    @property
    def predicts(self) -> bool:
        """Whether it has one."""
        ...

    async def counts(self) -> tuple[int, int] | None:
        """Return how many of its tokens were accepted and rejected, if that is known."""
        ...


class UsageSender:
    """An ASGI `send` that passes messages on, with accepted and rejected prediction tokens in every final usage.

    Args:
        send: Where messages go.
        request: Asked for the counts when the usage is there.
    """

    def __init__(self, send: Callable[[Message], Awaitable[None]], request: Predicting) -> None:
        self._send = send
        self._request = request
        self._start: Message | None = None
        self._streams = False
        self._held = b""

    async def send(self, message: Message) -> None:
        """Pass one message on, or hold it back until its response is whole."""
        if not self._request.predicts:
            await self._send(message)
        elif message["type"] == "http.response.start":
            kind = dict(message.get("headers", ())).get(b"content-type", b"")
            self._streams = kind.startswith(b"text/event-stream")
            if message["status"] == 200 and kind.startswith(b"application/json"):
                self._start = message
            else:
                await self._send(message)
        elif message["type"] == "http.response.body" and self._start is not None:
            await self._send_whole(message)
        elif message["type"] == "http.response.body" and self._streams:
            await self._send_events(message)
        else:
            await self._send(message)

    async def _send_whole(self, message: Message) -> None:
        """Hold a JSON response until it is whole."""
        self._held += message.get("body", b"")
        if message.get("more_body"):
            return
        body, start = await self._with_counts(self._held), self._start
        assert start is not None
        headers = [(name, value) for name, value in start.get("headers", ()) if name.lower() != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({**message, "body": body})

    async def _send_events(self, message: Message) -> None:
        """Pass whole server-sent events on; what has not ended yet waits for its end."""
        *events, rest = (self._held + message.get("body", b"")).split(_END)
        more = message.get("more_body", False)
        self._held = rest if more else b""
        body = b"".join([await self._event(event) + _END for event in events]) + (b"" if more else rest)
        if body or not more:
            await self._send({**message, "body": body})

    async def _event(self, event: bytes) -> bytes:
        if not event.startswith(_DATA) or b'"usage":{' not in event or b'"choices":[]' not in event:
            return event
        return _DATA + await self._with_counts(event[len(_DATA) :])

    async def _with_counts(self, raw: bytes) -> bytes:
        """Return a JSON object with the counts in its usage, if it has one and they are known."""
        try:
            body = json.loads(raw)
        except ValueError:
            return raw
        usage = body.get("usage") if isinstance(body, dict) else None
        if not isinstance(usage, dict):
            return raw
        counts = await self._request.counts()
        if counts is None:
            return raw
        details = usage.get("completion_tokens_details") or {}
        written = usage.get("completion_tokens")
        cut = max(counts[0] - written, 0) if isinstance(written, int) else 0  # behind a stop string: verified in vain
        usage["completion_tokens_details"] = {
            **details,
            "accepted_prediction_tokens": counts[0] - cut,
            "rejected_prediction_tokens": counts[1] + cut,
        }
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
