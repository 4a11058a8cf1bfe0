"""The official OpenAI client against the real server: predicted outputs, their counts, and requests gone wrong."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import Any

import openai
import pytest
from edit_requests import STACK
from vllm_engines import speculative

MESSAGES = [{"role": "user", "content": f"Rename the class Stack to Pile. Answer with the file only.\n```\n{STACK}```"}]
ALIKE = {"type": "content", "content": STACK.replace("Stack", "Pile")}
ASKED = {"model": "model", "messages": MESSAGES, "max_tokens": 96, "temperature": 0}


def free_port() -> int:
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def address(real_model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that drafts up to 16 tokens and knows predictions."""
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log"
    options = {
        "model": real_model,
        "served-model-name": "model",
        "host": "127.0.0.1",
        "port": port,
        "dtype": "float32",
        "max-model-len": 1024,
        "middleware": "lookahead.plugins.vllm_predictions.PredictedOutputs",
        "speculative-config": json.dumps(speculative()),
        "per-request-spec-decode-metrics": "summary",
        "kv-cache-memory-bytes": 2**28,
        "api-key": "secret",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with log.open("w") as file:
        server = subprocess.Popen(command, cwd=log.parent, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()


def wait(url: str, server: subprocess.Popen, log: Path) -> None:
    """Until the server answers, for five minutes."""
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    pytest.fail(f"the server did not start:\n{log.read_text()[-4000:]}")


@pytest.fixture
def client(address: str) -> Any:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="secret", max_retries=0, timeout=300)


def rpc(address: str, method: str) -> Any:
    """What the first worker answers."""
    request = urllib.request.Request(
        f"{address}/collective_rpc",
        json.dumps({"method": method}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer secret"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["results"][0]


def told(response: Any) -> dict[str, int]:
    """vLLM's own count of a response's drafts."""
    return response.model_extra["metrics"]["speculative_decoding"]


@pytest.fixture(scope="module")
def plain(address: str) -> str:
    """The text without drafts."""
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="secret", timeout=300)
    response = client.chat.completions.create(**ASKED, extra_body={"lookahead": False})
    assert told(response)["num_draft_tokens"] == 0
    return response.choices[0].message.content


@pytest.mark.parametrize("parts", [[STACK], [STACK[:40], "", STACK[40:]], []], ids=["one", "three", "none"])
def test_a_prediction_changes_the_speed_and_is_counted(client, plain, parts) -> None:
    content = [{"type": "text", "text": part.replace("Stack", "Pile")} for part in parts]
    response = client.chat.completions.create(**ASKED, prediction={"type": "content", "content": content})
    assert response.choices[0].message.content == plain
    details = response.usage.completion_tokens_details
    if not parts:
        assert details is None
        return
    assert details.accepted_prediction_tokens > 20
    assert details.accepted_prediction_tokens <= told(response)["num_accepted_draft_tokens"]
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens <= told(response)["num_draft_tokens"]


def test_a_prediction_that_is_all_wrong_changes_nothing_and_counts_nothing_accepted(client, plain) -> None:
    foreign = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    response = client.chat.completions.create(**ASKED, prediction={"type": "content", "content": foreign})
    assert response.choices[0].message.content == plain
    assert response.usage.completion_tokens_details.accepted_prediction_tokens == 0


@pytest.mark.parametrize("with_usage", [True, False])
def test_a_stream_carries_the_counts_in_its_usage(client, plain, with_usage) -> None:
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    chunks = list(client.chat.completions.create(**ASKED, **options, stream=True, prediction=ALIKE))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert len(usages) == with_usage
    assert all(usage.completion_tokens_details.accepted_prediction_tokens > 20 for usage in usages)


def test_references_are_copied_from(client, plain) -> None:
    response = client.chat.completions.create(**ASKED, extra_body={"lookahead_references": [ALIKE["content"], "x", ""]})
    assert response.choices[0].message.content == plain
    assert told(response)["num_accepted_draft_tokens"] > 40


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"prediction": "x"}, "prediction must be an object"),
        ({"prediction": {"type": "content"}}, "prediction.content must be a text or a list"),
        ({"prediction": {"type": "content", "content": [{"type": "image_url"}]}}, r"prediction.content\[0\] must be"),
        ({"prediction": {"type": "content", "content": "x" * 10**6}}, "must be at most 16384 bytes"),
        ({"prediction": {"type": "content", "content": "x y " * 3000}}, "must be at most 1024 tokens"),
        ({"lookahead": "no"}, "lookahead must be true or false"),
        ({"lookahead_references": "x"}, "lookahead_references must be a list of texts"),
        ({"lookahead_references": [5]}, "lookahead_references must be a list of texts"),
        ({"lookahead": True, "vllm_xargs": {"lookahead_key": "x"}}, "vllm_xargs.lookahead_key is set by the server"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(client, field, sentence) -> None:
    with pytest.raises(openai.BadRequestError, match=sentence) as refused:
        client.chat.completions.create(**ASKED, extra_body=field)
    assert refused.value.status_code == 400


def test_who_has_no_key_is_refused_before_the_prediction_is_read(address) -> None:
    stranger = openai.OpenAI(base_url=f"{address}/v1", api_key="guessed", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(**ASKED, extra_body={"prediction": 5})


def test_many_streams_that_break_off_leave_nothing(address, client, plain) -> None:
    def broken(place: int) -> None:
        with client.chat.completions.create(**ASKED, stream=True, prediction=ALIKE) as stream:
            for seen, _ in enumerate(stream):
                if seen > place % 5:
                    break

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(broken, range(64)))
    assert client.chat.completions.create(**ASKED, prediction=ALIKE).choices[0].message.content == plain
    for _ in range(50):  # the engine learns of the last end in a step of its own
        stats = rpc(address, "lookahead_stats")
        if not stats["rows"]:
            break
        time.sleep(0.1)
    assert (stats["rows"], stats["bytes"]) == (0, 0)
