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

from lookahead.plugins.vllm_fields import FIELDS, LookupFields, concern
from lookahead.plugins.vllm_hooks import counts_predictions, encodes_in_threads
from lookahead.plugins.vllm_request import FieldError, check_tokens, pack
from lookahead.plugins.vllm_usage import UsageSender

logger = logging.getLogger("lookahead")

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_PATHS = ("/v1/chat/completions", "/v1/completions", "/invocations")
# The last two: names may be written with escapes, and JSON in UTF-16 or UTF-32.
_NEEDLES = (b'"prediction', b'"lookahead', b"\\u", b"\0")
_THREADS = 4  # that tokenise, so that a short text need not wait for a long one
_LONGEST_ANSWER = 30.0  # seconds that a response waits for its counts


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
        reply = _Reply(send, body)
        try:
            await self._app(scope, body.receive, reply.send)
        except Exception:
            if not reply.is_refusal:
                raise
        await reply.end()


class _Body:
    """A request's body, changed when it is read.

    Attributes:
        refusal: What is wrong with it; the application inside gets an empty one then. Nothing is raised, for whatever
            other middleware reads the body would take that for a fault of its own.
    """

    def __init__(self, receive: Receive, engine: Any) -> None:
        self._receive = receive
        self._engine = engine
        self._read = False
        self._key = ""
        self.refusal = ""

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
        try:
            body = await self._changed(b"".join(parts))
        except FieldError as error:
            self.refusal, body = str(error), b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def counts(self) -> tuple[int, int] | None:
        """Return how many of the prediction's tokens were accepted and rejected; None where nobody can tell."""
        try:
            asked = self._engine.collective_rpc("lookahead_counts", args=(self._key,))
            found = await asyncio.wait_for(asked, _LONGEST_ANSWER)
        except Exception as error:
            logger.warning("the workers could not tell what became of a prediction: %r", error)
            return None
        counts = [pair for pair in found if pair is not None]
        return (sum(kept for kept, _ in counts), sum(lost for _, lost in counts)) if counts else None

    async def _changed(self, raw: bytes) -> bytes:
        """Return the body as vLLM should see it.

        Raises:
            FieldError: A field of ours is wrong.
        """
        if not any(needle in raw for needle in _NEEDLES):
            return raw
        try:
            body = json.loads(raw)
        except ValueError:
            return raw  # vLLM says what is wrong with it
        if not isinstance(body, dict) or not concern(body):
            return raw
        limit = self._engine.model_config.max_model_len
        fields = LookupFields.take(body, limit)
        prediction, references = await self._packed(fields, limit)
        key = uuid.uuid4().hex if fields.prediction and counts_predictions(self._engine) else ""
        fields.add_to(body, key, prediction, references)
        self._key = key
        return json.dumps(body).encode()

    async def _packed(self, fields: LookupFields, limit: int) -> tuple[str, list[str]]:
        """Return the texts as packed token ids of the served model."""
        if not fields.prediction and not fields.references:
            return "", []
        tokenizer = self._engine.renderer.tokenizer
        if tokenizer is None:
            raise FieldError(f"{', '.join(FIELDS[:2])} need a tokenizer, and the server was started without")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_threads(), _pack, tokenizer, fields, limit)


class _Reply:
    """The response; where the body was refused, that takes the place of whatever the application says.

    Args:
        send: Where messages go.
        body: The request's.
    """

    def __init__(self, send: Send, body: _Body) -> None:
        self._send, self._body = send, body
        self._usage = UsageSender(send, body)
        self._begun = False

    @property
    def is_refusal(self) -> bool:
        """Whether the response is what is wrong with the body."""
        return bool(self._body.refusal) and not self._begun

    async def send(self, message: Message) -> None:
        """Pass on what the application says, if it is to be heard."""
        if not self.is_refusal:
            self._begun = True
            await self._usage.send(message)

    async def end(self) -> None:
        """Say what is wrong with the body, in the form of vLLM's own errors."""
        if self.is_refusal:
            error = {"message": self._body.refusal, "type": "BadRequestError", "param": None, "code": 400}
            body = json.dumps({"error": error}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await self._send({"type": "http.response.start", "status": 400, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _pack(tokenizer: Any, fields: LookupFields, limit: int) -> tuple[str, list[str]]:
    """Return the fields' texts as packed token ids.

    Raises:
        FieldError: They have more tokens than they may.
    """
    own = tokenizer if encodes_in_threads(tokenizer) else _copy(tokenizer)
    texts = [fields.prediction, *fields.references]
    prediction, *references = [own.encode(text, add_special_tokens=False) if text else [] for text in texts]
    check_tokens(FIELDS[0], len(prediction), limit)
    check_tokens(FIELDS[1], sum(map(len, references)), limit)
    return pack(prediction) if prediction else "", [pack(tokens) for tokens in references if tokens]


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads for all predictions, beside the server's event loop."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="lookahead-tokenizer")


@cache
def _copy(tokenizer: Any) -> Any:
    """Return a copy of the tokenizer, whose settings vLLM's own threads may be changing."""
    return copy.deepcopy(tokenizer)
