"""LookupConfig: the options of one generation, small enough to travel as JSON."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any, TypeAlias

Text: TypeAlias = str | Sequence[int]
"""Text, or the token ids of text."""

_MOST = 2**30


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """Options of lookup decoding; the defaults need no tuning.

    The effects given are on the modelled speed over nine sets of recorded outputs (``examples/measure_options.py``), at
    costs of 0.3 % and 10 % of a plain step per drafted token.

    Attributes:
        max_draft: Most draft tokens that are verified in one step; more than 64 never are, whatever is given. 16
            instead of 64: 2 to 18 % slower.
        draft_per_match: 0 lets measured cost and learned survival decide how many tokens pay, in every step. Any other
            number drafts that many tokens per token of the matched suffix, up to ``max_draft``: a fixed rule, which
            looks at no clock. 8 to 37 % slower.
        min_match: Tokens before the copied place that must agree with the last ones, at least. 0 also lets a copy go
            on right behind a token that differs. 1: up to 8 % slower, 2: 5 to 25 % slower.
        prediction: What the output is expected to resemble (the file before the edit), as text or token ids.
            It need not be part of the prompt: without it there, edits run at 0.99 to 1.06 of the speed.
        references: Further texts that the output may copy from, each as text or token ids.
        memory: Namespace of the model's memory store to copy from as well; empty for none.
        remember: Add the finished output to that namespace.
        trees: Draft several continuations side by side where that pays and the model can read it: 10 % faster at a
            cost of 0.3 %, no difference at 10 %.
        fixed_width: Tokens that every forward pass after the prefill reads, from a multiple of it behind the prompt on,
            drafts padded up to the next; 0 lets each step read what it drafts. In bf16 and fp16 a forward rounds
            differently at different widths and places, so the text may depend on the drafts where two logits nearly
            tie. In fixed blocks it does not: the same text run after run, whatever is drafted.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.

    Example:
        >>> LookupConfig.parse({"max_draft": 16}).max_draft
        16
    """

    max_draft: int = 64
    draft_per_match: int = 0
    min_match: int = 0
    prediction: Text | None = None
    references: tuple[Text, ...] = ()
    memory: str = ""
    remember: bool = False
    trees: bool = True
    fixed_width: int = 0

    def __post_init__(self) -> None:
        for name, least in (("max_draft", 0), ("draft_per_match", 0), ("min_match", 0), ("fixed_width", 0)):
            _check_integer(name, getattr(self, name), least)
        _check_type("memory", self.memory, str, 'the name of a namespace, such as "ann"')
        _check_type("remember", self.remember, bool, "True or False")
        _check_type("trees", self.trees, bool, "True or False")
        if self.remember and not self.memory:
            raise ValueError("lookup option remember is True, but no namespace is named: add memory")
        if self.prediction is not None:
            object.__setattr__(self, "prediction", _checked_text("prediction", self.prediction))
        if isinstance(self.references, str) or not isinstance(self.references, Sequence):
            raise TypeError(
                f"lookup option references must be a list of texts or of lists of token ids, got "
                f"{_brief(self.references)}: wrap a single text in a list"
            )
        checked = (_checked_text(f"references[{i}]", reference) for i, reference in enumerate(self.references))
        object.__setattr__(self, "references", tuple(checked))

    @classmethod
    def parse(cls, options: "LookupConfig | Mapping[str, Any] | bool | None") -> "LookupConfig | None":
        """Read options as users pass them: a LookupConfig, a dict, True or None for the defaults, False for off.

        Returns:
            The configuration, or None when lookup is switched off.

        Raises:
            TypeError: ``options`` is none of these.
            ValueError: A key is unknown (the nearest known key is named).
        """
        if options is False:
            return None
        if options is None or options is True:
            return cls()
        if isinstance(options, LookupConfig):
            return options
        if not isinstance(options, Mapping):
            raise TypeError(
                f"lookup must be a dict of options, a LookupConfig, True or False, got {_brief(options)}: "
                'write for example lookup={"max_draft": 16}'
            )
        known = [field.name for field in fields(cls)]
        for key in options:
            if key not in known:
                raise ValueError(f"unknown lookup option {key!r}: {_nearest(str(key), known)}")
        return cls(**options)

    def as_dict(self) -> dict[str, Any]:
        """Return the options as a JSON-able dict that :meth:`parse` reads back."""
        return {**asdict(self), "references": list(self.references)}


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    options = ", ".join(known)
    return f"did you mean {near[0]!r}? (options: {options})" if near else f"the options are {options}"


def _brief(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _check_type(name: str, value: object, kind: type, wanted: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"lookup option {name} must be {wanted}, got {_brief(value)}")


def _check_integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"lookup option {name} must be an integer of at least {least}, got {_brief(value)}")
    if value < least:
        raise ValueError(f"lookup option {name} must be at least {least}, got {value}")
    if value > _MOST:
        raise ValueError(f"lookup option {name} must be at most {_MOST}, got {value}")


def _checked_text(name: str, value: Any) -> Text:
    """Return a text as it is, and token ids as plain integers; raises TypeError if it is neither."""
    if isinstance(value, str):
        return value
    is_bytes = isinstance(value, bytes | bytearray | memoryview)  # text that is not decoded, whose bytes are no ids
    ids = value.tolist() if hasattr(value, "tolist") else value
    kinds = set(map(type, ids)) if isinstance(ids, Sequence) and not is_bytes else {type(None)}
    if not all(issubclass(kind, Integral) and kind is not bool for kind in kinds):
        raise TypeError(f"lookup option {name} must be text or a list of token ids, got {_brief(value)}")
    return tuple(map(int, ids))
