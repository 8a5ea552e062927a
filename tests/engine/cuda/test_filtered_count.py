"""Both filters count what the CPU counts; a block gets the one that leaves few pairs open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import (
    clustered,
    collected,
    few_mates,
    near_ties,
    needs_gpu,
    on_the_cpu,
    space_of,
)
from tests.engine.cuda.test_splitting import split_twice
from truerank._util.settings import settings
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine.cuda import counting, front, torch_kernels
from truerank.engine.cuda.filtered_count import FilteredCount
from truerank.task.relevance import View

KINDS = ["tied", "sparse", "near", "clustered"]
DEVICES = [pytest.param("cpu", id="host"), pytest.param("cuda:0", marks=needs_gpu, id="gpu")]


def kernels_of(device: str) -> tuple[Any, Any]:
    """The kernels of a device, and those of its filters."""
    if device == "cpu":
        return torch_kernels, torch_kernels
    from truerank.engine.cuda import exact_kernels as triton_kernels
    from truerank.engine.cuda import filter_kernels

    return triton_kernels, filter_kernels


def counted(view: View, space: Space, device: str, **sizes: Any) -> dict[int, Any]:
    rows = np.flatnonzero(view.mates > 0)
    with settings(**sizes) as limits:
        kernels = kernels_of(device)
        gpus = front.Engine(view, space, limits, lambda pairs: None, [device], *kernels)
        return collected(gpus.tie_groups(iter([rows[:31], rows[31:]])))


@pytest.fixture
def always_fine(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Only the fine filter is used; the list says how many queries it left each time."""
    left = []
    count = FilteredCount.count

    def way(self: Any, *given: Any) -> str:
        assert self._keep_fine()
        return "fine"

    def note(self: Any, *given: Any) -> Any:
        found = count(self, *given)
        left.append(len(found))
        return found

    monkeypatch.setattr(FilteredCount, "_way", way)
    monkeypatch.setattr(FilteredCount, "count", note)
    return left


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(few_mates()))
def test_the_fine_filter(
    name: str,
    kind: str,
    device: str,
    always_fine: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front, "STRIP", 32)
    view, space = few_mates()[name], space_of("cosine", kind=kind, dimension=70)
    assert counted(view, space, device) == on_the_cpu(view, space)
    assert sum(always_fine) == 0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 5, 9, 10])
def test_the_coarse_filter_at_few_and_at_more_thresholds(
    size: int, kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to eight, items are compared with each; beyond, they are looked up."""
    compared, filters = [], kernels_of(device)[1]
    compare = filters.compare

    def note(*given: Any, **how: Any) -> None:
        compared.append(given)
        compare(*given, **how)

    monkeypatch.setattr(filters, "compare", note)
    monkeypatch.setattr(front, "STRIP", 100)
    view = truerank.Task(np.arange(330) // size).view
    space = space_of("cosine", 330, kind, 20)
    assert counted(view, space, device, method="filter") == on_the_cpu(view, space)
    if kind in ("clustered", "near"):
        assert bool(compared) == (size <= 9)


@pytest.mark.usefixtures("always_fine")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["tied", "clustered", "near"])
def test_the_fine_filter_over_several_tiles(kind: str, device: str) -> None:
    view, space = few_mates(700)["cameras and crops"], space_of("cosine", 700, kind)
    assert counted(view, space, device, query_rows=4) == on_the_cpu(view, space)


@pytest.mark.usefixtures("always_fine")
@pytest.mark.parametrize("device", DEVICES)
def test_queries_beside_a_gallery(device: str) -> None:
    rng = np.random.default_rng(4)
    labels = rng.permutation(np.arange(200) // 5)
    rows = clustered(rng, labels, 20)
    view = truerank.Task(labels[:60], gallery_labels=labels[60:]).view
    space = build("cosine", rows[:60], rows[60:])
    assert counted(view, space, device) == on_the_cpu(view, space)


@pytest.mark.usefixtures("always_fine")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["labels", "junk", "tree"])
def test_queries_that_are_split_by_share_among_others(name: str, device: str) -> None:
    """Half of them are: the fine filter does not know shares."""
    kernels, filters = kernels_of(device)
    space = space_of("cosine", kind="clustered")
    found, wanted = split_twice(few_mates()[name], space, device, kernels, filters=filters)
    assert found == wanted


def test_any_fine_product_within_the_bound_counts_the_same(
    always_fine: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensor cores may be off by their bound, for every pair in any direction."""
    rng = np.random.default_rng(2)

    def noisy(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
        x, y = left[:queries].double(), right[:items].double()
        wide = x.shape[1] // 3
        large = torch.outer(x[:, 2 * wide :].norm(dim=1), y[:, 2 * wide :].norm(dim=1))
        most = counting.CHUNK * 2.0**-22 * large
        sign = torch.from_numpy(rng.choice([-0.999, 0.999], size=most.shape))
        out[:queries, :items] = (x @ y.T + sign * most).float()

    monkeypatch.setattr(torch_kernels, "fine_products", noisy)
    view, space = few_mates()["labels"], space_of("cosine", kind="clustered")
    assert counted(view, space, "cpu") == on_the_cpu(view, space)
    assert sum(always_fine) == 0


@pytest.mark.parametrize("device", DEVICES)
def test_without_room_queries_are_counted_exactly(
    device: str, always_fine: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilteredCount, "_places", lambda self, strip: 3)
    view, space = few_mates()["labels"], space_of("cosine", kind="tied")
    assert counted(view, space, device) == on_the_cpu(view, space)
    assert 0 < sum(always_fine) < 2 * 90


def random_like() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1500, 64)).astype(np.float32)


def trained_like() -> np.ndarray:
    return clustered(np.random.default_rng(1), np.arange(1500) // 5, 64)


def hopeless() -> np.ndarray:
    return near_ties(np.random.default_rng(1), 1500, 64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("rows", "chosen"), [(trained_like, "coarse"), (random_like, "fine"), (hopeless, None)]
)
def test_a_block_gets_the_filter_that_suits_it(
    rows: Any, chosen: str | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = []
    choose = FilteredCount._way

    def note(self: Any, *given: Any) -> str | None:
        ways.append(choose(self, *given))
        return ways[-1]

    monkeypatch.setattr(FilteredCount, "_way", note)
    view, space = truerank.Task(np.arange(1500) // 5).view, build("cosine", rows())
    assert counted(view, space, device) == on_the_cpu(view, space)
    assert set(ways) == {chosen}


def test_two_halves_hold_nearly_all_of_a_row() -> None:
    rng = np.random.default_rng(0)
    units = rng.standard_normal((9, 100))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    integers = torch.from_numpy(np.rint(units * 2.0**25).astype(np.int32))
    rows = counting.fine_rows(integers)
    assert rows.rows.shape == (256, 384)
    high, low, again = rows.rows[:9].double().split(128, dim=1)
    assert bool((high == again).all())
    left = integers.double() - (high + low)[:, :100] * 2.0**17
    assert bool((left.norm(dim=1) <= rows.residual).all())
    assert float(rows.residual.max()) < 2.0**-20 * float(rows.length.min())
    assert bool((high.norm(dim=1) * 2.0**17 <= rows.high).all())
    assert bool((low.norm(dim=1) * 2.0**17 <= rows.low).all())
    few = rows.queries(torch.tensor([4, 2]))
    assert bool((few.rows[:2] == torch.cat([low, high, high], 1)[[4, 2]].half()).all())
