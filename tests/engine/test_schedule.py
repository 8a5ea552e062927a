"""The schedule: which rows go to which strategy, in which blocks, without running anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from truerank import Task
from truerank._util.settings import Settings
from truerank.core.jackknife import GalleryFolds
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.engine.cuda import front
from truerank.engine.cuda.front import SPLIT_TALLER, TALLER, DeviceFacts
from truerank.engine.reducers import Extent, NearestDistance, Observers, RankObserver
from truerank.engine.runner import STRATEGIES
from truerank.engine.schedule import PassRequest, Queries, Schedule, schedule

ROWS = 60
LABELS = np.concatenate([np.arange(20).repeat(2), np.full(10, 20), np.arange(21, 31)])
"""Twenty pairs, ten of one class, ten that have no mate."""
PAIRED, CROWDED, LONELY = np.arange(40), np.arange(40, 50), np.arange(50, 60)
DATA = np.random.default_rng(0).standard_normal((ROWS, 4)).astype(np.float32)
LIMITS = Settings(sort_share=0.05, query_rows=16)
"""Three mates are few."""
GPU = DeviceFacts(walks=True, ranked_rows=7, observed_rows=5, observing=3)
VIEW = Task(LABELS).view


class Looker(RankObserver):
    """Looks at whole rows."""

    def observe(self, block: Any, groups: Any) -> None:
        raise AssertionError("nothing is run")


def space(distance: str = "cosine", *, square: bool = True) -> Space:
    return build(distance, DATA) if square else build(distance, DATA, DATA.copy())


def request(device: str = "cpu", **asked: Any) -> PassRequest:
    asked = {"view": VIEW, "space": space(), "threads": 2} | asked
    return PassRequest(device=device, **asked)


def planned(
    asked: PassRequest,
    limits: Settings = LIMITS,
    facts: DeviceFacts = GPU,
    left: Queries | None = None,
    spent: frozenset[str] = frozenset(),
) -> Schedule:
    return schedule(asked, left or Queries.of(asked), limits, facts, spent)


def work(plan: Schedule) -> dict[str, list[int]]:
    """The rows that each strategy gets, ascending; none twice."""
    return {item.strategy: sorted(np.concatenate(item.blocks).tolist()) for item in plan.items}


def heights(plan: Schedule) -> list[list[int]]:
    return [[len(block) for block in item.blocks] for item in plan.items]


def shares(queries: Any = slice(None)) -> GalleryFolds:
    wanted = np.zeros(ROWS, bool)
    wanted[queries] = True
    return GalleryFolds(np.zeros((ROWS, 1), np.uint8), 1, wanted)


def listed(*parts: np.ndarray) -> list[int]:
    return sorted(np.concatenate(parts).tolist())


def test_every_strategy_that_is_planned_is_known() -> None:
    planned_here = {"reference", "count", "filter", "symmetric", "sort rows", "split rows"}
    counting = {"count observed tiles", "count observed both ways", "count observed rows"}
    counting |= {"count close rows"}
    observing = {"observe tiles", "observe both ways", "observe rows"}
    devices = {"cuda count", "cuda rank", "cuda count observed", "cuda observe"}
    devices |= {"cuda count both ways"}
    clusters = {"spread tiles", "spread rows"}
    assert set(STRATEGIES) == planned_here | counting | observing | devices | clusters


# --- on the CPU -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "wanted"),
    [
        (0.0, {"sort rows": listed(PAIRED, CROWDED)}),
        (0.05, {"count": listed(PAIRED), "sort rows": listed(CROWDED)}),
        (1.0, {"count": listed(PAIRED, CROWDED)}),
    ],
)
def test_the_share_of_mates_decides_to_count_or_to_sort(
    share: float, wanted: dict[str, list[int]]
) -> None:
    plan = planned(request(), replace(LIMITS, sort_share=share))
    assert work(plan) == wanted
    assert not len(plan.left)


def test_blocks_hold_so_many_rows_and_so_many_mates() -> None:
    assert heights(planned(request())) == [[16, 16, 8], [10]]
    few = replace(LIMITS, mates=9, row_numbers=3 * ROWS)
    assert heights(planned(request(), few)) == [[8, 8, 8, 8, 8], [1] * 10]
    split = replace(LIMITS, split_cells=4)
    counted, sorted_rows = heights(planned(request(folds=shares()), split))
    assert (max(counted), sorted_rows) == (4, [10])


@pytest.mark.parametrize(
    ("method", "square", "distance", "wanted"),
    [
        ("auto", True, "cosine", "count"),
        ("filter", True, "cosine", "filter"),
        ("filter", True, "euclidean", "count"),
        ("symmetric", True, "cosine", "symmetric"),
        ("symmetric", False, "cosine", "filter"),
    ],
)
def test_few_mates_are_counted_by_the_method_of_the_settings(
    method: str, square: bool, distance: str, wanted: str
) -> None:
    """Float32 scores where a distance has them; each pair once only where rows are the gallery."""
    asked = request(space=space(distance, square=square))
    plan = planned(asked, replace(LIMITS, method=method))
    assert work(plan) == {wanted: listed(PAIRED), "sort rows": listed(CROWDED)}


def test_each_pair_once_takes_ascending_rows() -> None:
    plan = planned(request(seen=np.arange(ROWS) < 5), replace(LIMITS, method="symmetric"))
    assert np.concatenate(plan.items[0].blocks).tolist() == PAIRED[5:].tolist()


def test_what_was_seen_is_left_out_and_known() -> None:
    asked = request(seen=np.arange(ROWS) < 45)
    queries = Queries.of(asked)
    assert (queries.rows.tolist(), queries.behind) == ([45, 46, 47, 48, 49], 45)
    assert work(planned(asked)) == {"sort rows": [45, 46, 47, 48, 49]}
    assert planned(request(seen=np.ones(ROWS, bool))).items == ()


def test_observers_of_whole_rows_are_shown_whole_rows() -> None:
    """Queries without a mate first; rows that are sorted are seen there."""
    plan = planned(request(observers=Observers([Looker(), NearestDistance(ROWS)])))
    assert work(plan) == {
        "count observed rows": listed(PAIRED, LONELY),
        "sort rows": listed(CROWDED),
    }
    assert plan.items[0].blocks[0].tolist() == LONELY.tolist()


def test_observers_of_tiles() -> None:
    few = Task(np.arange(ROWS) // 2).view
    observers = Observers([NearestDistance(ROWS)])
    symmetric = replace(LIMITS, method="symmetric")
    plan = planned(request(observers=observers), symmetric)
    assert work(plan) == {
        "count observed tiles": listed(PAIRED, LONELY),
        "sort rows": listed(CROWDED),
    }
    asked = request(view=few, observers=observers)
    assert list(work(planned(asked))) == ["count observed tiles"]
    plan = planned(asked, symmetric)
    assert work(plan) == {"count observed both ways": list(range(ROWS))}
    assert plan.items[0].both_ways is not None
    for other in (
        replace(asked, seen=np.arange(ROWS) == 3),
        replace(asked, space=space(square=False)),
    ):
        assert list(work(planned(other, symmetric))) == ["count observed tiles"]
    crowded = replace(symmetric, symmetric_mates=ROWS - 1)  # each row never meets itself
    assert list(work(planned(asked, crowded))) == ["count observed tiles"]


def test_some_queries_alone_are_counted_and_with_shares_split() -> None:
    some = np.array([45, 3, 41, 55])
    assert work(planned(request(only=some))) == {"count": [3, 41, 45]}
    plan = planned(request(only=some, folds=shares(some)))
    assert work(plan) == {"count": [3], "split rows": [41, 45]}
    assert all(item.folds is not None for item in plan.items)
    plan = planned(request(only=some, observers=Observers([Looker()])))
    assert work(plan) == {"count observed rows": [3, 41, 45, 55]}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_pass_that_splits_all_its_rows_holds_as_many_cells_as_any(device: str) -> None:
    """However few of all queries they are."""
    few = PAIRED[::4]
    limits = replace(LIMITS, split_cells=1, query_rows=1000)
    asked = request(device, only=few, folds=shares(few))
    [blocks] = heights(planned(asked, limits))
    assert sum(blocks) == len(few)
    assert max(blocks) <= (SPLIT_TALLER if device == "cuda" else 1)  # of one mate each


def test_rows_to_split_are_dealt_to_all_threads() -> None:
    plan = planned(request(only=CROWDED, folds=shares(CROWDED), threads=5))
    assert heights(plan) == [[2, 2, 2, 2, 2]]


# --- by the reference -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "observers", [None, Observers([Looker()]), Observers([NearestDistance(ROWS)])]
)
def test_the_reference_does_everything_alone(observers: Observers | None) -> None:
    for asked in (
        request("reference", observers=observers),
        request("reference", observers=observers, folds=shares()),
    ):
        plan = planned(asked, replace(LIMITS, method="symmetric"))
        rows = listed(PAIRED, CROWDED) if observers is None else list(range(ROWS))
        assert work(plan) == {"reference": rows}


# --- by GPUs --------------------------------------------------------------------------------------


def test_few_mates_are_counted_by_gpus_in_taller_blocks() -> None:
    limits = replace(LIMITS, query_rows=1, sort_share=1.0)
    plan = planned(request("cuda"), limits)
    assert work(plan) == {"cuda count": listed(PAIRED, CROWDED)}
    assert heights(plan) == [[TALLER, 50 - TALLER]]
    assert not len(plan.left)


def test_one_gpu_multiplies_each_pair_once_where_that_pays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows in ascending order whose mates are so few that those of all can be held."""
    monkeypatch.setattr(front, "SHARED", 8)
    one, limits = replace(GPU, devices=1), replace(LIMITS, query_rows=1, sort_share=1.0)
    asked = request("cuda")
    plan = planned(asked, limits, one)
    assert work(plan) == {
        "cuda count both ways": listed(PAIRED),
        "cuda count": listed(CROWDED),
    }
    assert np.concatenate(plan.items[0].blocks).tolist() == listed(PAIRED)
    others = [
        (asked, limits, replace(one, devices=2)),
        (request("cuda", space=space(square=False)), limits, one),
        (request("cuda", space=space("cityblock")), limits, one),
        (asked, replace(limits, method="filter"), one),
        (asked, replace(limits, symmetric_mates=1), one),
        (asked, replace(limits, query_rows=2), one),  # a single block
    ]
    for given in others:
        assert set(work(planned(*given))) == {"cuda count"}
    half = replace(asked, seen=np.isin(np.arange(ROWS), PAIRED[:15]))
    assert set(work(planned(half, limits, one))) == {"cuda count"}
    forced = replace(limits, method="symmetric")
    assert "cuda count both ways" in work(planned(half, forced, one))


