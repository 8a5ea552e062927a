"""The pass over the gallery: counts add up in any order, and neither blocks, tiles, threads, a
missing compiler, a missing cache folder nor a fork can be seen in the result.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from truerank import engine
from truerank.engine import Counts, TieGroups, kernels
from truerank.space import build

SOURCE = Path(truerank.__file__).parent.parent

# --- counts ---------------------------------------------------------------------------------------


def count(frame: Counts, distances: np.ndarray) -> Counts:
    """A new Counts of these distances alone."""
    counts = frame.empty_copy()
    kernels.count_tile(
        np.ascontiguousarray(distances),
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    return counts


def arrays(counts: Counts) -> list[list[Any]]:
    return [
        values.tolist()
        for values in (
            counts.offsets,
            counts.distance,
            counts.graded,
            counts.between,
            counts.equal,
        )
    ]


GRADES = 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Distances with many ties, and the grade of each item for each query, 0 not relevant."""
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 14))
    size = shape[0] * shape[1]
    distances = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size))
    grades = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), min_size=size, max_size=size))
    return np.array(distances, float).reshape(shape), np.array(grades).reshape(shape)


def frame_of(distances: np.ndarray, grade: np.ndarray, grades: int = GRADES) -> Counts:
    query, item = np.nonzero(grade)
    return Counts.frame(query, distances[query, item], grade[query, item], len(distances), grades)


