"""The prompt of a question over passages: as many of them as fit the context, numbered, in the chat template."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lookahead.plugins.citations import Passage

_INSTRUCTION = "Answer from the passages above, in their words where you can: "
_PLACE = "\ue0c1\ue0c2"  # of the user's message in the template; no text has these


@dataclass(frozen=True, slots=True)
class RagPrompt:
    """Token ids of a prompt, and the positions of the passages that stand in it."""

    ids: list[int]
    included: tuple[int, ...]


class PromptFormat:
    """How a question and its passages are put to a model.

    Args:
        tokenizer: With or without a chat template.
        system: System message, None for none.
        template_arguments: Further arguments of the chat template, such as ``enable_thinking``.

    Example:
        >>> PromptFormat(tokenizer).prompt("Is tea hot?", [Passage("Tea is hot.")], limit=None)  # doctest: +SKIP
        RagPrompt(ids=[...], included=(0,))
    """

    def __init__(
        self, tokenizer: Any, system: str | None = None, template_arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.tokenizer, self.system = tokenizer, system
        self._template_arguments = dict(template_arguments or {})
        added = tokenizer.added_tokens_decoder
        # Mistral's own tokenizers name none, for no text of theirs becomes a control token, and they encode chats
        # themselves instead of rendering a template.
        self._encodes_chats = not isinstance(added, Mapping)
        tokens = [] if self._encodes_chats else added.values()
        self._controls = re.compile("|".join(re.escape(token.content) for token in tokens if token.special) or "(?!)")

    def prompt(self, question: str, passages: Sequence[Passage], limit: int | None) -> RagPrompt:
        """Return the prompt with every passage, in order, that fits whole into ``limit`` tokens beside the others.

        Raises:
            TypeError: The question is no text.
            ValueError: Not even the question fits.
        """
        if not isinstance(question, str):
            raise TypeError(f"question must be a text, got {type(question).__name__}: pass a str")
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

    def passage_ids(self, passage: Passage) -> list[int]:
        """Return the tokens of a passage by itself."""
        return self._plain_ids(passage.text)

    def _fitting(self, passages: Sequence[Passage], room: int | None) -> tuple[int, ...]:
        if room is None:
            return tuple(range(len(passages)))
        included = []
        for i, passage in enumerate(passages):
            size = len(self._plain_ids(_block(i, passage)))
            if size <= room:
                room -= size
                included.append(i)
        return tuple(included)

    def _ids(self, content: str) -> list[int]:
        if self._encodes_chats:
            return self._rendered(content, tokenize=True)["input_ids"]
        if not getattr(self.tokenizer, "chat_template", None):
            opening = f"{self.system}\n\n" if self.system else ""
            return self._plain_ids(f"{opening}{content}\n\nAnswer:", add_special_tokens=True)
        # The template holds the special tokens that there shall be.
        control = self._controls.search(content)
        if control is None:
            return self.tokenizer(self._rendered(content), add_special_tokens=False)["input_ids"]
        before, place, after = self._rendered(_PLACE).partition(_PLACE)
        if not place:
            raise ValueError(
                f"question or passages contain {control[0]}, a control token of this model, whose chat template does "
                "not hold them word for word: take it out"
            )
        frame = [self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
        return [*frame[0], *self._plain_ids(content), *frame[1]]

    def _plain_ids(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Return the tokens of a text in which the name of a control token is a text like any other."""
        options = {"split_special_tokens": True} if self._controls.search(text) else {}
        return self.tokenizer(text, add_special_tokens=add_special_tokens, **options)["input_ids"]

    def _rendered(self, content: str, tokenize: bool = False) -> Any:
        user = {"role": "user", "content": content}
        if not self.system:
            return self._apply([user], tokenize)
        try:
            return self._apply([{"role": "system", "content": self.system}, user], tokenize)
        except Exception:  # some templates refuse a system message, each in its own way
            return self._apply([{"role": "user", "content": f"{self.system}\n\n{content}"}], tokenize)

    def _apply(self, messages: list[dict[str, str]], tokenize: bool) -> Any:
        options = {"add_generation_prompt": True, "tokenize": tokenize, **self._template_arguments}
        return self.tokenizer.apply_chat_template(messages, **options)


def context_length(model: Any) -> int | None:
    """Return how many tokens fit the model's context, None where it has no limit."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _block(position: int, passage: Passage) -> str:
    """Return a passage with its number; numbers start at 1 and are those of the whole list."""
    return f"[{position + 1}] {passage.text}\n\n"