def test_rankings_wait_until_the_memory_they_have_is_known() -> None:
    """Then rows stay on the device; those that come back with ties are sorted."""
    asked = request("cuda", rankings=True)
    first = planned(asked)
    assert work(first) == {"cuda count": listed(PAIRED)}
    assert first.left.rows.tolist() == CROWDED.tolist()
    second = planned(asked, left=first.left)
    assert (work(second), heights(second)) == ({"cuda rank": listed(CROWDED)}, [[7, 3]])
    assert not len(second.left)
    tied = second.left.and_rows(CROWDED[2:4])
    third = planned(asked, left=tied, spent=frozenset({"cuda rank"}))
    assert work(third) == {"sort rows": [42, 43]}
    assert third.items[0].device_backed


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        (request("cuda", rankings=True), DeviceFacts(observing=3)),
        (request("cuda"), GPU),
        (request("cuda", rankings=True, observers=Observers([Looker()])), GPU),
    ],
)
def test_rankings_stay_on_a_device_that_walks_if_they_may(
    asked: PassRequest, facts: DeviceFacts
) -> None:
    plan = planned(asked, facts=facts, left=Queries.with_mates(CROWDED))
    assert work(plan) == {"sort rows": listed(CROWDED)}
    assert plan.items[0].device_backed


