"""Rows on a device: their distances, where they lie, and how long they are held."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import DISTANCES, clustered, needs_gpu, space_of
from truerank._util.errors import ExactnessError
from truerank.distance.base import Space
from truerank.engine.cuda import front, torch_kernels
from truerank.engine.cuda import rows as device_rows
from truerank.engine.cuda.rows import place
from truerank.engine.cuda.transfer import DeviceQueries


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("metrics", [["map@r"], ["map@r", "mrep", "opis", "auc", "dir@far=0.1"]])
def test_rows_are_held_no_longer_than_needed(
    a_device: None, device: str, metrics: list[str]
) -> None:
    """Nor do they wait for the garbage collector: a device may need its memory for training."""
    rng = np.random.default_rng(5)
    labels = rng.integers(30, size=200)
    rows = clustered(rng, labels, 12)

    def held() -> int:
        kinds = (Space, device_rows.DeviceSpace)
        return sum(issubclass(type(one), kinds) for one in gc.get_objects())

    truerank.evaluate(rows, labels, device=device)  # the check of products keeps its rows for good
    gc.collect()
    before = held()
    gc.disable()
    try:
        truerank.evaluate(rows, labels, metrics=metrics, device=device)
        assert held() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("distance", DISTANCES)
def test_lent_tiles_are_the_tiles(distance: str) -> None:
    space = space_of(distance)
    rows = np.array([5, 0, 44, 89])
    tile = front.DeviceBackedSpace(space, "cpu", torch_kernels).block(rows)
    np.testing.assert_array_equal(tile(3, 61), space.block(rows)(3, 61))


def whole_rows(space: Space, rows: np.ndarray, device: str, kernels: Any) -> np.ndarray:
    placed = place(space, torch.device(device), kernels)
    found: np.ndarray = placed.whole_rows(DeviceQueries.of(rows, placed.device)).cpu().numpy()
    return found


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered", "sparse", "mixed"])
def test_whole_rows_are_the_tiles(
    distance: str, kind: str, room: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without rows that have no direction, in one product and in several."""
    monkeypatch.setattr(device_rows.DeviceSpace, "widest", 40)
    space, rows = space_of(distance, kind=kind), np.array([5, 0, 44, 89])
    found = whole_rows(space, rows, "cpu", torch_kernels)
    np.testing.assert_array_equal(found, space.block(rows)(0, 90))


def test_inexact_rows_are_found_out(a_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = device_rows.InnerProducts.whole_rows

    def single(self: Any, queries: DeviceQueries) -> Any:
        return whole(self, queries).float().double()

    monkeypatch.setattr(device_rows.InnerProducts, "whole_rows", single)
    rng = np.random.default_rng(2)
    labels = rng.integers(30, size=200)
    rows = clustered(rng, labels, 12)
    with pytest.raises(ExactnessError, match="not exact"):
        truerank.evaluate(rows, labels, metrics=["map@r", "mrep"], device="cuda")


@needs_gpu
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered", "sparse", "mixed"])
def test_whole_rows_on_the_gpu(triton_kernels: Any, distance: str, kind: str) -> None:
    space, rows = space_of(distance, 300, kind), np.array([5, 0, 44, 299])
    found = whole_rows(space, rows, "cuda:0", triton_kernels)
    np.testing.assert_array_equal(found, space.block(rows)(0, 300))
