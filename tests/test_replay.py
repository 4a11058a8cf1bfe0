"""A replay drafts from what is known, pays what the curve says, and its oracles are ceilings."""

import json
import subprocess
import sys

import numba
import numpy as np
import pytest

from lookahead.cli.main import main
from lookahead.cost import CostCurve, read_curves
from lookahead.oracles import CopyOracle
from lookahead.replay import Recording, replay
from lookahead.replay_methods import run_method
from lookahead.rules import LinearRule, NgramRule

FREE = CostCurve.linear(0)


def recording(prompt: list[int], output: list[int]) -> Recording:
    return Recording(np.array(prompt, np.int32), np.array(output, np.int32))


def test_a_step_emits_the_accepted_tokens_and_one_of_the_targets_own() -> None:
    figures = replay([recording([5, 6, 7, 8], [5, 6, 7, 9, 4])], LinearRule(8, 0, 64), FREE)
    assert (figures.tokens, figures.steps, figures.accepted) == (4, 2, 2)


def test_a_speedup_is_plain_time_over_the_time_of_the_widths() -> None:
    figures = replay([recording([5, 6, 7, 8], [5, 6, 7, 8, 9])], LinearRule(4, 0, 64), FREE)
    assert figures.widths.nonzero()[0].tolist() == [5]
    assert figures.speedup(CostCurve.linear(0.1)) == pytest.approx(4 / 1.4)


def test_no_draft_runs_over_the_end_of_the_output_or_of_what_is_known() -> None:
    figures = replay([recording([1, 2, 3, 4, 5, 6], [1, 2, 3])], LinearRule(8, 0, 64), FREE)
    assert figures.drafted == 2
    assert replay([recording([], [7, 7, 7])], LinearRule(8, 0, 64), FREE).drafted == 1


def test_ngram_rules_take_the_earliest_match_and_linear_rules_the_latest() -> None:
    item = recording([1, 2, 3, 1, 2, 4], [1, 2, 4, 4])
    for rule, draft in ((NgramRule(2, 1, 1), [3]), (LinearRule(0, 1, 64), [4])):
        rule.begin(item)
        rule.extend([1, 2])
        assert list(rule.propose(9)) == draft


def test_the_oracles_are_ceilings() -> None:
    item = recording([1, 2, 3, 4, 9, 5, 6, 7], [1, 5, 6, 7, 2, 3, 4])
    copied = replay([item], CopyOracle(anchored=False, max_draft=64), FREE)
    anchored = replay([item], CopyOracle(anchored=True, max_draft=64), FREE)
    assert copied.steps == 2 < anchored.steps
    assert anchored.steps <= replay([item], LinearRule(8, 0, 64), FREE).steps
    assert copied.acceptance_rate == anchored.acceptance_rate == 1


def test_the_tuned_rule_is_at_least_as_fast_as_each_rule_of_the_sweep() -> None:
    items = [recording([1, 2, 3, 4, 1, 2, 9], [1, 2, 3, 9, 1, 2, 3, 4])]
    curves = {"low": CostCurve.linear(0.01), "high": CostCurve.linear(0.5)}
    best = run_method("linear:best", items, curves, 64)
    single = run_method("linear:4,2", items, curves, 64)
    assert all(best.speedup[name] >= single.speedup[name] for name in curves)


def test_curves_are_read_by_name_and_notes_are_left_out(tmp_path) -> None:
    file = tmp_path / "curves.json"
    file.write_text('{"about": "a note", "cpu": [[1, 2.0], [3, 3.0]]}')
    (name,) = curves = read_curves(file)
    assert name == "cpu"
    assert [curves["cpu"].at(width) for width in (1, 2, 3, 5)] == [2.0, 2.5, 3.0, 4.0]


NO_CURVES = [
    [[2, 1.0]],
    [[1, 1.0], [1, 2.0]],
    [[1, 0.0]],
    [[1]],
    [],
    [[1.9, 1.0], [2.5, 1.1]],
    ["13", "24"],
    [["1", 1.0]],
    [[1, "1.0"]],
    [[True, 1.0]],
    [7],
    [[1, 1e300], [2, 1e308]],
    [[1, 5e-324], [2, 1]],
    [[1, 1.0], [10**30, 2.0]],
]