def test_watched_by_gpus() -> None:
    """Queries without a mate are one block, and rows are shown as many at a time as fit."""
    plan = planned(request("cuda", observers=Observers([NearestDistance(ROWS)])))
    assert work(plan) == {"cuda count observed": listed(PAIRED, LONELY)}
    assert plan.items[0].blocks[0].tolist() == LONELY.tolist()
    assert plan.items[0].observed == GPU.observed_rows
    assert plan.left.rows.tolist() == CROWDED.tolist()


@pytest.mark.parametrize("sizes", [[2] * 30, [2, 5, 3, 4, 2, 9, 6, 2, 3, 4] + [2] * 10])
def test_the_rows_of_each_block_ascend_on_gpus(sizes: list[int]) -> None:
    """Blocks go by mates; among classes of several sizes, rows of one block may come from all."""
    view = Task(np.repeat(np.arange(len(sizes)), sizes)[:ROWS]).view
    asked = request("cuda", view=view)
    queries = Queries.of(asked)
    plan = planned(asked, replace(LIMITS, sort_share=1.0, query_rows=1, mates=2), left=queries)
    blocks = plan.items[0].blocks
    assert (np.diff(queries.rows) < 0).any() == (len(set(sizes)) > 1)
    assert len(blocks) > 1
    assert all((np.diff(rows) > 0).all() for rows in blocks)
    assert work(plan)["cuda count"] == list(range(ROWS))


