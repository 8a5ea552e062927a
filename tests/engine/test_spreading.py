"""Passes spread over a cluster: every pair in one task, whatever the cluster, and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

import truerank
from tests.in_process_cluster import in_process
from tests.test_checkpoint import Stop, bits, stopping_after
from truerank._util.errors import ExactnessError
from truerank._util.settings import Settings, settings
from truerank.core.metric import Metric
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine.ray import ranges, spread
from truerank.engine.reducers import (
    Extent,
    NearestDistance,
    Observer,
    Observers,
    PairObserver,
    RankObserver,
    ResumableObserver,
)
from truerank.engine.schedule import PassRequest, Queries
from truerank.metrics.thresholds.gom import Axis, Gom
from truerank.task.task import TaskRules

RNG = np.random.default_rng(8)
ROWS = RNG.integers(-3, 4, size=(170, 5)).astype(np.float32)
LABELS = np.concatenate([np.arange(100) % 20, np.full(50, 20), np.arange(100, 120)])
LIMITS = Settings(query_rows=30, gallery_rows=20, task_pairs=30 * 40)


def request(**options: Any) -> PassRequest:
    view = TaskRules(LABELS).view
    return PassRequest(view, build("cosine", ROWS), options.pop("device", "cpu"), 1, **options)


def gom(queries: int) -> Gom:
    kinds = {"exact": False, "bracketed": True, "peaks": (), "frozen_share": False}
    return Gom(Axis(0.0, 1.0), queries, queries, limits=(), taus=(), **kinds)


ASKED: dict[str, dict[str, Any]] = {
    "tie groups": {},
    "on GPUs": {"device": "cuda"},
    "observed": {"observers": Observers([NearestDistance(170)])},
    "whole rows observed": {"observers": Observers([gom(170)])},
    "observed only": {"observers": Observers([Extent()]), "groups": False},
    "some queries": {"only": np.arange(0, 170, 3)},
    "what is left": {"seen": np.arange(170) % 2 == 0},
}


@pytest.mark.parametrize("asked", ASKED)
def test_every_query_is_in_one_block(asked: str) -> None:
    wanted = request(**ASKED[asked])
    left = Queries.of(wanted)
    items = spread(wanted, left, LIMITS).items
    found = np.concatenate([rows for item in items for rows in item.blocks])
    assert sorted(found) == sorted([*left.rows, *left.unmated_rows])
    names = {item.strategy for item in items}
    if asked in ("on GPUs", "whole rows observed"):
        assert names == {"spread rows"}
    elif asked in ("observed only", "some queries"):
        assert names == {"spread tiles"}
    else:  # a class of 50 is more than a twentieth of all
        assert names == {"spread tiles", "spread rows"}


def test_blocks_have_mates_or_have_none() -> None:
    wanted = request(**ASKED["observed"])
    for item in spread(wanted, Queries.of(wanted), LIMITS).items:
        for rows in item.blocks:
            assert len(set((wanted.view.mates[rows] > 0).tolist())) == 1


@pytest.mark.parametrize("task_pairs", [1, 30 * 40, 30 * 50, 1 << 28])
def test_the_gallery_is_cut_into_parts(task_pairs: int) -> None:
    limits = Settings(query_rows=30, gallery_rows=20, task_pairs=task_pairs)
    found = ranges(request().space, limits)
    assert [item for part in found for item in range(*part)] == list(range(170))
    assert all(start % 20 == 0 for start, _ in found)


@pytest.mark.parametrize("calls", [1, 3, 8, 20])
def test_a_run_goes_on_with_another_cluster(calls: int, tmp_path: Path) -> None:
    """The counts of blocks under way are kept, and what they hold is not counted again."""
    kept = tmp_path / "counts"

    def ranked(**options: Any) -> truerank.Result:
        return truerank.evaluate(
            ROWS, LABELS, metrics=["map@r", "mrr"], confidence=None, device="cpu", **options
        )

    alone = bits(ranked())
    sizes = {"query_rows": 30, "gallery_rows": 20, "task_pairs": 30 * 40, "sort_share": 1.0}
    with settings(**sizes, checkpoint_worth=0.0):
        with in_process(workers=1) as first, pytest.raises(Stop):
            ranked(cluster="auto", checkpoint=kept, progress=stopping_after(calls))
        with in_process(workers=4) as second:
            assert bits(ranked(cluster="auto", checkpoint=kept)) == alone
        with in_process() as whole:
            assert bits(ranked(cluster="auto")) == alone
    tiles = "truerank.engine.ray:add_tiles"
    again = second.calls.count(tiles)
    assert whole.calls.count(tiles) - calls <= again < whole.calls.count(tiles)
    assert first.calls.count(tiles) >= calls


def test_a_machine_without_trusted_float32_counts_in_float64() -> None:
    def distrust(space: Space) -> None:
        space.single = None

    with settings(query_rows=30, gallery_rows=20, task_pairs=30 * 40, method="filter"):
        alone = truerank.evaluate(ROWS, LABELS, metrics=["map@r"])
        with in_process(), patch("truerank.engine.ray.probe", distrust):
            assert bits(truerank.evaluate(ROWS, LABELS, metrics=["map@r"], cluster="auto")) == bits(
                alone
            )


def test_a_machine_whose_products_are_not_exact_ends_it() -> None:
    inexact = Mock(side_effect=ExactnessError("the float64 matrix product is not exact"))
    with (
        in_process(),
        patch("truerank.engine.ray.probe", inexact),
        pytest.raises(ExactnessError, match="is not exact"),
    ):
        truerank.evaluate(ROWS, LABELS, metrics=["map@r"], cluster="auto")


def test_metrics_take_part_by_being_registered() -> None:
    """What observers saw elsewhere is added by observers alone: no metric knows of clusters."""
    with in_process(), settings(query_rows=30, gallery_rows=20, task_pairs=30 * 40):
        spread_out = truerank.evaluate(ROWS, LABELS, metrics=["mrep", "auc"], cluster="auto")
    assert spread_out[str(Metric("auc"))] == truerank.evaluate(ROWS, LABELS, metrics=["auc"])["auc"]


def test_every_observer_of_an_evaluation_can_be_elsewhere() -> None:
    """Those of reports look at rows that are held here."""

    def kinds(base: type[Observer]) -> Iterator[type[Observer]]:
        for kind in base.__subclasses__():
            yield kind
            yield from kinds(kind)

    concrete = {kind for kind in kinds(Observer) if kind.__module__.startswith("truerank.")} - {
        PairObserver,
        RankObserver,
        ResumableObserver,
    }
    here = {kind for kind in concrete if kind.part is Observer.part or kind.add is Observer.add}
    assert len(concrete) > 10
    assert {kind.__module__ for kind in here} <= {"truerank.report.threshold_slider"}
