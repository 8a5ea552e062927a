"""The CUDA engine gives the CPU's bits.

Without a GPU its logic runs on torch's CPU device with the plain torch kernels, and the arithmetic
of the half-precision filter's bound is tested against integers; with one, so are the kernels.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.conftest import Within
from truerank import engine
from truerank.core import registry
from truerank.core.metric import RankingDefinition, ThresholdDefinition
from truerank.engine import cuda
from truerank.engine.cuts import Cuts
from truerank.engine.sight import Sight
from truerank.engine.threads import Workspace
from truerank.errors import ExactnessError, InputError
from truerank.relevance import View
from truerank.space import Space, build

torch = pytest.importorskip("torch")

from truerank.engine.cuda import rows as device_rows  # noqa: E402
from truerank.engine.cuda import tensor_filter, torch_kernels, worker  # noqa: E402
from truerank.engine.cuda.sight import DeviceSight  # noqa: E402
from truerank.engine.cuda.transfer import Queries, Shelf  # noqa: E402
from truerank.settings import limits, settings  # noqa: E402

needs_gpu = pytest.mark.skipif(cuda.unavailable() is not None, reason="no CUDA device")
DISTANCES = ("cosine", "euclidean", "dot", "cityblock", "hamming", "precomputed", "similarity")
RANKING = [
    text
    for text in registry.examples()
    if isinstance(registry.definition(registry.parse(text)), RankingDefinition)
]

MEASURED = [
    text
    for text in registry.examples()
    if isinstance(registry.definition(registry.parse(text)), ThresholdDefinition)
]


def tied_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """A lattice with duplicates, opposite rows, rows of one direction and zero rows."""
    rows = rng.integers(-2, 3, size=(count, dimension)).astype(np.float32)
    rows[: count // 5] = rows[count // 5 : 2 * (count // 5)]
    rows[count // 2 : count // 2 + count // 8] = -rows[: count // 8]
    rows[-count // 8 :] = 3 * rows[: len(rows[-count // 8 :])]
    rows[:: count // 4] = 0
    return rows


def clustered(rng: np.random.Generator, labels: np.ndarray, dimension: int) -> np.ndarray:
    centres = rng.standard_normal((labels.max() + 1, dimension))
    return (centres[labels] + rng.standard_normal((len(labels), dimension))).astype(np.float32)


def near_ties(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Rows a few grid steps apart: every comparison lies inside the filter's bound."""
    rows = np.tile(rng.standard_normal(dimension), (count, 1))
    return rows + rng.standard_normal(rows.shape) * 2.0**-23


