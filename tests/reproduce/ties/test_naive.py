"""The naive scorers against loops, and against what ties do to a sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truerank.reproduce.ties.naive import PRECISIONS, VARIANTS, naive_map, zero_map


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
