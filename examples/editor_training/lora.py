"""A low-rank adapter on the linear layers of a model: made, read, written."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class _Product(Function):
    """The layer with the merged weight; its gradients are those of the two narrow matrices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, merged: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x, merged, a, b)
        ctx.scale = scale
        return functional.linear(x, merged)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        x, merged, a, b = ctx.saved_tensors
        flat, rows = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
        of_a = (flat @ b.to(x.dtype)).mul_(ctx.scale).T @ rows
        of_b = (flat.T @ (rows @ a.to(x.dtype).T)).mul_(ctx.scale)
        return (flat @ merged).view_as(x), None, of_a.to(a.dtype), of_b.to(b.dtype), None


class LowRank(nn.Module):
    """A frozen linear layer and the product of two narrow matrices added to its weight.

    The sum is made once for every state of the matrices (`refresh`), so that a token costs what it costs without them.
    It is made in float32, as the matrices are, and kept in the precision to train in.

    Args:
        base: The layer, without bias, in float32.
        rank: Columns of the one matrix and rows of the other.
        scale: Factor of the product.
        dtype: Precision to train in.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.merged = base.weight.detach().to(dtype, copy=True)
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    @torch.no_grad()
    def refresh(self) -> None:
        """Make the sum anew; call it whenever the matrices have changed."""
        self.merged.copy_(torch.addmm(self.base.weight, self.b, self.a, alpha=self.scale))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer with the product added to its weight gives."""
        return _Product.apply(x, self.merged, self.a, self.b, self.scale)


def attach(model: nn.Module, rank: int, scale: float, dtype: torch.dtype = torch.float32) -> dict[str, LowRank]:
    """Freeze the model, put low-rank matrices beside its linear layers and return them by the layers' names.

    Args:
        model: In float32; what has no such layers beside it is turned into ``dtype``.
        rank: Of the matrices.
        scale: Factor of their product.
        dtype: Precision to train in; the matrices stay in float32.
    """
    model.requires_grad_(False)
    found = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.rsplit(".", 1)[-1] in LAYERS:
            parent, _, last = name.rpartition(".")
            found[name] = LowRank(module, rank, scale, dtype)
            setattr(model.get_submodule(parent), last, found[name])
    adapted = {id(parameter) for layer in found.values() for parameter in layer.parameters()}
    for parameter in model.parameters():
        if id(parameter) not in adapted:
            parameter.data = parameter.data.to(dtype)  # not the buffers: positions need their precision
    return found


def save(adapter: dict[str, LowRank], path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the adapter; the scale is within the second matrix, so that the weight's change is b @ a."""
    tensors = {}
    for name, layer in adapter.items():
        tensors[f"{name}.a"] = layer.a.detach().to(dtype).contiguous()
        tensors[f"{name}.b"] = (layer.b.detach() * layer.scale).to(dtype).contiguous()
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, {"format": "pt", "made_by": "examples/train_editor.py"})
    partial.replace(path)


def mean(paths: list[Path], path: Path) -> None:
    """Write the mean of adapters that come one from the other: it keeps what the earlier ones could.

    Source: Wortsman et al., 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy
    without increasing inference time".
    """
    tensors: dict[str, Tensor] = {}
    for each in paths:
        with safe_open(each, "pt") as file:
            for name in file.keys():  # noqa: SIM118 (no dict)
                tensors[name] = tensors.get(name, 0.0) + file.get_tensor(name).float() / len(paths)
    halves = {name: tensor.half().contiguous() for name, tensor in tensors.items()}
    save_file(halves, path, {"format": "pt", "made_by": "examples/train_editor.py"})


def read(adapter: dict[str, LowRank], path: Path) -> None:
    """Fill an attached adapter with a written one of the same rank."""
    with safe_open(path, "pt") as file, torch.no_grad():
        for name, layer in adapter.items():
            layer.a.copy_(file.get_tensor(f"{name}.a"))
            layer.b.copy_(file.get_tensor(f"{name}.b") / layer.scale)
