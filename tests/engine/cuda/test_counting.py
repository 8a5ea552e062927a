"""Tie groups counted on a device are those of the CPU, by the torch kernels and on a GPU."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.cuda.devices import DISTANCES, needs_gpu, on_devices, on_the_cpu, space_of, views
from truerank._util.errors import ExactnessError
from truerank._util.settings import settings
from truerank.engine.cuda import front, rows, torch_kernels
from truerank.engine.cuda.rows import place


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_every_distance(distance: str, kind: str) -> None:
    view, space = views()["cameras and crops"], space_of(distance, kind=kind)
    assert on_devices(view, space, "cpu") == on_the_cpu(view, space)


@pytest.mark.parametrize("kind", ["sparse", "mixed"])
def test_true_cosines(kind: str) -> None:
    view, space = views()["cameras and crops"], space_of("cosine", kind=kind)
    assert on_devices(view, space, "cpu") == on_the_cpu(view, space)


@pytest.mark.parametrize("name", list(views()))
def test_every_kind_of_relevance(name: str) -> None:
    view, space = views()[name], space_of("cosine")
    assert on_devices(view, space, "cpu") == on_the_cpu(view, space)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 1)])
def test_blocks_and_tiles_of_any_size_on_several_devices(sizes: tuple[int, int]) -> None:
    view, space = views()["tree"], space_of("cosine")
    found = on_devices(view, space, "cpu", "cpu", "cpu", query_rows=sizes[0], gallery_rows=sizes[1])
    assert found == on_the_cpu(view, space)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
def test_rows_larger_than_the_device_are_sent_in_tiles(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "free_bytes", lambda device: 100)
    view, space = views()["cameras and crops"], space_of(distance)
    assert not place(space, torch.device("cpu"), torch_kernels).resident
    assert on_devices(view, space, "cpu", gallery_rows=2) == on_the_cpu(view, space)


def test_an_inexact_product_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    block = rows.InnerProducts.block

    def single(self: Any, rows: np.ndarray) -> Any:
        norm, tile = block(self, rows)

        def give(start: int, stop: int) -> Any:
            products, norms = tile(start, stop)
            return products.float().double(), norms

        return norm, give

    monkeypatch.setattr(rows.InnerProducts, "block", single)
    with pytest.raises(ExactnessError, match="not exact"):
        on_devices(views()["labels"], space_of("cosine", kind="clustered"), "cpu")


def test_an_interrupt_leaves_no_thread() -> None:
    view, space = views()["labels"], space_of("cosine")
    before = threading.active_count()

    def interrupt(pairs: int) -> None:
        raise KeyboardInterrupt

    with settings(query_rows=1) as limits:
        gpus = front.Engine(view, space, limits, interrupt, ["cpu", "cpu"], torch_kernels)
        blocks = (np.arange(start, start + 2) for start in range(0, 90, 2))
        with pytest.raises(KeyboardInterrupt):
            list(gpus.tie_groups(blocks))
    assert threading.active_count() == before


@needs_gpu
@pytest.mark.parametrize("method", ["float64", "filter"])
@pytest.mark.parametrize("kind", ["tied", "clustered", "near", "sparse", "mixed"])
@pytest.mark.parametrize("linear", [64, 2])
def test_kernels(
    triton_kernels: Any, method: str, kind: str, linear: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few and with many thresholds a query, and items beyond one tile."""
    monkeypatch.setattr(triton_kernels, "LINEAR", linear)
    view, space = views(700)["cameras and crops"], space_of("cosine", 700, kind, 70)
    found = on_devices(view, space, "cuda:0", kernels=triton_kernels, method=method)
    assert found == on_the_cpu(view, space)


@needs_gpu
@pytest.mark.parametrize("sizes", [(1, 1), (3, 50), (500, 7)])
@pytest.mark.parametrize("method", ["float64", "filter"])
def test_tiles_on_the_gpu(triton_kernels: Any, method: str, sizes: tuple[int, int]) -> None:
    view, space = views(300)["tree"], space_of("cosine", 300)
    found = on_devices(
        view,
        space,
        "cuda:0",
        kernels=triton_kernels,
        method=method,
        query_rows=sizes[0],
        gallery_rows=sizes[1],
    )
    assert found == on_the_cpu(view, space)


@needs_gpu
@pytest.mark.parametrize("distance", DISTANCES)
def test_every_distance_on_the_gpu(triton_kernels: Any, distance: str) -> None:
    view, space = views(300)["junk"], space_of(distance, 300)
    found = on_devices(view, space, "cuda:0", kernels=triton_kernels)
    assert found == on_the_cpu(view, space)
