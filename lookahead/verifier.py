"""Verification: pure functions from the target model's logits and a draft to the tokens that are kept.

A lookup draft is a point mass. Choosing the target's own token at every position, from left to right, and going on
while it equals the draft accepts a draft token x with the target's probability of x, and the first token that
differs follows norm(max(0, target - draft)): the acceptance rule of Leviathan et al. (2022, arXiv:2211.17192,
section 2.3) without its arithmetic. :func:`accept` is that rule in full, for drafts that come with probabilities.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lookahead.draft import ROOT, Draft


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target model made of a draft.

    Attributes:
        tokens: The accepted draft tokens and one token of the target's own.
        accepted: How many of them stood in the draft.
    """

    tokens: tuple[int, ...]
    accepted: int


def confirm(draft: Draft, choose: Callable[[int], int], ends: Callable[[int], bool] = lambda token: False) -> list[int]:
    """Return the target's own tokens for as long as they follow the draft, and the one that leaves it.

    Position i is chosen only after ``ends`` has seen token i - 1, so a processor never sees a rejected prefix and a
    text that ends early (end of sequence) leaves no further draw of random numbers behind.

    Args:
        draft: A chain or a tree with distinct siblings.
        choose: Maps a row of the step's logits (0 = after the last committed token, i + 1 = after draft node i) to
            the target's token there.
        ends: Takes each token as it is chosen, and says whether it is the last.

    Example:
        Draft 5, 6, 7; the target wants 5, 6, 9: two tokens accepted, and 9 is its own.

        >>> confirm(Draft((5, 6, 7)), [5, 6, 9, 4].__getitem__)
        [5, 6, 9]
    """
    tokens: list[int] = []
    node: int | None = ROOT
    while node is not None:
        token = choose(node + 1)
        tokens.append(token)
        node = None if ends(token) else draft.child(node, token)
    return tokens


def greedy_choices(target_logits: Tensor) -> list[int]:
    """Return the most probable token of every position: one device call and one copy to the host.

    Args:
        target_logits: Shape ``[positions, vocabulary]``, any floating dtype.
    """
    return target_logits.max(dim=-1).indices.tolist()  # the first of equals, as argmax; on CPUs several times as fast


def verify_greedy(target_logits: Tensor, draft: Draft) -> Verdict:
    """Judge a draft by the target's most probable tokens.

    Args:
        target_logits: Shape ``[len(draft) + 1, vocabulary]``; row 0 follows the last committed token, row i + 1
            follows draft node i.

    Example:
        >>> logits = torch.eye(10)[[5, 6, 9, 4]]
        >>> verify_greedy(logits, Draft((5, 6, 7)))
        Verdict(tokens=(5, 6, 9), accepted=2)
    """
    tokens = tuple(confirm(draft, greedy_choices(target_logits).__getitem__))
    return Verdict(tokens, len(tokens) - 1)


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """Return norm(max(0, target - draft)), the law of the token after a rejection (Leviathan et al., section 2.3).

    Args:
        target_probs: Shape ``[..., vocabulary]``, rows that sum to one.
        draft_probs: Same shape.
    """
    excess = (target_probs - draft_probs).clamp_min(0)
    total = excess.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, excess / total.clamp_min(torch.finfo(excess.dtype).tiny), target_probs)


def accept(
    target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor, generator: torch.Generator | None = None
) -> Verdict:
    """Judge draft tokens that were sampled from known probabilities, so that the result follows the target's law.

    Keeps token x with probability min(1, target(x) / draft(x)); at the first rejection draws from
    :func:`residual`, and after k acceptances draws one more token from the target (Leviathan et al., algorithm 1).

    Args:
        target_probs: Shape ``[k + 1, vocabulary]``, rows that sum to one.
        draft_probs: Shape ``[k, vocabulary]``, the laws that the draft tokens were drawn from.
        draft_tokens: Shape ``[k]``, integer.
        generator: Source of randomness; the device's default when None.

    Raises:
        ValueError: Shapes that do not fit each other, or a draft token of draft probability zero.

    Example:
        A draft that is certain of token 1, where the target is certain too:

        >>> accept(torch.tensor([[0., 1.], [1., 0.]]), torch.tensor([[0., 1.]]), torch.tensor([1]))
        Verdict(tokens=(1, 0), accepted=1)
    """
    _check_shapes(target_probs, draft_probs, draft_tokens)
    k = draft_tokens.shape[0]
    rows = torch.arange(k, device=draft_tokens.device)
    drafted = draft_probs[rows, draft_tokens]
    if k and not bool((drafted > 0).all()):
        raise ValueError("draft_probs must be above zero at every draft token: each was drawn from its row")
    uniform = torch.rand(k, generator=generator, device=target_probs.device, dtype=target_probs.dtype)
    kept = uniform * drafted < target_probs[rows, draft_tokens]
    accepted = int(kept.long().cumprod(dim=0).sum())
    law = target_probs[k] if accepted == k else residual(target_probs[accepted], draft_probs[accepted])
    own = int(torch.multinomial(law, 1, generator=generator))
    return Verdict((*draft_tokens[:accepted].tolist(), own), accepted)


def _check_shapes(target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor) -> None:
    k = draft_tokens.shape[0] if draft_tokens.dim() == 1 else -1
    vocabulary = target_probs.shape[-1]
    if k < 0 or target_probs.shape != (k + 1, vocabulary) or draft_probs.shape != (k, vocabulary):
        raise ValueError(
            "accept needs target_probs [k + 1, vocabulary], draft_probs [k, vocabulary] and draft_tokens [k], got "
            f"{tuple(target_probs.shape)}, {tuple(draft_probs.shape)} and {tuple(draft_tokens.shape)}"
        )


def expected_tokens(acceptance: float, length: int) -> float:
    """Return the expected tokens of one step: (1 - a^(k+1)) / (1 - a), for draws that are accepted independently.

    Args:
        acceptance: Probability a that a draft token is accepted, 0 to 1.
        length: Draft tokens k of the step, at least 0.

    Raises:
        ValueError: A value out of range.

    Example:
        >>> round(expected_tokens(0.7, 4), 3)
        2.773
    """
    if not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance must lie between 0 and 1, got {acceptance}")
    if length < 0:
        raise ValueError(f"length must be at least 0, got {length}")
    if acceptance == 1:
        return float(length + 1)
    return (1 - acceptance ** (length + 1)) / (1 - acceptance)


def expected_speedup(acceptance: float, length: int, cost: float) -> float:
    """Return the expected speedup over plain decoding, where each draft token adds ``cost`` of a plain step.

    Args:
        acceptance: As in :func:`expected_tokens`.
        length: As in :func:`expected_tokens`.
        cost: Time of one more draft token, in plain steps, at least 0.

    Raises:
        ValueError: A value out of range.

    Example:
        >>> [round(expected_speedup(0.7, k, 0.15), 2) for k in (2, 4, 8)]
        [1.68, 1.73, 1.45]
    """
    if cost < 0:
        raise ValueError(f"cost must be at least 0, got {cost}")
    return expected_tokens(acceptance, length) / (1 + cost * length)
