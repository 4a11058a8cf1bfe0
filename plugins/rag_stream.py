"""Streaming: generation in a thread, its text in pieces, and an end when the reader has enough."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from typing import Any, Generic, TypeVar
from weakref import finalize

import torch
from torch import Tensor
from transformers.generation.stopping_criteria import StoppingCriteria
from transformers.generation.streamers import BaseStreamer

Result = TypeVar("Result")
Itself = TypeVar("Itself", bound="Stream[Any]")
Work = Callable[[BaseStreamer, StoppingCriteria], Result]


class Stream(Iterator[str], Generic[Result]):
    """Pieces of a text while it is generated; ``result`` is what the work returned.

    Closing it, leaving its ``with`` block or dropping it ends the generation at the next token, and its thread.

    Args:
        tokenizer: Decodes the tokens.
        work: Generates, feeding the streamer and asking the criterion whether to stop. It runs in a thread.

    Example:
        >>> with Stream(tokenizer, work) as stream:  # doctest: +SKIP
        ...     for piece in stream:
        ...         print(piece, end="")
    """

    def __init__(self, tokenizer: Any, work: Work[Result]) -> None:
        self._pieces: SimpleQueue[Any] = SimpleQueue()
        self._outcome: _Outcome[Result] | None = None
        stop = Event()
        thread = Thread(target=_run, args=(work, tokenizer, self._pieces, stop), name="lookahead-stream", daemon=True)
        self._stop = finalize(self, _end, stop, thread)  # also when the stream is dropped, or the interpreter ends
        thread.start()

    def __next__(self) -> str:
        if self._outcome is None:
            piece = self._pieces.get()
            if isinstance(piece, str):
                return piece
            self._outcome = piece
            self._stop()
            if piece.error is not None:
                raise piece.error
        raise StopIteration

    def close(self) -> None:
        """Stop generating, at the next token; what was written until then is in ``result``."""
        self._stop()
        for _ in self:
            pass

    @property
    def result(self) -> Result:
        """What the work returned, once the pieces are read or the stream is closed.

        Raises:
            RuntimeError: The text is still being written.
        """
        if self._outcome is None:
            raise RuntimeError("the text is still being written: read all its pieces, or call close(), first")
        if self._outcome.error is not None:
            raise self._outcome.error
        return self._outcome.result

    def __enter__(self: Itself) -> Itself:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Outcome(Generic[Result]):
    """What came of the work: its result, or the error it ended with."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result, self.error = result, error


def _run(work: Work[Any], tokenizer: Any, pieces: "SimpleQueue[Any]", stop: Event) -> None:
    """Do the work; its outcome is the last thing in the queue. Knows nothing of the stream, which may be dropped."""
    try:
        outcome: _Outcome[Any] = _Outcome(result=work(TextPieces(tokenizer, pieces.put), _Stopped(stop)))
    except BaseException as error:
        outcome = _Outcome(error=error)
    pieces.put(outcome)


def _end(stop: Event, thread: Thread) -> None:
    stop.set()
    if thread is not current_thread():
        thread.join()


class _Stopped(StoppingCriteria):
    """Ends a generation once an event is set."""

    def __init__(self, stop: Event) -> None:
        self._event = stop

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Any:
        return torch.full((input_ids.shape[0],), self._event.is_set(), dtype=torch.bool, device=input_ids.device)


class TextPieces(BaseStreamer):
    """Hands on the text of one row in pieces that are, put together, the decoded whole.

    A piece is what the newest tokens add to the text of those before them: a token's text may depend on its
    predecessor (a leading space), and one character may take several tokens.

    Args:
        tokenizer: Decodes the tokens.
        emit: Receives each piece; none is empty.
    """

    def __init__(self, tokenizer: Any, emit: Callable[[str], None]) -> None:
        self._tokenizer, self._emit = tokenizer, emit
        self._ids: list[int] = []
        self._known = 0  # of the tokens kept, how many are emitted: they are there for what follows
        self._prompt_came = False

    def put(self, value: Tensor) -> None:
        """Take the prompt, then every token."""
        if not self._prompt_came:
            self._prompt_came = True
            return
        self._ids.extend(value.flatten().tolist())
        self._advance(complete=False)

    def end(self) -> None:
        """Hand on what was held back."""
        self._advance(complete=True)

    def _advance(self, complete: bool) -> None:
        before, text = self._text(self._known), self._text(len(self._ids))
        if len(text) > len(before) and (complete or not text.endswith("\ufffd")):
            self._emit(text[len(before) :])
            self._ids, self._known = self._ids[self._known :], len(self._ids) - self._known

    def _text(self, count: int) -> str:
        return decoded(self._tokenizer, self._ids[:count])


def decoded(tokenizer: Any, ids: list[int]) -> str:
    """Return the text of token ids without control tokens, unchanged otherwise."""
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
