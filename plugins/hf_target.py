"""HFTarget: a transformers model that writes one text, behind the loop's TargetModel protocol."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache
from transformers.generation.configuration_utils import GenerationConfig

from lookahead.draft import EMPTY, Draft
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_attention import grouped_attention
from lookahead.plugins.hf_cache import MAX_REPLAY, Rollback, cached_tokens, fixed_sizes, rollback_for
from lookahead.plugins.hf_output import HFOutput
from lookahead.plugins.hf_tree import keep_branch, tree_inputs
from lookahead.plugins.hf_trust import reads_trees


class HFTarget:
    """Runs the model over the last token and a draft, and keeps cache and masks in step with the text.

    Args:
        model: A transformers model with ``generate``.
        output: The text, one row; its committed tokens are what the cache must hold.
        generation_config: As ``generate`` prepared it.
        model_kwargs: As ``generate`` prepared them (cache, masks, positions).
        max_length: Length at which generation stops, in tokens of ``output``.
        fixed_width: Tokens that every step reads, always from a multiple of it behind the prompt on; 0 for as many as a
            step needs. Only for caches that keep every position.
    """

    def __init__(
        self,
        model: Any,
        output: HFOutput,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        max_length: int,
        fixed_width: int = 0,
    ) -> None:
        self._model = model
        self._fixed_width = fixed_width
        (self._text,) = output.rows
        self._config = generation_config
        self._kwargs = model_kwargs
        self._cache_name = cache_name(model_kwargs)
        self._max_length = max_length
        self._bounds: list[tuple[list[tuple[int, bool]], int]] = []  # limits, and how far what they limit is ahead
        self._prefix = "decoder_" if model.config.is_encoder_decoder else ""
        self._rollback: Rollback
        self._past = 0  # tokens that the cache holds before the text
        self._before = 0  # tokens of the text when the step began
        self._read = 0  # tokens that the step brings the cache to; 0 between steps
        self._step_outputs: Any = None
        self._draft = EMPTY

    def prefill(self) -> list[Tensor]:
        """Read the prompt; return the logits of the first new token, shape ``[1, vocabulary]``, as the only row's."""
        outputs = self._model._prefill(
            self._text.input_ids,
            self._config,
            self._kwargs,
            is_first_iteration=not self._config.is_assistant,
        )
        self._advance(outputs, 1)
        self._rollback = rollback_for(self.cache, self._text.length)
        self._past = max(0, cached_tokens(self.cache) - self._text.length)
        limits, sizes = position_limits(self._model.config), [(size, False) for size in fixed_sizes(self.cache)]
        self._bounds = [(sorted([*limits, *sizes]), 0)]
        if ahead := self._ahead():
            self._bounds.append((limits, ahead))
        return [outputs.logits[:, -1].clone()]

    def takes_trees(self) -> bool:
        """Return whether a draft may be a tree; known after the prefill."""
        counted = isinstance(self._kwargs.get("position_ids"), Tensor)
        return counted and not self._fixed_width and not self._prefix and reads_trees(self._model, self.cache)

    def packs_rows(self) -> bool:
        """Return that there is one row only."""
        return False

    def room(self, row: int) -> int:
        """Return how many draft tokens fit: into the length, the positions, and the backlog of a replay."""
        length, unread = self._text.length, self._text.length - self._rollback.cached
        backlog = not self._fixed_width and unread - 1 > MAX_REPLAY
        if backlog or self._is_crossing(unread):
            return 0
        room = self._position_room(self._max_length - length - 1)
        room = min(room, self._rollback.widest() - unread)
        return min(room, self._block_end() - length) if self._fixed_width else room

    def forward(self, rows: Sequence[int], drafts: Sequence[Draft]) -> tuple[list[Tensor], int]:
        """Read what the cache lacks of the text, and the draft; return its ``[len(draft) + 1, vocabulary]`` logits."""
        (draft,) = drafts
        ids = self._text.with_draft(draft.tokens + self._padding(draft))
        self._before, self._read = self._text.length, ids.shape[1]
        width = self._read - self._rollback.cached
        if len(draft):
            self._rollback.before_draft()
        inputs = self._model.prepare_inputs_for_generation(
            ids, next_sequence_length=width, **self._lengthened(self._read - self._text.length)
        )
        if draft.parents:
            inputs = tree_inputs(inputs, draft, self._past + self._rollback.cached, self._model)
        self._draft = draft
        behind = self._read - self._text.length + 1
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = width if self._fixed_width else behind  # that too is a shape
        with grouped_attention():
            self._step_outputs = self._model(**inputs, return_dict=True)
        return [self._step_outputs.logits[0, -behind:][: len(draft) + 1]], width

    def _padding(self, draft: Draft) -> tuple[int, ...]:
        """Return tokens that fill the step up to the end of its block, as far as there are positions for them."""
        if not self._fixed_width:
            return ()
        room = self._position_room(self._block_end() - self._text.length)
        return (int(self._text.input_ids[0, -1]),) * (room - len(draft))

    def _is_crossing(self, unread: int) -> bool:
        """Whether tokens that are still to be read lie across a limit.

        A model may read its whole text anew when it grows beyond one, into a cache that can't be cropped yet.
        """
        place = self._past + self._text.length
        ends = [(limit, place + ahead) for limits, ahead in self._bounds for limit, _ in limits]
        return any(end - unread <= limit < end for limit, end in ends)

    def _position_room(self, room: int) -> int:
        """Cut ``room`` where a draft would cross a limit of the cache's length or of the positions."""
        place = self._past + self._text.length
        return min(position_room(limits, place + ahead, room) for limits, ahead in self._bounds)

    def _ahead(self) -> int:
        """Return by how much the text's positions exceed its length; less than nothing with padding on the left."""
        positions = self._kwargs.get(self._prefix + "position_ids")
        if not isinstance(positions, Tensor):
            return 0
        return int(positions[..., -1].max()) - self._past - self._text.length

    def _block_end(self) -> int:
        """Return where the block of fixed width ends that holds the last committed token."""
        return self._kept(self._text.length - 1) + self._fixed_width

    def _kept(self, length: int) -> int:
        """Return how many of ``length`` tokens stay in the cache: with a fixed width, those before the last block.

        A block that always starts so many widths behind the prompt is read at the same shape and each token at the
        same place in it, whatever was drafted: kernels round it alike, also where rounding depends on the place.
        """
        return length - (length - self._text.prompt_length) % self._fixed_width if self._fixed_width else length

    def commit(self, emitted: Sequence[int]) -> None:
        """Keep all but the last emitted token in the cache, and lengthen masks and positions."""
        outputs, self._step_outputs = self._step_outputs, None
        cache = outputs.get(self._cache_name, self.cache)
        if self._draft.parents:
            self._keep_branch(emitted[0])
        if cache is self.cache:
            self._rollback.keep(self._read, self._kept(self._text.length - 1))
        else:  # the model has read the text anew
            self._rollback.close(_outlives(self.cache))
            self._rollback = rollback_for(cache, self._read)
        self._advance(outputs, emitted[0])
        self._read = 0

    def _keep_branch(self, emitted: int) -> None:
        """Put the accepted branch where a chain would stand: behind the text as it was before the step."""
        nodes = self._draft.path(self._text.input_ids[0, -emitted:].tolist())
        keep_branch(self.cache, self._past + self._text.length - emitted, nodes[: emitted - 1])

    def __enter__(self) -> "HFTarget":
        """Begin to write, after the prefill."""
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: Any) -> None:
        """Leave the cache as plain generation would, also when a streamer or a criterion raises or the user interrupts.

        One that outlives the call holds no token of a draft that was not emitted, and all of the text but its last
        token.
        """
        returned = _outlives(self.cache) or (failure is None and bool(self._config.return_dict_in_generate))
        forward_failed = bool(self._read) and self._step_outputs is None
        if returned and self._read:
            self._settle()
        behind = self._text.length - 1 - self._rollback.cached
        if returned and behind > 0 and not forward_failed:
            ids = self._text.input_ids[:, :-1]
            inputs = self._model.prepare_inputs_for_generation(ids, next_sequence_length=behind, **self._lengthened(-1))
            with grouped_attention():
                self._model(**inputs, return_dict=True)
        self._rollback.close(returned)

    def _settle(self) -> None:
        """Keep what was emitted of a step that broke off, and take back the rest of its draft."""
        emitted = self._text.length - self._before
        if self._step_outputs is None:
            self._rollback.undo()
        elif emitted:
            self.commit([emitted])
        else:
            self._rollback.keep(self._read, self._kept(self._before))

    @property
    def cache(self) -> Cache:
        """The model's cache."""
        return self._kwargs[self._cache_name]

    def _advance(self, outputs: Any, tokens: int) -> None:
        self._kwargs = self._model._update_model_kwargs_for_generation(
            outputs, self._kwargs, is_encoder_decoder=bool(self._prefix), num_new_tokens=tokens
        )

    def _lengthened(self, tokens: int) -> dict[str, Any]:
        """Return the keyword arguments for a text that is ``tokens`` longer (or shorter)."""
        names = {self._prefix + "attention_mask": 1, self._prefix + "position_ids": None}
        kwargs = dict(self._kwargs)
        for name, value in (names | {"token_type_ids": None, "mm_token_type_ids": 0}).items():
            if tokens and isinstance(kwargs.get(name), Tensor):
                kwargs[name] = _extended(kwargs[name], tokens, value, counted=name.endswith("position_ids"))
        return kwargs


