"""One ``generate`` call, from the arguments of ``_sample`` to its result."""

from collections.abc import Iterator
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput, GenerationMixin

from lookahead.config import LookupConfig
from lookahead.decoding import decode, propose_each
from lookahead.index import MAX_TOKEN
from lookahead.memory_source import MemorySource
from lookahead.plugins.hf_arguments import ENCODER_TEXT, Call, cache_name
from lookahead.plugins.hf_batch import HFBatchTarget
from lookahead.plugins.hf_check import check_token_ids, multimodal_token_ids, vocabulary_of
from lookahead.plugins.hf_output import HFOutput
from lookahead.plugins.hf_plain import plain_reason
from lookahead.plugins.hf_state import state_of
from lookahead.plugins.hf_target import HFTarget
from lookahead.proposer import LookupProposer
from lookahead.stats import DecodingStats
from lookahead.together import propose_together

_OVERLAP = 16  # tokens by which a second start of a text runs into the first, so that the match goes on there


def run(model: Any, call: Call, config: LookupConfig | None) -> Any:
    """Decode with drafts where that is right, plainly elsewhere or when ``config`` is None.

    Returns:
        What ``_sample`` returns: token ids ``[rows, length]``, or an output object with them.
    """
    if config is None:
        return _run_plainly(model, call, "")
    if call.model_kwargs.get("inputs_embeds") is None and not call.input_ids.is_floating_point():
        check_token_ids(model, "input_ids", call.input_ids)  # beside embeddings, ids are never looked up
    reason = plain_reason(model, call, config)
    if reason is not None:
        state_of(model).log_plain(model, reason)
        return _run_plainly(model, call, reason, config)
    return _run_with_drafts(model, call, config)


def _run_plainly(model: Any, call: Call, reason: str, config: LookupConfig | None = None) -> Any:
    """Run transformers' own loop, with a clock among the criteria that never stops it."""
    memory = None if config is None else _memory(model, config)
    clock = _Clock(state_of(model).begin(reason), call)
    result = GenerationMixin._sample(
        model,
        call.input_ids,
        logits_processor=call.logits_processor,
        stopping_criteria=StoppingCriteriaList([*call.stopping_criteria, clock]),
        generation_config=call.generation_config,
        synced_gpus=call.synced_gpus,
        streamer=call.streamer,
        **call.model_kwargs,
    )
    if memory is not None and call.input_ids.dim() == 2:
        for output in _outputs(call, getattr(result, "sequences", result)):
            memory.finish(output)
    return result


def _outputs(call: Call, sequences: Tensor) -> Iterator[NDArray[np.int32]]:
    """Yield what was written in each row, up to its end, without the padding behind that."""
    ends, pads = (_ids_of(call, name) for name in ("_eos_token_tensor", "_pad_token_tensor"))
    for row in sequences[:, call.input_ids.shape[1] :].tolist():
        kept = next((place + 1 for place, token in enumerate(row) if token in ends), None)
        while kept is None and row and row[-1] in pads:
            row.pop()
        yield np.array(row[:kept], np.int32)


def _ids_of(call: Call, name: str) -> list[int]:
    """Return the token ids that ``generate`` has prepared under this name."""
    ids = getattr(call.generation_config, name, None)
    return [] if ids is None else ids.flatten().tolist()


def _run_with_drafts(model: Any, call: Call, config: LookupConfig) -> Any:
    proposers = _proposers(model, call, config)
    generation = call.generation_config
    stats = state_of(model).begin()
    stats.prompt_tokens, stats.rows = call.input_ids.shape[1], len(proposers)
    output = HFOutput(call.input_ids, call.logits_processor, call.stopping_criteria, generation, call.streamer)
    max_length = call.stopping_criteria.max_length or generation.max_length
    target: HFTarget | HFBatchTarget
    if stats.rows == 1:
        target = HFTarget(model, output, generation, call.model_kwargs, max_length, config.fixed_width)
    else:
        target = HFBatchTarget(model, output, generation, call.model_kwargs, max_length)
    started = perf_counter()
    logits = target.prefill()
    with target, _decode_mode(model):
        for row, choose in enumerate(output.choosers(output.live(), logits)):
            token = choose(0)
            output.emit(row, token)
            proposers[row].extend([token])
        stats.start_decoding(perf_counter() - started)
        branches = config.trees and target.takes_trees()
        shared = state_of(model).batch_pacing(model) if target.packs_rows() else None
        for proposer in proposers:
            proposer.branches, proposer.shared = branches, shared
        ours = all(isinstance(proposer, LookupProposer) for proposer in proposers)
        if ours:
            stats.reference_starts, stats.text_start = tuple(proposers[0].reference_starts), proposers[0].text_start
        decode(target, proposers, output, stats, propose_together if ours else propose_each)
    if call.streamer is not None:
        call.streamer.end()
    if not generation.return_dict_in_generate:
        return output.result()
    (text,) = output.rows
    kind = GenerateEncoderDecoderOutput if model.config.is_encoder_decoder else GenerateDecoderOnlyOutput
    cache = {cache_name(kind.__dataclass_fields__): target.cache}
    return kind(sequences=output.result(), scores=text.scores, logits=text.logits, **cache)


