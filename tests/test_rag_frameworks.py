"""In LangChain, LlamaIndex and Haystack the retrieved documents reach lookup with each call.

The tests run against the real packages, and are skipped where these are not installed, unless the environment variable
REQUIRE_RAG_FRAMEWORKS is set. In every one the model writes a document that is not part of its prompt.
"""

import importlib
import os
import subprocess
import sys
from operator import itemgetter
from typing import Any

import pytest
import transformers
from rag_tiny import COFFEE, TEA, Written, byte_llama, byte_tokenizer

from lookahead.plugins import hf, rag

NEW = 120
QUESTION = "Which is hot?"


def package(name: str) -> Any:
    """The package, or a skipped test where it may be missing."""
    return importlib.import_module(name) if os.environ.get("REQUIRE_RAG_FRAMEWORKS") else pytest.importorskip(name)


@pytest.fixture
def tokenizer():
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@pytest.fixture
def model(tokenizer):
    return hf.enable(byte_llama(), tokenizer)


@pytest.fixture
def writing(tokenizer):
    """Arguments of `generate` with which the model writes the passage on coffee."""
    return lambda: {"logits_processor": [Written(tokenizer, COFFEE)], "max_new_tokens": NEW, "do_sample": False}


def copied(model: Any) -> bool:
    """Whether the last call copied most of the passage, which is not in its prompt."""
    return hf.stats(model).accepted_tokens > len(COFFEE) // 2


class TestLangChain:
    @pytest.fixture
    def llm(self, model, tokenizer):
        huggingface = package("langchain_huggingface")
        pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, return_full_text=False)
        return huggingface.HuggingFacePipeline(pipeline=pipe)

    @pytest.fixture
    def documents(self):
        document = package("langchain_core.documents").Document
        return [document(page_content=text, id=name) for name, text in (("tea", TEA), ("coffee", COFFEE))]

    def test_documents_reach_the_call(self, llm, model, documents, writing) -> None:
        from lookahead.plugins.langchain import with_references

        bound = llm.bind(pipeline_kwargs=writing())
        assert with_references(bound, documents).invoke(QUESTION) == COFFEE
        assert copied(model)
        assert llm.bind(pipeline_kwargs=writing()).invoke(QUESTION) == COFFEE
        assert not copied(model)

    def test_a_chain_retrieves_and_looks_up(self, llm, model, documents, writing) -> None:
        from langchain_core.prompts import PromptTemplate
        from langchain_core.runnables import RunnableLambda, RunnablePassthrough

        from lookahead.plugins.langchain import with_references

        retriever = RunnableLambda(lambda question: documents if question == QUESTION else [])
        prompt = PromptTemplate.from_template("Answer: {question}")
        llm = llm.bind(pipeline_kwargs=writing())

        retrieve = RunnablePassthrough.assign(documents=itemgetter("question") | retriever)
        chain = retrieve | (lambda state: prompt | with_references(llm, state["documents"]))

        text = chain.invoke({"question": QUESTION})
        assert copied(model)
        assert [citation.id for citation in rag.cite(text, documents)] == ["coffee"]

    def test_chat_models_stream_and_answer_with_them(self, llm, model, tokenizer, documents, writing) -> None:
        from langchain_huggingface import ChatHuggingFace

        from lookahead.plugins.langchain import with_references

        chat = ChatHuggingFace(llm=llm, tokenizer=tokenizer, model_id="tiny")
        bound = with_references(chat.bind(pipeline_kwargs=writing()), documents)
        assert bound.invoke(QUESTION).content == COFFEE
        assert copied(model)
        bound = with_references(chat.bind(pipeline_kwargs=writing()), documents)
        assert "".join(chunk.content for chunk in bound.stream(QUESTION)) == COFFEE
        assert copied(model)

    def test_options_that_are_bound_are_kept(self, llm, model, documents, writing) -> None:
        from lookahead.plugins.langchain import with_references

        bound = llm.bind(pipeline_kwargs={**writing(), "lookup": {"max_draft": 5}})
        with_references(bound, documents).invoke(QUESTION)
        assert max(record.draft_tokens for record in hf.stats(model).records) == 5


