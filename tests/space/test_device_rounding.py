"""Rows rounded on a device are those of the CPU, bit for bit; torch's CPU device stands for it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import truerank
from tests.engine.cuda.devices import needs_gpu, pretend
from truerank._util.errors import InputError
from truerank.distance.catalogue import build
from truerank.distance.remote_rows import DeviceRows

DEVICES = ["cpu", pytest.param("cuda:0", marks=needs_gpu)]


def assert_alike(rows: np.ndarray, device: str = "cpu", *, stays: bool | None = None) -> None:
    """Everything that is known of the space is what it is in main memory."""
    here, there = build("cosine", rows), build("cosine", rows, device=device)
    held = there.grids[0].integers  # type: ignore[attr-defined]
    if stays is not None:
        assert isinstance(held, DeviceRows) == stays
    np.testing.assert_array_equal(here.grids[0].integers, np.asarray(held))  # type: ignore[attr-defined]
    assert here.facts == there.facts
    np.testing.assert_array_equal(here.query_digests, there.query_digests)
    np.testing.assert_array_equal(here.fingerprints(), there.fingerprints())
    np.testing.assert_array_equal(here.norms[0], there.norms[0])  # type: ignore[attr-defined]
    query = np.arange(len(rows))
    np.testing.assert_array_equal(here.pairs(query, query[::-1]), there.pairs(query, query[::-1]))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_float(dtype: Any, device: str) -> None:
    rows = noise(300, 37).astype(dtype)
    rows[3], rows[7], rows[11] = 0, rows[9], -rows[12]  # no direction, a duplicate, an opposite
    assert_alike(rows, device, stays=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [1, 37])
def test_numbers_of_every_size(columns: int, device: str) -> None:
    """Rows, or components, between subnormal and almost infinite."""
    scale = np.ldexp(1.0, np.random.default_rng(5).integers(-1070, 1020, (300, columns)))
    assert_alike(noise(300, 37) * scale, device)


@pytest.mark.parametrize("device", DEVICES)
def test_midpoints_are_decided_by_integers(device: str) -> None:
    """x/|x| lies on a midpoint of the grid, or a rounding away from it, in every row."""
    odd = 2.0 * np.random.default_rng(6).integers(1 << 15, 1 << 23, 400) + 1
    rest = np.sqrt(4.0**26 - odd**2)  # |x| = 2^26, or nearly so, and x_0 = (k + 1/2) 2^-25 |x|
    rows = np.stack([odd, rest, np.zeros(400)], 1)
    assert_alike(rows, device, stays=True)


def test_short_rows_are_left_to_the_cpu() -> None:
    assert_alike(np.random.default_rng(7).integers(-3, 4, (50, 8)).astype(np.float32), stays=False)
    assert_alike(np.eye(9, dtype=np.float32) + np.float32(0), stays=False)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_any_rows(rows: np.ndarray) -> None:
    assert_alike(rows)


def test_no_permutation_shows() -> None:
    rows = noise(200, 19)
    order, columns = np.random.default_rng(8).permutation(200), np.random.default_rng(9)
    moved = rows[order][:, columns.permutation(19)]
    first, second = (build("cosine", some, device="cpu") for some in (rows, moved))
    np.testing.assert_array_equal(first.norms[0][order], second.norms[0])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(first.fingerprints()[order], second.fingerprints())


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_are_named(wrong: float) -> None:
    rows = noise(30, 5)
    rows[4, 2] = rows[17, 0] = wrong
    with pytest.raises(InputError, match="NaN or infinity in embeddings rows 4 and 17 of 30"):
        build("cosine", rows, device="cpu")


def test_an_evaluation_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = noise(240, 21).astype(np.float32), np.arange(240) % 60
    wanted = truerank.evaluate(rows, labels, device="cpu")
    pretend(monkeypatch)
    assert_same(wanted, truerank.evaluate(rows, labels, device="cuda"))


def test_rows_among_themselves_have_the_lists_of_two_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = noise(300, 12).astype(np.float32)
    rows[5], rows[7] = rows[6], 0
    wanted = truerank.exact_neighbors(rows, rows.copy(), 9, device="cpu")
    pretend(monkeypatch)
    found = truerank.exact_neighbors(rows, rows, 9, device="cuda")
    assert found.facts == wanted.facts
    for name in ("item", "distance", "first", "tied"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def assert_same(one: Any, other: Any) -> None:
    for name in one:
        assert one[name].to_dict() == other[name].to_dict()
    for fact in ("distance", "task_digest"):
        assert one.provenance[fact] == other.provenance[fact]


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_a_gpu_are_rounded_where_they_are(dtype: Any) -> None:
    rows = torch.from_numpy(noise(3000, 64)).to("cuda", dtype)
    labels = torch.arange(3000, device="cuda") % 700
    wanted = truerank.evaluate(rows.cpu(), labels.cpu(), device="cpu")
    for some in (rows, rows.cpu()):
        assert_same(wanted, truerank.evaluate(some, labels, device="cuda"))


@needs_gpu
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "hamming"])
def test_a_call_leaves_no_memory_behind(distance: str) -> None:
    rows = torch.from_numpy(noise(4000, 64)).to("cuda", torch.float32)
    labels = torch.arange(4000, device="cuda") % 900
    given = rows > 0 if distance == "hamming" else rows
    metrics = ["map@r", "map", "auc"]
    truerank.evaluate(given, labels, device="cuda", distance=distance, metrics=metrics)
    before = held()
    result = truerank.evaluate(given, labels, device="cuda", distance=distance, metrics=metrics)
    assert held() <= before
    assert len(result) == 3


def held() -> int:
    """Bytes that something refers to on the GPU, less cuBLAS's workspaces, which torch counts."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return int(torch.cuda.memory_allocated())
