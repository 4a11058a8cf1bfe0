"""Other systems' drafting, called as their own decoding loops call it, behind the replay's protocol."""

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lookahead.replay import Recording, ReplayMethod
from lookahead.replay_methods import Factory

_DEPTH, _FACTOR, _LEAST_CHANCE = 24, 1.0, 0.1  # vLLM's defaults


def load_suffix_decoding(max_draft: int) -> Factory:
    """Return the maker of Arctic Inference's suffix decoding, with vLLM's defaults and no cache of other requests.

    Raises:
        ImportError: The package arctic-inference is not installed.
    """
    with contextlib.redirect_stdout(sys.stderr):  # it logs on stdout
        from arctic_inference.suffix_decoding import SuffixDecodingCache

    return lambda: _SuffixDecoding(SuffixDecodingCache(max_tree_depth=_DEPTH, max_cached_requests=0), max_draft)


class _SuffixDecoding(ReplayMethod):
    """One request after the other in the cache."""

    def __init__(self, cache: Any, max_draft: int) -> None:
        self._cache, self._max_draft = cache, max_draft
        self._request = 0

    def begin(self, recording: Recording) -> None:
        if self._request:
            self._cache.stop_request(self._request)
        self._request += 1
        prompt = recording.prompt.astype(np.int32)
        self._cache.start_request(self._request, prompt)
        self._recent = prompt[-_DEPTH:].tolist()

    def propose(self, room: int) -> Sequence[int]:
        if not self._recent:
            return ()
        draft = self._cache.speculate(
            self._request,
            self._recent,
            max_spec_tokens=min(room, self._max_draft),
            max_spec_factor=_FACTOR,
            min_token_prob=_LEAST_CHANCE,
        )
        return list(draft.token_ids)

    def observe(self, width: int, seconds: float) -> None:
        """Look at no clock."""

    def extend(self, tokens: list[int]) -> None:
        self._cache.add_active_response(self._request, tokens)
        self._recent = (self._recent + tokens)[-_DEPTH:]
