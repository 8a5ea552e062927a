"""Threads: any number of them, progress in the caller's, errors that end them all."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import truerank
from tests.engine.tied_task import LABELS, ROWS, fingerprint
from truerank._util.settings import settings
from truerank._util.threads import HelperThreads
from truerank.core.tie_groups import TieGroups
from truerank.distance.catalogue import build
from truerank.engine import runner


@pytest.mark.parametrize("threads", [1, 2, 3, 50, np.int64(2)])
def test_any_number_of_threads(threads: Any) -> None:
    for sort_share in (0.0, 0.05, 1.0):
        with settings(gallery_rows=8, query_rows=30, sort_share=sort_share):
            assert fingerprint(threads=threads) == fingerprint(device="reference")


# --- progress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort_share", [0.0, 1.0])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_progress_is_told_in_the_calling_thread_up_to_the_end(
    device: str, sort_share: float
) -> None:
    calls: list[tuple[int, int]] = []
    threads = set()

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        threads.add(threading.get_ident())

    with settings(query_rows=20, gallery_rows=16, sort_share=sort_share):
        truerank.evaluate(ROWS, LABELS, device=device, threads=2, progress=progress)
    assert threads == {threading.get_ident()}
    assert len(calls) > 3
    assert {total for _, total in calls} == {90 * 90}
    done = [done for done, _ in calls]
    assert done == sorted(set(done))
    assert done[-1] == 90 * 90


def test_progress_counts_queries_that_have_a_mate() -> None:
    """All queries where the open set is looked at."""
    calls: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))

    truerank.evaluate(ROWS[:5], [0, 0, 1, 2, 3], metrics="map", progress=progress)
    assert calls[-1] == (2 * 5, 2 * 5)
    truerank.evaluate(ROWS[:5], [0, 0, 1, 2, 3], metrics="far@tau=1", progress=progress)
    assert calls[-1] == (5 * 5, 5 * 5)


@pytest.mark.parametrize("sort_share", [0.0, 1.0])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_an_error_in_progress_ends_the_evaluation(device: str, sort_share: float) -> None:
    calls = []
    before = threading.active_count()

    def progress(done: int, total: int) -> None:
        calls.append(done)
        raise KeyboardInterrupt("enough")

    with (
        settings(query_rows=10, gallery_rows=4, sort_share=sort_share),
        pytest.raises(KeyboardInterrupt, match="enough"),
    ):
        truerank.evaluate(ROWS, LABELS, device=device, threads=2, progress=progress)
    assert len(calls) == 1
    assert threading.active_count() == before
    assert fingerprint(device=device) == fingerprint()


def test_threads_stop_when_progress_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles that nobody began are not computed for nothing."""
    view, space = truerank.Task(LABELS).view, build("cosine", ROWS)
    reported = threading.Event()
    tiles: list[int] = []
    block = type(space).block

    def watched(self: Any, rows: np.ndarray) -> Any:
        tile = block(self, rows)

        def give(start: int, stop: int) -> np.ndarray:
            tiles.append(start)
            if start >= 4:  # until then progress had nothing to report
                assert reported.wait(60)
                np.linalg.svd(np.ones((150, 150)))  # some milliseconds for the error to arrive
            return tile(start, stop)

        return give

    def progress(done: int, total: int) -> None:
        reported.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(type(space), "block", watched)
    with settings(gallery_rows=1, sort_share=1.0), pytest.raises(KeyboardInterrupt):
        list(runner.tie_groups(view, space, device="cpu", threads=2, progress=progress))
    assert len(tiles) < 90


def test_an_error_in_a_thread_comes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    space = build("cosine", ROWS)
    before = threading.active_count()

    def failing(self: Any, rows: np.ndarray) -> Any:
        def give(start: int, stop: int) -> np.ndarray:
            raise MemoryError("no room for a tile")

        return give

    def failing_rows(self: Any, rows: np.ndarray, out: np.ndarray) -> None:
        failing(self, rows)(0, len(ROWS))

    monkeypatch.setattr(type(space), "block", failing)
    monkeypatch.setattr(type(space), "fill_rows", failing_rows)
    for sort_share in (0.0, 1.0):
        with (
            settings(sort_share=sort_share),
            pytest.raises(MemoryError, match="no room"),
        ):
            list(runner.tie_groups(truerank.Task(LABELS).view, space, device="cpu", threads=2))
        assert threading.active_count() == before


@pytest.mark.parametrize("method", ["float64", "filter", "symmetric"])
@pytest.mark.parametrize("sort_share", [0.0, 1.0])
def test_an_error_outside_leaves_no_thread_behind(
    method: str, sort_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even while its traceback is held, and with it every frame that the pass had."""

    def failing(self: Any, *arguments: Any) -> Any:
        raise MemoryError("no room for values")

    monkeypatch.setattr(TieGroups, "values", failing)
    before = threading.active_count()
    with (
        settings(method=method, sort_share=sort_share, query_rows=8),
        pytest.raises(MemoryError, match="no room") as caught,
    ):
        truerank.evaluate(ROWS, LABELS, device="cpu", threads=2)
    assert caught.tb is not None
    assert threading.active_count() == before


@pytest.mark.parametrize(("threads", "most"), [(1, None), (3, 1), (3, None), (8, 2)])
def test_workers_share_parts_with_the_thread_they_help(threads: int, most: int | None) -> None:
    with ThreadPoolExecutor(threads) as pool:
        workers = HelperThreads(threads, pool)
        together = threading.Barrier(min(threads, most or threads), timeout=10)
        seen = set()

        def work(part: int) -> int:
            if part < together.parties:  # none of these ends before as many have begun
                together.wait()
            seen.add(threading.get_ident())
            return part * part

        assert workers.share(work, range(9), most) == [part * part for part in range(9)]
        assert len(seen) == together.parties
        assert threading.get_ident() in seen
        assert workers.share(work, [], most) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_begun_goes_on_beside(threads: int) -> None:
    """With one thread nobody else is at it: all is done by whoever waits."""
    begun, here = threading.Event(), threading.get_ident()
    seen = []

    def work(part: int) -> int:
        seen.append(threading.get_ident())
        begun.set()
        return part * part

    with ThreadPoolExecutor(threads) as pool:
        outcomes = HelperThreads(threads, pool).begin(work, range(9))
        assert begun.wait(10 if threads > 1 else 0.05) == (threads > 1)
        assert here not in seen
        assert outcomes() == [part * part for part in range(9)]
    assert len(seen) == 9


@pytest.mark.parametrize("failing", ["the thread itself", "a helper"])
def test_an_error_of_a_part_ends_what_workers_share(failing: str) -> None:
    here, begun, both = threading.get_ident(), [], threading.Barrier(2, timeout=10)

    def work(part: int) -> None:
        begun.append(part)
        if part < 2:
            both.wait()
        if (threading.get_ident() == here) == (failing == "the thread itself"):
            raise MemoryError("no room for a part")
        time.sleep(0.001)

    with ThreadPoolExecutor(2) as pool, pytest.raises(MemoryError, match="no room"):
        HelperThreads(2, pool).share(work, range(1000))
    assert len(begun) < 1000
