"""Other systems' lookups, called as their own decoding loops call them, for side-by-side figures."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.index_bench import DRAFTED, IndexMethod

_ROOM = 4096  # tokens for the steps behind the text
_BEYOND_ALL_TEXT = 2**31 - 1
_VOCABULARY = 49_152  # of SmolLM2: the prompt lookup makes up logits as wide for every token it drafts


def load_builtin() -> Callable[[], IndexMethod]:
    """The prompt lookup of transformers, which scans the whole context in every step."""
    import torch
    from transformers import LogitsProcessorList
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    generator = PromptLookupCandidateGenerator(
        eos_token_id=torch.tensor([0]),
        num_output_tokens=DRAFTED,
        max_matching_ngram_size=2,
        max_length=_BEYOND_ALL_TEXT,
        logits_processor=LogitsProcessorList(),
        vocab_size=_VOCABULARY,
    )
    return lambda: _PromptLookup(generator, torch)


def load_vllm_ngram() -> Callable[[], IndexMethod]:
    """vLLM's n-gram proposer: Knuth-Morris-Pratt over the whole context in every step, n = 5 as by default."""
    with contextlib.redirect_stdout(sys.stderr):  # it logs on stdout
        from vllm.v1.spec_decode.ngram_proposer import _find_longest_matched_ngram_and_propose_tokens as propose

    return lambda: _NgramScan(propose)


def load_suffix_decoding() -> Callable[[], IndexMethod]:
    """Arctic Inference's suffix tree of depth 24, vLLM's default, with no cache of other requests."""
    with contextlib.redirect_stdout(sys.stderr):
        from arctic_inference.suffix_decoding import SuffixDecodingCache

    return lambda: _SuffixTree(SuffixDecodingCache(max_tree_depth=24, max_cached_requests=0))


PEERS: dict[str, Callable[[], Callable[[], IndexMethod]]] = {
    "builtin": load_builtin,
    "vllm-ngram": load_vllm_ngram,
    "suffix-decoding": load_suffix_decoding,
}


class _PromptLookup:
    """Holds the ids as `generate` does: one tensor, made anew in every step."""

    def __init__(self, generator: Any, torch: Any) -> None:
        self._generator, self._torch = generator, torch

    @property
    def nbytes(self) -> int:
        return self._ids.nbytes

    def build(self, tokens: NDArray[np.int32]) -> None:
        self._ids = self._torch.from_numpy(tokens.astype(np.int64))[None]

    def step(self, tokens: list[int]) -> Any:
        self._ids = self._torch.cat([self._ids, self._torch.tensor([tokens])], dim=1)
        return self._generator.get_candidates(self._ids)[0]


class _NgramScan:
    """Holds the ids as vLLM does: in a row with room for the whole request."""

    def __init__(self, propose: Any) -> None:
        self._propose = propose

    @property
    def nbytes(self) -> int:
        return self._row.nbytes - 4 * _ROOM

    def build(self, tokens: NDArray[np.int32]) -> None:
        self._row = np.zeros(len(tokens) + _ROOM, np.int32)
        self._row[: len(tokens)] = tokens
        self._length = len(tokens)

    def step(self, tokens: list[int]) -> Any:
        stop = self._length + len(tokens)
        self._row[self._length : stop] = tokens
        self._length = stop
        return self._propose(
            origin_tokens=self._row[:stop], min_ngram=5, max_ngram=5, max_model_len=_BEYOND_ALL_TEXT, k=DRAFTED
        )


class _SuffixTree:
    """One request in the cache, with drafts as long as ours."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    @property
    def nbytes(self) -> int:
        return int(self._cache._local_trees["request"].estimate_memory())

    def build(self, tokens: NDArray[np.int32]) -> None:
        self._cache.start_request("request", tokens)
        self._recent = tokens[-self._cache.max_tree_depth :].tolist()

    def step(self, tokens: list[int]) -> Any:
        self._cache.add_active_response("request", tokens)
        self._recent = (self._recent + tokens)[-self._cache.max_tree_depth :]
        return self._cache.speculate(
            "request", self._recent, max_spec_tokens=DRAFTED, max_spec_factor=DRAFTED, min_token_prob=0.0
        )
