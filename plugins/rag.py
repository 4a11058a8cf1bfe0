"""Retrieval-augmented generation: passages in, an answer with citations out, sooner.

>>> result = rag.answer(model, tokenizer, "What is tea made from?", passages)  # doctest: +SKIP
>>> result.text                                                                # doctest: +SKIP
'Tea is made from the leaves of an evergreen shrub.'
>>> [(citation.id, citation.start, citation.end) for citation in result.citations]  # doctest: +SKIP
[('tea.md', 0, 49)]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from lookahead.config import LookupConfig
from lookahead.plugins import hf
from lookahead.plugins.citations import MIN_CHARS, Citation, Passage, as_passages, check_positive, cite
from lookahead.plugins.hf_parts import hook_reason
from lookahead.plugins.hf_state import state_of, unwrapped
from lookahead.plugins.rag_origins import PassageOrigins
from lookahead.plugins.rag_prompt import PromptFormat, RagPrompt, context_length
from lookahead.plugins.rag_stream import Stream, decoded
from lookahead.stats import DecodingStats

__all__ = ["Answer", "AnswerStream", "Citation", "Passage", "answer", "cite", "references", "stream_answer"]

MAX_NEW_TOKENS = 256
_OURS = ("input_ids", "inputs", "inputs_embeds", "attention_mask", "streamer", "num_return_sequences")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, where it stands in the passages, and what it took.

    Attributes:
        text: The answer, without control tokens.
        token_ids: Its tokens.
        citations: The spans of ``text`` that stand word for word in a passage, in their order.
        passages: The passages, in the order given.
        passages_in_prompt: The positions of those that fitted the context; the others were references only.
        prompt_tokens: Tokens of the prompt.
        stats: Figures of the generation.
    """

    text: str
    token_ids: tuple[int, ...]
    citations: tuple[Citation, ...]
    passages: tuple[Passage, ...]
    passages_in_prompt: tuple[int, ...]
    prompt_tokens: int
    stats: DecodingStats

    @property
    def cited_share(self) -> float:
        """The share of the text's characters that are cited; 0 for an empty text."""
        return sum(cited.end - cited.start for cited in self.citations) / len(self.text) if self.text else 0.0


class AnswerStream(Stream[Answer]):
    """The pieces of an answer's text while it is written; put together they are its text.

    Closing it, leaving its ``with`` block or dropping it ends the generation at the next token.
    """

    @property
    def answer(self) -> Answer:
        """The answer, once all pieces are read; after ``close()`` as far as it was written.

        Raises:
            RuntimeError: The answer is still being written.
        """
        return self.result


def answer(
    model: Any,
    tokenizer: Any,
    question: str,
    passages: Iterable[Any],
    *,
    max_new_tokens: int | None = None,
    system: str | None = None,
    lookup: hf.Options = None,
    min_citation: int = MIN_CHARS,
    max_prompt_tokens: int | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **generate_kwargs: Any,
) -> Answer:
    """Answer a question from passages, with lookup; the tokens are those of plain generation on the same prompt.

    The prompt holds, numbered from 1, every passage that fits the context whole beside those before it. The others are
    references that the answer may be drafted and cited from all the same.

    Args:
        model: A transformers model; lookup is enabled on it if it is not yet.
        tokenizer: Its tokenizer; without a chat template the prompt is plain text.
        question: The question.
        passages: The retrieved passages, best first: texts, :class:`Passage` objects, or documents of LangChain,
            LlamaIndex or Haystack.
        max_new_tokens: The most tokens that the answer may have, for which the prompt leaves room; without it those of
            a ``generation_config`` among the further arguments, else 256.
        system: System message.
        lookup: Options of lookup as for ``generate``, False for plain generation. Its references come on top.
        min_citation: The shortest citation, in characters.
        max_prompt_tokens: The most tokens that the prompt may have, if less than the context leaves.
        chat_template_kwargs: Further arguments of the chat template, such as ``{"enable_thinking": False}``.
        generate_kwargs: Further arguments of ``generate``, such as ``do_sample`` and ``temperature``.

    Raises:
        TypeError: The question or a passage is no text.
        ValueError: The question does not fit the context, a number is out of range, or an argument of ``generate`` is
            one that this function sets.

    Example:
        >>> answer(model, tokenizer, "Is tea hot?", ["Tea is drunk hot."]).text  # doctest: +SKIP
        'Tea is drunk hot.'
    """
    return _prepared(
        model,
        tokenizer,
        question,
        passages,
        max_new_tokens=max_new_tokens,
        system=system,
        lookup=lookup,
        min_citation=min_citation,
        max_prompt_tokens=max_prompt_tokens,
        chat_template_kwargs=chat_template_kwargs,
        **generate_kwargs,
    ).run()


