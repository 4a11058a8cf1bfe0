"""What earlier runs have taught is kept in the cache folder, and nothing depends on it."""

from pathlib import Path
from typing import Any

import pytest
from tiny import llama, prompt

from lookahead.cli.generation import Generator, Sampling
from lookahead.cli.learned import Learned


class Tokenizer:
    def decode(self, ids: list[int], **options: Any) -> str:
        return " ".join(map(str, ids))


def run(home: Path) -> tuple[str, Any]:
    """Complete a prompt as a new process would: the text, and the model with what it knows afterwards."""
    learned = Learned("a/model", {"SPECDEC_LOOKUP_HOME": str(home)})
    generator = Generator(llama(), Tokenizer(), Sampling(), learned=learned)
    return generator.complete(prompt()[0].tolist(), 30).text, generator.model


def weights(model: Any) -> Any:
    return model._lookup_state.pacing(model, 1).survival.weights


def test_the_next_run_starts_from_what_the_last_one_learned(tmp_path) -> None:
    text, first = run(tmp_path)
    (file,) = (tmp_path / "learned").iterdir()
    again = Learned("a/model", {"SPECDEC_LOOKUP_HOME": str(tmp_path)})
    fresh = llama()
    again.recall(fresh)
    assert (weights(fresh) == weights(first)).all()
    assert file.stat().st_size < 100_000
    assert run(tmp_path)[0] == text


@pytest.mark.parametrize("content", [b"", b"not ours"])
def test_a_broken_file_is_learned_anew(tmp_path, content) -> None:
    text, _ = run(tmp_path)
    (file,) = (tmp_path / "learned").iterdir()
    file.write_bytes(content)
    assert run(tmp_path)[0] == text
    assert file.read_bytes() != content


def test_where_no_file_can_be_written_the_text_is_the_same(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run(tmp_path / "file")[0] == run(tmp_path / "free")[0]
