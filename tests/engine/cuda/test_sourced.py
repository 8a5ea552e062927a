"""A gallery that stays at its source is counted as one that is held; and the filter, anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import (
    clustered,
    collected,
    groups_of,
    near_ties,
    needs_gpu,
    on_the_cpu,
    space_of,
    sparse_rows,
    views,
)
from truerank._util.errors import InputError
from truerank._util.settings import settings
from truerank.core.jackknife import GalleryFolds
from truerank.distance import grid
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.cosine import ArraySource, SourcedCosine
from truerank.engine import runner
from truerank.engine.cuda import front, torch_kernels, worker
from truerank.engine.cuda import rows as rounding
from truerank.task.relevance import View

KINDS = {"sparse": sparse_rows, "near": near_ties}


class Heard(ArraySource):
    """A source that remembers which rows were asked for on a device."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.asked: list[np.ndarray] = []

    def send(self, rows: Any) -> Any:
        self.asked.append(rows.cpu().numpy())
        return super().send(rows)


def counted(view: View, space: Space, method: str, height: int = 2) -> dict[int, Any]:
    """Tie groups by torch's CPU device, with the filter in plain torch."""
    rows = np.flatnonzero(view.mates > 0)
    with settings(method=method, query_rows=height, gallery_rows=1) as limits:
        gpus = front.Engine(
            view, space, limits, lambda pairs: None, ["cpu"], torch_kernels, torch_kernels
        )
        return collected(gpus.tie_groups(iter([rows[:31], rows[31:]])))


