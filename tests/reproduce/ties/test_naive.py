"""The naive scorers against loops, and against what ties do to a sort."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from studies.ties import DIVISORS, DROPS, PRECISIONS, VARIANTS, naive_map, released_map, zero_map


def average_precision(matches: list[bool]) -> float:
    found, total = 0, 0.0
    for rank, match in enumerate(matches, 1):
        if match:
            found += 1
            total += found / rank
    return total / found


def by_loops(rows: np.ndarray, labels: np.ndarray) -> float:
    units = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1)[:, None]
    values = []
    for query in range(len(rows)):
        others = [i for i in range(len(rows)) if i != query]
        others.sort(key=lambda i: 1 - float(units[query] @ units[i]))
        matches = [bool(labels[i] == labels[query]) for i in others]
        if any(matches):
            values.append(average_precision(matches))
    return sum(values) / len(values)


@pytest.mark.parametrize("batch", [7, 30])
@pytest.mark.parametrize("variant", VARIANTS)
def test_without_ties_it_is_the_mean_average_precision(batch: int, variant: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 8)).astype(np.float32)
    labels = np.append(rng.integers(0, 5, 29), 99)  # the last one has no mate
    found = naive_map(rows, labels, precision="float32", batch=batch, variant=variant)
    assert found == pytest.approx(by_loops(rows, labels), abs=1e-12)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fewer_bits_give_nearly_the_same(precision: str) -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(20), 4)
    rows = rng.standard_normal((20, 16))[labels] + 0.3 * rng.standard_normal((80, 16))
    rows = rows.astype(np.float32)
    found = naive_map(rows, labels, precision=precision, batch=32)
    assert found == pytest.approx(by_loops(rows, labels), abs=0.02)


@pytest.mark.parametrize("drops", ["first column", "oneself"])
def test_all_zero_embeddings_follow_the_order_of_rows(drops: str) -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    values = []
    for query, label in enumerate(labels):
        kept = range(1, 6) if drops == "first column" else [i for i in range(6) if i != query]
        values.append(average_precision([bool(labels[i] == label) for i in kept]))
    assert zero_map(labels, drops=drops) == pytest.approx(sum(values) / 6, abs=1e-15)
    stepped = [
        by_steps_of_recall([bool(labels[i] == label) for i in range(6)][1:]) for label in labels
    ]
    if drops == "first column":
        found = zero_map(labels, drops=drops, divisor=DIVISORS[1])
        assert found == pytest.approx(float(sum(stepped) / 6), abs=1e-15)


def by_steps_of_recall(matches: list[bool]) -> Fraction:
    """Mean precision where recall (found + e)/(R + e) rises, as the released code has it."""
    tiny, found, before, steps = Fraction(1, 10**20), 0, Fraction(0), []
    for rank, match in enumerate(matches, 1):
        found += match
        recall = (found + tiny) / (sum(matches) + tiny)
        if recall > before:
            steps.append(Fraction(found, rank))
        before = recall
    return sum(steps) / len(steps)


@pytest.mark.parametrize(
    ("divisor", "right"), [(DIVISORS[0], Fraction(1, 2)), (DIVISORS[1], Fraction(1, 4))]
)
def test_a_wrong_first_item_is_one_more_step(divisor: str, right: Fraction) -> None:
    rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.1, 0.9]])
    given = {"drops": "oneself", "divisor": divisor, "relevant_first": True}
    # query 0 finds 1 (wrong), then 2; query 2 finds 1 (wrong), then 0; 1 has no other of its class
    assert released_map(rows, np.array([0, 1, 0]), **given) == (pytest.approx(float(right)), 2)
    assert by_steps_of_recall([False, True]) == Fraction(1, 4)


@pytest.mark.parametrize("relevant_first", [True, False])
def test_a_tie_with_oneself_makes_a_query_of_a_singleton(relevant_first: bool) -> None:
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.9, 0.8]])
    labels = np.array([7, 3, 3, 3])  # rows 0 and 1 are one direction; 7 has no other row
    units = rows / np.linalg.norm(rows, axis=1)[:, None]
    values = []
    for query in range(4):
        order = sorted(
            range(4),
            key=lambda i: (
                round(float(1 - units[query] @ units[i]), 9),
                (labels[i] == labels[query]) != relevant_first,
            ),
        )
        matches = [bool(labels[i] == labels[query]) for i in order[1:]]
        if any(matches):
            values.append(by_steps_of_recall(matches))
    found, queries = released_map(
        rows, labels, drops="first column", divisor=DIVISORS[1], relevant_first=relevant_first
    )
    assert queries == len(values) == (3 if relevant_first else 4)
    assert found == pytest.approx(float(sum(values) / len(values)), abs=1e-15)


@pytest.mark.parametrize("drops", DROPS)
def test_without_ties_and_by_r_the_released_code_is_the_definition(drops: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((30, 8)).astype(np.float32)
    labels = np.append(rng.integers(0, 5, 29), 99)
    for first in (True, False):
        value, queries = released_map(rows, labels, drops=drops, divisor="R", relevant_first=first)
        assert (value, queries) == (pytest.approx(by_loops(rows, labels), abs=1e-12), 29)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_gpu_computes_nearly_the_same(precision: str, variant: str) -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(20), 4)
    rows = rng.standard_normal((20, 16))[labels] + 0.3 * rng.standard_normal((80, 16))
    rows = rows.astype(np.float32)
    before = torch.get_float32_matmul_precision()
    found = naive_map(rows, labels, precision=precision, batch=32, device="cuda", variant=variant)
    assert found == pytest.approx(by_loops(rows, labels), abs=0.02)
    assert torch.get_float32_matmul_precision() == before
