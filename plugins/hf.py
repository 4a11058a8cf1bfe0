"""Lookup decoding inside transformers' ``generate``: enable a model once, and every call is sped up.

>>> hf.enable(model, tokenizer)  # doctest: +SKIP
>>> model.generate(**inputs)  # the same tokens, sooner                        # doctest: +SKIP
>>> model.generate(**inputs, lookup=False)  # plain, for this call             # doctest: +SKIP
>>> model.generate(**inputs, lookup={"prediction": file_text})  # doctest: +SKIP
>>> hf.stats(model).mean_acceptance_length  # doctest: +SKIP
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Parameter, Signature
from os import PathLike
from typing import Any, Literal, TypeAlias

from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteriaList
from transformers.generation.utils import GenerationMixin

from lookahead.config import LookupConfig
from lookahead.memory import MemoryStore, tokenizer_identity
from lookahead.plugins import versions
from lookahead.plugins.hf_arguments import ENCODER_TEXT, Call
from lookahead.plugins.hf_calibrate import calibrate
from lookahead.plugins.hf_call import run
from lookahead.plugins.hf_state import ModelState, drop_state, logger, set_state, state_of, unwrapped
from lookahead.proposer import warm_up
from lookahead.stats import DecodingStats

__all__ = [
    "calibrate",
    "disable",
    "enable",
    "is_enabled",
    "load_learned",
    "lookup_generate",
    "save_learned",
    "stats",
]

Options: TypeAlias = LookupConfig | Mapping[str, Any] | bool | None


@dataclass
class _Request:
    """What one ``generate`` call asked for, however often it samples; None is nothing of its own."""

    lookup: LookupConfig | Literal[False] | None
    generation_config: GenerationConfig | None = None
    sampled: bool = False


_request: ContextVar[_Request | None] = ContextVar("lookahead_request", default=None)


class LookupGenerationMixin:
    """Overrides ``_sample`` to decode with drafts; ``generate``, which reads ``lookup=``, is made for each class."""

    def _get_logits_processor(self, generation_config: GenerationConfig, *args: Any, **kwargs: Any) -> Any:
        # The one place where generate hands on what the encoder reads together with this call's own config.
        request = _request.get()
        if request is not None and request.generation_config is None:
            request.generation_config = generation_config
        if self.config.is_encoder_decoder:  # type: ignore[attr-defined]
            setattr(generation_config, ENCODER_TEXT, kwargs.get("encoder_input_ids"))
        return super()._get_logits_processor(generation_config, *args, **kwargs)  # type: ignore[misc]

    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        assists = getattr(generation_config, "is_assistant", False)  # a short draft for another model, each time anew
        config, asked = (None, False) if assists else _wanted(self, generation_config)
        given = input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, streamer, model_kwargs
        return _sampled(self, Call(*given, asked), config)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # The class is made at run time under its base's name, so pickle and deepcopy rebuild it from that base.
        parts: tuple[Any, ...] = super().__reduce_ex__(max(2, int(protocol)))  # type: ignore[assignment]
        _, (_, *args), *rest = parts
        return _rebuild, (_base(type(self)), *args), *rest


def enable(model: Any, tokenizer: Any = None, lookup: Options = None, memory: MemoryStore | None = None) -> Any:
    """Let every later ``model.generate`` decode with drafts looked up in its own text.

    Args:
        model: A transformers model with ``generate`` (a PEFT wrapper's base model is found).
        tokenizer: Needed only for ``prediction`` and ``references`` given as text; or a processor that holds it.
        lookup: Default options for this model, as in :meth:`lookahead.LookupConfig.parse`.
        memory: Store that the lookup option ``memory`` names a namespace of.

    Returns:
        The same model.

    Raises:
        TypeError: ``model`` has no transformers ``generate``.
        ValueError: The model lies on the meta device, an option is unknown, or the store has another tokenizer.
        ImportError: The installed transformers or torch is not supported.
    """
    versions.check_versions()
    target = unwrapped(model)
    defaults = LookupConfig.parse(lookup)
    if not isinstance(target, GenerationMixin):
        raise TypeError(
            f"model must be a transformers model with generate(), got {type(model).__name__}: load it with "
            "AutoModelForCausalLM.from_pretrained"
        )
    if target.device.type == "meta" and not hasattr(target, "hf_device_map"):
        raise ValueError(
            "model is on the meta device and has no weights to generate with: load it with from_pretrained, outside "
            "torch.device('meta')"
        )
    if not _samples_itself(type(target)):
        logger.warning("%s has a sampling loop of its own: it is left as it is", type(target).__name__)
        return model
    tokenizer = _inside(tokenizer)
    _check_tokenizer(memory, tokenizer)
    if not is_enabled(target):
        kind: Any = type(target)
        target.__class__ = _enabled_class(kind)
    warm_up()
    set_state(target, ModelState(defaults, tokenizer, memory, knowledge=state_of(target).knowledge))
    return model


def _inside(tokenizer: Any) -> Any:
    """Return the tokenizer of a processor, which itself would take a text for an image; any other as it is."""
    held = getattr(tokenizer, "tokenizer", None)
    return held if hasattr(held, "get_vocab") and not hasattr(tokenizer, "get_vocab") else tokenizer


def _check_tokenizer(memory: MemoryStore | None, tokenizer: Any) -> None:
    """Refuse a store of other ids; what is not known can't be compared."""
    if memory is None or memory.tokenizer is None or not hasattr(tokenizer, "get_vocab"):
        return
    mine = tokenizer_identity(tokenizer.get_vocab())
    if mine != memory.tokenizer:
        raise ValueError(
            f"memory was built with the tokenizer {memory.tokenizer}, but the model's is {mine}: build the store with "
            "this tokenizer (specdec-lookup memory build --tokenizer)"
        )


def disable(model: Any) -> Any:
    """Give the model its own ``generate`` back; without effect on a model that is not enabled."""
    target = unwrapped(model)
    if is_enabled(target):
        target.__class__ = _base(type(target))
        drop_state(target)
    return model


def is_enabled(model: Any) -> bool:
    """Return whether :func:`enable` was called on the model."""
    return isinstance(unwrapped(model), LookupGenerationMixin)


def stats(model: Any) -> DecodingStats:
    """Return the statistics of this thread's last call on the model, else of the last one in any thread.

    They grow while the call runs, so a streamer may read them.
    """
    return state_of(unwrapped(model)).stats()


def save_learned(model: Any, path: str | PathLike[str]) -> None:
    """Write what the model's calls have taught about costs and drafts to a file, for :func:`load_learned`.

    Raises:
        OSError: The file can't be written.
    """
    state_of(unwrapped(model)).knowledge.save(path)


def load_learned(model: Any, path: str | PathLike[str]) -> None:
    """Start from what :func:`save_learned` wrote: the first call drafts as well as the last one before did.

    Raises:
        OSError: The file can't be read.
        ValueError: It is no such file, or was written by a version that learned other things.
    """
    state_of(unwrapped(model)).knowledge.load(path)


def lookup_generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    lookup: Options = None,
    synced_gpus: bool = False,
    streamer: Any = None,
    **model_kwargs: Any,
) -> Any:
    """Decode one call with drafts: ``model.generate(**inputs, custom_generate=hf.lookup_generate)``.

    The second door, for models that need not be enabled; without ``lookup`` the options are those of any other call of
    the model. ``generate`` hands a custom function neither its streamer nor its tokenizer: bind the streamer yourself,
    ``custom_generate=partial(hf.lookup_generate, streamer=streamer)`` (and pass it to ``generate`` too, which feeds it
    the prompt), and use :func:`enable` for ``stop_strings``.
    """
    versions.check_versions()
    config, asked = _wanted(model, generation_config, lookup)
    given = input_ids, logits_processor, stopping_criteria, generation_config, synced_gpus, streamer, model_kwargs
    return _sampled(model, Call(*given, asked), config)


