"""Several processes of one core each that train one adapter together, started by ``torchrun``."""

import atexit

import torch
from torch import Tensor, distributed


def join() -> None:
    """Join the other processes, if `torchrun` started this one, until it ends."""
    if distributed.is_torchelastic_launched() and not distributed.is_initialized():
        distributed.init_process_group("gloo")
        atexit.register(distributed.destroy_process_group)  # its threads would else abort the process now and then


def rank() -> int:
    """Return this process's number; the first one writes files and speaks."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def size() -> int:
    """Return how many processes there are."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def add_up(tensors: list[Tensor]) -> None:
    """Replace tensors by their sums over all processes, the same in each.

    Example:
        >>> alone = torch.ones(2)
        >>> add_up([alone])
        >>> alone
        tensor([1., 1.])
    """
    if size() == 1:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    distributed.all_reduce(flat)
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))
