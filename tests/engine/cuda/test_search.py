"""Nearest neighbours on a device: the lists of the CPU, bit for bit, on every path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import (
    clustered,
    mixed_rows,
    near_ties,
    needs_gpu,
    pretend,
    sparse_rows,
    tied_rows,
)
from tests.in_process_cluster import in_process
from truerank._util.errors import InputError
from truerank._util.settings import settings
from truerank.distance.catalogue import build
from truerank.engine.cuda import front, torch_kernels
from truerank.engine.cuda import rows as half_rows
from truerank.engine.cuda import search as exact_search
from truerank.engine.cuda.rows import place
from truerank.engine.cuda.search import search_exactly
from truerank.engine.cuda.transfer import DeviceQueries

KINDS = {"tied": tied_rows, "sparse": sparse_rows, "mixed": mixed_rows, "near": near_ties}
DISTANCES = ("cosine", "euclidean", "dot", "cityblock", "hamming")


def rows_of(kind: str, count: int = 300, dimension: int = 12) -> np.ndarray:
    rng = np.random.default_rng(11)
    if kind == "clustered":
        return clustered(rng, rng.integers(count // 5, size=count), dimension)
    return KINDS[kind](rng, count, dimension)


def assert_same(found: truerank.ExactNeighbors, expected: truerank.ExactNeighbors) -> None:
    assert found.distance.tobytes() == expected.distance.tobytes()
    for name in ("item", "first", "tied"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks, strips, tiles and sorts, of little data."""
    monkeypatch.setattr(exact_search, "EXACT_SPARE", 4)
    monkeypatch.setattr(exact_search, "WIDEST", 32)
    monkeypatch.setattr(exact_search, "LISTED", 1 << 10)
    monkeypatch.setattr(exact_search, "SAMPLED", 64)
    monkeypatch.setattr(exact_search, "PRODUCTS", 1 << 12)


@pytest.mark.usefixtures("a_device", "small_tiles")
@pytest.mark.parametrize("k", [1, 7, 299])
@pytest.mark.parametrize("kind", ["tied", "clustered"])
@pytest.mark.parametrize("distance", DISTANCES)
def test_every_distance(distance: str, kind: str, k: int) -> None:
    rows = rows_of(kind)
    if distance == "hamming":
        rows = rows.astype(np.int8)
    given: dict[str, Any] = {"k": k, "distance": distance}
    expected = truerank.exact_neighbors(rows[:90], rows, device="cpu", threads=1, **given)
    assert_same(truerank.exact_neighbors(rows[:90], rows, device="cuda", **given), expected)


@pytest.mark.usefixtures("a_device", "small_tiles")
@pytest.mark.parametrize("method", ["float64", "filter"])
@pytest.mark.parametrize("k", [1, 9])
@pytest.mark.parametrize("kind", [*KINDS, "clustered"])
def test_every_kind_of_rows_by_either_method(kind: str, k: int, method: str) -> None:
    rows = rows_of(kind)
    expected = truerank.exact_neighbors(rows[:90], rows, k, device="cpu", threads=1)
    with settings(neighbor_rows=1, method=method):
        assert_same(truerank.exact_neighbors(rows[:90], rows, k, device="cuda"), expected)