def stream_answer(model: Any, tokenizer: Any, question: str, passages: Iterable[Any], **arguments: Any) -> AnswerStream:
    """Answer as :func:`answer` does, and yield the text piece by piece while it is written in a thread.

    Args:
        model: As for :func:`answer`.
        tokenizer: Its tokenizer.
        question: The question.
        passages: The retrieved passages, best first.
        arguments: Everything else that :func:`answer` takes.

    Returns:
        An iterator over the pieces, with the :class:`Answer` as ``answer`` at its end. What goes wrong while
        generating is raised from it.

    Raises:
        TypeError, ValueError: As :func:`answer` does.

    Example:
        >>> with stream_answer(model, tokenizer, "Is tea hot?", ["Tea is drunk hot."]) as stream:  # doctest: +SKIP
        ...     for piece in stream:
        ...         print(piece, end="", flush=True)
        >>> stream.answer.citations  # doctest: +SKIP
    """
    return AnswerStream(tokenizer, _prepared(model, tokenizer, question, passages, **arguments).run)


def references(passages: Iterable[Any], lookup: hf.Options = None) -> dict[str, Any] | bool:
    """Return lookup options with passages as references, for any ``generate`` call and framework.

    As the options of any call they take the place of the model's own, those that :func:`hf.enable` was given.

    Args:
        passages: As for :func:`answer`, best first.
        lookup: Other options; its references are kept, and False stays False.

    Raises:
        TypeError, ValueError: As :meth:`lookahead.LookupConfig.parse` does.

    Example:
        >>> references(["Tea is drunk hot.", "Coffee too."], {"max_draft": 16})
        {'max_draft': 16, 'references': ['Coffee too.', 'Tea is drunk hot.']}
    """
    config = LookupConfig.parse(lookup)
    if config is None:
        return False
    options = dict(lookup) if isinstance(lookup, Mapping) else config.as_dict() if lookup is config else {}
    # The most relevant comes last, because the latest of equal matches is copied from.
    texts = [passage.text for passage in reversed(as_passages(passages))]
    return {**options, "references": [*options.get("references", ()), *texts]}


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of ``generate`` and what its answer is made of."""

    model: Any
    tokenizer: Any
    prompt: RagPrompt
    passages: tuple[Passage, ...]
    left_ids: dict[int, list[int]]
    min_citation: int
    arguments: dict[str, Any]

    @property
    def _references_before(self) -> int:
        """References of the call that are no passages; these come first."""
        lookup = self.arguments.get("lookup")
        return len(lookup.references) - len(self.left_ids) if isinstance(lookup, LookupConfig) else 0

    def run(self, streamer: BaseStreamer | None = None, stop: StoppingCriteria | None = None) -> Answer:
        arguments = dict(self.arguments)
        if stop is not None:
            arguments["stopping_criteria"] = StoppingCriteriaList([*(arguments.get("stopping_criteria") or ()), stop])
        before = hf.stats(self.model)
        ids = torch.tensor([self.prompt.ids], device=self.model.device)
        output = self.model.generate(ids, attention_mask=torch.ones_like(ids), streamer=streamer, **arguments)
        tokens = getattr(output, "sequences", output)[0].tolist()
        tokens = tokens[0 if self.model.config.is_encoder_decoder else len(self.prompt.ids) :]
        text = decoded(self.tokenizer, tokens)
        stats = hf.stats(self.model)
        if stats is before or not stats.generated_tokens:  # beams and other methods keep none
            stats = DecodingStats(len(self.prompt.ids), len(tokens), plain_reason="another method decoded")
        sources = PassageOrigins(
            self.tokenizer, self.prompt, self.passages, self.left_ids, self._references_before, stats
        )
        citations = tuple(cite(text, self.passages, min_chars=self.min_citation, copies=sources.copies(tokens)))
        included, size = self.prompt.included, len(self.prompt.ids)
        return Answer(text, tuple(tokens), citations, self.passages, included, size, stats)


def _prepared(
    model: Any,
    tokenizer: Any,
    question: str,
    passages: Iterable[Any],
    *,
    max_new_tokens: int | None = None,
    system: str | None = None,
    lookup: hf.Options = None,
    min_citation: int = MIN_CHARS,
    max_prompt_tokens: int | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **generate_kwargs: Any,
) -> _Call:
    """Check the arguments of an answer and make its prompt."""
    known = as_passages(passages)
    for name in _OURS:
        if name in generate_kwargs:
            raise ValueError(f"{name} is no argument of an answer, got {generate_kwargs[name]!r}: call generate itself")
    check_positive("min_citation", min_citation, MIN_CHARS)
    settings = generate_kwargs.get("generation_config")
    if max_new_tokens is None:
        max_new_tokens = getattr(settings, "max_new_tokens", None) or MAX_NEW_TOKENS
    limit = _limit(model, max_new_tokens, max_prompt_tokens)
    form = PromptFormat(tokenizer, system, chat_template_kwargs)
    prompt = form.prompt(question, known, limit)
    if not hf.is_enabled(model):
        hf.enable(model, tokenizer)
    # The most relevant comes last, because the latest of equal matches is copied from.
    left = {i: form.passage_ids(known[i]) for i in reversed(range(len(known))) if i not in prompt.included}
    options = _with_references(model, lookup, settings, list(left.values()))
    arguments = {**generate_kwargs, "max_new_tokens": max_new_tokens}
    if generate_kwargs.get("stop_strings") or getattr(settings or model.generation_config, "stop_strings", None):
        arguments["tokenizer"] = tokenizer
    if hf.is_enabled(model):  # not one that has a sampling loop of its own
        arguments["lookup"] = options
    return _Call(model, tokenizer, prompt, tuple(known), left, min_citation, arguments)


def _limit(model: Any, max_new_tokens: int, max_prompt_tokens: int | None) -> int | None:
    """Return how many tokens the prompt may have."""
    check_positive("max_new_tokens", max_new_tokens, MAX_NEW_TOKENS)
    if max_prompt_tokens is not None:
        check_positive("max_prompt_tokens", max_prompt_tokens, None)
    context = context_length(model)
    if context is None:
        return max_prompt_tokens
    return min(context - max_new_tokens, context if max_prompt_tokens is None else max_prompt_tokens)


def _with_references(model: Any, lookup: hf.Options, config: Any, left_ids: Sequence[list[int]]) -> hf.Options:
    """Return the call's options with the passages that did not fit as references; None leaves the model's own."""
    if not left_ids or (lookup is None and hook_reason(unwrapped(model), asked=False)):
        return lookup  # references alone don't ask for what hooks of the user's own forbid
    if lookup is None:
        lookup = getattr(config or model.generation_config, "lookup", None)
    options = state_of(unwrapped(model)).defaults if lookup is None else LookupConfig.parse(lookup)
    if options is None:
        return False
    return replace(options, references=(*options.references, *left_ids))
