"""The prompt of a question over passages: as many of them as fit the context, numbered, in the chat template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lookahead.plugins.citations import Passage

_INSTRUCTION = "Answer from the passages above, in their words where you can: "


@dataclass(frozen=True, slots=True)
class RagPrompt:
    """Token ids of a prompt, and the positions of the passages that stand in it."""

    ids: list[int]
    included: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """How a question and its passages are put to a model.

    Attributes:
        tokenizer: With or without a chat template.
        system: System message, None for none.
        template_arguments: Further arguments of the chat template, such as ``enable_thinking``.

    Example:
        >>> PromptFormat(tokenizer).prompt("Is tea hot?", [Passage("Tea is hot.")], limit=None)  # doctest: +SKIP
        RagPrompt(ids=[...], included=(0,))
    """

    tokenizer: Any
    system: str | None = None
    template_arguments: Mapping[str, Any] | None = None

    def prompt(self, question: str, passages: Sequence[Passage], limit: int | None) -> RagPrompt:
        """Return the prompt with every passage, in order, that fits whole into ``limit`` tokens beside the others.

        Raises:
            TypeError: The question is no text.
            ValueError: A text contains a control token of the tokenizer, or not even the question fits.
        """
        self._check(question, passages)
        ids = self._ids(question)
        if limit is not None and len(ids) > limit:
            raise ValueError(
                f"question and system make a prompt of {len(ids)} tokens, over the limit of {max(0, limit)} (the "
                "context less max_new_tokens, or max_prompt_tokens): shorten them, lower max_new_tokens, or use a "
                "model with a longer context"
            )
        included = self._fitting(passages, None if limit is None else limit - len(self._ids(_INSTRUCTION + question)))
        while included:
            blocks = "".join(_block(i, passages[i]) for i in included)
            whole = self._ids(blocks + _INSTRUCTION + question)
            if limit is None or len(whole) <= limit:
                return RagPrompt(whole, included)
            included = included[:-1]  # the whole has more tokens than its parts
        return RagPrompt(ids, ())

    def _check(self, question: str, passages: Sequence[Passage]) -> None:
        if not isinstance(question, str):
            raise TypeError(f"question must be a text, got {type(question).__name__}: pass a str")
        names = [f"passages[{i}]" for i in range(len(passages))]
        texts = [passage.text for passage in passages]
        for name, text in zip(["question", "system", *names], [question, self.system or "", *texts], strict=True):
            token = next((token for token in self.tokenizer.all_special_tokens if token in text), None)
            if token is not None:
                raise ValueError(
                    f"{name} contains {token}, a control token of this model, which would not read it as text: "
                    "take it out, or leave the passage out"
                )

    def _fitting(self, passages: Sequence[Passage], room: int | None) -> tuple[int, ...]:
        if room is None:
            return tuple(range(len(passages)))
        included = []
        for i, passage in enumerate(passages):
            size = len(self.tokenizer(_block(i, passage), add_special_tokens=False)["input_ids"])
            if size <= room:
                room -= size
                included.append(i)
        return tuple(included)

    def _ids(self, content: str) -> list[int]:
        if not getattr(self.tokenizer, "chat_template", None):
            opening = f"{self.system}\n\n" if self.system else ""
            return self.tokenizer(f"{opening}{content}\n\nAnswer:")["input_ids"]
        # The template holds the special tokens that there shall be.
        return self.tokenizer(self._rendered(content), add_special_tokens=False)["input_ids"]

    def _rendered(self, content: str) -> str:
        user = {"role": "user", "content": content}
        if not self.system:
            return self._apply([user])
        try:
            return self._apply([{"role": "system", "content": self.system}, user])
        except Exception:  # some templates refuse a system message, each in its own way
            return self._apply([{"role": "user", "content": f"{self.system}\n\n{content}"}])

    def _apply(self, messages: list[dict[str, str]]) -> str:
        arguments = dict(self.template_arguments or {})
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **arguments)


def context_length(model: Any) -> int | None:
    """Return how many tokens fit the model's context, None where it has no limit."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _block(position: int, passage: Passage) -> str:
    """Return a passage with its number; numbers start at 1 and are those of the whole list."""
    return f"[{position + 1}] {passage.text}\n\n"
