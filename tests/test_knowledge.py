"""What a model has taught comes back from a file, or the file is refused in one sentence."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from lookahead import LookupConfig, LookupProposer
from lookahead.batch_pacing import BatchPacing
from lookahead.framing import Frame
from lookahead.knowledge import Knowledge
from lookahead.pacing import Pacing


def teach(pacing: Pacing) -> None:
    """Let a pacing see one short text."""
    for width, seconds in ((1, 1.0), (9, 1.3)) * 20:
        pacing.observe(width, seconds, 1)
        pacing.observe(width, 3 * seconds, 1, context=5000)
    made = LookupProposer(LookupConfig(), [*range(30), *range(20)], pacing=pacing)
    made.branches = True
    for token in range(20, 28):
        made.propose(8)
        made.extend([token])
    made.propose(8)
    made.extend([77])
    pacing.frame = Frame((1, 2), (3,))


@pytest.fixture
def taught() -> Knowledge:
    knowledge = Knowledge()
    teach(knowledge.under("bfloat16", "cuda:0", 1))
    teach(knowledge.under("float32", "cpu", 8))
    for width, seconds in ((4, 1.0), (12, 1.5)) * 20:
        knowledge.of_batches("float32", "cpu").observe(4, width, seconds, 6)
    return knowledge


def same(one: Pacing | BatchPacing, other: Pacing | BatchPacing) -> bool:
    return all((one.state()[name] == other.state()[name]).all() for name in one.state())


def test_circumstances_do_not_mix() -> None:
    knowledge = Knowledge()
    teach(knowledge.under("float32", "cpu", 1))
    assert not same(knowledge.under("float32", "cpu", 1), knowledge.under("float32", "cpu", 2))


def test_what_was_learned_comes_back_from_a_file(taught, tmp_path) -> None:
    taught.save(tmp_path / "known.npz")
    back = Knowledge()
    back.load(tmp_path / "known.npz")
    for circumstances in (("bfloat16", "cuda:0", 1), ("float32", "cpu", 8)):
        assert same(back.under(*circumstances), taught.under(*circumstances))
    assert same(back.of_batches("float32", "cpu"), taught.of_batches("float32", "cpu"))
    assert back.of_batches("float32", "cpu").cost(4, 12) == pytest.approx(1.5)
    assert back.under("float32", "cpu", 8).surprises[0].tolist() == [77, 1]
    assert back.under("float32", "cpu", 8).frame == Frame((1, 2), (3,))
    assert back.under("float32", "cpu", 8).cost().worth == taught.under("float32", "cpu", 8).cost().worth
    assert [path.name for path in tmp_path.iterdir()] == ["known.npz"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"no archive at all"])
def test_a_file_that_is_none_of_ours_is_refused_in_one_sentence(tmp_path, content) -> None:
    (tmp_path / "known.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"known\.npz.* holds no knowledge of this version.*delete it"):
        Knowledge().load(tmp_path / "known.npz")


def test_a_damaged_file_is_no_file_that_cannot_be_read(taught, tmp_path) -> None:
    """Where its directory says wrongly where that stands, zipfile seeks before the file's start: an OSError."""
    path = tmp_path / "known.npz"
    taught.save(path)
    content = bytearray(path.read_bytes())
    content[-6:-2] = (int.from_bytes(content[-6:-2], "little") + 100).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ValueError, match="holds no knowledge of this version"):
        Knowledge().load(path)
    with pytest.raises(FileNotFoundError):
        Knowledge().load(tmp_path / "unknown.npz")


def test_an_array_file_is_no_knowledge(tmp_path) -> None:
    with (tmp_path / "known.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="holds no knowledge of this version"):
        Knowledge().load(tmp_path / "known.npz")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", np.array([99])),
        ("weights", np.zeros(3)),
        ("precision", np.full(1, np.nan)),
        ("figures", np.array([np.nan, 1, 1])),
        ("mean", None),
        ("opening", np.array([-5])),
        ("closing", np.array([1.5])),
        ("opening", np.zeros((2, 2), np.int64)),
        ("opening", np.array([2**40])),
        ("surprises", np.zeros((3, 2), np.int64)),
        ("surprises", lambda surprises: surprises - 2),
        ("surprises", lambda surprises: surprises + 2**40),
        ("mean", lambda mean: -mean),
        ("mean", np.zeros_like),
        ("precision", np.zeros_like),
        ("count", lambda count: count - 1),
        ("figures", np.zeros_like),
        ("weights", lambda weights: weights + 1e300),
    ],
)
def test_a_file_of_another_version_is_refused_whole(taught, tmp_path, name, value) -> None:
    state = taught.under("float32", "cpu", 8).state()
    state[name] = value(state[name]) if callable(value) else value
    good = {f"good/{part}": array for part, array in taught.under("float32", "cpu", 8).state().items()}
    np.savez(tmp_path / "known.npz", **good, **{f"bad/{part}": a for part, a in state.items() if a is not None})
    back = Knowledge()
    with pytest.raises(ValueError, match="holds no knowledge of this version"):
        back.load(tmp_path / "known.npz")
    assert not same(back.under("good"), taught.under("float32", "cpu", 8))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", np.array([99])),
        ("buckets", np.array([-1])),
        ("buckets", np.array([0.5])),
        ("table", np.zeros((1, 3, 3))),
        ("worth", np.full((1, 2), np.inf)),
        ("worth", np.zeros((1, 2))),
        ("passed", np.full((1, 2), 1e300)),
        ("plain", None),
    ],
)
def test_a_file_with_other_costs_of_batches_is_refused_whole(taught, tmp_path, name, value) -> None:
    state = {**taught.of_batches("float32", "cpu").state(), name: value}
    np.savez(tmp_path / "known.npz", **{f"batches,float32/{part}": a for part, a in state.items() if a is not None})
    with pytest.raises(ValueError, match="holds no knowledge of this version"):
        Knowledge().load(tmp_path / "known.npz")


def test_a_process_killed_while_saving_leaves_a_whole_file(taught, tmp_path) -> None:
    path = tmp_path / "known.npz"
    taught.save(path)
    code = (
        "import sys; from lookahead.knowledge import Knowledge\n"
        "knowledge = Knowledge(); knowledge.load(sys.argv[1]); print('go', flush=True)\n"
        "while True: knowledge.save(sys.argv[1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    for _ in range(20):
        Knowledge().load(path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    Knowledge().load(path)


def test_any_damaged_byte_is_refused_or_harmless(taught, tmp_path) -> None:
    path = tmp_path / "known.npz"
    taught.save(path)
    whole = path.read_bytes()
    refusals = []
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            Knowledge().load(path)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 50
    assert all("holds no knowledge of this version" in refusal for refusal in refusals)


def test_what_a_killed_process_left_is_removed_after_an_hour(taught, tmp_path) -> None:
    left = tmp_path / ".known.npz.0.lookahead-tmp"
    left.write_bytes(b"part")
    os.utime(left, (1000, 1000))
    taught.save(tmp_path / "known.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["known.npz"]