def space_of(distance: str, count: int = 90, kind: str = "tied", dimension: int = 12) -> Space:
    rng = np.random.default_rng(7)
    if distance in ("precomputed", "similarity"):
        return build(distance, rng.integers(0, 40, size=(count, count)) / 8)
    if kind == "tied":
        rows = tied_rows(rng, count, dimension)
    elif kind == "near":
        rows = near_ties(rng, count, dimension)
    else:
        rows = clustered(rng, rng.integers(count // 5, size=count), dimension)
    return build(distance, rows.astype(np.int8) if distance == "hamming" else rows)


def views(count: int = 90) -> dict[str, View]:
    rng = np.random.default_rng(3)
    labels = rng.integers(12, size=count)
    tree = np.column_stack([labels // 6, labels // 2, labels])
    grades = rng.integers(0, 4, size=(count, count)) * (rng.random((count, count)) < 0.2)
    return {
        "labels": truerank.Task(labels).view,
        "cameras and crops": truerank.Task(
            labels, groups=rng.integers(3, size=count), ids=np.arange(count) // 2
        ).view,
        "junk": truerank.Task(labels, junk=rng.random((count, count)) < 0.1).view,
        "tree": truerank.Task(tree).tree_view(),
        "part of a tree": truerank.Task(tree).tree_view(2),
        "judgements": truerank.Task(None, relevance=grades).view,
    }


def collected(blocks: Iterator[engine.Block]) -> dict[int, Any]:
    """Every query's groups, in plain lists."""
    found = {}
    for block in blocks:
        found |= groups_of(block.rows, block.groups)
    return found


def groups_of(rows: np.ndarray, groups: engine.TieGroups) -> dict[int, Any]:
    found = {}
    for number, row in enumerate(rows.tolist()):
        part = slice(groups.offsets[number], groups.offsets[number + 1])
        found[row] = (
            groups.before[part].tolist(),
            groups.size[part].tolist(),
            groups.graded[part].tolist(),
            int(groups.candidates[number]),
        )
    return found


def on_devices(
    view: View, space: Space, *devices: str, kernels: Any = torch_kernels, **sizes: Any
) -> dict[int, Any]:
    with engine.settings(**sizes) as limits:
        rows = np.flatnonzero(view.mates > 0)
        height = cuda.TALLER * limits.query_rows
        blocks = [rows[start : start + height] for start in range(0, len(rows), height)]
        gpus = cuda.Engine(view, space, limits, lambda pairs: None, devices, kernels)
        return collected(gpus.tie_groups(iter(blocks)))


def on_the_cpu(view: View, space: Space) -> dict[int, Any]:
    with engine.settings(method="float64"):
        return collected(engine.tie_groups(view, space, device="cpu", threads=1))


@pytest.fixture(params=["torch's CPU device", pytest.param("GPU", marks=needs_gpu)])
def a_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no GPU, device="cuda" stands for two of torch's CPU devices."""
    if request.param == "GPU":
        return
    engines = partial(cuda.Engine, devices=["cpu", "cpu"], kernels=torch_kernels)
    monkeypatch.setattr(cuda, "unavailable", lambda: None)
    monkeypatch.setattr(cuda, "Engine", engines)
    monkeypatch.setattr(cuda, "Lent", partial(cuda.Lent, device="cpu", kernels=torch_kernels))


def open_set(distance: str, kind: str) -> dict[str, Any]:
    """What evaluate takes: a third of the queries have no mate, a class is junk."""
    rng = np.random.default_rng(11)
    labels, items = rng.integers(12, size=60), rng.integers(8, size=90)
    if distance == "similarity":
        matrix = rng.integers(0, 40, size=(60, 90)) / 40
        return {
            "embeddings": matrix,
            "labels": labels,
            "gallery_labels": items,
            "distance": distance,
        }
    both = np.concatenate([labels, items])
    rows = tied_rows(rng, 150, 12) if kind == "tied" else clustered(rng, both, 12)
    return {
        "embeddings": rows[:60],
        "labels": labels,
        "gallery": rows[60:],
        "gallery_labels": items,
        "junk_labels": [3],
        "distance": distance,
    }


def differing(metrics: list[str], **task: Any) -> list[str]:
    """The metrics whose scores, intervals included, are not the same on both devices."""
    first, second = (
        truerank.evaluate(**task, metrics=metrics, device=device) for device in ("cpu", "cuda")
    )
    return [metric for metric in metrics if repr(first[metric]) != repr(second[metric])]


# --- the logic, on any machine --------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "cityblock", "similarity"])
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_watchers_of_an_open_set(a_device: None, distance: str, kind: str) -> None:
    assert differing(MEASURED, **open_set(distance, kind)) == []


@pytest.mark.parametrize("kind", ["tied", "clustered"])
@pytest.mark.parametrize("height", [7, 2048])
def test_watchers_of_a_task_without_a_gallery(a_device: None, kind: str, height: int) -> None:
    """With intervals, of classes that are left out by share."""
    rng = np.random.default_rng(5)
    labels = np.arange(300) // 5
    rows = tied_rows(rng, 300, 8) if kind == "tied" else clustered(rng, labels, 8)
    groups, ids = rng.integers(3, size=300), np.arange(300) // 2
    with engine.settings(query_rows=height):
        task = {"embeddings": rows, "labels": labels, "query_groups": groups, "query_ids": ids}
        assert differing(MEASURED, **task) == []


@pytest.mark.parametrize("gallery", [False, True])
def test_watchers_that_bracket(a_device: None, gallery: bool, within: Within) -> None:
    """As if there were too many pairs to keep; a sample foretells where thresholds lie."""
    within(limits(breakpoints=100, sampled_from=100, sampled_rows=40))
    within(settings(collected=100))
    task = open_set("cosine", "clustered")
    if not gallery:
        task = {"embeddings": task["gallery"], "labels": task["gallery_labels"]}
    assert differing(MEASURED, **task) == []


def test_watchers_of_a_tree_whose_rows_are_sorted(a_device: None) -> None:
    rng = np.random.default_rng(6)
    labels = rng.integers(12, size=200)
    tree = np.column_stack([labels // 4, labels])
    rows = clustered(rng, labels, 8)
    with engine.settings(sort_share=0.07):
        assert differing([*MEASURED, "h_ap"], embeddings=rows, labels=tree) == []


@pytest.mark.parametrize("gallery", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_watchers_go_on_from_another_devices_checkpoint(
    a_device: None, gallery: bool, device: str, tmp_path: Path, within: Within
) -> None:
    """Interrupted on this device after some chapters, completed on the other one."""
    within(settings(chapter_pairs=20 * 90, chapter_growth=1, checkpoint_worth=0.0))
    task = open_set("cosine", "clustered")
    if not gallery:
        task = {"embeddings": task["gallery"], "labels": task["gallery_labels"]}
    task["metrics"], path = ["map", *MEASURED], tmp_path / "counts"
    expected = truerank.evaluate(**task, device="cpu")

    def stop(done: int, total: int) -> None:
        if 2 * done > total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        truerank.evaluate(**task, device=device, checkpoint=path, progress=stop)
    heard: list[int] = []
    other = "cuda" if device == "cpu" else "cpu"
    found = truerank.evaluate(
        **task, device=other, checkpoint=path, progress=lambda done, total: heard.append(done)
    )
    assert heard[0] > 0  # what the first one had seen
    assert {m: repr(found[m]) for m in task["metrics"]} == {
        m: repr(expected[m]) for m in task["metrics"]
    }


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

    gc.collect()
    before = held()
    gc.disable()
    try:
        truerank.evaluate(rows, labels, metrics=metrics, device=device)
        assert held() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_every_distance(distance: str, kind: str) -> None:
    view, space = views()["cameras and crops"], space_of(distance, kind=kind)
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


@pytest.fixture(params=["rows stay on the device", "rows are sent in tiles"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "rows are sent in tiles":
        monkeypatch.setattr(device_rows, "free_bytes", lambda device: 100)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
def test_rows_larger_than_the_device_are_sent_in_tiles(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_rows, "free_bytes", lambda device: 100)
    view, space = views()["cameras and crops"], space_of(distance)
    assert not device_rows.place(space, torch.device("cpu"), torch_kernels).resident
    assert on_devices(view, space, "cpu", gallery_rows=2) == on_the_cpu(view, space)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("name", ["labels", "cameras and crops", "junk", "tree"])
def test_split_by_share(distance: str, name: str, room: None) -> None:
    found, wanted = split_twice(views()[name], space_of(distance), "cpu", torch_kernels)
    assert found == wanted


def split_twice(
    view: View, space: Space, device: str, kernels: Any, **sizes: Any
) -> tuple[dict[int, Any], dict[int, Any]]:
    """By the CUDA engine and on the CPU: some queries, alone or among others, and both ways to cut
    the gallery, one of which leaves a share empty."""
    rng = np.random.default_rng(5)
    ways = [rng.integers(3, size=space.gallery), 3 + 2 * rng.integers(2, size=space.gallery)]
    everyone = np.flatnonzero(view.mates > 0)
    only, others = everyone[::2], everyone[1::2]
    wanted = np.zeros(space.queries, bool)
    wanted[only] = True
    shares = engine.Shares(np.column_stack(ways).astype(np.uint8), 6, wanted)
    found = {}
    with engine.settings(**sizes) as limits:
        gpus = cuda.Engine(view, space, limits, lambda pairs: None, [device], kernels)
        blocks = [only[:7], np.concatenate([others, only[7:]]), others[:3]]
        for block in gpus.tie_groups(iter(blocks), shares=shares):
            found |= splits_of(block)
    wanted_splits = {}
    for block in engine.tie_groups(view, space, device="cpu", shares=shares, only=only):
        wanted_splits |= splits_of(block)
    assert len(found) == len(only)
    return found, wanted_splits


def splits_of(block: engine.Block) -> dict[int, Any]:
    split = block.split
    rows, groups = block.rows[split.queries], split.groups
    assert split.wanted.all()
    plain = groups_of(rows, groups)
    found = zip(rows.tolist(), groups.offsets, groups.offsets[1:], split.candidates, strict=False)
    return {
        row: (plain[row], split.counts[:, start:stop].tolist(), met.tolist())
        for row, start, stop, met in found
    }


@pytest.mark.parametrize("distance", DISTANCES)
def test_lent_tiles_are_the_tiles(distance: str) -> None:
    space = space_of(distance)
    rows = np.array([5, 0, 44, 89])
    tile = cuda.Lent(space, "cpu", torch_kernels).block(rows)
    np.testing.assert_array_equal(tile(3, 61), space.block(rows)(3, 61))


def whole_rows(space: Space, rows: np.ndarray, device: str, kernels: Any) -> np.ndarray:
    placed = device_rows.place(space, torch.device(device), kernels)
    found: np.ndarray = placed.whole_rows(Queries.of(rows, placed.device)).cpu().numpy()
    return found


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_whole_rows_are_the_tiles(
    distance: str, kind: str, room: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without rows that have no direction, in one product and in several."""
    monkeypatch.setattr(device_rows.DeviceSpace, "widest", 40)
    space, rows = space_of(distance, kind=kind), np.array([5, 0, 44, 89])
    found = whole_rows(space, rows, "cpu", torch_kernels)
    np.testing.assert_array_equal(found, space.block(rows)(0, 90))


def test_an_inexact_product_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    block = device_rows.InnerProducts.block

    def single(self: Any, rows: np.ndarray) -> Any:
        norm, tile = block(self, rows)

        def give(start: int, stop: int) -> Any:
            products, norms = tile(start, stop)
            return products.float().double(), norms

        return norm, give

    monkeypatch.setattr(device_rows.InnerProducts, "block", single)
    with pytest.raises(ExactnessError, match="not exact"):
        on_devices(views()["labels"], space_of("cosine", kind="clustered"), "cpu")


def test_inexact_rows_are_found_out(a_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = device_rows.InnerProducts.whole_rows

    def single(self: Any, queries: Queries) -> Any:
        return whole(self, queries).float().double()

    monkeypatch.setattr(device_rows.InnerProducts, "whole_rows", single)
    rng = np.random.default_rng(2)
    labels = rng.integers(30, size=200)
    rows = clustered(rng, labels, 12)
    with pytest.raises(ExactnessError, match="not exact"):
        truerank.evaluate(rows, labels, metrics=["map@r", "mrep"], device="cuda")


def test_an_interrupt_leaves_no_thread() -> None:
    view, space = views()["labels"], space_of("cosine")
    before = threading.active_count()

    def interrupt(pairs: int) -> None:
        raise KeyboardInterrupt

    with engine.settings(query_rows=1) as limits:
        gpus = cuda.Engine(view, space, limits, interrupt, ["cpu", "cpu"], torch_kernels)
        blocks = (np.arange(start, start + 2) for start in range(0, 90, 2))
        with pytest.raises(KeyboardInterrupt):
            list(gpus.tie_groups(blocks))
    assert threading.active_count() == before


def test_why_a_gpu_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device='cuda' cannot be used: torch sees no CUDA device"):
        truerank.evaluate(np.eye(4), [0, 0, 1, 1], device="cuda")
    assert engine.resolve_device("auto", 10**15) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert engine.resolve_device("auto", 10**15) == "cuda"
    assert engine.resolve_device("auto", 10**4) == "cpu"
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    with pytest.raises(InputError, match="CUBLAS_EMULATE_DOUBLE_PRECISION"):
        engine.resolve_device("cuda")


def test_a_small_task_never_imports_torch() -> None:
    code = (
        "import sys, numpy, truerank\n"
        "truerank.evaluate(numpy.eye(4), [0, 0, 1, 1])\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


# --- the bound of the half-precision filter -------------------------------------------------------


@pytest.mark.parametrize("kind", ["tied", "clustered", "near"])
@pytest.mark.parametrize("dimension", [3, 12, 70])
def test_no_product_within_the_bound_decides_wrongly(kind: str, dimension: int) -> None:
    """Whatever the accumulation does inside its bound, a decided comparison is the exact one."""
    space = space_of("cosine", 80, kind, dimension)
    placed = device_rows.place(space, torch.device("cpu"), torch_kernels)
    everyone = np.arange(80)
    exact = torch.from_numpy(space.block(everyone)(0, 80))
    integers, norm = placed.gallery_rows(0, 80)
    halves = tensor_filter.halves(integers)
    edges = torch.sort(exact[:, ::7], dim=1).values
    items = tensor_filter.Extremes.of(halves, norm)
    sure, lost = tensor_filter.thresholds(edges, norm, halves, items)
    wide = halves.rows.double()[:80]
    product = wide @ wide.T
    slack = wide.shape[1] * 2.0**-22 * torch.outer(wide.norm(dim=1), wide.norm(dim=1))
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
    rows = tensor_filter.halves(tensor_filter.probe_rows(256, torch.device("cpu")))
    single = rows.rows.float()
    good, poor = torch.zeros(2, len(single), len(single))
    for column in single.T:
        term = torch.outer(column, column)
        good = good + term
        mantissa, exponent = torch.frexp(poor + term)
        poor = torch.ldexp(torch.trunc(mantissa * 2**14) / 2**14, exponent)
    assert tensor_filter.holds(good, rows)
    assert not tensor_filter.holds(poor, rows)


def test_halves_know_what_they_lost() -> None:
    rng = np.random.default_rng(0)
    integers = torch.from_numpy(rng.integers(-(2**25), 2**25, size=(9, 5)).astype(np.int32))
    halves = tensor_filter.halves(integers)
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


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.fixture
def triton_kernels() -> Any:
    return pytest.importorskip("truerank.engine.cuda.triton_kernels")


@needs_gpu
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_whole_rows_on_the_gpu(triton_kernels: Any, distance: str, kind: str) -> None:
    space, rows = space_of(distance, 300, kind), np.array([5, 0, 44, 299])
    found = whole_rows(space, rows, "cuda:0", triton_kernels)
    np.testing.assert_array_equal(found, space.block(rows)(0, 300))


@needs_gpu
@pytest.mark.parametrize("digits", [2, 15])
@pytest.mark.parametrize("cuts", [1, 50, 5000])
def test_what_watchers_ask_of_rows(triton_kernels: Any, digits: int, cuts: int) -> None:
    """More items than a program looks at, some of them infinitely far; cuts crowd in one place."""
    rng = np.random.default_rng(cuts)
    distances = np.round(rng.normal(size=(30, 40_000)), digits)
    distances[rng.random(distances.shape) < 0.05] = np.inf
    at = rng.normal(size=cuts) * np.where(rng.random(cuts) < 0.5, 1.0, 1e-3)
    thresholds = Cuts.of(np.round(at, digits))
    there = torch.from_numpy(distances).cuda()
    on_gpu = DeviceSight(np.arange(30), there, triton_kernels, Shelf(there.device))
    on_cpu = Sight(np.arange(30), distances, compiled=True)
    limit = np.where(rng.random(30) < 0.3, -np.inf, rng.normal(size=30))
    nearer = triton_kernels.nearer(there, torch.from_numpy(limit).cuda()).cpu().numpy()
    np.testing.assert_array_equal(nearer, (distances < limit[:, None]).sum(axis=1))
    grid = np.linspace(-3.0, 3.0, 301)
    found = [sight.accepted(grid, -3.0, 6.0) for sight in (on_gpu, on_cpu)]
    np.testing.assert_array_equal(*found)
    ranges = [(-0.1, 0.2), (-np.inf, 1.5), (1.0, np.inf)]
    pairs = zip(*(sight.between(ranges, Workspace()) for sight in (on_gpu, on_cpu)), strict=True)
    for some, same in pairs:
        np.testing.assert_array_equal(np.sort(some), np.sort(same))
    for turned in (False, True):
        sides = (40_000, 30) if turned else (30, 40_000)
        owner = rng.integers(-1, 4, size=sides[0])
        share = rng.integers(5, size=(sides[1], 2)).astype(np.uint8)
        tables = np.zeros((2, 5, len(thresholds) + 1), np.int64)
        splits = np.zeros((2, 4, 5, len(thresholds)), np.int64)
        for sight, table, split in zip((on_gpu, on_cpu), tables, splits, strict=True):
            known = np.where(owner < 0, 4, owner)
            sight.tally(thresholds, known, partial(nullcontext, table), turned=turned)
            given = (owner, share, 5, partial(nullcontext, split))
            sight.tally_by_share(thresholds, *given, turned=turned)
        np.testing.assert_array_equal(*tables)
        np.testing.assert_array_equal(*splits)
        assert splits[0].any()


@needs_gpu
@pytest.mark.parametrize("method", ["float64", "filter"])
@pytest.mark.parametrize("kind", ["tied", "clustered", "near"])
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
@pytest.mark.parametrize("method", ["float64", "filter"])
@pytest.mark.parametrize("kind", ["tied", "clustered"])
def test_split_by_share_on_the_gpu(triton_kernels: Any, method: str, kind: str) -> None:
    space = space_of("cosine", kind=kind)
    for view in views().values():
        found, wanted = split_twice(view, space, "cuda:0", triton_kernels, method=method)
        assert found == wanted


@needs_gpu
@pytest.mark.parametrize("distance", DISTANCES)
def test_every_distance_on_the_gpu(triton_kernels: Any, distance: str) -> None:
    view, space = views(300)["junk"], space_of(distance, 300)
    found = on_devices(view, space, "cuda:0", kernels=triton_kernels)
    assert found == on_the_cpu(view, space)


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


@needs_gpu
@pytest.mark.parametrize("kind", ["tied", "clustered"])
@pytest.mark.parametrize("sort_share", [0.0, 0.05, 1.0])
def test_every_ranking_metric_of_a_tree(kind: str, sort_share: float) -> None:
    """Rankings that stay on the GPU, those with ties that do not, and counted ones."""
    rng = np.random.default_rng(2)
    labels = rng.integers(36, size=900)
    tree = np.column_stack([labels // 18, labels // 6, labels // 2, labels])
    rows = tied_rows(rng, 900, 6) if kind == "tied" else clustered(rng, labels, 6)
    with engine.settings(sort_share=sort_share):
        first, second = (
            truerank.evaluate(rows, tree, device=device, metrics=RANKING)
            for device in ("cpu", "cuda")
        )
    assert first.provenance["ties"] == second.provenance["ties"]
    assert first.provenance["severity"] == second.provenance["severity"]
    for metric in RANKING:
        for end in ("lower", "expected", "upper"):
            np.testing.assert_array_equal(
                getattr(first[metric].per_query, end), getattr(second[metric].per_query, end)
            )
        np.testing.assert_array_equal(first[metric].value, second[metric].value)


@needs_gpu
def test_tensors_on_the_gpu() -> None:
    rng = np.random.default_rng(2)
    labels = np.arange(60) // 3
    rows = clustered(rng, labels, 8)
    tensor = torch.from_numpy(rows).cuda()
    on_gpu = truerank.evaluate(tensor, torch.from_numpy(labels).cuda(), device="cuda")
    assert on_gpu["map@r"] == truerank.evaluate(rows, labels, device="cpu")["map@r"]


def test_torch_is_not_imported_where_no_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(cuda, "DRIVERS", ("no-such-device",))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not cuda.likely()
    assert engine.resolve_device("auto", 1 << 40) == "cpu"
    assert "torch" not in sys.modules
    monkeypatch.setattr(cuda, "DRIVERS", ("null",))
    assert cuda.likely()