def _proposers(model: Any, call: Call, config: LookupConfig) -> list[LookupProposer]:
    """Return a proposer for each row, which copies from references, prediction, the encoder's and the row's text."""
    references = [_token_ids(model, f"references[{i}]", text) for i, text in enumerate(config.references)]
    prediction = None if config.prediction is None else _token_ids(model, "prediction", config.prediction)
    if isinstance(config.prediction, str) and prediction is not None:
        references.append(_other_start(state_of(model).tokenizer, config.prediction, prediction))
    return [
        LookupProposer(
            config,
            prompt=prompt,
            references=[*references, encoder_text],
            prediction=prediction,
            stop_tokens=_ids_of(call, "_eos_token_tensor"),
            banned_tokens=multimodal_token_ids(model.config),
            pacing=state_of(model).pacing(model, call.input_ids.shape[0]),
            memory=_memory(model, config),
            vocabulary=vocabulary_of(model) or MAX_TOKEN + 1,
        )
        for prompt, encoder_text in zip(_prompts(model, call), _encoder_texts(model, call), strict=True)
    ]


def _memory(model: Any, config: LookupConfig) -> MemorySource | None:
    """Return the namespace that the call names, in the model's store."""
    if not config.memory:
        return None
    store = state_of(model).memory
    if store is None:
        raise ValueError(
            f"lookup option memory names {config.memory!r}, but the model has no store: call hf.enable(model, "
            "tokenizer, memory=MemoryStore(...))"
        )
    return MemorySource(store, config.memory, remember=config.remember)


def _other_start(tokenizer: Any, text: str, ids: list[int]) -> list[int]:
    """Return how the text starts behind a newline, where its first tokens split otherwise there; else nothing."""
    newline = tokenizer("\n", add_special_tokens=False)["input_ids"]
    behind = tokenizer("\n" + text, add_special_tokens=False)["input_ids"]
    start = behind[len(newline) :] if behind[: len(newline)] == newline else behind[1:]
    same = 0
    while same < min(len(ids), len(start)) and ids[-1 - same] == start[-1 - same]:
        same += 1
    return start[: len(start) - same + _OVERLAP] if same < len(start) else []


def _prompts(model: Any, call: Call) -> list[list[int]]:
    """Return the token ids of each row's prompt without padding; negative placeholders become an id of no token."""
    name = "decoder_attention_mask" if model.config.is_encoder_decoder else "attention_mask"
    ids = call.input_ids.masked_fill(call.input_ids < 0, vocabulary_of(model) or MAX_TOKEN)
    return _without_padding(ids, call.model_kwargs.get(name))


def _encoder_texts(model: Any, call: Call) -> list[list[int]]:
    """Return what the encoder has read for each row, where that is text and known."""
    read = getattr(call.generation_config, ENCODER_TEXT, None)
    rows = call.input_ids.shape[0]
    if not isinstance(read, Tensor) or read.dim() != 2 or read.is_floating_point() or rows % read.shape[0]:
        return [[]] * rows
    read = read.repeat_interleave(rows // read.shape[0], dim=0)
    return _without_padding(read, call.model_kwargs.get("attention_mask"))


def _without_padding(ids: Tensor, mask: Any) -> list[list[int]]:
    if not isinstance(mask, Tensor) or mask.shape != ids.shape:
        return ids.tolist()
    return [row[kept].tolist() for row, kept in zip(ids, mask.to(ids.device) != 0, strict=True)]


def _token_ids(model: Any, name: str, text: Any) -> list[int]:
    if isinstance(text, str):
        tokenizer = state_of(model).tokenizer
        if tokenizer is None:
            raise ValueError(
                f"lookup option {name} is text, but no tokenizer is known: call hf.enable(model, tokenizer), or pass "
                "token ids"
            )
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = text.tolist() if hasattr(text, "tolist") else list(text)
    check_token_ids(model, f"lookup option {name}", ids)
    return ids


def _decode_mode(model: Any) -> Any:
    """Switch mixture-of-experts kernels for decoding, as plain generation does."""
    optimize = getattr(model, "_optimize_model_for_decode", None)
    return nullcontext() if optimize is None else optimize()


class _Clock(StoppingCriteria):
    """Times and counts plain generation from inside: asked once per token, it never stops."""

    def __init__(self, stats: DecodingStats, call: Call) -> None:
        self._stats = stats
        self._started = perf_counter()
        self._end_tokens = getattr(call.generation_config, "_eos_token_tensor", None)
        self._alive = torch.ones(call.input_ids.shape[0], dtype=torch.bool, device=call.input_ids.device)
        stats.rows, stats.prompt_tokens = call.input_ids.shape[:2]

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        stats, elapsed = self._stats, perf_counter() - self._started
        first, rows = stats.generated_tokens == 0, 1 if stats.rows == 1 else int(self._alive.sum())
        stats.generated_tokens += rows
        if first:
            stats.prefill_s = elapsed
        else:
            stats.steps += 1
            stats.row_steps += rows
        stats.decode_s = elapsed - stats.prefill_s
        if stats.rows > 1 and self._end_tokens is not None:
            self._alive &= ~torch.isin(input_ids[:, -1], self._end_tokens.to(input_ids.device))
        return torch.zeros_like(self._alive)