def _outlives(cache: Cache) -> bool:
    """Whether a cache goes on after the call because the user brought it."""
    return bool(getattr(cache, "_is_user_defined", False))


def _extended(states: Tensor, tokens: int, value: int | None, counted: bool) -> Tensor:
    """Return per-token numbers with ``tokens`` more of them (or fewer): a value, the last one's, or counted on."""
    if tokens < 0:
        return states[..., :tokens]
    more = states[..., -1:].expand(*states.shape[:-1], tokens)
    if counted:
        more = more + torch.arange(1, tokens + 1, dtype=states.dtype, device=states.device)
    elif value is not None:
        more = torch.full_like(more, value)
    return torch.cat([states, more], dim=-1)


_LENGTHS = ("max_position_embeddings", "n_positions", "max_decoder_position_embeddings", "max_seq_len")


def position_limits(config: Any) -> list[tuple[int, bool]]:
    """Return the lengths that a draft must not cross, in order, and whether drafts may go on beyond each.

    Learned positions end at the longest text; rotary ones that rescale with the length of a forward (dynamic,
    longrope) would see another length in a block than token by token.
    """
    text = config.get_text_config(decoder=True)
    if hasattr(text, "relative_attention_num_buckets"):
        return []  # only the distance between two tokens counts
    kinds = dict(_rotary_kinds(text))
    limits = {original: True for kind, original in kinds.items() if kind == "longrope" and original}
    longest = next((size for name in _LENGTHS if isinstance(size := getattr(text, name, None), int)), None)
    if longest is not None:
        limits[longest] = limits.get(longest, True) and bool(kinds) and "dynamic" not in kinds
    return sorted(limits.items())


