"""Trees of draft tokens in one forward pass: what each node may see, and the cache of the branch that came true."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from lookahead.draft import ROOT, Draft


def tree_inputs(inputs: dict[str, Any], draft: Draft, past: int, model: Any) -> dict[str, Any]:
    """Return the arguments of a forward that reads the last committed token and a tree behind it.

    Args:
        inputs: As prepared for a chain of the same number of tokens.
        draft: The tree.
        past: Tokens in the cache.
        model: Its attention says which kind of mask it takes.
    """
    first = inputs["position_ids"][..., :1]
    depths = torch.tensor([0, *_depths(draft)], dtype=first.dtype, device=first.device)
    padding = inputs.get("attention_mask")
    return {
        **inputs,
        "position_ids": first + depths,
        "attention_mask": _mask(draft, past, padding if isinstance(padding, Tensor) else None, model),
    }


def keep_branch(cache: Cache, first: int, nodes: Sequence[int]) -> None:
    """Move the accepted nodes' keys and values to where a chain's would be.

    Args:
        cache: Whose layers all keep every position; node i stands at ``first + i``.
        first: Position of the first node.
        nodes: Nodes of the accepted branch, from its first on.
    """
    if list(nodes) == list(range(len(nodes))):
        return
    places = torch.tensor([first + node for node in nodes])
    for layer in cache.layers:
        if layer.is_initialized:
            for states in (layer.keys, layer.values):
                states[..., first : first + len(nodes), :] = states[..., places.to(states.device), :]


def _depths(draft: Draft) -> list[int]:
    """Return each node's distance to the last committed token."""
    depths: list[int] = []
    for parent in draft.parents:
        depths.append(1 if parent == ROOT else depths[parent] + 1)
    return depths


def _mask(draft: Draft, past: int, padding: Tensor | None, model: Any) -> Tensor:
    """Return who sees whom, ``[1, 1, nodes + 1, past + nodes + 1]``: everyone the text, a node also its ancestors."""
    count = len(draft) + 1
    sees = np.zeros((count, past + count), bool)
    sees[:, : past + 1] = True
    if padding is not None and padding.dim() == 2:
        sees[:, : past + 1] &= padding[0, : past + 1].bool().cpu().numpy()
    for node, parent in enumerate(draft.parents, start=1):
        sees[node, past + 1 :] = sees[parent + 1, past + 1 :]
        sees[node, past + node] = True
    mask = torch.from_numpy(sees)[None, None].to(model.device)
    if model.config.get_text_config(decoder=True)._attn_implementation == "sdpa":
        return mask
    seen = torch.zeros(mask.shape, dtype=model.dtype, device=model.device)
    return seen.masked_fill(~mask, torch.finfo(model.dtype).min)