def test_shares_on_gpus() -> None:
    """Only groups of the view itself are split there; the others are asked for later."""
    other = (Task(LABELS).view, np.ones(ROWS, bool))
    for split_view, split in ((None, True), ((VIEW, other[1]), True), (other, False)):
        plan = planned(request("cuda", folds=shares(), split_view=split_view))
        assert (plan.items[0].strategy, plan.items[0].folds is not None) == ("cuda count", split)
    some = np.array([3, 41, 45])
    first = planned(request("cuda", only=some, folds=shares(some), rankings=True))
    assert work(first) == {"cuda count": [3]}
    second = planned(request("cuda", only=some, folds=shares(some)), left=first.left)
    assert work(second) == {"split rows": [41, 45]}
    assert second.items[0].device_backed


def test_some_queries_alone_are_counted_on_the_cpu_from_tiles_of_the_gpu() -> None:
    limits = replace(LIMITS, method="symmetric")
    plan = planned(request("cuda", only=np.array([3, 41, 45])), limits)
    assert work(plan) == {"count": [3, 41, 45]}
    assert plan.items[0].device_backed
    watched = request("cuda", only=np.array([3, 41, 55]), observers=Observers([Looker()]))
    assert work(planned(watched)) == {"cuda count observed": [3, 55]}


# --- without tie groups ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "method", "observer", "wanted", "height"),
    [
        ("cpu", "auto", Extent(), "observe tiles", 4),
        ("cpu", "symmetric", Extent(), "observe both ways", ROWS),
        ("cpu", "symmetric", Looker(), "observe rows", 16),
        ("reference", "symmetric", Extent(), "observe tiles", 4),
        ("reference", "auto", Looker(), "observe rows", 16),
        ("cuda", "symmetric", Looker(), "cuda observe", 5),
    ],
)
def test_all_pairs_are_observed(
    device: str, method: str, observer: Any, wanted: str, height: int
) -> None:
    asked = request(device, groups=False, observers=Observers([observer]))
    plan = planned(asked, replace(LIMITS, method=method))
    assert work(plan) == {wanted: list(range(ROWS))}
    assert plan.items[0].compiled == (device != "reference")
    assert max(heights(plan)[0]) == height


def test_few_queries_are_dealt_to_all_threads() -> None:
    asked = request(groups=False, observers=Observers([Extent()]), threads=20)
    assert heights(planned(asked)) == [[3] * 20]
