"""Spaces and views to count, and what the devices and the CPU make of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import truerank
from tests import registered
from truerank._util.settings import settings
from truerank.core.tie_groups import Block, TieGroups
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine import runner
from truerank.engine.cuda import front, search, torch_kernels
from truerank.engine.cuda.front import TALLER
from truerank.task.relevance import View

needs_gpu = pytest.mark.skipif(front.unavailable() is not None, reason="no CUDA device")
DISTANCES = ("cosine", "euclidean", "dot", "cityblock", "hamming", "precomputed", "similarity")
MEASURED = registered.of_thresholds()


def pretend(patch: pytest.MonkeyPatch) -> None:
    """device="cuda" stands for two of torch's CPU devices."""
    engines = partial(front.Engine, devices=["cpu", "cpu"], kernels=torch_kernels)
    lent = partial(front.DeviceBackedSpace, device="cpu", kernels=torch_kernels)
    patch.setattr(front, "unavailable", lambda: None)
    patch.setattr(front, "FIRST", "cpu")
    patch.setattr(front, "Engine", engines)
    patch.setattr(front, "DeviceBackedSpace", lent)
    searches = partial(search.Searches, devices=["cpu", "cpu"], kernels=torch_kernels)
    patch.setattr(search, "Searches", partial(searches, filters=torch_kernels))
    patch.setattr("truerank._util.cluster._take_gpu", lambda share: None)


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


def sparse_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Weights of few components each: many pairs are orthogonal, and the grid alone is asked."""
    rows = np.abs(rng.standard_normal((count, dimension))) * (rng.random((count, dimension)) < 0.3)
    rows[::9] = 0
    return rows


def mixed_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Short rows among others."""
    short = tied_rows(rng, count, dimension).astype(np.float64)
    others = sparse_rows(rng, count, dimension)
    return np.where(rng.random(count)[:, None] < 0.5, short, others)


def near_ties(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Rows a few grid steps apart: every comparison lies inside the filter's bound."""
    rows = np.tile(rng.standard_normal(dimension), (count, 1))
    return rows + rng.standard_normal(rows.shape) * 2.0**-23


def space_of(distance: str, count: int = 90, kind: str = "tied", dimension: int = 12) -> Space:
    rng = np.random.default_rng(7)
    if distance in ("precomputed", "similarity"):
        return build(distance, rng.integers(0, 40, size=(count, count)) / 8)
    makers = {"tied": tied_rows, "sparse": sparse_rows, "mixed": mixed_rows, "near": near_ties}
    if kind in makers:
        rows = makers[kind](rng, count, dimension)
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


def few_mates(count: int = 90) -> dict[str, View]:
    """Views in which queries have so few mates that items are compared with each."""
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.arange(count) // 4)
    tree = np.column_stack([labels // 2, labels])
    grades = np.zeros((count, count), np.int64)
    some = np.array([rng.choice(count, 6, replace=False) for _ in range(count)])
    np.put_along_axis(grades, some, rng.integers(0, 4, size=some.shape), axis=1)
    cameras = {"groups": rng.integers(3, size=count), "ids": np.arange(count) // 2}
    return {
        "labels": truerank.Task(labels).view,
        "cameras and crops": truerank.Task(labels, **cameras).view,
        "junk": truerank.Task(labels, junk=rng.random((count, count)) < 0.1).view,
        "tree": truerank.Task(tree).tree_view(),
        "judgements": truerank.Task(None, relevance=grades).view,
    }


def collected(blocks: Iterator[Block]) -> dict[int, Any]:
    """Every query's groups, in plain lists."""
    found = {}
    for block in blocks:
        found |= groups_of(block.rows, block.groups)
    return found


def groups_of(rows: np.ndarray, groups: TieGroups) -> dict[int, Any]:
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
    with settings(**sizes) as limits:
        rows = np.flatnonzero(view.mates > 0)
        height = TALLER * limits.query_rows
        blocks = [rows[start : start + height] for start in range(0, len(rows), height)]
        gpus = front.Engine(view, space, limits, lambda pairs: None, devices, kernels)
        return collected(gpus.tie_groups(iter(blocks)))


def on_the_cpu(view: View, space: Space) -> dict[int, Any]:
    with settings(method="float64"):
        return collected(runner.tie_groups(view, space, device="cpu", threads=1))
