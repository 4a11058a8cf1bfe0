"""The trace of a run: every generation and every step of it, as JSON lines.

The first line is the header (``kind`` ``trace``: version of the format, command, machine, versions, model, settings).
Each generation follows as one line of kind ``generation`` (its name and its texts: ``prompt`` and, where there are any,
``prediction``, ``reference 1`` and so on), ``prefill`` (its first token), one of
kind ``step`` a step, and ``end`` (output, statistics, and how it ended: ``stop``, ``length`` or ``interrupted``).
A step's ``text`` is what it added to the output: first ``accepted_characters`` from its draft, then the model's own
token. ``copied`` has the spans that make up the accepted ones: their ``characters``, and ``from``, ``start`` and
``end``, which say from which text, ``output`` and ``memory`` among them, and from which character to which. A draft
that is a tree has a ``depth``, the tokens of its longest branch. Times are seconds.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lookahead.cli.growing_text import GrowingText

if TYPE_CHECKING:
    from lookahead.stats import DecodingStats, StepRecord

VERSION = 1
_HALF = re.compile(r"[\ud800-\udfff]")
_LONGEST_FRAME = 64  # tokens around a prediction


class Trace:
    """Collects the generations of one run.

    Args:
        command: The subcommand.
        settings: Its options, as far as they decide what is generated.
    """

    def __init__(self, command: str, settings: dict[str, Any]) -> None:
        self._header = {
            "kind": "trace",
            "version": VERSION,
            "command": command,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "settings": settings,
        }
        self.generations: list[Recording] = []

    def describe(self, facts: dict[str, Any]) -> None:
        """Add facts to the header: the machine, the versions, the model."""
        self._header |= facts

    def begin(self, name: str, tokenizer: Any, texts: Mapping[str, Sequence[int]]) -> "Recording":
        """Return the recording of a generation that begins now; see `Recording`."""
        self.generations.append(Recording(name, tokenizer, texts))
        return self.generations[-1]

    def lines(self) -> Iterator[str]:
        """Yield the trace as JSON lines."""
        yield _line(self._header)
        for recording in self.generations:
            yield from map(_line, recording.entries())


class Recording:
    """A generation as it comes; a streamer for ``generate``.

    Args:
        name: Of the file, say.
        tokenizer: Decodes the tokens.
        texts: Tokens of ``prompt`` and, where there are any, of ``prediction``, ``reference 1`` and so on.
    """

    def __init__(self, name: str, tokenizer: Any, texts: Mapping[str, Sequence[int]]) -> None:
        self._name, self._tokenizer = name, tokenizer
        self._texts = {kind: list(tokens) for kind, tokens in texts.items()}
        self._tokens: list[int] = []
        self._started = False
        self._stats: DecodingStats | None = None
        self._finish = "interrupted"

    def put(self, value: Any) -> None:
        """Take the prompt, then new tokens."""
        if self._started:
            self._tokens += value.reshape(-1).tolist()
        self._started = True

    def end(self) -> None:
        """Take the end of the tokens."""

    def close(self, stats: "DecodingStats | None", finish: str = "interrupted") -> None:
        """Take the statistics, and how the generation ended."""
        self._stats, self._finish = stats, finish

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of this generation."""
        pieces = list(_pieces(self._tokenizer, self._tokens))
        texts = {kind: "".join(_pieces(self._tokenizer, tokens)) for kind, tokens in self._texts.items()}
        yield {"kind": "generation", "name": self._name, "texts": texts}
        if self._tokens:
            seconds = self._stats.prefill_s if self._stats else 0.0
            yield {"kind": "prefill", "seconds": seconds, "text": pieces[0]}
        yield from self._steps(pieces)
        yield {
            "kind": "end",
            "finish": self._finish,
            "output": "".join(pieces),
            "plain_reason": self._stats.plain_reason if self._stats else "",
            "stats": self._stats.as_dict() if self._stats else {},
        }

    def _steps(self, pieces: list[str]) -> Iterator[dict[str, Any]]:
        at, records = 1, self._stats.records if self._stats else []
        places = Places(self._tokenizer, {**self._texts, "output": self._tokens}, self._stats)
        for record in records:
            stop = at + record.emitted_tokens
            accepted = "".join(pieces[at : at + record.accepted_tokens])
            texts = {"text": "".join(pieces[at:stop]), "accepted_characters": len(accepted)}
            yield {**_step(record), **texts, "copied": places.copied(record, at)}
            at = stop
        # Plain decoding keeps no records, and neither does the step during which Ctrl-C came.
        for piece in pieces[at:]:
            yield {"kind": "step", "drafted": 0, "accepted": 0, "emitted": 1, "text": piece, "copied": []}


