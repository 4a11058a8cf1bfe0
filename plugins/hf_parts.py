"""Parts of a model that are not transformers' own: layers that may look at a whole forward, and forward hooks."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch.nn import Parameter
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

_OWN = ("torch.nn.", "torch._dynamo.", "transformers.", "lookahead.")
_QUANTIZED = "transformers.integrations."
_HARMLESS = ("torch.", "transformers.", "accelerate.")  # hooks of these don't look at the tokens of a forward


def foreign_parts(model: Any) -> frozenset[str]:
    """Return the names of what in a model is not known to read several tokens as it reads them one by one.

    These are layers and weights of other libraries, such as quantized ones, and attention that somebody registered.

    Example:
        >>> foreign_parts(model)                                       # doctest: +SKIP
        frozenset({'torch.ao.nn.quantized.dynamic.modules.linear.Linear'})
    """
    modules = list(model.modules())
    weights = [weight for module in modules for weight in module._parameters.values() if weight is not None]
    kinds = set(map(type, modules)) | set(map(type, weights)) - {Parameter}
    found = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    found = {name for name in found if not name.startswith(_OWN) or name.startswith(_QUANTIZED)}
    found |= {str(dtype) for dtype in {weight.dtype for weight in weights} if not dtype.is_floating_point}
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None:
        found.add(type(quantizer).__name__)
    name = getattr(model.config.get_text_config(decoder=True), "_attn_implementation", None) or ""
    attention = ALL_ATTENTION_FUNCTIONS.get(name)
    if attention is not None and not _module_of(attention).startswith(_OWN):
        found.add(name)
    return frozenset(found)


def hook_reason(model: Any, asked: bool) -> str | None:
    """Return why forward hooks keep a model from reading several tokens at once, or None when they don't.

    Args:
        model: The model.
        asked: The call itself asks for drafts, so hooks of the user's own may see blocks.
    """
    for hook, is_pre in _hooks(model):
        module = _module_of(hook)
        if module.startswith("peft."):
            if is_pre:
                return "its adapter hands each forward what belongs to certain rows and tokens"
        elif not asked:
            return (
                "its modules have forward hooks, which may look at the tokens and rows of a forward; if yours don't, "
                "pass lookup=True to the call"
            )
    return None


def _hooks(model: Any) -> Iterator[tuple[Callable[..., Any], bool]]:
    """Yield the hooks that may look at tokens, and whether each comes before the forward."""
    for module in model.modules():
        for hooks, is_pre in ((module._forward_pre_hooks, True), (module._forward_hooks, False)):
            for hook in hooks.copy().values():  # another thread may add some
                own = getattr(hook, "__self__", None) is module  # a method of the module is part of it
                if not own and not _module_of(hook).startswith(_HARMLESS):
                    yield hook, is_pre


def _module_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__module__", None) or ""