def rows_of(kind: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    if kind == "clustered":
        return clustered(rng, rng.integers(count // 5, size=count), 12)
    return KINDS[kind](rng, count, 12)


@pytest.mark.parametrize("name", list(views()))
@pytest.mark.parametrize("kind", ["tied", "sparse", "mixed", "near", "clustered"])
def test_the_filter_counts_what_the_cpu_counts(kind: str, name: str) -> None:
    view, space = views()[name], space_of("cosine", kind=kind)
    assert counted(view, space, "filter") == on_the_cpu(view, space)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("method", ["float64", "filter", "auto"])
@pytest.mark.parametrize("kind", ["sparse", "near", "clustered"])
def test_a_sourced_gallery_is_counted_as_one_that_is_held(kind: str, method: str) -> None:
    rows = rows_of(kind, 240)
    labels = np.arange(240) % 40
    task = truerank.Task(labels[:90], gallery_labels=labels)
    held = build("cosine", rows[:90], rows)
    sourced = SourcedCosine(rows[:90], ArraySource(rows))
    assert counted(task.view, sourced, method) == on_the_cpu(task.view, held)


def test_only_rows_in_doubt_are_had_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for half precision, then mates, and what is open; folds of those rows go with them."""
    monkeypatch.setattr(front, "STRIP", 256)
    count = 2000
    labels = np.arange(count) % 500
    rows = clustered(np.random.default_rng(8), labels, 32)
    view = truerank.Task(labels[:20], gallery_labels=labels).view
    source = Heard(rows)
    space = SourcedCosine(rows[:20], source)
    fold = (np.arange(count) % 5).astype(np.uint8)[:, None]
    folds = GalleryFolds(fold, 5, np.ones(20, bool))
    found = []
    with settings(method="filter") as limits:
        for some, filters in ((space, torch_kernels), (build("cosine", rows[:20], rows), None)):
            one = worker.Worker(view, some, torch.device("cpu"), torch_kernels, filters)
            if some is space:
                source.asked.clear()
            found.append(one.count(np.arange(20), limits, folds=folds))
    asked = np.concatenate(source.asked)
    assert count + 80 < len(asked) < count + 600
    assert groups_of(found[0].rows, found[0].groups) == groups_of(found[1].rows, found[1].groups)
    np.testing.assert_array_equal(found[0].split.counts, found[1].split.counts)


def test_rows_are_rounded_on_a_device_as_on_the_cpu() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 7)) * 2.0 ** rng.integers(-300, 300, size=(400, 1))
    rows[:50] = rng.integers(-3, 4, size=(50, 7))
    rows[50:60] = 0
    rows[60:70] = 5e-324 * rng.integers(0, 9, size=(10, 7))
    # Components halfway between two steps: x_i/|x| = (2n + 1) 2^-26 with a rational |x|.
    for number in range(70, 130):
        odd = 2 * number + 1
        rows[number] = [odd, 2**26, 0, 0, 0, 0, 0]
        rows[number, 2] = np.sqrt(float(2**60 - odd**2 - 2**52)) if number % 2 else 0
    integers, square = rounding.unit_rows(torch.from_numpy(rows))
    expected, zero = grid.unit_grid(rows)
    np.testing.assert_array_equal(integers.numpy(), expected)
    exact = (expected.astype(object) ** 2).sum(1).astype(float)
    np.testing.assert_array_equal(square.numpy(), np.where(zero, 2.0**50, exact))


def test_midpoints_are_left_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    whole = grid.unit_grid

    def listen(rows: np.ndarray) -> Any:
        seen.append(rows)
        return whole(rows)

    monkeypatch.setattr(grid, "unit_grid", listen)
    rows = np.random.default_rng(1).standard_normal((20, 5))
    rows[0] = [2.0**-26, 1, 0, 0, 0]  # so close to a midpoint that floating point cannot tell
    integers, _ = rounding.unit_rows(torch.from_numpy(rows))
    assert [len(some) for some in seen] == [1]
    np.testing.assert_array_equal(integers.numpy(), whole(rows)[0])


@pytest.mark.parametrize(
    ("queries", "gallery", "words"),
    [
        (np.ones((3, 4)) / 3, np.ones((5, 3)), "same number of dimensions"),
        (np.ones((3, 4)), np.ones((5, 4)), "small integers"),
    ],
)
def test_what_a_source_cannot_do(queries: np.ndarray, gallery: np.ndarray, words: str) -> None:
    queries = queries * (1 if words == "small integers" else np.pi)
    with pytest.raises(InputError, match=words):
        SourcedCosine(queries, ArraySource(gallery))


def test_numbers_that_are_none_are_refused_wherever_rows_are_read() -> None:
    rows = rows_of("clustered", 30)
    rows[7, 3] = np.nan
    space = SourcedCosine(rows[:5], ArraySource(rows))
    with pytest.raises(InputError, match="NaN or infinity in the gallery"):
        space.block(np.arange(5))(0, 30)
    with pytest.raises(InputError, match="NaN or infinity in the gallery"):
        rounding.unit_rows(ArraySource(rows).send(torch.arange(30)))


def test_distances_are_those_of_a_gallery_that_is_held() -> None:
    rows = rows_of("sparse", 40)
    held, sourced = build("cosine", rows[:9], rows), SourcedCosine(rows[:9], ArraySource(rows))
    some = np.array([3, 1, 8])
    np.testing.assert_array_equal(sourced.block(some)(5, 30), held.block(some)(5, 30))
    query, item = np.array([0, 8, 8]), np.array([39, 2, 39])
    distances = sourced.pairs(query, item)
    np.testing.assert_array_equal(distances, held.pairs(query, item))
    np.testing.assert_array_equal(sourced.in_unit(distances), held.in_unit(distances))
    np.testing.assert_array_equal(sourced.fingerprints(), held.fingerprints())


@needs_gpu
def test_a_sourced_gallery_on_a_gpu(triton_kernels: Any) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(4000, size=20_000)
    rows = clustered(rng, labels, 64)
    view = truerank.Task(labels[:500], gallery_labels=labels).view
    sourced = SourcedCosine(rows[:500], ArraySource(rows))
    on_gpu = collected(runner.tie_groups(view, sourced, device="cuda"))
    assert on_gpu == on_the_cpu(view, build("cosine", rows[:500], rows))
