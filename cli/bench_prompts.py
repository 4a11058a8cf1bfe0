"""Prompts for measuring generation: edits, answers from passages, rewrites, and chat, the honest worst case."""

TASKS = ("edit", "rag", "rewrite", "chat")

_QUEUE = '''\
"""A queue of jobs with priorities."""

import heapq
import itertools
import time


class EmptyQueueError(Exception):
    """There is no job."""


class JobQueue:
    def __init__(self, clock=time.monotonic):
        self._heap = []
        self._numbers = itertools.count()
        self._clock = clock
        self._started = {}

    def put(self, job, priority=0):
        heapq.heappush(self._heap, (-priority, next(self._numbers), job))

    def take(self):
        if not self._heap:
            raise EmptyQueueError("the queue is empty")
        _, number, job = heapq.heappop(self._heap)
        self._started[number] = self._clock()
        return number, job

    def finish(self, number):
        return self._clock() - self._started.pop(number)

    def __len__(self):
        return len(self._heap)
'''
_CONFIG = """\
[server]
host = "127.0.0.1"
port = 8080
workers = 4
timeout_seconds = 30

[server.tls]
enabled = false
certificate = "/etc/service/cert.pem"
key = "/etc/service/key.pem"

[database]
host = "db.internal"
port = 5432
name = "orders"
pool_size = 10
timeout_seconds = 30

[logging]
level = "info"
format = "json"
file = "/var/log/service.log"
"""
_GEOMETRY = """\
import math


def circle_area(radius):
    if radius < 0:
        raise ValueError("radius must not be negative")
    return math.pi * radius ** 2


def circle_circumference(radius):
    if radius < 0:
        raise ValueError("radius must not be negative")
    return 2 * math.pi * radius


def rectangle_area(width, height):
    if width < 0 or height < 0:
        raise ValueError("sides must not be negative")
    return width * height


def triangle_area(a, b, c):
    s = (a + b + c) / 2
    return math.sqrt(s * (s - a) * (s - b) * (s - c))
"""
_LIGHTHOUSE = (
    "The lighthouse on Gull Rock was finished in 1871 after six years of work. Its tower is 38 metres high and built "
    "of granite blocks that were cut on the mainland and shipped over on calm days.",
    "Until 1958 the light was tended by three keepers who lived on the rock for two months at a time. Their supplies "
    "came by boat every second week; in the winter of 1903 no boat could land for 49 days.",
    "The lens was made in Paris and floats in a bath of mercury, so that one hand can turn it. Its beam is seen 23 "
    "nautical miles away.",
    "Today the light is automatic. The former keepers' house holds a small weather station, which reports wind and "
    "waves every ten minutes.",
)
_LETTER = """\
Dear neighbours,

the water in our building will be turned off on Tuesday from 9 in the morning to 2 in the afternoon, because the pipes
in the cellar are being replaced. Please fill some bottles the evening before, and do not use the washing machines
during this time. The work costs you nothing. If something leaks afterwards, call the caretaker at once.

With kind regards,
the house management
"""


def prompts(task: str) -> list[dict[str, str]]:
    """Return the records of a task: ``before`` and ``instruction`` of an edit, else a ``prompt``.

    Example:
        >>> len(prompts("chat"))
        3
    """
    return {"edit": _edits, "rag": _answers, "rewrite": _rewrites, "chat": _chat}[task]()


def _edits() -> list[dict[str, str]]:
    asked = (
        ("queue.py", _QUEUE, "Rename the class EmptyQueueError to NoJobError."),
        ("service.toml", _CONFIG, "Set both timeouts to 60 seconds and the pool size to 20."),
        ("geometry.py", _GEOMETRY, "Add a docstring to every function."),
    )
    return [{"name": name, "before": text, "instruction": instruction} for name, text, instruction in asked]


def _answers() -> list[dict[str, str]]:
    passages = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(_LIGHTHOUSE, 1))
    questions = ("How was the lighthouse supplied, and what happened in 1903?", "Describe the tower and its lens.")
    return [{"prompt": f"{passages}\n\nAnswer from the passages above: {question}"} for question in questions]


def _rewrites() -> list[dict[str, str]]:
    asked = ("Move the work to Thursday and leave everything else as it is.", "Correct nothing, but address tenants.")
    return [{"prompt": f"{_LETTER}\n{instruction} Write the whole letter."} for instruction in asked]


def _chat() -> list[dict[str, str]]:
    asked = (
        "Why is the sky blue? Explain it to a child.",
        "Give me three ideas for a birthday party on a rainy day.",
        "What is the difference between a process and a thread?",
    )
    return [{"prompt": question} for question in asked]
