"""LangChain: the retrieved documents of a chain reach lookup with every call.

>>> retrieve = RunnablePassthrough.assign(documents=itemgetter("question") | retriever)  # doctest: +SKIP
>>> chain = retrieve | (lambda state: prompt | with_references(llm, state["documents"]))  # doctest: +SKIP
>>> chain.invoke({"question": "What is tea made from?"})                                 # doctest: +SKIP

Enable the pipeline's model once: ``hf.enable(llm.pipeline.model, llm.pipeline.tokenizer)``. Documents that stand in the
prompt are copied from in any case; the references are for those that do not.
"""

from collections.abc import Iterable
from typing import Any

from lookahead.plugins.rag import references


def with_references(llm: Any, documents: Iterable[Any]) -> Any:
    """Return the model with documents to copy from, as a Runnable.

    Args:
        llm: A ``HuggingFacePipeline`` or a ``ChatHuggingFace`` around one, of ``langchain-huggingface``, bare or with
            arguments bound to it.
        documents: Retrieved documents (or texts), best first.

    Raises:
        TypeError: ``llm`` is no model of LangChain, or a document has no text.

    Example:
        >>> with_references(llm, retriever.invoke(question)).invoke(prompt)  # doctest: +SKIP
    """
    if not hasattr(llm, "bind"):
        raise TypeError(f"llm must be a model of LangChain, got {type(llm).__name__}: pass a HuggingFacePipeline")
    bound = dict(getattr(llm, "kwargs", {}).get("pipeline_kwargs", {}))
    return llm.bind(pipeline_kwargs={**bound, "lookup": references(documents, bound.get("lookup"))})
