"""The bound of the half-precision filter, against integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import near_ties, needs_gpu, space_of
from truerank.engine.cuda import counting, torch_kernels, worker
from truerank.engine.cuda.rows import place


@pytest.mark.parametrize("kind", ["tied", "sparse", "clustered", "near"])
@pytest.mark.parametrize("dimension", [3, 12, 70])
@pytest.mark.parametrize("fine", [False, True])
def test_no_product_within_the_bound_decides_wrongly(kind: str, dimension: int, fine: bool) -> None:
    """Whatever the accumulation does inside its bound, a decided comparison is the exact one."""
    space = space_of("cosine", 80, kind, dimension)
    placed = place(space, torch.device("cpu"), torch_kernels)
    everyone = np.arange(80)
    exact = torch.from_numpy(space.block(everyone)(0, 80))
    integers, norm = placed.unit_items(0, 80)
    edges = torch.sort(exact[:, ::7], dim=1).values
    given: Any
    if fine:
        rows = counting.fine_rows(integers)
        given = rows.queries(torch.arange(80)), counting.FineExtremes.of(rows, norm)
        terms = counting.CHUNK
    else:
        rows = counting.halves(integers)
        given = rows, counting.Extremes.of(rows, norm)
        terms = rows.rows.shape[1]
    sure, lost = counting.thresholds(edges, norm, *given, placed.slack)
    product = given[0].rows.double()[:80] @ rows.rows.double()[:80].T
    length = rows.rows.double()[:80, : rows.rows.shape[1] // (3 if fine else 1)].norm(dim=1)
    slack = terms * 2.0**-22 * torch.outer(length, length)
    nearer = exact[:, :, None] < edges[:, None, :]
    farther = exact[:, :, None] > edges[:, None, :]
    decided = 0
    for seen in (product - slack, product, product + slack):
        above = seen[:, :, None] > sure.double()[:, None, :]
        below = seen[:, :, None] < lost.double()[:, None, :]
        assert not bool((above & ~nearer).any())
        assert not bool((below & ~farther).any())
        decided += int(above.sum()) + int(below.sum())
    if kind == "clustered":  # a bound that decided nothing would be right as well
        assert decided > 0.9 * 3 * nearer.numel()


def test_the_probe_knows_a_poor_accumulation() -> None:
    """Float32 sums pass; sums cut to 14 bits after every step, as some 8-bit units do, fail."""
    rows = counting.halves(counting.probe_rows(256, torch.device("cpu")))
    single = rows.rows.float()
    good, poor = torch.zeros(2, len(single), len(single))
    for column in single.T:
        term = torch.outer(column, column)
        good = good + term
        mantissa, exponent = torch.frexp(poor + term)
        poor = torch.ldexp(torch.trunc(mantissa * 2**14) / 2**14, exponent)
    assert counting.holds(good, rows)
    assert not counting.holds(poor, rows)


def test_halves_know_what_they_lost() -> None:
    rng = np.random.default_rng(0)
    integers = torch.from_numpy(rng.integers(-(2**25), 2**25, size=(9, 5)).astype(np.int32))
    halves = counting.halves(integers)
    assert halves.rows.shape == (256, 64)
    assert not bool(halves.rows[9:].any())
    assert not bool(halves.rows[:, 5:].any())
    back = halves.rows[:9, :5].double() * 2**17
    assert bool(((integers.double() - back).norm(dim=1) <= halves.residual).all())
    assert bool((back.norm(dim=1) <= halves.half_length).all())
    assert bool((integers.double().norm(dim=1) <= halves.length).all())
    few = halves.take(torch.tensor([4, 2]))
    torch.testing.assert_close(few.rows[:2], halves.rows[[4, 2]], rtol=0, atol=0)
    torch.testing.assert_close(few.residual, halves.residual[[4, 2]], rtol=0, atol=0)


@needs_gpu
def test_the_accumulation_bound_holds_here(triton_kernels: Any) -> None:
    assert worker.accumulates_well(torch.device("cuda:0"))


@needs_gpu
def test_a_query_with_too_many_open_pairs_is_counted_exactly(triton_kernels: Any) -> None:
    """Among 20,000 near ties there is no room to refine."""
    rng = np.random.default_rng(5)
    rows = near_ties(rng, 20_000, 8)
    labels = np.arange(20_000) // 4
    results = [
        truerank.evaluate(rows, labels, device=device, metrics=["map", "minp"])
        for device in ("cpu", "cuda")
    ]
    for metric in ("map", "minp"):
        first, second = (result[metric].per_query.expected for result in results)
        np.testing.assert_array_equal(first, second)