def _sampled(model: Any, call: Call, config: LookupConfig | None) -> Any:
    """Decode; what a processor, criterion or streamer generates meanwhile is a call of its own."""
    token = _request.set(None)
    try:
        return run(model, call, config)
    finally:
        _request.reset(token)


def _wanted(
    model: Any, generation_config: GenerationConfig, lookup: Options = None
) -> tuple[LookupConfig | None, bool]:
    """Return the options of this call, its ``lookup=`` or else the configured ones, and whether it asks for drafts."""
    request = _request.get()
    if request is not None:
        request.sampled = True
        lookup = request.lookup if lookup is None else lookup
    if lookup is None:
        return _configured(model, generation_config), False
    config = LookupConfig.parse(lookup)
    return config, config is not None


def _configured(model: Any, generation_config: GenerationConfig | None) -> LookupConfig | None:
    """Return the options of calls that have none of their own: the generation config's, else the model's."""
    configured = getattr(generation_config, "lookup", None)
    return state_of(model).defaults if configured is None else LookupConfig.parse(configured)


def _note_other_method(model: Any, request: _Request, assistant: Any) -> None:
    """Let the figures be those of a call that did not come to ``_sample``, and say in the log that it was plain."""
    generation = request.generation_config
    method = "a generate of its own" if generation is None else generation.get_generation_mode(assistant).value
    if method in ("greedy_search", "sample"):
        method = "custom_generate"
    config = _configured(model, generation) if request.lookup is None else request.lookup
    if not config:
        state_of(model).begin()
        return
    reason = f"the call was decoded by another method ({method.replace('_', ' ')})"
    state_of(model).begin(reason)
    state_of(model).log_plain(model, reason + ("; its output was not remembered" if config.remember else ""))


