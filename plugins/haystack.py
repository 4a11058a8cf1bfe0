"""Haystack: a component that hands the retrieved documents of a pipeline to the generator's lookup.

>>> pipeline.add_component("references", LookupReferences())                             # doctest: +SKIP
>>> pipeline.connect("retriever.documents", "references.documents")                      # doctest: +SKIP
>>> pipeline.connect("references.generation_kwargs", "generator.generation_kwargs")      # doctest: +SKIP

The generator is ``TransformersChatGenerator`` of ``transformers-haystack``; enable its model once, after
``generator.warm_up()``: ``hf.enable(generator.pipeline.model, generator.pipeline.tokenizer)``. Documents that stand in
the prompt are copied from in any case; the references are for those that do not.
"""

from typing import Any

from lookahead.plugins.rag import references

try:
    from haystack import Document, component
except ImportError:
    Document, component = Any, None


def _component(cls: type) -> type:
    """Make a class a component of Haystack where that is installed."""
    return cls if component is None else component(cls)


@_component
class LookupReferences:
    """Documents in, arguments of the generator out, with which it copies from them.

    Args:
        lookup: Other options of lookup, the same for every run.

    Raises:
        ImportError: Haystack is not installed.

    Example:
        >>> LookupReferences().run([Document(content="Tea is drunk hot.")])  # doctest: +SKIP
        {'generation_kwargs': {'lookup': {'references': ['Tea is drunk hot.']}}}
    """

    def __init__(self, lookup: dict[str, Any] | None = None) -> None:
        if component is None:
            raise ImportError("LookupReferences needs Haystack: pip install 'specdec-lookup[haystack]'")
        component.set_output_types(self, generation_kwargs=dict[str, Any])
        self.lookup = lookup

    def run(self, documents: list[Document], generation_kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the arguments for the generator.

        Args:
            documents: Retrieved documents, best first; those without text are left out.
            generation_kwargs: Other arguments for this run.

        Returns:
            A dict with ``generation_kwargs``.
        """
        texts = [document for document in documents if document.content is not None]
        given = generation_kwargs or {}
        options = given.get("lookup")
        if options is None or isinstance(options, dict):
            options = {**(self.lookup or {}), **(options or {})}
        return {"generation_kwargs": {**given, "lookup": references(texts, options)}}
