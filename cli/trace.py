"""The trace of a run: every generation and every step of it, as JSON lines.

The first line is the header (``kind`` ``trace``: version of the format, command, machine, versions, model, settings).
Each generation follows as one line of kind ``generation`` (its name and prompt), ``prefill`` (its first token), one of
kind ``step`` a step, and ``end`` (output, statistics, and how it ended: ``stop``, ``length`` or ``interrupted``).
Texts are whole; a step's ``text`` is what it added to the output: first ``accepted_characters`` from its draft, then
the model's own token. ``copied`` says where the accepted ones stand: in the ``prompt``, the ``output`` or the
``prediction``, and from which character to which. Times are seconds.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lookahead.cli.growing_text import GrowingText

if TYPE_CHECKING:
    from lookahead.stats import DecodingStats, StepRecord

VERSION = 1


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

    def begin(self, name: str, tokenizer: Any, prompt: Sequence[int], prediction: Sequence[int]) -> "Recording":
        """Return the recording of a generation that begins now."""
        self.generations.append(Recording(name, tokenizer, prompt, prediction))
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
        prompt: Its tokens.
        prediction: Tokens that the output was expected to resemble.
    """

    def __init__(self, name: str, tokenizer: Any, prompt: Sequence[int], prediction: Sequence[int]) -> None:
        self._name, self._tokenizer = name, tokenizer
        self._prompt, self._prediction = list(prompt), list(prediction)
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
        yield {
            "kind": "generation",
            "name": self._name,
            "prompt": "".join(_pieces(self._tokenizer, self._prompt)),
            "prediction": "".join(_pieces(self._tokenizer, self._prediction)),
        }
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
        places = Places(self._tokenizer, self._prompt, self._prediction, self._tokens)
        for record in records:
            stop = at + record.emitted_tokens
            accepted = "".join(pieces[at : at + record.accepted_tokens])
            texts = {"text": "".join(pieces[at:stop]), "accepted_characters": len(accepted)}
            yield {**_step(record), **texts, "copied": places.copied(record, at)}
            at = stop
        # Plain decoding keeps no records, and neither does the step during which Ctrl-C came.
        for piece in pieces[at:]:
            yield {"kind": "step", "drafted": 0, "accepted": 0, "emitted": 1, "text": piece, "copied": None}


class Places:
    """Where accepted tokens stand in the texts, by characters.

    Args:
        tokenizer: Decodes the tokens.
        prompt: Tokens of the prompt.
        prediction: Tokens of the prediction, which need not stand in the prompt.
        output: Tokens of the output.
    """

    def __init__(self, tokenizer: Any, prompt: list[int], prediction: list[int], output: list[int]) -> None:
        self._texts = {"prediction": prediction, "prompt": prompt, "output": output}
        self._bytes = {name: _as_bytes(tokens) for name, tokens in self._texts.items()}
        self._offsets = {name: _offsets(tokenizer, tokens) for name, tokens in self._texts.items()}

    def copied(self, record: "StepRecord", at: int) -> dict[str, Any] | None:
        """Return where the tokens that were accepted in a step stand; None if there are none, or nowhere as a whole.

        The nearest earlier place is given where as many tokens before them agree as the step matched.
        """
        output = self._texts["output"]
        stop = at + record.accepted_tokens
        if not record.accepted_tokens:
            return None
        for before in (min(record.match_length, at), 0):
            wanted = _as_bytes(output[at - before : stop])
            for name in ("output", "prompt", "prediction"):
                within = 4 * (stop - 1) if name == "output" else len(self._bytes[name])
                first = _last_place(self._bytes[name][:within], wanted)
                if first >= 0:
                    start = first + before
                    offsets = self._offsets[name]
                    return {"from": name, "start": offsets[start], "end": offsets[start + stop - at]}
        return None


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
        "propose_s": round(record.propose_s, 7),
        "forward_s": round(record.forward_s, 7),
    }


def _pieces(tokenizer: Any, tokens: Sequence[int]) -> Iterator[str]:
    """Yield the text that each token adds; what a half character ends with comes with the last token."""
    text = GrowingText(tokenizer)
    for number, token in enumerate(tokens, 1):
        piece = text.add([token])
        yield piece + (text.finish() if number == len(tokens) else "")


def _offsets(tokenizer: Any, tokens: Sequence[int]) -> list[int]:
    """Return the character at which each token begins, and where the last one ends."""
    offsets = [0]
    for piece in _pieces(tokenizer, tokens):
        offsets.append(offsets[-1] + len(piece))
    return offsets


def _as_bytes(tokens: Sequence[int]) -> bytes:
    return b"".join(token.to_bytes(4, "little") for token in tokens)


def _last_place(text: bytes, wanted: bytes) -> int:
    """Return the token at which the last occurrence begins, -1 if there is none."""
    found = text.rfind(wanted)
    while found % 4 and found > 0:
        found = text.rfind(wanted, 0, found + len(wanted) - 1)
    return found // 4 if found >= 0 and found % 4 == 0 else -1


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False)
