"""PredictedOutputs: OpenAI's `prediction`, references and a switch per request, for vLLM's server (``--middleware``).

The body of a chat request is changed when the application inside reads it, that is after it has checked the request's
key: the texts go on as token ids in ``vllm_xargs``. What became of the prediction's tokens is added to the usage of the
response: it is the engine's workers that know, so they are asked when the last token has come.
"""

import asyncio
import copy
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

from lookahead.plugins.vllm_fields import FIELDS, FieldError, LookupFields
from lookahead.plugins.vllm_request import pack
from lookahead.plugins.vllm_usage import UsageSender

logger = logging.getLogger("lookahead")

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_PATHS = ("/v1/chat/completions", "/v1/completions")
_NEEDLES = (b'"prediction', b'"lookahead', b"\\u")  # the last: names may be written with escapes


class PredictedOutputs:
    """An ASGI middleware that gives vLLM's server `prediction`, `lookahead_references` and `lookahead`.

    Args:
        app: The application inside.

    Example:
        ``vllm serve MODEL --middleware lookahead.plugins.vllm_predictions.PredictedOutputs --speculative-config ...``
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope.get("method") != "POST" or not scope["path"].endswith(_PATHS):
            await self._app(scope, receive, send)
            return
        body = _Body(receive, scope["app"].state.engine_client)
        usage = UsageSender(send, body)
        await self._app(scope, body.receive, usage.send)


class _Body:
    """A request's body, changed when it is read."""

    def __init__(self, receive: Receive, engine: Any) -> None:
        self._receive = receive
        self._engine = engine
        self._read = False
        self._key = ""

    @property
    def predicts(self) -> bool:
        """Whether the request has a prediction."""
        return bool(self._key)

    async def receive(self) -> Message:
        """Return the whole body at once, and what comes after it as it comes."""
        if self._read:
            return await self._receive()
        parts = []
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        self._read = True
        return {"type": "http.request", "body": await self._changed(b"".join(parts)), "more_body": False}

    async def counts(self) -> tuple[int, int] | None:
        """Return how many of the prediction's tokens were accepted and rejected; None where nobody can tell."""
        try:
            found = await self._engine.collective_rpc("lookahead_counts", args=(self._key,))
        except Exception as error:
            logger.warning("the workers could not tell what became of a prediction: %s", error)
            return None
        counts = [pair for pair in found if pair is not None]
        return (sum(kept for kept, _ in counts), sum(lost for _, lost in counts)) if counts else None

    async def _changed(self, raw: bytes) -> bytes:
        """Return the body as vLLM should see it."""
        if not any(needle in raw for needle in _NEEDLES):
            return raw
        try:
            body = json.loads(raw)
        except ValueError:
            return raw  # vLLM says what is wrong with it
        if not isinstance(body, dict):
            return raw
        limit = self._engine.model_config.max_model_len
        try:
            fields = LookupFields.take(body, limit)
            prediction, *references = await self._tokens(fields.prediction, *fields.references)
            self._key = uuid.uuid4().hex if fields.prediction else ""
            fields.add_to(body, self._key, prediction, references)
        except FieldError as error:
            raise _refusal(str(error)) from None
        return json.dumps(body).encode()

    async def _tokens(self, *texts: str) -> list[str]:
        """Return the texts as packed token ids of the served model."""
        if not any(texts):
            return [""] * len(texts)
        tokenizer = self._engine.renderer.tokenizer
        if tokenizer is None:
            raise FieldError(f"{', '.join(FIELDS[:2])} need a tokenizer, and the server was started without")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_thread(), lambda: [_packed(tokenizer, text) for text in texts])


def _refusal(sentence: str) -> Exception:
    """Return what vLLM answers with HTTP 400 and the sentence."""
    from fastapi import HTTPException

    return HTTPException(status_code=400, detail=sentence)


def _packed(tokenizer: Any, text: str) -> str:
    return pack(_own(tokenizer).encode(text, add_special_tokens=False)) if text else ""


@cache
def _thread() -> ThreadPoolExecutor:
    """Return one thread for all predictions, beside the server's event loop."""
    return ThreadPoolExecutor(1, thread_name_prefix="lookahead-tokenizer")


@cache
def _own(tokenizer: Any) -> Any:
    """Return a copy of the tokenizer, which vLLM's own threads may be using."""
    return copy.deepcopy(tokenizer)