@pytest.mark.parametrize("points", NO_CURVES)
def test_points_that_make_no_curve_are_refused(points) -> None:
    with pytest.raises(ValueError, match="cost curve"):
        CostCurve.from_points(points)


def test_a_curve_that_is_none_is_named(tmp_path, capsysbinary) -> None:
    file, curves = tmp_path / "records.jsonl", tmp_path / "curves.json"
    file.write_text(json.dumps({"prompt_ids": [*range(20)], "output_ids": [*range(5, 15)]}))
    curves.write_text('{"good": [[1, 1.0]], "huge": [[1, 1.0], [2, 1e9]]}')
    assert main(["replay", str(file), "--cost-curve", str(curves)]) == 3
    message = capsysbinary.readouterr().err.decode()
    assert "curves.json holds no cost curves: in 'huge', the dearest step of a cost curve must cost at most" in message


@pytest.mark.parametrize("cost", ["1e307", "1e305", "-1", "nan", "1e400", "x"])
def test_a_cost_that_no_machine_has_is_refused_in_a_sentence(cost, capsysbinary) -> None:
    assert main(["replay", "records.jsonl", "--cost", cost]) == 2
    message = capsysbinary.readouterr().err.decode()
    assert f"'{cost}' is no cost: use plain steps per draft token, from 0 to 1000, such as 0.02" in message
    if cost != "x":
        with pytest.raises(ValueError, match="cost must be from 0 to 1000"):
            CostCurve.linear(float(cost))


def test_the_dearest_cost_makes_a_curve() -> None:
    assert CostCurve.linear(1000).at(2) == 1001


def test_no_draft_is_too_wide_to_be_counted_and_paid() -> None:
    item = recording([*range(2, 3000)], [*range(2, 2900)])
    figures = replay([item], LinearRule(4000, 0, 4000), CostCurve.linear(0.01))
    assert (figures.steps, figures.widths.nonzero()[0].tolist()) == (1, [2898])
    assert figures.speedup(CostCurve.linear(0.01)) == pytest.approx(2897 / (1 + 28.97), rel=1e-3)


def test_a_curve_that_falls_at_its_end_goes_on_level() -> None:
    curve = CostCurve((1, 2), (1.0, 0.9))
    assert [curve.at(width) for width in (1, 2, 50)] == [1.0, 0.9, 0.9]
    assert replay([recording([*range(99)], [*range(90)])], LinearRule(90, 0, 90), curve).speedup(curve) > 0


def test_oracles_draft_no_more_than_ours_can() -> None:
    items = [recording([*range(200)], [*range(190)])]
    for oracle in ("copy", "anchored", "length"):
        wide, narrow = (run_method(oracle, items, {"0": FREE}, most) for most in (1100, 64))
        assert (wide.figures.steps, wide.figures.drafted) == (narrow.figures.steps, narrow.figures.drafted)


def test_drafts_that_only_rules_can_have_are_replayed_and_said(tmp_path, capsysbinary) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps({"prompt_ids": [*range(1200)], "output_ids": [*range(1190)]}))
    methods = ("copy", "linear:2000,0")
    arguments = ["--max-draft", "1100", "--methods", ",".join(methods), "--cost", "0", "--json"]
    assert main(["replay", str(file), *arguments]) == 0
    out, err = capsysbinary.readouterr()
    drafted = {line["method"]: line["drafted_per_step"] for line in map(json.loads, out.splitlines())}
    assert drafted["copy"] <= 64 < drafted["linear:2000,0"]
    assert b"--max-draft 1100: ours and the oracles draft 64 tokens at most" in err


