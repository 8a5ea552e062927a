"""Rows that a cluster's workers read and hold: every bit as if they were here, and none is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import truerank
from tests.in_process_cluster import InProcess, in_process
from tests.refusals import refused
from tests.test_checkpoint import Stop, bits, stopping_after
from truerank._util.cluster import Cluster
from truerank._util.settings import settings
from truerank.distance.catalogue import build
from truerank.distance.cosine import Cosine
from truerank.distance.digests import row_prints
from truerank.distance.remote_rows import Pieces
from truerank.io.reading import read_embeddings
from truerank.io.sharding import shard

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore:pairs that belong together")
RNG = np.random.default_rng(5)
LABELS = np.concatenate([np.arange(120) % 24, np.arange(100, 120)])
SMALL = RNG.integers(-3, 4, size=(140, 5)).astype(np.float32)
"""Small integers: short rows, ties and equal rows."""
REAL = (RNG.normal(size=(140, 5)) + SMALL).astype(np.float32)
MIXED = np.concatenate([REAL[:70], SMALL[70:]])
LARGE_TILES = {"query_rows": 60, "gallery_rows": 45, "task_pairs": 60 * 90}
TILES = {"query_rows": 30, "gallery_rows": 20, "task_pairs": 30 * 40}


@contextmanager
def unread() -> Iterator[None]:
    """Nobody reads a shard but the tasks of a cluster."""
    with patch("truerank.io.shards.Shards._part", side_effect=AssertionError("read here")):
        yield


def both(manifest: Path, rows: Any, **options: Any) -> tuple[Any, Any]:
    """The bits of shards on a cluster, and of an array here."""
    with warnings.catch_warnings(), settings(**LARGE_TILES):
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        alone = truerank.evaluate(rows, LABELS, **options)
        with in_process(), unread():
            there = truerank.evaluate(manifest, LABELS, cluster="auto", **options)
    facts = [one.provenance["distance"] for one in (there, alone)]
    assert facts[0] == facts[1]
    return bits(there), bits(alone)


@pytest.mark.parametrize(
    ("distance", "name"), [("cosine", "MIXED"), ("euclidean", "REAL"), ("dot", "SMALL")]
)
def test_every_metric_has_the_bits_of_one_process(distance: str, name: str, tmp_path: Path) -> None:
    rows = globals()[name]
    manifest = shard(rows, tmp_path, rows=33)
    there, alone = both(manifest, rows, distance=distance, metrics="all")
    assert there == alone


def test_a_gallery_and_labels_that_are_junk(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "gallery_labels": LABELS, "junk_labels": [3, 7, 23], "query_ids": np.arange(140),
        "gallery_ids": np.arange(140), "metrics": ["map", "auc", "mrep", "opis"],
    }  # fmt: skip
    queries, gallery = (shard(MIXED, tmp_path / name, rows=n) for name, n in (("q", 50), ("g", 20)))
    with settings(**TILES):
        alone = truerank.evaluate(MIXED, LABELS, gallery=MIXED, **options)
        with in_process(), unread():
            there = truerank.evaluate(queries, LABELS, gallery=gallery, cluster="auto", **options)
            mixed = truerank.evaluate(MIXED, LABELS, gallery=gallery, cluster="auto", **options)
    assert bits(there) == bits(alone) == bits(mixed)


BITS = SMALL > 0
SIGNED = SMALL.astype(np.int8)
REAL_HALVES = REAL.astype(np.float64) / 3


@pytest.mark.filterwarnings("ignore:float64 input")
@pytest.mark.parametrize(
    ("distance", "name"),
    [("cityblock", "REAL_HALVES"), ("hamming", "SIGNED"), ("hamming", "BITS")],
)
def test_sums_over_components(distance: str, name: str, tmp_path: Path) -> None:
    rows = globals()[name]
    manifest = shard(rows, tmp_path, rows=33)
    metrics = ["map", "auc", "opis", "mrr", "mrep@far=0.1"]
    there, alone = both(manifest, rows, distance=distance, metrics=metrics)
    assert there == alone


@pytest.mark.parametrize("distance", ["cityblock", "hamming"])
def test_some_rows_of_a_gallery_by_components(distance: str, tmp_path: Path) -> None:
    """Other shards on either side, and gallery rows that take no part."""
    rows = np.abs(SMALL).astype(np.uint8)
    queries, gallery = (shard(rows, tmp_path / name, rows=n) for name, n in (("q", 50), ("g", 20)))
    options: dict[str, Any] = {
        "gallery_labels": LABELS, "junk_labels": [3, 7, 23], "query_ids": np.arange(140),
        "gallery_ids": np.arange(140), "metrics": ["map", "auc"], "distance": distance,
    }  # fmt: skip
    with settings(**TILES):
        alone = truerank.evaluate(rows, LABELS, gallery=rows, **options)
        with in_process(), unread():
            there = truerank.evaluate(queries, LABELS, gallery=gallery, cluster="auto", **options)
    assert bits(there) == bits(alone)


@pytest.mark.parametrize("distance", ["cityblock", "hamming"])
def test_pieces_of_components(distance: str, tmp_path: Path) -> None:
    expected, pairs = build(distance, SIGNED), (np.array([3, 139, 3]), np.array([0, 66, 139]))
    with in_process() as ray:
        manifest = shard(SIGNED, tmp_path, rows=33)
        space = build(distance, read_embeddings(manifest), cluster=Cluster(ray, gpu=False))
        assert space.refers
        assert np.array_equal(space.pairs(*pairs), expected.pairs(*pairs))
        assert np.array_equal(space.fingerprints(), expected.fingerprints())
        assert np.array_equal(np.asarray(space.grids[0]), expected.grids[0])


@pytest.mark.parametrize("place", [0, 77])
def test_rows_of_components_that_cannot_be_used(place: int, tmp_path: Path) -> None:
    rows = REAL.copy()
    rows[place, 2] = np.inf
    manifest = shard(rows, tmp_path, rows=33)
    with in_process(), refused(f"NaN or infinity in embeddings row {place} of 140"):
        truerank.evaluate(manifest, LABELS, cluster="auto", distance="cityblock")


@pytest.mark.filterwarnings("ignore:random embeddings")
def test_one_worker_clusters_what_all_hold(tmp_path: Path) -> None:
    manifest = shard(MIXED, tmp_path, rows=33)
    options: dict[str, Any] = {"metrics": ["nmi", "ami", "map"], "seed": 3}
    with in_process() as ray, unread():
        asked = ray.calls
        with patch("truerank.distance.cosine.Cosine.vectors", vectors_of_tasks):
            there = truerank.evaluate(manifest, LABELS, cluster="auto", **options)
    assert asked.count("truerank.evaluation.clustering:cluster_there") == 1
    assert bits(there) == bits(truerank.evaluate(MIXED, LABELS, **options))


def vectors_of_tasks(space: Any, whole: Any = Cosine.vectors) -> Any:
    """All rows of a space, which only a task may ask for."""
    assert space.cluster is None
    return whole(space)


def pieces(ray: InProcess, folder: Path, rows: Any) -> Any:
    manifest = shard(rows, folder, rows=33)
    return build("cosine", read_embeddings(manifest), cluster=Cluster(ray, gpu=False))


def test_pieces_are_indexed_as_the_array(tmp_path: Path) -> None:
    expected = build("cosine", MIXED)
    with in_process() as ray:
        space = pieces(ray, tmp_path, MIXED)
        here, short = space.grids[0].integers, space.grids[0].short.integers
        there = ray.get(ray.put(space)).grids[0].integers
        rows = expected.grids[0].integers
        is_short = expected.grids[0].short.square > 0
        assert space.refers
        assert isinstance(here, Pieces)
        for index in (slice(None), slice(3, 9), slice(30, 70), slice(5, 5), slice(1, 99, 7),
                      np.array([139, 0, 66, 66]), np.array([], np.int64)):  # fmt: skip
            assert np.array_equal(here[index], rows[index])
            assert np.array_equal(there[index], rows[index])
        assert np.array_equal(np.asarray(here), rows)
        assert here.astype(np.float64).dtype == np.float64
        assert (here.shape, here.nbytes) == (rows.shape, rows.nbytes)
        assert np.array_equal(short[:][is_short], expected.grids[0].short.integers[is_short])
        assert np.array_equal(row_prints(here), row_prints(rows))
        assert np.array_equal(row_prints(there), row_prints(rows))


def test_rows_that_cannot_be_used_are_named_as_ever(tmp_path: Path) -> None:
    rows = REAL.copy()
    rows[77, 2] = np.nan
    manifest = shard(rows, tmp_path, rows=33)
    with in_process(), refused("NaN or infinity in embeddings row 77 of 140"):
        truerank.evaluate(manifest, LABELS, cluster="auto")


def test_float64_beyond_the_grid_is_told(tmp_path: Path) -> None:
    manifest = shard(REAL.astype(np.float64) + 1e-9, tmp_path, rows=33)
    with in_process(), pytest.warns(truerank.TruerankWarning, match="more significant bits"):
        truerank.evaluate(manifest, LABELS, distance="euclidean", metrics=["map"], cluster="auto")


def test_a_shard_that_cannot_be_read_any_more_keeps_the_counts(tmp_path: Path) -> None:
    """A machine is lost with the shards it held, and one of them has been cut off meanwhile."""
    manifest, kept = shard(REAL, tmp_path / "s", rows=33), tmp_path / "counts"
    options: dict[str, Any] = {"metrics": ["map@r", "mrr"], "checkpoint": kept}
    alone = bits(truerank.evaluate(REAL, LABELS, metrics=["map@r", "mrr"]))
    damaged = tmp_path / "s" / "rows-00002.npy"
    whole = damaged.read_bytes()

    def lose(ray: InProcess) -> None:
        damaged.write_bytes(whole[:-7])
        ray.lose(2)

    with settings(**TILES, checkpoint_worth=0.0):
        with in_process() as ray, refused("rows-00002.npy has"):
            truerank.evaluate(
                manifest, LABELS, cluster="auto", progress=after(4, lambda: lose(ray)), **options
            )
        assert kept.exists()
        with in_process(workers=2), refused("rows-00002.npy has"):  # it is still cut off
            truerank.evaluate(manifest, LABELS, cluster="auto", **options)
        assert kept.exists()
        damaged.write_bytes(whole)
        with in_process(workers=1) as again:
            mended = truerank.evaluate(manifest, LABELS, cluster="auto", **options)
        with in_process() as from_the_start:
            truerank.evaluate(manifest, LABELS, cluster="auto", metrics=["map@r", "mrr"])
    assert bits(mended) == alone
    assert not kept.exists()
    tiles = "truerank.engine.ray:add_tiles"
    assert again.calls.count(tiles) < from_the_start.calls.count(tiles)


def after(calls: int, act: Any) -> Any:
    """A progress that acts once, when it is told for the so manyth time."""
    heard: list[int] = []

    def progress(done: int, total: int) -> None:
        heard.append(done)
        if len(heard) == calls:
            act()

    return progress


def test_a_changed_shard_is_named_and_nothing_is_counted(tmp_path: Path) -> None:
    manifest = shard(REAL, tmp_path, rows=33)
    path = tmp_path / "rows-00001.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with in_process() as ray, refused("rows-00001.npy does not hold what it held"):
        truerank.evaluate(manifest, LABELS, cluster="auto")
    assert set(ray.calls) == {"truerank.distance.rows:round_shard"}


def test_shards_go_on_where_an_array_was_stopped(tmp_path: Path) -> None:
    """A checkpoint belongs to the rows, wherever they are."""
    kept = tmp_path / "counts"
    options: dict[str, Any] = {"metrics": ["map@r"], "checkpoint": kept}
    with settings(**TILES, checkpoint_worth=0.0), in_process():
        with pytest.raises(Stop):
            truerank.evaluate(REAL, LABELS, cluster="auto", progress=stopping_after(3), **options)
        manifest = shard(REAL, tmp_path / "s", rows=33)
        there = truerank.evaluate(manifest, LABELS, cluster="auto", **options)
    assert bits(there) == bits(truerank.evaluate(REAL, LABELS, metrics=["map@r"]))