class Places:
    """Where accepted tokens were copied from, by characters of the texts.

    Args:
        tokenizer: Decodes the tokens.
        texts: Tokens of ``prompt``, ``prediction``, ``reference 1`` and so on, and ``output``.
        stats: The statistics, which say where the texts stand in the index.
    """

    def __init__(self, tokenizer: Any, texts: Mapping[str, list[int]], stats: "DecodingStats | None") -> None:
        self._texts = texts
        self._offsets = {name: offsets(tokenizer, tokens) for name, tokens in texts.items()}
        self._starts = getattr(stats, "reference_starts", ())
        self._text_start = getattr(stats, "text_start", 0)

    def copied(self, record: "StepRecord", at: int) -> list[dict[str, Any]]:
        """Return the spans that the accepted tokens of a step are, each with its source where that is known.

        Args:
            record: The step.
            at: The output token that its first accepted one is.
        """
        ours, spans = self._offsets["output"], []
        for first, last, origin in _runs(record.origins, self._text_start + len(self._texts["prompt"])):
            span: dict[str, Any] = {"characters": ours[at + last] - ours[at + first]}
            name, start = self._place(origin, self._texts["output"][at + first : at + last])
            if name:
                span["from"] = name
            if start is not None:
                theirs = self._offsets[name]
                span |= {"start": theirs[start], "end": theirs[start + last - first]}
            spans.append(span)
        return spans

    def _place(self, origin: int, tokens: list[int]) -> tuple[str, int | None]:
        """Return the name of the text and the token in it where an origin is; no name if that is not known."""
        if origin < 0:
            return "memory", None
        inside, prompt = origin - self._text_start, len(self._texts["prompt"])
        if inside >= 0:
            return ("prompt", inside) if inside < prompt else ("output", inside - prompt)
        number = bisect_right(self._starts, origin)
        if number and origin - self._starts[number - 1] < len(self._texts.get(f"reference {number}", ())):
            return f"reference {number}", origin - self._starts[number - 1]
        return self._place_in_prediction(origin, tokens)

    def _place_in_prediction(self, origin: int, tokens: list[int]) -> tuple[str, int | None]:
        """The prediction stands last before the prompt, in a frame of what outputs usually write around theirs."""
        prediction = self._texts.get("prediction", [])
        latest = origin - self._text_start + len(prediction) + _LONGEST_FRAME
        for start in range(min(latest, len(prediction) - len(tokens)), -1, -1):
            if latest - start > 2 * _LONGEST_FRAME:
                break
            if prediction[start : start + len(tokens)] == tokens:
                return "prediction", start
        return "prediction" if prediction else "", None


def _runs(origins: Sequence[int], output_start: int) -> Iterator[tuple[int, int, int]]:
    """Yield first and last (exclusive) accepted token of every run that stands together, and its first origin."""
    begin = 0
    for end in range(1, len(origins) + 1):
        together = end < len(origins) and (
            (origins[end] == origins[end - 1] + 1 and origins[end] != output_start)
            or (origins[end] < 0 and origins[end - 1] < 0)
        )
        if not together:
            yield begin, end, origins[begin]
            begin = end


def _step(record: "StepRecord") -> dict[str, Any]:
    """Return the figures of a step."""
    return {
        "kind": "step",
        "drafted": record.draft_tokens,
        "accepted": record.accepted_tokens,
        "emitted": record.emitted_tokens,
        "width": record.width,
        "source": record.source,
        "match": record.match_length,
        **({"depth": record.depth} if record.depth != record.draft_tokens else {}),
        "propose_s": round(record.propose_s, 7),
        "forward_s": round(record.forward_s, 7),
    }


def _pieces(tokenizer: Any, tokens: Sequence[int]) -> Iterator[str]:
    """Yield the text that each token adds; what a half character ends with comes with the last token."""
    text = GrowingText(tokenizer)
    for number, token in enumerate(tokens, 1):
        piece = text.add([token])
        yield piece + (text.finish() if number == len(tokens) else "")


def offsets(tokenizer: Any, tokens: Sequence[int]) -> list[int]:
    """Return the character at which each token begins, and where the last one ends."""
    offsets = [0]
    for piece in _pieces(tokenizer, tokens):
        offsets.append(offsets[-1] + len(piece))
    return offsets


def _line(entry: dict[str, Any]) -> str:
    """Return JSON that any reader takes: half a pair of surrogates (an odd byte of a file's name) is escaped."""
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(entry, ensure_ascii=False))