@given(cases(), st.data())
def test_tiles_add_up_in_any_order_and_grouping(
    case: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    distances, grade = case
    frame = frame_of(distances, grade)
    whole = count(frame, distances)
    cuts = sorted(data.draw(st.sets(st.integers(0, distances.shape[1]), max_size=5)))
    edges = [0, *cuts, distances.shape[1]]
    parts = [count(frame, distances[:, start:stop]) for start, stop in itertools.pairwise(edges)]
    parts = data.draw(st.permutations(parts))
    while len(parts) > 1:  # a random tree of additions
        left = data.draw(st.integers(0, len(parts) - 2))
        parts[left : left + 2] = [parts[left] + parts[left + 1]]
    assert arrays(parts[0]) == arrays(whole)


@given(cases())
def test_counts_are_what_they_say(case: tuple[np.ndarray, np.ndarray]) -> None:
    distances, grade = case
    frame = frame_of(distances, grade)
    counted = count(frame, distances)
    groups = counted.tie_groups(np.full(len(distances), distances.shape[1]))
    assert len(groups) == len(distances)
    for q, (row, worth) in enumerate(zip(distances, grade, strict=True)):
        mine = slice(groups.offsets[q], groups.offsets[q + 1])
        at = sorted(set(row[worth > 0].tolist()))
        assert counted.distance[mine].tolist() == at
        assert groups.before[mine].tolist() == [int((row < d).sum()) for d in at]
        assert groups.size[mine].tolist() == [int((row == d).sum()) for d in at]
        assert groups.graded[mine].tolist() == [
            [int(((row == d) & (worth == g)).sum()) for g in range(1, GRADES + 1)] for d in at
        ]
    np.testing.assert_array_equal(groups.mates, (grade > 0).sum(axis=1))


@given(cases())
def test_one_grade_is_the_simple_case(case: tuple[np.ndarray, np.ndarray]) -> None:
    distances, grade = case
    one, many = frame_of(distances, (grade > 0).astype(int), 1), frame_of(distances, grade)
    assert arrays(one)[:2] == arrays(many)[:2]
    np.testing.assert_array_equal(one.graded[:, 0], many.graded.sum(axis=1))


@given(cases(), st.data())
def test_excluded_pairs_are_taken_out_again(
    case: tuple[np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    distances, grade = case
    excluded = (grade == 0) & np.array(
        data.draw(st.lists(st.booleans(), min_size=grade.size, max_size=grade.size))
    ).reshape(grade.shape)
    frame = frame_of(distances, grade)
    counts = count(frame, distances)
    query, item = np.nonzero(excluded)
    kernels.count_pairs(
        query,
        distances[query, item],
        -1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    assert arrays(counts) == arrays(count(frame, np.where(excluded, 99.0, distances)))


def test_counts_of_different_queries_are_not_added() -> None:
    distances = np.array([[0.0, 1, 2, 3]])
    some = frame_of(distances, np.array([[1, 0, 1, 0]]))
    assert arrays(some + some.empty_copy()) == arrays(some)
    for other in (
        frame_of(distances, np.array([[1, 0, 0, 1]])),  # another distance
        frame_of(distances, np.array([[1, 0, 2, 0]])),  # another grade
        frame_of(distances[:, [0, 0, 2]], np.array([[1, 1, 1]])),  # another number
        frame_of(distances.repeat(2, 0), np.array([[1, 0, 0, 0], [0, 0, 1, 0]])),  # two queries
    ):
        with pytest.raises(ValueError, match="counts of different queries"):
            some + other


def test_a_single_tie_group() -> None:
    groups = TieGroups.single(np.array([[2], [3], [4]]), np.array([5, 9, 4]))
    assert groups.mates.tolist() == [2, 3, 4]
    assert groups.before.tolist() == [0, 0, 0]
    assert groups.size.tolist() == groups.candidates.tolist() == [5, 9, 4]
    assert groups.ambiguous.tolist() == [True, True, False]


# --- memory ---------------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
ROWS[70:] = ROWS[:20]
LABELS = np.concatenate([np.arange(40) % 10, np.full(50, 3)])
METRICS = ["map", "map@r", "mrr", "minp", "precision@5", "hit@2"]


def fingerprint(**options: Any) -> str:
    """Every number of every score, to the last bit."""
    result = truerank.evaluate(ROWS, LABELS, metrics=METRICS, **options)
    return json.dumps(result.to_dict()["scores"])


@pytest.mark.parametrize(
    "limits",
    [
        {"query_rows": 1},
        {"query_rows": 7, "gallery_rows": 11},
        {"gallery_rows": 1},
        {"mates": 1},
        {"mates": 100, "gallery_rows": 13},
        {"sort_share": 0.0, "query_rows": 7},
        {"sort_share": 0.0, "row_numbers": 200, "gallery_rows": 13},
        {"sort_share": 1.0, "query_rows": 7},
    ],
)
def test_settings_bound_the_blocks_and_change_nothing(limits: dict[str, Any]) -> None:
    view, space = truerank.Task(LABELS).view, build("cosine", ROWS)
    for device in ("cpu", "reference"):
        with engine.settings(**limits) as current:
            blocks = [block.rows for block in engine.tie_groups(view, space, device=device)]
            assert fingerprint(device=device) == fingerprint()
        assert sorted(np.concatenate(blocks).tolist()) == list(range(90))
        for rows in blocks:
            assert len(rows) <= current.query_rows
            assert len(rows) == 1 or len(rows) * view.mates[rows].max() <= current.mates


def test_tiles_are_as_wide_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    view, space = truerank.Task(LABELS).view, build("cosine", ROWS)
    widths: list[int] = []
    block = type(space).block

    def watched(self: Any, rows: np.ndarray) -> Any:
        tile = block(self, rows)

        def give(start: int, stop: int) -> np.ndarray:
            widths.append(stop - start)
            return tile(start, stop)

        return give

    monkeypatch.setattr(type(space), "block", watched)
    for sort_share in (0.0, 1.0):
        widths.clear()
        with engine.settings(gallery_rows=40, sort_share=sort_share):
            list(engine.tie_groups(view, space, device="cpu"))
        assert sorted(widths) == [10, 40, 40]


def test_settings_end_with_their_block() -> None:
    with engine.settings() as default:
        pass
    with engine.settings(query_rows=3) as outer:
        assert outer.query_rows == 3
        with engine.settings(mates=5) as inner:
            assert (inner.query_rows, inner.mates) == (3, 5)
    with pytest.raises(KeyError), engine.settings(query_rows=3):
        raise KeyError
    with engine.settings() as after:
        assert after == default


@pytest.mark.parametrize(
    "name",
    [
        "query_rows",
        "gallery_rows",
        "mates",
        "row_numbers",
        "watched_numbers",
        "side",
        "symmetric_mates",
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_settings_that_cannot_be(name: str, value: Any) -> None:
    """Blocks of no rows would never come to an end."""
    with pytest.raises(truerank.InputError, match=name), engine.settings(**{name: value}):
        pass


@pytest.mark.parametrize("threads", [1, 2, 3, 50, np.int64(2)])
def test_any_number_of_threads(threads: Any) -> None:
    for sort_share in (0.0, 0.05, 1.0):
        with engine.settings(gallery_rows=8, query_rows=30, sort_share=sort_share):
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

    with engine.settings(query_rows=20, gallery_rows=16, sort_share=sort_share):
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
        engine.settings(query_rows=10, gallery_rows=4, sort_share=sort_share),
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
    with engine.settings(gallery_rows=1, sort_share=1.0), pytest.raises(KeyboardInterrupt):
        list(engine.tie_groups(view, space, device="cpu", threads=2, progress=progress))
    assert len(tiles) < 90


def test_an_error_in_a_thread_comes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    space = build("cosine", ROWS)
    before = threading.active_count()

    def failing(self: Any, rows: np.ndarray) -> Any:
        def give(start: int, stop: int) -> np.ndarray:
            raise MemoryError("no room for a tile")

        return give

    monkeypatch.setattr(type(space), "block", failing)
    for sort_share in (0.0, 1.0):
        with (
            engine.settings(sort_share=sort_share),
            pytest.raises(MemoryError, match="no room"),
        ):
            list(engine.tie_groups(truerank.Task(LABELS).view, space, device="cpu", threads=2))
        assert threading.active_count() == before


@pytest.mark.parametrize("method", ["float64", "filter", "symmetric"])
@pytest.mark.parametrize("sort_share", [0.0, 1.0])
def test_an_error_outside_leaves_no_thread_behind(
    method: str, sort_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even while its traceback is held, and with it every frame that the pass had."""

    def failing(self: Any, *arguments: Any) -> Any:
        raise MemoryError("no room for values")

    monkeypatch.setattr(engine.TieGroups, "values", failing)
    before = threading.active_count()
    with (
        engine.settings(method=method, sort_share=sort_share, query_rows=8),
        pytest.raises(MemoryError, match="no room") as caught,
    ):
        truerank.evaluate(ROWS, LABELS, device="cpu", threads=2)
    assert caught.tb is not None
    assert threading.active_count() == before


# --- other processes ------------------------------------------------------------------------------

SCRIPT = """
import json
import numpy as np
import truerank

rows = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
rows[70:] = rows[:20]
labels = np.concatenate([np.arange(40) % 10, np.full(50, 3)])

def fingerprint(**options):
    result = truerank.evaluate(rows, labels, metrics={metrics}, **options)
    return json.dumps(result.to_dict()["scores"])
"""


def python(code: str, metrics: list[str] = METRICS, **environment: str) -> list[str]:
    """The lines that a new interpreter prints when it runs the code after SCRIPT's definitions."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code.replace("SCRIPT", SCRIPT.replace("{metrics}", repr(metrics)))],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_numba_the_reference_engine_gives_the_same_bits() -> None:
    lines = python(
        """
import sys
sys.modules["numba"] = None
SCRIPT
print(fingerprint())
print(fingerprint(distance="euclidean"))
print(fingerprint(distance="cityblock"))
print(truerank.evaluate(rows, labels).provenance["device"])
try:
    fingerprint(device="cpu")
except truerank.InputError as error:
    print(error)
"""
    )
    assert lines[0] == fingerprint()
    assert lines[1] == fingerprint(distance="euclidean")
    assert lines[2] == fingerprint(distance="cityblock")
    assert lines[3] == "reference"
    assert lines[4] == "device='cpu' needs numba; install it or use device='reference'."
    assert len(lines) == 5


def test_without_a_cache_folder_kernels_still_compile(tmp_path: Path) -> None:
    """Numba tries a folder of the user's choice, one beside the source and one in the home."""
    lines = python(
        """
import numba.core.caching as caching

class Unwritable:
    def TemporaryFile(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

caching.tempfile = Unwritable()
SCRIPT
print(fingerprint())
from truerank import jit
from truerank.engine import kernels
kernel = kernels.split_tile
print(jit.compiled, len(kernel.signatures), sum(kernel.stats.cache_hits.values()))
""",
        metrics=["hit@2"],
        NUMBA_CACHE_DIR=str(tmp_path / "cache"),
    )
    result = truerank.evaluate(ROWS, LABELS, metrics=["hit@2"])
    assert lines == [json.dumps(result.to_dict()["scores"]), "True 1 0"]
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    lines = python("SCRIPT\nprint(fingerprint())", NUMBA_CACHE_DIR=str(in_the_way / "cache"))
    assert lines == [fingerprint()]


def test_a_fork_after_an_evaluation_can_evaluate() -> None:
    """Parallel loaders and job servers fork; a runtime that dislikes it would hang or kill here."""
    lines = python(
        """
import os, sys
SCRIPT
first = fingerprint(threads=2)
sys.stdout.flush()
child = os.fork()
if child == 0:
    same = fingerprint(threads=2) == first
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
print(fingerprint(threads=2) == first)
"""
    )
    assert lines == ["0", "True"]


def test_means_do_not_depend_on_blocks() -> None:
    """A sanity check of the fingerprint itself: the value is the exact mean of the queries."""
    score = truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"]
    values = [Fraction(value) for value in score.per_query.lower.tolist()]
    mean = sum(values) / len(values)
    assert score.lower == mean.numerator / mean.denominator
