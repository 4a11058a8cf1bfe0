"""The middleware turns the fields of a request into arguments of the engine, and the engine's counts into usage."""

import asyncio
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookahead.plugins import vllm_predictions, vllm_request
from lookahead.plugins.vllm_counts import PredictionCounts
from lookahead.plugins.vllm_fields import LookupFields
from lookahead.plugins.vllm_predictions import PredictedOutputs
from lookahead.plugins.vllm_request import RequestOptions, pack

PATH = "/v1/chat/completions"
PREDICTION = {"type": "content", "content": "ab"}


class Tokenizer:
    """Characters are tokens."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(character) for character in text]


class Application:
    """A server that notes the body it reads, and answers with events or a body."""

    def __init__(self, *bodies: bytes, kind: str = "application/json", counts: Any = ((7, 3), None)) -> None:
        self.bodies, self.kind, self.counts = bodies, kind, counts
        self.read: bytes | None = None
        self.asked: list[str] = []
        engine = SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=100),
            renderer=SimpleNamespace(tokenizer=Tokenizer()),
            collective_rpc=self.rpc,
        )
        self.state = SimpleNamespace(engine_client=engine)

    async def rpc(self, method: str, args: tuple[str]) -> list[Any]:
        assert method == "lookahead_counts"
        self.asked.append(args[0])
        if isinstance(self.counts, Exception):
            raise self.counts
        return list(self.counts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.read = (await receive())["body"]
        headers = [(b"content-type", self.kind.encode()), (b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for place, body in enumerate(self.bodies):
            await send({"type": "http.response.body", "body": body, "more_body": place + 1 < len(self.bodies)})

    @property
    def arguments(self) -> dict[str, Any]:
        """What the engine would get."""
        return json.loads(self.read or b"{}").get("vllm_xargs", {})


def served(application: Application, request: Any, parts: int = 1, **scope: Any) -> tuple[bytes, dict[bytes, bytes]]:
    """The body and the headers of the response to a request."""
    raw = request if isinstance(request, bytes) else json.dumps(request).encode()
    size = -(-len(raw) // parts) or 1
    messages = [
        {"type": "http.request", "body": raw[at : at + size], "more_body": at + size < len(raw)}
        for at in range(0, max(len(raw), 1), size)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"type": "http", "method": "POST", "path": PATH, "app": application, **scope}
    asyncio.run(PredictedOutputs(application)(given, receive, send))
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return body, {**dict(sent[0]["headers"]), b"status": sent[0]["status"]}


def parsed(arguments: dict[str, Any]) -> RequestOptions:
    """What the engine reads of them."""
    return RequestOptions.parse(arguments, max_model_len=10**6)


@pytest.mark.parametrize("path", [PATH, "/v1/completions", "/invocations"])
def test_all_paths_that_write_text_are_served(path) -> None:
    application = Application(b"{}")
    served(application, {"prediction": PREDICTION}, path=path)
    assert parsed(application.arguments).prediction.tolist() == [97, 98]


@pytest.mark.parametrize("content", ["ab", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]])
def test_a_prediction_reaches_the_engine_as_ids_of_its_tokenizer(content) -> None:
    application = Application(b"{}")
    served(application, {"prediction": {"type": "content", "content": content}, "x": 1, "vllm_xargs": {"y": 2}})
    body = json.loads(application.read)
    assert "prediction" not in body
    assert body["x"] == 1
    options = parsed(application.arguments)
    assert options.prediction.tolist() == [97, 98]
    assert options.key
    assert application.arguments["y"] == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_body_may_have_any_encoding_that_json_has(encoding) -> None:
    application = Application(b"{}")
    served(application, json.dumps({"prediction": PREDICTION}).encode(encoding))
    assert parsed(application.arguments).prediction.tolist() == [97, 98]
    body = json.dumps({"vllm_xargs": {"lookahead_prediction": pack(range(1000))}}).encode(encoding)
    assert b"set by the server" in served(Application(b"{}"), body)[0]


def test_references_and_the_switch_reach_it_too() -> None:
    application = Application(b"{}")
    served(application, {"lookahead_references": ["a", "", "bc"], "lookahead": False}, parts=7)
    options = parsed(application.arguments)
    assert [text.tolist() for text in options.references] == [[97], [98, 99]]
    assert not options.enabled
    assert not options.key


@pytest.mark.parametrize("request_", [{"messages": []}, b"no json", b'"prediction"', b'["prediction"]', b""])
def test_what_has_no_field_of_ours_passes_as_it_is(request_) -> None:
    application = Application(b'{"usage": {}}')
    raw = request_ if isinstance(request_, bytes) else json.dumps(request_).encode()
    body, _ = served(application, request_, parts=2)
    assert application.read == raw
    assert body == b'{"usage": {}}'
    assert application.asked == []


def test_other_paths_pass_as_they_are() -> None:
    application = Application(b"{}")
    served(application, {"prediction": 5}, path="/v1/embeddings")
    assert json.loads(application.read) == {"prediction": 5}


def test_the_usage_carries_the_counts_and_the_length_is_right() -> None:
    response = {"usage": {"completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 2}}, "é": "ü"}
    raw = json.dumps(response).encode()
    body, headers = served(Application(raw[:20], raw[20:]), {"prediction": PREDICTION})
    usage = json.loads(body)["usage"]
    counted = {"reasoning_tokens": 2, "accepted_prediction_tokens": 7, "rejected_prediction_tokens": 3}
    assert usage == {"completion_tokens": 50, "completion_tokens_details": counted}
    assert int(headers[b"content-length"]) == len(body)


@pytest.mark.parametrize(("written", "told"), [(5, (5, 5)), (7, (7, 3)), (0, (0, 10)), (None, (7, 3))])
def test_no_more_tokens_were_accepted_than_written(written, told) -> None:
    """A stop string may cut the text after the engine has accepted more of it."""
    raw = json.dumps({"usage": {"completion_tokens": written}}).encode()
    details = json.loads(served(Application(raw), {"prediction": PREDICTION})[0])["usage"]["completion_tokens_details"]
    assert (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]) == told


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_a_stream_carries_them_in_its_last_usage_wherever_it_is_cut(parts) -> None:
    text = b'data: {"choices":[{"delta":{"content":"\xc3\xa9"}}],"usage":{"completion_tokens":1}}\n\n'
    last = b'data: {"choices":[],"usage":{"completion_tokens":5}}\n\n'
    raw = text + last + b"data: [DONE]\n\n"
    size = -(-len(raw) // parts)
    application = Application(*(raw[i : i + size] for i in range(0, len(raw), size)), kind="text/event-stream; x")
    body, _ = served(application, {"prediction": PREDICTION})
    events = body.split(b"\n\n")
    assert events[0] + b"\n\n" == text
    details = json.loads(events[1].removeprefix(b"data: "))["usage"]["completion_tokens_details"]
    assert details == {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 5}
    assert events[2:] == [b"data: [DONE]", b""]
    assert len(application.asked) == 1


@pytest.mark.parametrize("counts", [RuntimeError("no worker"), (None, None)])
def test_where_no_worker_can_tell_the_response_stays_as_it_is(counts) -> None:
    raw = b'{"usage":{"completion_tokens":5}}'
    assert served(Application(raw, counts=counts), {"prediction": PREDICTION})[0] == raw


def test_a_response_does_not_wait_for_ever_for_its_counts(monkeypatch, caplog) -> None:
    class Silent(Application):
        async def rpc(self, method: str, args: tuple[str]) -> list[Any]:
            return await asyncio.Future()

    monkeypatch.setattr(vllm_predictions, "_LONGEST_ANSWER", 0.01)
    raw = b'{"usage":{"completion_tokens":5}}'
    assert served(Silent(raw), {"prediction": PREDICTION})[0] == raw
    assert "could not tell what became of a prediction: TimeoutError" in caplog.text


@pytest.mark.parametrize(("method", "asks"), [(None, False), ("ngram", False), ("custom_class", True)])
def test_only_an_engine_that_may_draft_for_us_is_asked(method, asks) -> None:
    application = Application(b'{"usage":{"completion_tokens":50}}')
    speculation = None if method is None else SimpleNamespace(method=method)
    application.state.engine_client.vllm_config = SimpleNamespace(speculative_config=speculation)
    body, _ = served(application, {"prediction": PREDICTION})
    assert bool(application.asked) is asks
    assert (b"accepted_prediction_tokens" in body) is asks


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"prediction": "x"}, "prediction must be an object"),
        ({"prediction": {"type": "other", "content": "x"}}, "prediction must be an object"),
        ({"prediction": {"type": "content"}}, r"prediction\.content must be a text or a list"),
        ({"prediction": {"type": "content", "content": [{"type": "text"}]}}, r"content\[0\] must be"),
        ({"prediction": {"type": "content", "content": [{"type": "text", "text": ""}, 5]}}, r"content\[1\] must be"),
        ({"prediction": {"type": "content", "content": "é" * 801}}, "at most 1600 bytes long"),
        ({"prediction": {"type": "content", "content": "x" * 101}}, "prediction must be at most 100 tokens long"),
        ({"lookahead_references": "x"}, "must be a list of texts"),
        ({"lookahead_references": [["x"]]}, "must be a list of texts"),
        ({"lookahead_references": ["x"] * 257}, "at most 256 texts"),
        ({"lookahead_references": ["x" * 900] * 2}, "at most 1600 bytes long"),
        ({"lookahead_references": ["x" * 201] * 2}, "lookahead_references must be at most 400 tokens long"),
        ({"prediction": {"type": "content", "content": "\ud83d"}}, "prediction must be text, got a half"),
        ({"lookahead_references": ["x", "\udc00"]}, "lookahead_references must be text, got a half"),
        ({"lookahead": 1}, "lookahead must be true or false"),
        ({"lookahead": False, "vllm_xargs": []}, "vllm_xargs must be an object"),
        ({"lookahead": False, "vllm_xargs": {"lookahead_key": "a"}}, "set by the server"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(body, sentence) -> None:
    application = Application(b"{}")
    response, headers = served(application, body)
    error = json.loads(response)["error"]
    assert re.search(sentence, error["message"])
    assert (headers[b"status"], error["code"]) == (400, 400)
    assert int(headers[b"content-length"]) == len(response)
    assert application.read == b""


def test_a_name_written_with_escapes_is_the_same_name() -> None:
    body = (
        json.dumps({"vllm_xargs": {"lookahead_key": "a"}, "lookahead": False}).replace("ahead", "\\u0061head").encode()
    )
    assert b"set by the server" in served(Application(b"{}"), body)[0]


def test_the_sentence_is_said_also_where_the_application_fails_on_the_empty_body() -> None:
    class Failing(Application):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            json.loads((await receive())["body"])

    assert b"prediction must be an object" in served(Failing(), {"prediction": "x"})[0]


def test_a_response_that_had_begun_before_the_body_was_read_goes_on() -> None:
    class Refusing(Application):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            self.read = (await receive())["body"]
            await send({"type": "http.response.body", "body": b"no key"})

    body, headers = served(Refusing(), {"prediction": "x"})
    assert (body, headers[b"status"]) == (b"no key", 401)


def test_a_failure_of_the_application_is_its_own() -> None:
    class Failing(Application):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await receive()
            raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        served(Failing(), {"prediction": PREDICTION})


def test_a_body_with_escapes_but_no_field_of_ours_stays_as_it_is() -> None:
    application = Application(b"{}")
    raw = b'{"messages": [{"content": "caf\\u00e9"}], "vllm_xargs": {"y": 2}, "top_p": 1E0}'
    served(application, raw)
    assert application.read == raw


def test_a_tokenizer_of_vllm_that_threads_may_share_is_not_copied(monkeypatch) -> None:
    class Shared(Tokenizer):
        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("copied")

    module = SimpleNamespace(ThreadSafeHFTokenizerMixin=Shared)
    monkeypatch.setitem(sys.modules, "vllm.tokenizers.hf", module)
    application = Application(b"{}")
    application.state.engine_client.renderer.tokenizer = Shared()
    served(application, {"prediction": PREDICTION})
    assert parsed(application.arguments).prediction.tolist() == [97, 98]


def test_a_key_of_a_client_may_not_be_long(caplog) -> None:
    assert parsed({"lookahead_key": "k" * 64}).key == "k" * 64
    assert parsed({"lookahead_key": "k" * 65}).key == ""
    assert "at most 64 characters" in caplog.text


def test_nothing_said_is_nothing_asked() -> None:
    body = {"prediction": None, "lookahead": None, "lookahead_references": None}
    fields = LookupFields.take(body, 10)
    fields.add_to(body, "", "", [])
    assert (fields, body) == (LookupFields(), {})


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_packed_ids_come_back(ids) -> None:
    assert parsed({"lookahead_prediction": pack(ids)}).prediction.tolist() == ids
    assert parsed({"lookahead_prediction": ids}).prediction.tolist() == ids


@pytest.mark.parametrize("value", [5, 5.0, "AA==", "!", ["a"], [[1]], [1, [2]], [-1], [2**31], [2**70], {"a": 1}, True])
def test_ids_that_are_none_are_left_out(value, caplog) -> None:
    assert len(parsed({"lookahead_prediction": value}).prediction) == 0
    assert "left out" in caplog.text


@pytest.mark.parametrize("ids", [[7] * 100, pack([7] * 100), np.full(100, 7)])
def test_ids_are_counted_before_they_are_read(ids, caplog, monkeypatch) -> None:
    assert len(RequestOptions.parse({"lookahead_prediction": ids}, 100).prediction) == 100
    assert len(RequestOptions.parse({"lookahead_references": [ids]}, 25).references) == 1
    monkeypatch.setattr(vllm_request, "_tokens", None)
    assert len(RequestOptions.parse({"lookahead_references": [ids]}, 24).references) == 0
    assert len(RequestOptions.parse({"lookahead_prediction": ids}, 99).prediction) == 0
    assert "lookahead_prediction must be at most 99 tokens long, got 100: leave out" in caplog.text


def test_packing_refuses_what_is_no_id() -> None:
    for wrong in ([-1], [2**31], [0.5], [[1]]):
        with pytest.raises(ValueError, match="token ids must be"):
            pack(wrong)
    assert pack(np.array([1], np.int64)) == pack([1])


def test_counts_that_nobody_asks_for_are_forgotten() -> None:
    counts = PredictionCounts(most=3)
    for key in "abcd":
        counts.begin(key)
        counts.add(key, [True], 1)
    counts.add("a", [True], 1)
    assert [counts.take(key) for key in "ad"] == [None, (1, 0)]
    assert len(counts) == 2
