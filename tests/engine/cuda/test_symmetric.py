"""Each pair once: counts of both rows of every product, against those of the CPU."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import truerank
from tests.engine.cuda.devices import (
    collected,
    needs_gpu,
    on_devices,
    on_the_cpu,
    space_of,
    views,
)
from truerank import engine
from truerank.core.folds import GalleryFolds
from truerank.engine import cuda
from truerank.engine.cuda import symmetric, torch_filter, torch_kernels, worker
from truerank.relevance import View
from truerank.space import Space

KINDS = ["tied", "sparse", "clustered", "near"]


@pytest.fixture
def filtering(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels of torch that filter, as those of a GPU do."""
    monkeypatch.setattr(worker, "own_filters", lambda device, kernels: torch_filter)
    return SimpleNamespace(**{**vars(torch_kernels), "FUSED": True})


def symmetrically(view: View, space: Space, kernels: Any, device: str = "cpu", **sizes: Any) -> Any:
    return on_devices(view, space, device, kernels=kernels, method="symmetric", **sizes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["labels", "cameras and crops", "tree", "judgements"])
def test_tie_groups(kind: str, name: str, filtering: Any) -> None:
    view, space = views()[name], space_of("cosine", kind=kind)
    assert symmetrically(view, space, filtering) == on_the_cpu(view, space)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 1)])
def test_blocks_and_pieces_of_any_size(
    sizes: tuple[int, int], filtering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several blocks, several pieces each, and rows that are no query."""
    monkeypatch.setattr(symmetric, "SIDE", 7 * sizes[1])
    rng = np.random.default_rng(11)
    labels = np.where(rng.random(150) < 0.3, 1000 + np.arange(150), rng.integers(20, size=150))
    view, space = truerank.Task(labels).view, space_of("cosine", 150, "clustered")
    assert (view.mates == 0).any()
    found = symmetrically(view, space, filtering, query_rows=sizes[0])
    assert found == on_the_cpu(view, space)


def test_a_pair_is_multiplied_once(filtering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetric, "SIDE", 20)
    seen: list[int] = []
    multiply = torch_filter.half_products

    def counted(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
        seen.append(queries * items)
        multiply(left, right, queries, items, out)

    monkeypatch.setattr(torch_filter, "half_products", counted)
    view, space = views(100)["labels"], space_of("cosine", 100, "clustered")
    symmetrically(view, space, filtering)
    assert sum(seen) == 20 * 20 * (5 * 6 // 2)


def test_counts_by_fold(filtering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some queries are split by two ways of cutting the gallery into folds."""
    monkeypatch.setattr(symmetric, "SIDE", 16)
    rng = np.random.default_rng(12)
    view, space = views()["cameras and crops"], space_of("cosine")
    item = np.column_stack([rng.integers(5, size=90), 5 + rng.integers(3, size=90)])
    folds = GalleryFolds(item.astype(np.int16), 8, rng.random(90) < 0.5)
    rows = np.flatnonzero(view.mates > 0)
    with engine.settings(method="symmetric", query_rows=1) as limits:
        blocks = [rows[start : start + 32] for start in range(0, len(rows), 32)]
        gpus = cuda.Engine(view, space, limits, lambda pairs: None, ["cpu"], filtering)
        found = list(gpus.tie_groups(iter(blocks), folds=folds))
    with engine.settings(method="float64") as limits:
        gpus = cuda.Engine(view, space, limits, lambda pairs: None, ["cpu"], torch_kernels)
        wanted = list(gpus.tie_groups(iter(blocks), folds=folds))
    assert collected(iter(found)) == collected(iter(wanted))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.split.counts, other.split.counts)
        np.testing.assert_array_equal(one.split.candidates, other.split.candidates)


def test_queries_with_too_many_open_pairs_are_counted_again(
    filtering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    count_again = worker.Worker.count_again

    def noted(self: Any, queries: Any, tally: Any, found: Any, places: int, limits: Any) -> None:
        again.append(int((found > places).sum()))
        count_again(self, queries, tally, found, places, limits)

    monkeypatch.setattr(worker.Worker, "places", lambda self, strip: 4)
    monkeypatch.setattr(worker.Worker, "count_again", noted)
    view, space = views()["labels"], space_of("cosine", kind="near")
    assert symmetrically(view, space, filtering) == on_the_cpu(view, space)
    assert sum(again) > 0


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_few_queries_are_counted_on_their_own(share: float, filtering: Any) -> None:
    """Half of the tiles cost as much as the rows of half of the queries."""
    view, space = views()["labels"], space_of("cosine", kind="clustered")
    rows = np.arange(int(share * 90))
    with engine.settings() as limits:
        gpu = worker.Worker(view, space, _cpu(), filtering)
        assert (
            symmetric.count_all(gpu, [rows], limits, None) is None
        )  # a small gallery is not worth it
    with engine.settings(method="filter") as limits:
        assert symmetric.count_all(gpu, [rows], limits, None) is None


def _cpu() -> Any:
    import torch

    return torch.device("cpu")


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [100, 1 << 14])
def test_on_a_gpu(
    kind: str, side: int, triton_kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symmetric, "SIDE", side)
    view, space = views(700)["cameras and crops"], space_of("cosine", 700, kind, 70)
    found = symmetrically(view, space, triton_kernels, "cuda:0")
    assert found == on_the_cpu(view, space)


@needs_gpu
def test_the_path_chosen_for_many_rows_has_the_bits_of_the_others(
    triton_kernels: ModuleType,
) -> None:
    rng = np.random.default_rng(13)
    labels = np.arange(20_000) // 5
    rows = (rng.standard_normal((4_000, 96))[labels] + rng.standard_normal((20_000, 96))) * 1.0
    results = []
    for method in ("auto", "float64"):
        with engine.settings(method=method):
            results.append(truerank.evaluate(rows, labels, device="cuda"))
    for name in results[0]:
        assert results[0][name].to_dict() == results[1][name].to_dict()
