"""Verification keeps exactly the target's tokens, on chains and on trees."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookahead.draft import EMPTY, ROOT, Draft
from lookahead.verifier import (
    Verdict,
    accept,
    confirm,
    expected_speedup,
    expected_tokens,
    residual,
    verify_greedy,
)

TOKEN = st.integers(0, 2)


@given(st.lists(TOKEN, max_size=8), st.lists(TOKEN, min_size=9, max_size=9))
def test_a_chain_is_kept_up_to_the_first_difference(drafted, wanted) -> None:
    kept = 0
    while kept < len(drafted) and drafted[kept] == wanted[kept]:
        kept += 1
    logits = torch.eye(3)[wanted[: len(drafted) + 1]]
    assert verify_greedy(logits, Draft(tuple(drafted))) == Verdict((*wanted[: kept + 1],), kept)


def test_without_a_draft_the_target_writes_one_token() -> None:
    assert verify_greedy(torch.tensor([[0.0, 2.0, 1.0]]), EMPTY) == Verdict((1,), 0)


def test_a_tree_is_descended_along_the_targets_tokens() -> None:
    tree = Draft((5, 6, 7, 8), parents=(ROOT, 0, 0, ROOT))
    assert list(confirm(tree, {0: 5, 1: 7, 3: 9}.__getitem__)) == [5, 7, 9]
    assert list(confirm(tree, {0: 8, 4: 1}.__getitem__)) == [8, 1]
    assert list(confirm(tree, {0: 4}.__getitem__)) == [4]


@pytest.mark.parametrize("parents", [(0,), (ROOT, 1), (ROOT, 5), (-2, 0), (ROOT,)])
def test_links_that_make_no_tree_are_refused(parents) -> None:
    with pytest.raises(ValueError, match="parents"):
        Draft((5, 6), parents=parents)


def test_siblings_must_differ() -> None:
    with pytest.raises(ValueError, match="siblings"):
        Draft((5, 5), parents=(ROOT, ROOT))


@pytest.mark.parametrize(("length", "stop", "kept"), [(2, (), (5, 6)), (9, (6,), (5, 6)), (1, (6,), (5,)), (0, (), ())])
def test_a_draft_is_cut_to_length_and_after_a_stop_token(length, stop, kept) -> None:
    assert Draft((5, 6, 7), origins=(1, 2, 3)).cut(length, stop).tokens == kept
    assert len(Draft((5, 6, 7), origins=(1, 2, 3)).cut(length, stop).origins) == len(kept)


def test_the_residual_is_what_the_draft_left_uncovered() -> None:
    torch.testing.assert_close(
        residual(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.6, 0.2])), torch.tensor([1.0, 0.0, 0.0])
    )
    same = torch.tensor([0.5, 0.5])
    torch.testing.assert_close(residual(same, same), same)


def test_a_point_mass_draft_is_accepted_with_the_targets_probability() -> None:
    generator = torch.Generator().manual_seed(0)
    target, draft = torch.tensor([[0.7, 0.3], [0.5, 0.5]]), torch.tensor([[1.0, 0.0]])
    accepted = sum(accept(target, draft, torch.tensor([0]), generator).accepted for _ in range(4000))
    assert abs(accepted / 4000 - 0.7) < 0.03


@pytest.mark.parametrize(
    ("target", "draft", "tokens"),
    [((2, 3), (2, 3), (2,)), ((3, 3), (2, 4), (2,)), ((3, 3), (2, 3), (3,)), ((3, 3), (2, 3), (1, 2))],
)
def test_accept_names_the_shapes_it_needs(target, draft, tokens) -> None:
    with pytest.raises(ValueError, match=r"target_probs \[k \+ 1, vocabulary\]"):
        accept(torch.rand(target), torch.rand(draft), torch.zeros(tokens, dtype=torch.long))


def test_accept_refuses_a_token_that_the_draft_cannot_have_drawn() -> None:
    with pytest.raises(ValueError, match="above zero"):
        accept(torch.full((2, 2), 0.5), torch.tensor([[1.0, 0.0]]), torch.tensor([1]))


@given(st.floats(0, 1), st.integers(0, 30))
def test_expected_tokens_is_the_sum_of_survivals(acceptance, length) -> None:
    assert expected_tokens(acceptance, length) == pytest.approx(sum(acceptance**i for i in range(length + 1)))


def test_the_known_values_of_the_speedup_formula() -> None:
    assert [round(expected_speedup(0.7, k, 0.15), 2) for k in (2, 4, 8)] == [1.68, 1.73, 1.45]
    assert expected_speedup(0.5, 0, 0.3) == 1


@pytest.mark.parametrize(
    ("a", "k", "c", "name"), [(1.1, 1, 0, "acceptance"), (0.5, -1, 0, "length"), (0.5, 1, -1, "cost")]
)
def test_values_out_of_range_are_named(a, k, c, name) -> None:
    with pytest.raises(ValueError, match=name):
        expected_speedup(a, k, c)


def test_what_choosing_raises_comes_out_as_it_is() -> None:
    def choose(row: int) -> int:
        raise StopIteration

    with pytest.raises(StopIteration):
        confirm(Draft((5, 6)), choose)