@cache
def _enabled_class(cls: type) -> type:
    """Return the subclass of a model class that decodes with drafts; it keeps the name, for configs and logs."""
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    generate = _reading_lookup(cls.generate)  # type: ignore[attr-defined]
    return type(cls.__name__, (LookupGenerationMixin, cls), {**names, "generate": generate})


def _reading_lookup(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a class's ``generate`` with ``lookup=``; what its decorators wrap, as without ``no_grad``, has it too."""

    @wraps(plain)
    def generate(self: Any, *args: Any, lookup: Options = None, **kwargs: Any) -> Any:
        if lookup is None and _request.get() is not None:  # a model inside, or the assistant, of that call's
            return plain(self, *args, **kwargs)
        request = _Request(None if lookup is None else LookupConfig.parse(lookup) or False)
        token = _request.set(request)
        try:
            result = plain(self, *args, **kwargs)
        finally:
            _request.reset(token)
        if not request.sampled and not getattr(request.generation_config, "is_assistant", False):
            _note_other_method(self, request, kwargs.get("assistant_model"))
        return result

    names = dict(inspect.signature(plain).parameters)
    others = [names.pop(name) for name, given in [*names.items()] if given.kind is Parameter.VAR_KEYWORD]
    option = Parameter("lookup", Parameter.KEYWORD_ONLY, default=None, annotation=Options)
    generate.__signature__ = Signature([*names.values(), option, *others])  # type: ignore[attr-defined]
    del generate.__wrapped__
    if hasattr(plain, "__wrapped__"):
        generate.__wrapped__ = _reading_lookup(plain.__wrapped__)
    return generate


def _base(cls: type) -> type:
    return cls.__mro__[cls.__mro__.index(LookupGenerationMixin) + 1]


def _rebuild(cls: type, *args: Any) -> Any:
    enabled = _enabled_class(cls)
    return enabled.__new__(enabled, *args)


def _samples_itself(cls: type) -> bool:
    """Return whether a class decodes through transformers' own ``_sample``, which is where drafts take part."""
    base = _base(cls) if issubclass(cls, LookupGenerationMixin) else cls
    return inspect.getattr_static(base, "_sample", None) is inspect.getattr_static(GenerationMixin, "_sample")