@pytest.fixture
def searched_exactly(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many queries the filter left to exact tiles, each time."""
    left: list[int] = []

    def listen(space: Any, queries: DeviceQueries, k: int) -> Any:
        left.append(len(queries))
        return search_exactly(space, queries, k)

    monkeypatch.setattr(exact_search, "search_exactly", listen)
    return left


def filtered(rows: np.ndarray, queries: int, k: int, distance: str = "cosine") -> tuple[Any, Any]:
    """What the filter finds on torch's CPU device, and what exact tiles find."""
    space = build(distance, rows[:queries], rows)
    placed = place(space, torch.device("cpu"), torch_kernels)
    everyone = DeviceQueries.of(np.arange(queries), torch.device("cpu"))
    half = half_rows.half_rows(placed)  # type: ignore[arg-type]
    search = exact_search.FilteredSearch(placed, half, torch_kernels)  # type: ignore[arg-type]
    return search.nearest(everyone, k), search_exactly(placed, everyone, k)


def assert_equal_lists(found: Any, expected: Any) -> None:
    for name in ("distance", "item", "tied"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
def test_half_precision_decides_for_nearly_all_queries(
    distance: str, searched_exactly: list[int]
) -> None:
    """A filter that left all queries to exact tiles would be right as well."""
    rows = rows_of("clustered", 6000, 32)
    rows *= np.random.default_rng(4).uniform(0.5, 20, size=(6000, 1)).astype(np.float32)
    found, expected = filtered(rows, 400, 10, distance)
    assert_equal_lists(found, expected)
    assert sum(searched_exactly) <= 2


@pytest.mark.filterwarnings("ignore:float64 input")
@pytest.mark.parametrize("size", [1e-140, 1e140])
@pytest.mark.parametrize("distance", ["euclidean", "dot"])
def test_rows_of_very_different_lengths(distance: str, size: float) -> None:
    rows = rows_of("clustered", 2000, 16).astype(np.float64)
    rows *= size * 10.0 ** np.random.default_rng(4).uniform(-3, 3, size=(2000, 1))
    rows[::50] = 0
    assert_equal_lists(*filtered(rows, 100, 10, distance))


def test_who_fails_is_filtered_once_more(
    searched_exactly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample foretells too much for some, too little for others, and far too little."""
    foretold = torch_kernels.limits
    asked: list[int] = []

    def wrong(products: Any, shift: Any, size: tuple[int, int], *given: Any) -> None:
        foretold(products, shift, size, *given)
        if not asked:
            given[-1][:10] = 1e6
            given[-1][10:20] = -1e6
        asked.append(size[0])

    monkeypatch.setattr(torch_kernels, "limits", wrong)
    assert_equal_lists(*filtered(rows_of("clustered", 6000, 32), 100, 10))
    assert asked == [100, 20]
    assert searched_exactly == []


def test_among_near_ties_all_queries_are_searched_exactly(searched_exactly: list[int]) -> None:
    found, expected = filtered(rows_of("near", 3000, 8), 50, 5)
    assert_equal_lists(found, expected)
    assert sum(searched_exactly) == 50


def crowds() -> np.ndarray:
    """Crowds of 30 rows that half precision cannot put in order, far from each other."""
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((100, 16))[np.arange(3000) % 100]
    return rows + rng.standard_normal(rows.shape) * 2.0**-13


def test_whoever_may_be_among_the_nearest_is_looked_at(
    searched_exactly: list[int],
) -> None:
    found, expected = filtered(crowds(), 100, 10)
    assert_equal_lists(found, expected)
    assert sum(searched_exactly) < 50


@pytest.mark.parametrize("rank", [1, 3, 4, 5, 6, 200])
def test_a_sample_that_foretells_badly_costs_time_only(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few items are written down, or some of a crowd are and others not."""
    monkeypatch.setattr(exact_search.FilteredSearch, "_rank", lambda self, k: rank)
    assert_equal_lists(*filtered(crowds(), 100, 10))


@pytest.mark.parametrize("room", [5, 15, 30])
def test_items_without_a_place_are_missed_by_nobody(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_search, "FILTERED_SPARE", room)
    monkeypatch.setattr(exact_search, "ROOMY", 0)
    assert_equal_lists(*filtered(crowds()[::-1].copy(), 100, 10))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
def test_any_product_within_the_bound_finds_the_same(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accumulation may be off by its bound, for every pair in any direction."""
    rng = np.random.default_rng(2)

    def noisy(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
        x, y = left[:queries].double(), right[:items].double()
        most = x.shape[1] * 2.0**-22 * torch.outer(x.norm(dim=1), y.norm(dim=1))
        sign = torch.from_numpy(rng.choice([-0.999, 0.999], size=most.shape))
        out[:queries, :items] = (x @ y.T + sign * most).float()

    monkeypatch.setattr(torch_kernels, "half_products", noisy)
    assert_equal_lists(*filtered(rows_of("clustered", 3000, 16), 60, 10, distance))


def test_on_a_cluster_whose_workers_have_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("tied")
    expected = truerank.exact_neighbors(rows[:90], rows, 12, device="cpu", threads=1)
    pretend(monkeypatch)
    with in_process() as ray, settings(neighbor_rows=1, task_pairs=100):
        monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0, "GPU": 2.0})
        monkeypatch.setattr("truerank.analysis.neighbors.TALLER", 20)
        found = truerank.exact_neighbors(rows[:90], rows, 12, cluster="auto")
        assert ray.calls == ["truerank.analysis.neighbors:nearest_by_gpu"] * 5
        on_cpus = truerank.exact_neighbors(rows[:90], rows, 12, cluster="auto", device="cpu")
        assert "truerank.analysis.neighbors:nearest_part" in ray.calls
    assert_same(found, expected)
    assert_same(on_cpus, expected)


def test_progress_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("tied")
    if front.unavailable() is not None:
        with pytest.raises(InputError, match="cannot be used"):
            truerank.exact_neighbors(rows, rows, 3, device="cuda")
    with pytest.raises(InputError, match="'device' parameter"):
        truerank.exact_neighbors(rows, rows, 3, device="tpu")
    pretend(monkeypatch)
    heard: list[tuple[int, int]] = []
    with settings(neighbor_rows=1):
        truerank.exact_neighbors(
            rows, rows, 3, device="cuda", progress=lambda *done: heard.append(done)
        )
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert heard[-1] == (300 * 300, 300 * 300)


@needs_gpu
@pytest.mark.parametrize("k", [1, 100, 700])
@pytest.mark.parametrize("kind", ["clustered", "tied", "near"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
def test_a_gpu_finds_what_the_cpu_finds(
    distance: str, kind: str, k: int, triton_kernels: Any
) -> None:
    rows = rows_of(kind, 20_000, 64)
    given: dict[str, Any] = {"k": k, "distance": distance}
    expected = truerank.exact_neighbors(rows[:500], rows, device="cpu", **given)
    assert_same(truerank.exact_neighbors(rows[:500], rows, device="cuda", **given), expected)


@needs_gpu
@pytest.mark.parametrize("room", [5, 15, 30])
def test_a_gpu_misses_nobody_without_a_place(
    room: int, triton_kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_search, "FILTERED_SPARE", room)
    monkeypatch.setattr(exact_search, "ROOMY", 0)
    rows = crowds()
    expected = truerank.exact_neighbors(rows[:100], rows, 10, device="cpu")
    assert_same(truerank.exact_neighbors(rows[:100], rows, 10, device="cuda"), expected)
