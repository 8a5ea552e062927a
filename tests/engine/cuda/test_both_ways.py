"""Each pair multiplied once, for both of its queries: the counts are those of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
    pretend,
    space_of,
)
from tests.engine.cuda.test_filtered_count import DEVICES, KINDS, kernels_of, random_like
from tests.engine.cuda.test_splitting import splits_of
from tests.test_checkpoint import bits
from truerank._util.settings import settings
from truerank.core.jackknife import GalleryFolds
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine import runner
from truerank.engine.cuda import filtered_count, front, rows, torch_kernels
from truerank.engine.cuda.filtered_count import FilteredCount
from truerank.task.relevance import View


@pytest.fixture
def multiplied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Sizes of the tiles that were multiplied, and whether they served both sides; short strips."""
    monkeypatch.setattr(front, "STRIP", 32)
    return _listen(monkeypatch, torch_kernels)


def _listen(monkeypatch: pytest.MonkeyPatch, filters: Any) -> list[tuple[int, bool]]:
    seen: list[tuple[int, bool]] = []
    near_products = filters.near_products

    def note(left: Any, right: Any, size: tuple[int, int], *given: Any) -> None:
        seen.append((size[0] * size[1], len(given) == 4))
        near_products(left, right, size, *given)

    monkeypatch.setattr(filters, "near_products", note)
    return seen


def engine_of(view: View, space: Space, device: str, limits: Any) -> front.Engine:
    return front.Engine(view, space, limits, lambda pairs: None, [device], *kernels_of(device))


def blocks_of(view: View, height: int) -> list[np.ndarray]:
    rows = np.flatnonzero((view.mates > 0) & (view.mates <= front.SHARED))
    return [rows[start : start + height] for start in range(0, len(rows), height)]


def counted(
    view: View, space: Space, device: str, blocks: Sequence[np.ndarray], method: str = "symmetric"
) -> dict[int, Any]:
    with settings(method=method) as limits:
        return collected(engine_of(view, space, device, limits).tie_groups_both_ways(blocks))


def wanted(view: View, space: Space, blocks: Sequence[np.ndarray]) -> dict[int, Any]:
    found = on_the_cpu(view, space)
    return {row: found[row] for rows in blocks for row in rows.tolist()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(few_mates()))
