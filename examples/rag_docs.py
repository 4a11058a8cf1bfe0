"""Ask questions about a folder of Markdown: retrieve with BM25, answer with citations, and compare with plain decoding.

    pip install -c constraints.txt ".[rag]"                       # bm25s
    python examples/rag_docs.py [FOLDER] [-q QUESTION ...]        # default: examples/drinks

Each answer is printed with its citations, then what plain decoding took for the same tokens. The first run fetches the
default model (93 MB), which is small: it shows the way, a larger one (``--model``) gives the better answers.
"""

import argparse
import re
from pathlib import Path

import bm25s
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

from lookahead.cli.models import default_model_path
from lookahead.plugins import hf, rag

QUESTIONS = (
    "How is green tea made and brewed?",
    "How is espresso made?",
    "What happens to the seeds of the cacao tree?",
)
PASSAGE_CHARS = 500


def passages_of(folder: Path) -> list[rag.Passage]:
    """Return all Markdown files in passages of whole sections or paragraphs; ids name the file and the line."""
    passages = []
    for path in sorted(folder.rglob("*.md")):
        text, line = "", 1
        for piece in [*pieces_of(path.read_text(encoding="utf-8")), ""]:
            if text and (not piece or len(text) + len(piece) > PASSAGE_CHARS):
                passages.append(rag.Passage(text.strip(), f"{path.relative_to(folder)}:{line}"))
                line += text.count("\n")
                text = ""
            text += piece
    return [passage for passage in passages if passage.text]


def pieces_of(text: str) -> list[str]:
    """Return the sections of a Markdown text, those that are longer than a passage in paragraphs."""
    sections = [section for section in re.split("(?<=\n)(?=#)", text) if section]
    parts = [[s] if len(s) <= PASSAGE_CHARS else [p for p in re.split("(?<=\n\n)", s) if p] for s in sections]
    return [piece for part in parts for piece in part]


class Retriever:
    """Finds the passages that share the most telling words with a question."""

    def __init__(self, passages: list[rag.Passage]) -> None:
        self.passages = passages
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize([p.text for p in passages], show_progress=False), show_progress=False)

    def find(self, question: str, count: int) -> list[rag.Passage]:
        """Return the best passages, best first."""
        words = bm25s.tokenize(question, show_progress=False)
        found, _ = self._index.retrieve(words, k=min(count, len(self.passages)), show_progress=False)
        return [self.passages[i] for i in found[0]]


def show(answer: rag.Answer) -> None:
    """Print an answer with the numbers of its citations in the text, and what these cite."""
    end = 0
    for number, citation in enumerate(answer.citations, 1):
        print(f"{answer.text[end : citation.end]}[{number}]", end="")
        end = citation.end
    print(answer.text[end:])
    for number, citation in enumerate(answer.citations, 1):
        cited = " ".join(answer.text[citation.start : citation.end].split())
        place = f"characters {citation.passage_start}-{citation.passage_end} of {citation.id}"
        print(f"  [{number}] {place}: {cited if len(cited) <= 60 else cited[:57] + '...'}")


def main() -> None:
    """Answer each question with lookup and plainly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "drinks")
    parser.add_argument("-q", "--question", action="append")
    parser.add_argument("--model", help="hub id or folder; the embedded model by default")
    parser.add_argument("--passages", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    arguments = parser.parse_args()
    passages = passages_of(arguments.folder)
    if not passages:
        parser.error(f"there is no Markdown in {arguments.folder}: name a folder with .md files")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source = arguments.model or default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = hf.enable(AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval(), tokenizer)
    retriever = Retriever(passages)

    for lookup in (False, True):  # the first calls compile and measure
        rag.answer(model, tokenizer, QUESTIONS[0], passages[:1], max_new_tokens=8, lookup=lookup)
    for question in arguments.question or QUESTIONS:
        found = retriever.find(question, arguments.passages)
        options = {"max_new_tokens": arguments.tokens, "do_sample": False}
        answer = rag.answer(model, tokenizer, question, found, **options)
        plain = rag.answer(model, tokenizer, question, found, lookup=False, **options)
        print(f"\n=== {question}")
        show(answer)
        print(f"  cited: {answer.cited_share:.0%} of the text")
        print(f"  lookup: {answer.stats.tokens_per_second:.1f} tokens/s, {answer.stats.steps} steps")
        print(f"  plain:  {plain.stats.tokens_per_second:.1f} tokens/s, {plain.stats.steps} steps")
        print(f"  same tokens: {answer.token_ids == plain.token_ids}")


if __name__ == "__main__":
    main()
