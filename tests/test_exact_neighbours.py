"""Exact neighbours: by brute force in fractions, on every path, and in the files of benchmarks."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import truerank
from tests.in_process_cluster import in_process
from tests.oracles import scores
from tests.refusals import assert_refused
from truerank._util.settings import settings
from truerank.analysis import neighbors
from truerank.distance import rows as space_rows
from truerank.io.reading import read
from truerank.io.vectors import read_ibin, read_ivecs

RNG = np.random.default_rng(4)
QUERIES = RNG.integers(-3, 4, size=(23, 4)).astype(np.float32)
GALLERY = RNG.integers(-3, 4, size=(90, 4)).astype(np.float32)


def by_hand(distance: str, queries: Any, gallery: Any, k: int) -> list[tuple[Any, ...]]:
    """Items, first places and ties at the last distance, of every query, from fractions."""
    found = []
    for row in scores.distances(distance, queries.tolist(), gallery.tolist()):
        order = sorted(range(len(row)), key=lambda item: (row[item], item))[:k]
        ranked = [row[item] for item in order]
        first = [ranked.index(value) for value in ranked]
        found.append((order, first, sum(value == ranked[-1] for value in row)))
    return found


def as_lists(truth: truerank.ExactNeighbors) -> list[tuple[Any, ...]]:
    parts = (truth.item.tolist(), truth.first.tolist(), truth.tied.tolist())
    return list(zip(*parts, strict=True))


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "cityblock"])
def test_shards_are_read_by_workers(distance: str, tmp_path: Path) -> None:
    """And by nobody else, where there is a cluster; without one, in their place."""
    sides = [
        truerank.shard(side, tmp_path / name, rows=20)
        for name, side in (("queries", QUERIES), ("gallery", GALLERY))
    ]
    expected = truerank.exact_neighbors(QUERIES, GALLERY, 7, distance=distance)
    with settings(neighbor_rows=7, neighbor_items=8, task_pairs=100):
        here = truerank.exact_neighbors(*sides, 7, distance=distance)
        with in_process(), patch("truerank.io.shards.Shards._part", side_effect=AssertionError):
            there = truerank.exact_neighbors(*sides, 7, distance=distance, cluster="auto")
    for found in (here, there):
        assert as_lists(found) == as_lists(expected)
        assert found.distance.tobytes() == expected.distance.tobytes()
        assert found.facts == expected.facts


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock", "hamming"])
@pytest.mark.parametrize("k", [1, 5, 90])
def test_the_nearest_are_those_of_brute_force(distance: str, k: int) -> None:
    rows = (QUERIES, GALLERY)
    if distance == "hamming":
        rows = tuple(side.astype(np.int8) for side in rows)
    with settings(neighbor_rows=7, neighbor_items=8):
        found = truerank.exact_neighbors(*rows, k, distance=distance, threads=2)
    assert as_lists(found) == by_hand(distance, *rows, k)
    assert found.distance.shape == (23, k)
    assert (np.diff(found.distance, axis=1) >= 0).all()


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(0, 3), st.integers(0, 9)
)
@examples(max_examples=100)
def test_any_room_any_tiles_any_parts(
    gallery: int, k: int, width: int, levels: int, seed: int
) -> None:
    """Lists are sorted again whenever their room is full, and parts are merged in any order."""
    rng = np.random.default_rng(seed)
    rows, items = (rng.integers(-levels, levels + 1, size=(n, 2)) for n in (5, gallery))
    k = min(k, gallery)
    expected = by_hand("euclidean", rows, items, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "SPARE", 1)
        with settings(neighbor_rows=3, neighbor_items=width, task_pairs=3 * (k + seed)):
            found = truerank.exact_neighbors(rows, items, k, distance="euclidean", threads=1)
            with in_process():
                spread = truerank.exact_neighbors(
                    rows, items, k, distance="euclidean", cluster="auto"
                )
    assert as_lists(found) == expected
    assert as_lists(spread) == expected
    assert spread.distance.tobytes() == found.distance.tobytes()


def test_neighbours_are_what_an_evaluation_ranks() -> None:
    labels = np.arange(90) % 30
    found = truerank.exact_neighbors(QUERIES, GALLERY, 10, threads=1)
    listed = truerank.neighbors(
        QUERIES,
        np.arange(23),
        queries=list(range(23)),
        k=10,
        gallery=GALLERY,
        gallery_labels=labels,
        unlabelled="distractor",
    )
    for row, query in enumerate(listed):
        assert list(query.nearest.distance) == found.distance[row].tolist()


@pytest.mark.parametrize("ending", [".ibin", ".ivecs"])
def test_files_are_read_again(ending: str, tmp_path: Path) -> None:
    for name, rows in (("queries", QUERIES), ("gallery", GALLERY)):
        with (tmp_path / f"{name}.fbin").open("wb") as file:
            np.array(rows.shape, "<u4").tofile(file)
            rows.astype("<f4").tofile(file)
    found = truerank.exact_neighbors(
        tmp_path / "queries.fbin", tmp_path / "gallery.fbin", 7, distance="euclidean"
    )
    assert as_lists(found) == by_hand("euclidean", QUERIES, GALLERY, 7)
    path = tmp_path / f"truth{ending}"
    beside = found.save(path)
    assert beside.name == f"truth{ending}.ties.npz"
    if ending == ".ibin":
        items, distances = read_ibin(path)
        assert np.array_equal(distances, found.distance.astype(np.float32))
    else:
        items = read_ivecs(path)
    assert np.array_equal(items, found.item)
    with np.load(beside) as ties:
        assert np.array_equal(ties["first"], found.first)
        assert np.array_equal(ties["tied"], found.tied)
        assert ties["distance"].tobytes() == found.distance.tobytes()
        header = json.loads(ties["header"].tobytes())
    assert (header["format"], header["distance"]) == ("truerank-truth", "euclidean")
    assert read(tmp_path / "queries.fbin").embeddings.shape == QUERIES.shape


def test_progress_ends_with_all_pairs() -> None:
    heard = []
    with settings(neighbor_rows=5):
        truerank.exact_neighbors(QUERIES, GALLERY, 2, progress=lambda *done: heard.append(done))
    assert heard[-1] == (23 * 90, 23 * 90)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0}, ["'k' parameter", "from 1 to 90", "Got 0"]),
        ({"k": 91}, ["'k' parameter", "Got 91"]),
        ({"k": True}, ["'k' parameter"]),
        ({"k": 2.0}, ["'k' parameter"]),
        ({"gallery": GALLERY[:, :3]}, ["same number of dimensions"]),
        ({"distance": "precomputed"}, ["precomputed"]),
        ({"distance": "nearest"}, ["distance"]),
        ({"threads": 0}, ["threads"]),
        ({"queries": np.full((2, 4), np.nan)}, ["NaN"]),
        ({"cluster": "nowhere"}, ["cluster"]),
    ],
)
def test_what_cannot_be_searched(change: dict[str, Any], words: list[str]) -> None:
    given = {"queries": QUERIES, "gallery": GALLERY, "k": 3} | change
    assert_refused(lambda: truerank.exact_neighbors(**given), words)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    found = truerank.exact_neighbors(QUERIES, GALLERY, 1)
    assert_refused(lambda: found.save(tmp_path / "truth.txt"), [".ibin or .ivecs"])


@pytest.mark.parametrize("kind", ["floats", "integers"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock", "hamming"])
def test_rows_among_themselves_are_rounded_once(
    distance: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same object on both sides: lists, ties and facts are those of two equal arrays."""
    rng = np.random.default_rng(5)
    rows = rng.integers(-2, 3, size=(60, 4))
    if kind == "floats" and distance != "hamming":
        rows = rows + rng.standard_normal((60, 4))
        rows[7], rows[8], rows[9], rows[11] = 0.0, -0.0, 3 * rows[10], rows[10]
    seen: list[str] = []
    one_by_one = space_rows.round_rows

    def watched(side: Any, *how: Any) -> Any:
        seen.append(side.name)
        return one_by_one(side, *how)

    monkeypatch.setattr(space_rows, "round_rows", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two, one = (
            truerank.exact_neighbors(rows, other, 9, distance=distance)
            for other in (rows.copy(), rows)
        )
    assert one.facts == two.facts
    for name in ("item", "distance", "first", "tied"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    if distance in ("cosine", "euclidean", "dot"):
        assert seen == ["embeddings", "gallery", "embeddings"]