def rescaling_length(config: Any) -> int | None:
    """Return the length from which on rotary positions depend on the longest row of a forward, if there is one."""
    text = config.get_text_config(decoder=True)
    kinds = dict(_rotary_kinds(text))
    limits = [limit for limit, _ in position_limits(config)]
    return min(limits, default=None) if {"dynamic", "longrope"} & set(kinds) else None


def has_longrope(config: Any) -> bool:
    """Whether a model's rotary positions change once, where a text grows beyond what they were trained for at first."""
    return any(kind == "longrope" for kind, _ in _rotary_kinds(config.get_text_config(decoder=True)))


def _rotary_kinds(text: Any) -> Iterator[tuple[str, int | None]]:
    """Yield each kind of rotary positions among the layers, and the length that it was first trained for."""
    rope: dict[str, Any] = getattr(text, "rope_parameters", None) or {}
    for layer in [value for value in rope.values() if isinstance(value, dict)] or [rope]:
        if layer:
            trained = getattr(text, "original_max_position_embeddings", None)
            kind = str(layer.get("rope_type") or layer.get("type") or "default")
            yield kind, layer.get("original_max_position_embeddings") or trained


def position_room(limits: Sequence[tuple[int, bool]], length: int, room: int) -> int:
    """Cut ``room`` where a draft behind a text of ``length`` tokens would cross one of :func:`position_limits`.

    Example:
        >>> position_room([(100, False)], length=97, room=8), position_room([(100, True)], length=101, room=8)
        (3, 8)
    """
    for limit, passable in limits:
        if length <= limit:
            return min(room, limit - length)
        if not passable:
            return 0
    return room
