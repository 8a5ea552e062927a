"""What observers see on a device is what they see on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.conftest import Within
from tests.engine.cuda.devices import MEASURED, clustered, needs_gpu, tied_rows
from truerank._util.settings import limits, settings
from truerank._util.threads import Workspace
from truerank.engine.blocks import Cuts, DistanceBlock
from truerank.engine.cuda.transfer import DeviceCache
from truerank.engine.cuda.worker import DeviceDistanceBlock


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
    with settings(query_rows=height):
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
    with settings(sort_share=0.07):
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
    on_gpu = DeviceDistanceBlock(np.arange(30), there, triton_kernels, DeviceCache(there.device))
    on_cpu = DistanceBlock(np.arange(30), distances, compiled=True)
    limit = np.where(rng.random(30) < 0.3, -np.inf, rng.normal(size=30))
    nearer = triton_kernels.nearer(there, torch.from_numpy(limit).cuda()).cpu().numpy()
    np.testing.assert_array_equal(nearer, (distances < limit[:, None]).sum(axis=1))
    grid = np.linspace(-3.0, 3.0, 301)
    found = [block.accepted(grid, -3.0, 6.0) for block in (on_gpu, on_cpu)]
    np.testing.assert_array_equal(*found)
    ranges = [(-0.1, 0.2), (-np.inf, 1.5), (1.0, np.inf)]
    pairs = zip(*(block.between(ranges, Workspace()) for block in (on_gpu, on_cpu)), strict=True)
    for some, same in pairs:
        np.testing.assert_array_equal(np.sort(some), np.sort(same))
    for turned in (False, True):
        sides = (40_000, 30) if turned else (30, 40_000)
        owner = rng.integers(-1, 4, size=sides[0])
        share = rng.integers(5, size=(sides[1], 2)).astype(np.uint8)
        tables = np.zeros((2, 5, len(thresholds) + 1), np.int64)
        splits = np.zeros((2, 4, 5, len(thresholds)), np.int64)
        for block, table, split in zip((on_gpu, on_cpu), tables, splits, strict=True):
            known = np.where(owner < 0, 4, owner)
            block.tally(thresholds, known, partial(nullcontext, table), turned=turned)
            given = (owner, share, 5, partial(nullcontext, split))
            block.tally_by_fold(thresholds, *given, turned=turned)
        np.testing.assert_array_equal(*tables)
        np.testing.assert_array_equal(*splits)
        assert splits[0].any()
