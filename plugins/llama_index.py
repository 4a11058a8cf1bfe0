"""LlamaIndex: the retrieved nodes of a query reach lookup with it.

>>> nodes = retriever.retrieve(question)                                              # doctest: +SKIP
>>> synthesizer = get_response_synthesizer(llm=with_references(llm, nodes))           # doctest: +SKIP
>>> synthesizer.synthesize(question, nodes)                                           # doctest: +SKIP

Enable the model once, before it is given to ``HuggingFaceLLM(model=model, tokenizer=tokenizer)``. Nodes that stand in
the prompt are copied from in any case; the references are for those that do not.
"""

from collections.abc import Iterable
from typing import Any

from lookahead.plugins.rag import references


def with_references(llm: Any, nodes: Iterable[Any]) -> Any:
    """Return the LLM with nodes to copy from; it shares the model with the one given, which stays as it is.

    Args:
        llm: A ``HuggingFaceLLM`` of ``llama-index-llms-huggingface``.
        nodes: Retrieved nodes (or texts), best first.

    Raises:
        TypeError: ``llm`` has no arguments of ``generate``, or a node has no text.

    Example:
        >>> with_references(llm, retriever.retrieve(question)).complete(prompt)  # doctest: +SKIP
    """
    if not isinstance(getattr(llm, "generate_kwargs", None), dict):
        raise TypeError(f"llm must be a HuggingFaceLLM, got {type(llm).__name__}: only that one calls generate here")
    lookup = references(nodes, llm.generate_kwargs.get("lookup"))
    return llm.model_copy(update={"generate_kwargs": {**llm.generate_kwargs, "lookup": lookup}})
