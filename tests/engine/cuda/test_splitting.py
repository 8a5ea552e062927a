"""Counts by fold of the gallery, on a device and on the CPU."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.engine.cuda.devices import groups_of, needs_gpu, pretend, space_of, views
from truerank._util.settings import limits, settings
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block
from truerank.distance.base import Space
from truerank.engine import runner
from truerank.engine.cuda import front, torch_kernels, worker
from truerank.engine.loops import CudaCount
from truerank.task.relevance import View


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("name", ["labels", "cameras and crops", "junk", "tree"])
def test_split_by_share(distance: str, name: str, room: None) -> None:
    found, wanted = split_twice(views()[name], space_of(distance), "cpu", torch_kernels)
    assert found == wanted


def split_twice(
    view: View, space: Space, device: str, kernels: Any, *, filters: Any = None, **sizes: Any
) -> tuple[dict[int, Any], dict[int, Any]]:
    """By the CUDA engine and on the CPU: some queries, alone or among others, and both ways to cut
    the gallery, one of which leaves a share empty."""
    rng = np.random.default_rng(5)
    ways = [rng.integers(3, size=space.gallery), 3 + 2 * rng.integers(2, size=space.gallery)]
    everyone = np.flatnonzero(view.mates > 0)
    only, others = everyone[::2], everyone[1::2]
    wanted = np.zeros(space.queries, bool)
    wanted[only] = True
    shares = GalleryFolds(np.column_stack(ways).astype(np.uint8), 6, wanted)
    found = {}
    with settings(**sizes) as limits:
        gpus = front.Engine(view, space, limits, lambda pairs: None, [device], kernels, filters)
        blocks = [only[:7], np.concatenate([others, only[7:]]), others[:3]]
        for block in gpus.tie_groups(iter(blocks), folds=shares):
            found |= splits_of(block)
    wanted_splits = {}
    for block in runner.tie_groups(view, space, device="cpu", folds=shares, only=only):
        wanted_splits |= splits_of(block)
    assert len(found) == len(only)
    return found, wanted_splits


def splits_of(block: Block) -> dict[int, Any]:
    split = block.split
    rows, groups = block.rows[split.queries], split.groups
    plain = groups_of(rows, groups)
    found = zip(rows.tolist(), groups.offsets, groups.offsets[1:], split.candidates, strict=False)
    return {
        row: (plain[row], split.counts[:, start:stop].tolist(), met.tolist())
        for row, start, stop, met in found
    }


@needs_gpu
@pytest.mark.parametrize("method", ["float64", "filter"])
@pytest.mark.parametrize("kind", ["tied", "clustered", "sparse"])
def test_split_by_share_on_the_gpu(triton_kernels: Any, method: str, kind: str) -> None:
    space = space_of("cosine", kind=kind)
    for view in views().values():
        found, wanted = split_twice(view, space, "cuda:0", triton_kernels, method=method)
        assert found == wanted


def test_later_passes_of_an_evaluation_find_their_rows_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Intervals look closer at some queries in a pass of their own; devices are set up once."""
    pretend(monkeypatch)
    made, passes = [], []
    begin, count = worker.Worker.__init__, CudaCount.run

    def note(self: Any, *given: Any) -> None:
        made.append(self)
        begin(self, *given)

    def run(self: Any, *given: Any) -> Any:
        passes.append(given)
        return count(self, *given)

    monkeypatch.setattr(worker.Worker, "__init__", note)
    monkeypatch.setattr(CudaCount, "run", run)
    rows, labels = clusters(4, classes=90, size=12, noise=2.0)
    with limits(counted=400):
        found = truerank.evaluate(rows, labels, device="cuda")
        assert len(passes) == 2
        assert len(made) <= 2  # a worker for each of the two devices
        wanted = truerank.evaluate(rows, labels, device="cpu")
    assert [repr(score) for score in found.values()] == [repr(s) for s in wanted.values()]
    devices = [weakref.ref(one) for one in made]
    made.clear()
    passes.clear()
    assert not any(one() for one in devices)  # nor does a result hold them


def test_a_device_is_set_up_while_folds_are_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, once; where that fails the pass tries again, and tells."""
    pretend(monkeypatch)
    begun, begin = [], worker.Worker.__init__
    rows, labels = clusters(4, classes=30, size=6, noise=2.0)

    def note(self: Any, *given: Any) -> None:
        begun.append(threading.get_ident())
        if len(begun) == 1:
            raise RuntimeError("no room yet")
        begin(self, *given)

    whole = truerank.evaluate(rows, labels, device="cpu")
    monkeypatch.setattr(worker.Worker, "__init__", note)
    found = truerank.evaluate(rows, labels, device="cuda")
    assert threading.get_ident() not in begun
    assert [repr(score) for score in found.values()] == [repr(s) for s in whole.values()]

    def fail(self: Any, *given: Any) -> None:
        raise RuntimeError("no room at all")

    monkeypatch.setattr(worker.Worker, "__init__", fail)
    with pytest.raises(RuntimeError, match="no room at all"):
        truerank.evaluate(rows, labels, device="cuda")