def test_counts_are_those_of_the_cpu(
    name: str, kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the items are queries, in blocks of several strips with gaps between the rows."""
    monkeypatch.setattr(front, "STRIP", 32)
    view, space = few_mates()[name], space_of("cosine", kind=kind, dimension=70)
    blocks = blocks_of(view, 41)
    assert counted(view, space, device, blocks) == wanted(view, space, blocks)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 5, 6, 9, 10, 50])
def test_every_number_of_thresholds(
    size: int, kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that follow one another, and strips that end amid a tile."""
    monkeypatch.setattr(front, "STRIP", 150)
    view = truerank.Task(np.arange(700) // size).view
    space = space_of("cosine", 700, kind, 20)
    blocks = blocks_of(view, 400)
    assert counted(view, space, device, blocks) == wanted(view, space, blocks)


def test_each_pair_is_multiplied_once(multiplied: list[tuple[int, bool]]) -> None:
    """But for strips that meet themselves; rows without a mate are looked at, and look at none."""
    labels = np.concatenate([np.arange(480) // 4, 1000 + np.arange(64)])
    view = truerank.Task(labels).view
    space = space_of("cosine", 544, "clustered", 12)
    blocks = blocks_of(view, 160)
    assert counted(view, space, "cpu", blocks) == wanted(view, space, blocks)
    strips = 480 // 32
    assert sum(size for size, both in multiplied if both) == strips * (strips - 1) // 2 * 32**2
    assert sum(size for size, both in multiplied if not both) == 480 * 32 + 480 * 64


def test_any_product_within_the_bound_counts_the_same(
    multiplied: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensor cores may be off by their bound, for every pair in any direction."""
    rng = np.random.default_rng(2)

    def noisy(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
        x, y = left[:queries].double(), right[:items].double()
        most = x.shape[1] * 2.0**-22 * torch.outer(x.norm(dim=1), y.norm(dim=1))
        sign = torch.from_numpy(rng.choice([-0.999, 0.999], size=most.shape))
        out[:queries, :items] = (x @ y.T + sign * most).float()

    monkeypatch.setattr(torch_kernels, "half_products", noisy)
    view, space = few_mates()["labels"], space_of("cosine", kind="clustered")
    blocks = blocks_of(view, 41)
    assert counted(view, space, "cpu", blocks) == wanted(view, space, blocks)
    assert multiplied


@pytest.mark.parametrize("device", DEVICES)
def test_without_room_queries_are_counted_exactly(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "STRIP", 32)
    monkeypatch.setattr(FilteredCount, "_places", lambda self, strip: 1)
    left = []
    number = filtered_count.SymmetricCount.left

    def note(self: Any, party: Any) -> Any:
        left.append(number(self, party))
        return left[-1]

    monkeypatch.setattr(filtered_count.SymmetricCount, "left", note)
    view, space = few_mates()["labels"], space_of("cosine", kind="tied")
    blocks = blocks_of(view, 41)
    assert counted(view, space, device, blocks) == wanted(view, space, blocks)
    assert 0 < sum(map(len, left)) < sum(map(len, blocks))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["labels", "junk", "tree"])
def test_some_queries_are_split_by_share(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "STRIP", 32)
    view, space = few_mates()[name], space_of("cosine", kind="clustered")
    blocks = blocks_of(view, 41)
    only = np.concatenate(blocks)[::3]
    rng = np.random.default_rng(5)
    chosen = np.zeros(space.queries, bool)
    chosen[only] = True
    item = rng.integers(3, size=(space.gallery, 1)).astype(np.uint8)
    shares = GalleryFolds(item, 3, chosen)
    found: dict[int, Any] = {}
    with settings(method="symmetric") as limits:
        gpus = engine_of(view, space, device, limits)
        for block in gpus.tie_groups_both_ways(blocks, folds=shares):
            found |= splits_of(block)
    expected: dict[int, Any] = {}
    for block in runner.tie_groups(view, space, device="cpu", folds=shares, only=only):
        expected |= splits_of(block)
    assert found == expected
    assert sorted(found) == only.tolist()


def _hopeless() -> np.ndarray:
    return near_ties(np.random.default_rng(1), 1500, 64)


@pytest.mark.parametrize("rows", [random_like, _hopeless])
def test_data_that_half_precision_cannot_tell_apart(
    rows: Any, multiplied: list[tuple[int, bool]]
) -> None:
    """The other ways are taken."""
    view, space = truerank.Task(np.arange(1500) // 5).view, build("cosine", rows())
    blocks = blocks_of(view, 500)
    assert counted(view, space, "cpu", blocks, "auto") == wanted(view, space, blocks)
    assert not any(both for _, both in multiplied)


def test_a_gallery_that_does_not_stay_on_the_device(
    multiplied: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "free_bytes", lambda device: 100)
    view, space = few_mates()["labels"], space_of("cosine", kind="clustered")
    blocks = blocks_of(view, 41)
    assert counted(view, space, "cpu", blocks) == wanted(view, space, blocks)
    assert not any(both for _, both in multiplied)


@pytest.mark.parametrize("device", DEVICES)
def test_a_pass_that_is_left_early(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "STRIP", 32)
    view, space = few_mates()["labels"], space_of("cosine", kind="clustered")
    blocks = blocks_of(view, 20)
    with settings(method="symmetric") as limits:
        gpus = engine_of(view, space, device, limits)
        begun = gpus.tie_groups_both_ways(blocks)
        next(begun)
        begun.close()  # type: ignore[attr-defined]
        found = collected(gpus.tie_groups_both_ways(blocks))
    assert found == wanted(view, space, blocks)


ROWS = 2000
METRICS = ["map", "map@r", "precision@1", "hit@5", "mrr", "minp"]
SIZES = np.concatenate([np.full(260, 5), np.full(40, 12), np.ones(220, int)])
"""Classes with few mates, with more of them than are compared one by one, and without any."""


@pytest.fixture(params=["torch's CPU device", pytest.param("GPU", marks=needs_gpu)])
def one_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A single device; the list says what was multiplied there."""
    monkeypatch.setattr(front, "STRIP", 256)
    if request.param == "GPU":
        return _listen(monkeypatch, pytest.importorskip("truerank.engine.cuda.filter_kernels"))
    made = front.Engine
    pretend(monkeypatch)
    given = {"devices": ["cpu"], "kernels": torch_kernels, "filters": torch_kernels}
    monkeypatch.setattr(front, "Engine", partial(made, **given))
    return _listen(monkeypatch, torch_kernels)


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_an_evaluation_has_the_same_bits(one_device: list[Any], confidence: float | None) -> None:
    """Scores, intervals, replicates and curves, in blocks of some hundred queries."""
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    rows = clustered(np.random.default_rng(4), labels, 32)
    assert len(rows) == ROWS

    def evaluated(device: str) -> str:
        with settings(query_rows=16):
            given = {"device": device, "confidence": confidence}
            found = truerank.evaluate(rows, labels, metrics=METRICS, **given)
        return bits(found).replace('"device": "cuda"', '"device": "cpu"')

    found = evaluated("cuda")
    assert any(both for _, both in one_device)
    assert found == evaluated("cpu")