class TestLlamaIndex:
    @pytest.fixture
    def llm(self, model, tokenizer, writing):
        huggingface = package("llama_index.llms.huggingface")
        arguments = writing()
        arguments.pop("max_new_tokens")
        return huggingface.HuggingFaceLLM(
            model=model, tokenizer=tokenizer, context_window=1024, max_new_tokens=NEW, generate_kwargs=arguments
        )

    @pytest.fixture
    def nodes(self):
        schema = package("llama_index.core.schema")
        return [
            schema.NodeWithScore(node=schema.TextNode(text=text, id_=name), score=1.0)
            for name, text in (("tea", TEA), ("coffee", COFFEE))
        ]

    def test_nodes_reach_the_call(self, llm, model, nodes) -> None:
        from lookahead.plugins.llama_index import with_references

        assert with_references(llm, nodes).complete(QUESTION).text == COFFEE
        assert copied(model)
        assert "lookup" not in llm.generate_kwargs

    def test_without_nodes_there_is_nothing_to_copy(self, llm, model) -> None:
        assert llm.complete(QUESTION).text == COFFEE
        assert not copied(model)

    def test_they_are_streamed_too(self, llm, model, nodes) -> None:
        from lookahead.plugins.llama_index import with_references

        assert [*with_references(llm, nodes).stream_complete(QUESTION)][-1].text == COFFEE
        assert copied(model)

    def test_a_synthesizer_answers_with_them(self, llm, model, nodes) -> None:
        from llama_index.core import get_response_synthesizer

        from lookahead.plugins.llama_index import with_references

        synthesizer = get_response_synthesizer(llm=with_references(llm, nodes))
        response = synthesizer.synthesize(QUESTION, nodes)
        assert str(response) == COFFEE
        assert copied(model)
        assert [citation.id for citation in rag.cite(str(response), nodes)] == ["coffee"]

    def test_options_that_are_set_are_kept(self, llm, model, nodes) -> None:
        from lookahead.plugins.llama_index import with_references

        llm.generate_kwargs["lookup"] = {"max_draft": 5}
        with_references(llm, nodes).complete(QUESTION)
        assert max(record.draft_tokens for record in hf.stats(model).records) == 5


class TestHaystack:
    @pytest.fixture
    def generator(self, model, tokenizer, monkeypatch):
        monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
        generators = package("haystack_integrations.components.generators.transformers")
        made = {"model": model, "tokenizer": tokenizer}
        return generators.TransformersChatGenerator(task="text-generation", huggingface_pipeline_kwargs=made)

    @pytest.fixture
    def documents(self):
        document = package("haystack").Document
        return [document(content=TEA, id="tea"), document(content=COFFEE, id="coffee"), document(content=None)]

    def test_a_pipeline_hands_documents_to_the_generator(self, generator, model, documents, writing) -> None:
        from haystack import Pipeline
        from haystack.components.builders import ChatPromptBuilder
        from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
        from haystack.dataclasses import ChatMessage
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        from lookahead.plugins.haystack import LookupReferences

        store = InMemoryDocumentStore()
        store.write_documents(documents)
        pipeline = Pipeline()
        pipeline.add_component("retriever", InMemoryBM25Retriever(store))
        pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user("Answer: {{ question }}")]))
        pipeline.add_component("references", LookupReferences(lookup={"max_draft": 32}))
        pipeline.add_component("generator", generator)
        pipeline.connect("prompt.prompt", "generator.messages")
        pipeline.connect("retriever.documents", "references.documents")
        pipeline.connect("references.generation_kwargs", "generator.generation_kwargs")

        inputs = {"question": QUESTION}
        run = {"retriever": {"query": "coffee"}, "prompt": inputs, "references": {"generation_kwargs": writing()}}
        (reply,) = pipeline.run(run)["generator"]["replies"]
        assert reply.text == COFFEE
        assert copied(model)
        assert max(record.draft_tokens for record in hf.stats(model).records) == 32
        assert [citation.id for citation in rag.cite(reply.text, documents[:2])] == ["coffee"]

    def test_without_documents_there_is_nothing_to_copy(self, generator, model, writing) -> None:
        from haystack.dataclasses import ChatMessage

        message = ChatMessage.from_user(QUESTION)
        (reply,) = generator.run([message], generation_kwargs=writing())["replies"]
        assert reply.text == COFFEE
        assert not copied(model)

    def test_the_component_survives_being_saved(self) -> None:
        haystack = package("haystack")
        from lookahead.plugins.haystack import LookupReferences

        pipeline = haystack.Pipeline()
        pipeline.add_component("references", LookupReferences(lookup={"max_draft": 32}))
        loaded = haystack.Pipeline.loads(pipeline.dumps(), **_trusted(haystack.Pipeline.loads))
        assert loaded.get_component("references").lookup == {"max_draft": 32}


def _trusted(loads: Any) -> dict[str, Any]:
    """Newer versions load only modules that they are told to trust."""
    import inspect

    name = "allowed_modules"
    return {name: ["lookahead.*"]} if name in inspect.signature(loads).parameters else {}


@pytest.mark.parametrize("name", ["langchain", "llama_index"])
def test_other_objects_are_refused(name) -> None:
    module = importlib.import_module(f"lookahead.plugins.{name}")
    with pytest.raises(TypeError, match=r"llm must be .*, got str"):
        module.with_references("gpt", [])


def test_the_plugins_are_imported_without_their_framework_which_is_then_named() -> None:
    code = (
        "import sys; sys.modules['haystack'] = None; sys.modules['langchain_core'] = None\n"
        "from lookahead.plugins import haystack, langchain, llama_index, rag\n"
        "try: haystack.LookupReferences()\n"
        "except ImportError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'specdec-lookup[haystack]'" in result.stdout, result.stderr
