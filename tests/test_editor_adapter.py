"""The adapter: learned beside the weights, added to them, and refused when it is another file."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import tiny
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from editor_training import lora
from editor_training.attention import Branches
from editor_training.edits import Edit
from editor_training.packing import Packed
from editor_training.scoring import Scorer

from lookahead.cli.adapter import check_adapter, merge_adapter
from lookahead.cli.errors import CommandError

EXAMPLES = str(Path(__file__).parents[1] / "examples")
IDS = torch.tensor([[3, 5, 7, 4, 6, 8, 3, 5]])


class Letters:
    """A tokenizer of single letters."""

    eos_token_id = 0
    chat_template = None
    all_special_tokens = ()

    def __call__(self, text, **_):
        return {"input_ids": [ord(letter) for letter in text]}

    def decode(self, ids):
        return "".join(map(chr, ids))


class Writer(Scorer):
    """A scorer of a model that writes one text whatever it is asked for."""

    def __init__(self, text):
        self._tokenizer = Letters()
        self._ids = [ord(letter) for letter in f"\n{text}```\0"]

    def logits(self, packed):
        ids = torch.tensor((self._ids + [1] * len(packed.targets))[: len(packed.targets)])
        return torch.nn.functional.one_hot(ids, 128)


def adapted(rank: int = 4) -> tuple[torch.nn.Module, dict[str, lora.LowRank]]:
    model = tiny.llama()
    adapter = lora.attach(model, rank, 2.0)
    with torch.no_grad():
        for layer in adapter.values():
            layer.b.normal_(0, 0.1)
            layer.refresh()
    return model, adapter


def test_the_merged_weights_answer_as_the_adapter_does(tmp_path):
    model, adapter = adapted()
    lora.save(adapter, tmp_path / "adapter.safetensors")
    merged = tiny.llama()
    plain = merged(IDS).logits
    merge_adapter(merged, tmp_path / "adapter.safetensors")
    torch.testing.assert_close(merged(IDS).logits, model(IDS).logits)
    assert not torch.allclose(merged(IDS).logits, plain, atol=1e-3)


def test_an_untrained_adapter_changes_nothing():
    model = tiny.llama()
    before = model(IDS).logits
    lora.attach(model, 4, 2.0)
    torch.testing.assert_close(model(IDS).logits, before)


def test_a_written_adapter_can_be_gone_on_from(tmp_path):
    model, adapter = adapted()
    lora.save(adapter, tmp_path / "adapter.safetensors")
    again = tiny.llama()
    other = lora.attach(again, 4, 2.0)
    lora.read(other, tmp_path / "adapter.safetensors")
    for layer in other.values():
        layer.refresh()
    torch.testing.assert_close(again(IDS).logits, model(IDS).logits)


def test_the_mean_of_adapters_is_between_them(tmp_path):
    paths = [tmp_path / "one", tmp_path / "other"]
    for number, path in enumerate(paths):
        _, adapter = adapted()
        for layer in adapter.values():
            with torch.no_grad():
                layer.b.fill_(number)
        lora.save(adapter, path)
    lora.mean(paths, tmp_path / "mean")
    _, adapter = adapted()
    lora.read(adapter, tmp_path / "mean")
    assert {float(layer.b.mean()) for layer in adapter.values()} == {0.5}
    lora.mean(paths[:1], tmp_path / "alone")
    lora.read(adapter, tmp_path / "alone")
    assert {float(layer.b.abs().max()) for layer in adapter.values()} == {0.0}


def test_gradients_are_those_of_the_two_matrices():
    torch.manual_seed(0)
    base = torch.nn.Linear(5, 7, bias=False)
    layer = lora.LowRank(base, 2, 2.0).double()
    with torch.no_grad():
        layer.b.normal_()
    layer.merged = layer.merged.double()
    layer.refresh()
    x = torch.randn(1, 3, 5, dtype=torch.float64, requires_grad=True)
    layer(x).square().sum().backward()
    a, b, y = (t.detach().clone().requires_grad_() for t in (layer.a, layer.b, x))
    (y @ base.weight.detach().T + 2.0 * (y @ a.T) @ b.T).square().sum().backward()
    for mine, expected in ((x.grad, y.grad), (layer.a.grad, a.grad), (layer.b.grad, b.grad)):
        torch.testing.assert_close(mine, expected)
    assert base.weight.grad is None or not base.weight.requires_grad


def test_in_bfloat16_the_matrices_and_the_positions_keep_their_precision():
    """A change far below what bfloat16 tells apart is kept; gradients point the same way."""
    model, exact = tiny.llama(), tiny.llama()
    adapter, other = lora.attach(model, 4, 2.0, torch.bfloat16), lora.attach(exact, 4, 2.0)
    for mine, theirs in zip(adapter.values(), other.values(), strict=True):
        with torch.no_grad():
            theirs.b.normal_(0, 0.1)
            mine.a.copy_(theirs.a)
            mine.b.copy_(theirs.b)
            for layer in (mine, theirs):
                layer.b += 1e-7
                layer.refresh()
        assert torch.equal(mine.b, theirs.b)
        assert mine.merged.dtype == torch.bfloat16
        torch.testing.assert_close(mine.merged.float(), theirs.merged, atol=0.01, rtol=0.01)
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    for one in (model, exact):
        one(IDS).logits.float().square().mean().backward()
    for mine, theirs in zip(adapter.values(), other.values(), strict=True):
        for name in ("a", "b"):
            one, both = getattr(mine, name).grad, getattr(theirs, name).grad
            assert one.dtype == torch.float32
            assert torch.nn.functional.cosine_similarity(one.flatten(), both.flatten(), dim=0) > 0.98


def test_branches_do_not_see_one_another():
    model = tiny.llama()
    shared, branches = [3, 5, 7], [[4, 6, 8], [9, 3], [10]]
    alone = [model(torch.tensor([shared + branch])).logits[0, len(shared) - 1 :] for branch in branches]
    ids, positions, spans = list(shared), list(range(3)), [(0, 3)]
    for branch in branches:
        spans.append((len(ids), len(ids) + len(branch)))
        ids += branch
        positions += range(3, 3 + len(branch))
    attention = Branches(model)
    attention.spans = spans
    together = model(
        torch.tensor([ids]), attention_mask=torch.ones(1, 1, 1, 1), position_ids=torch.tensor([positions])
    ).logits[0]
    for expected, (start, end) in zip(alone, spans[1:], strict=True):
        torch.testing.assert_close(together[start:end], expected[1:])


def test_another_file_is_refused_with_a_way_out(tmp_path):
    path = tmp_path / "editor.safetensors"
    with pytest.raises(CommandError, match=r"lacks editor.safetensors.*--model smollm2"):
        check_adapter(path)
    path.write_bytes(b"something else")
    with pytest.raises(CommandError, match=r"is not the expected file .*--model smollm2"):
        check_adapter(path)


def test_the_adapter_of_the_package_is_the_expected_one_and_small():
    from lookahead.cli.adapter import ADAPTER

    check_adapter()
    assert ADAPTER.stat().st_size <= 10_000_000
    assert (ADAPTER.parent / "EDITOR.md").read_text().count("Apache-2.0")


def test_packing_takes_answers_whole_or_around_edits(monkeypatch):
    from editor_training import packing

    text = "".join(f"x{n} = {n}\n" for n in range(90))
    edits = [Edit("k", f"Set x{n} to 5", text, text.replace(f"= {n}\n", f"= 5{n}\n")) for n in (3, 60)]
    whole = packing.pack(Letters(), edits)
    assert predicted(whole, 0) == "\n" + edits[0].after + "```\0"
    assert predicted(whole, 1) == "\n" + edits[1].after + "```\0"
    monkeypatch.setattr(packing, "_WHOLE", 0.0)
    part = packing.pack(Letters(), edits, Random(1))
    assert part.ids.shape[1] < whole.ids.shape[1]
    for packed in (whole, part):
        heavy = packed.weights == packing._EDITED
        for number in (0, 1):
            targets = packed.targets[heavy & (packed.owners == number)].tolist()
            assert ord("5") in targets
            assert len(targets) < len(edits[number].after)
        # What is predicted behind a token is what stands there in the answer of the same edit.
        for row, target, owner in zip(packed.rows, packed.targets, packed.owners, strict=True):
            last = packed.spans[owner + 1][1]
            following = packed.ids[0, row + 1] if row + 1 < last else None
            assert following is None or following == target


def test_an_edit_is_right_where_the_file_that_is_taken_is():
    before = "x = 1\n\n\ndef f():\n    pass\n"
    edit = Edit("delete_function", "Delete f.", before, "x = 1\n")
    wrong = {text: bool(Writer(text)([edit])[0].wrong) for text in ("x = 1\n", "x = 1\n\n\n", "x = 1\n\n", before, "")}
    assert wrong == {"x = 1\n": False, "x = 1\n\n\n": False, "x = 1\n\n": True, before: True, "": True}
    other = Edit("rename", "Rename x.", before, before.replace("x", "y"))
    assert [bool(tried.wrong) for tried in Writer("x = 1\n")([other, edit])] == [True, False]


def test_a_row_holds_as_many_edits_as_the_memory_has_room_for():
    from editor_training.packing import fitting

    edits = [Edit("k", "Do it", "a" * 40, "b" * 10)] * 3
    assert [len(fitting(edits, most)) for most in (1, 100, 149, 150, 10**6)] == [1, 2, 2, 3, 3]


def test_a_copy_is_learned_hardest_where_it_could_go_on_in_several_ways():
    from editor_training.packing import forks

    text = "def a(x):\n    return x\ndef b(y):\n    return y\n"
    assert {chr(a) + chr(b) for a, b in forks([ord(c) for c in text])} >= {"f ", "n "}
    assert not forks([1, 2, 3, 4, 1, 2, 3])


def predicted(packed: Packed, owner: int) -> str:
    return "".join(map(chr, packed.targets[packed.owners == owner].tolist()))


def test_processes_that_train_together_add_their_gradients_up(tmp_path):
    script = tmp_path / "member.py"
    script.write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {EXAMPLES!r})\n"
        "from editor_training import team\n"
        "team.join()\n"
        "sums = [torch.full((2,), float(team.rank() + 1)), torch.tensor([10.0])]\n"
        "team.add_up(sums)\n"
        "open(sys.argv[1] + str(team.rank()), 'w').write(f'{team.size()} {sums[0].tolist()} {sums[1].tolist()}')\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launch, script, tmp_path / "sums"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"sums{rank}").read_text() for rank in (0, 1)] == ["2 [3.0, 3.0] [20.0]"] * 2