_COMPILES = """
import sys
import numpy as np
from lookahead.config import LookupConfig
from lookahead.cost import CostCurve
from lookahead.replay import Recording, replay
from lookahead.replay_methods import LookupMethod

def compiled():
    found = [kernel for module in list(sys.modules.values()) if module.__name__.startswith("lookahead.")
             for kernel in vars(module).values()]
    return {f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures)
            for kernel in found if hasattr(kernel, "signatures")}

item = Recording(*(np.array([*range(9), 5, 6, 9, 5, 6] * 5, np.int32) for _ in range(2)))
method = LookupMethod(LookupConfig(), remember=True)
method.begin(item)
before = compiled()
assert before
assert replay([item, item], method, CostCurve.linear(0)).drafted
assert compiled() == before, set(compiled().items()) - set(before.items())
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_step_is_charged_for_the_compilation_of_kernels() -> None:
    subprocess.run([sys.executable, "-c", _COMPILES], check=True, timeout=600)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="'theirs' is unknown"):
        run_method("theirs", [recording([1], [1, 2])], {"0": FREE}, 64)


def test_json_is_one_object_a_line(tmp_path, capsysbinary) -> None:
    file = tmp_path / "records.jsonl"
    record = {"prompt_ids": [*range(20)], "output_ids": [*range(5, 15)]}
    file.write_text(json.dumps(record) + "\n\n" + json.dumps({**record, "output_ids": [1, 2]}) + "\n")
    assert main(["replay", str(file), "--json", "--cost", "0.1", "--methods", "builtin,linear:4,0,copy"]) == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [line["method"] for line in lines] == ["builtin", "linear:4,0", "copy"]
    assert {(line["file"], line["items"], line["tokens"]) for line in lines} == {(str(file), 1, 9)}
    assert all(list(line["speedup"]) == list(line["length_oracle_share"]) == ["0.1"] for line in lines)


def test_files_of_one_name_are_told_apart(tmp_path, capsysbinary, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.jsonl").write_text('{"prompt_ids": [1, 2], "output_ids": [1, 2, 3, 4, 5, 6, 7, 8]}')
    assert main(["replay", "a/log.jsonl", "b/log.jsonl", "--json", "--cost", "0.1", "--methods", "copy"]) == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [line["file"] for line in lines] == ["a/log.jsonl", "b/log.jsonl"]


def test_texts_may_hold_half_a_pair_of_surrogates(tmp_path, capsysbinary) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt": "one \\ud800 two three four", "output": "one \\ud800 two three four and so on"}')
    assert main(["replay", str(path), "--methods", "copy", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["items"] == 1


def test_texts_may_hold_any_newline(tmp_path, capsysbinary) -> None:
    path = tmp_path / "log.jsonl"
    record = {"prompt": "one\u2028two three four\x85", "output": "one\u2028two three four\x85 and so on"}
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    assert main(["replay", str(path), "--methods", "ours", "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["items"] == 1


def test_a_system_that_is_not_installed_is_named_and_left_out(tmp_path, monkeypatch, capsysbinary) -> None:
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps({"prompt_ids": [*range(20)], "output_ids": [*range(5, 15)]}) + "\n")
    assert main(["replay", str(file), "--json", "--cost", "0.1", "--methods", "builtin,suffix-decoding"]) == 0
    out, err = capsysbinary.readouterr()
    assert [json.loads(line)["method"] for line in out.splitlines()] == ["builtin"]
    assert b"suffix-decoding is not replayed: it is not installed" in err


def test_what_comes_again_is_drafted_from_memory() -> None:
    answer = [*range(100, 160)]
    items = [recording([1, 2, 3], [5, *answer]), recording([4, 2, 6], [5, *answer])]
    forgetful, remembering = (
        run_method(name, items, {"0.01": CostCurve.linear(0.01)}, 64).figures for name in ("ours", "remembering")
    )
    assert remembering.steps < forgetful.steps * 0.7


def test_the_length_oracle_drafts_what_comes_true_of_a_candidate_and_no_more() -> None:
    items = [recording([*range(30)], [*range(5, 25), 99, *range(26, 30)])]
    figures = run_method("length", items, {"0.1": CostCurve.linear(0.1)}, 64).figures
    assert figures.acceptance_rate == 1.0
    assert figures.steps <= 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is no JSON"),
        ("[]", "line 1 is no JSON object"),
        ('{"prompt_ids": [1]}', "line 1: output must be text"),
        ('{"prompt_ids": [1], "output_ids": [-1]}', "line 1: output must be text"),
        ('{"prompt_ids": [1], "output_ids": [1]}', "holds no output of at least 8 tokens"),
    ],
)
def test_a_line_that_is_no_record_is_named(line, message, tmp_path, capsysbinary) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(line + "\n")
    assert main(["replay", str(file)]) == 3
    assert message in capsysbinary.readouterr().err.decode()
