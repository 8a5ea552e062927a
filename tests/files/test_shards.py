"""Shards stand for the array they hold; what is wrong with one is told by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import truerank
from tests.files.samples import EMBEDDINGS, IDS, LABELS, expected, scores
from tests.refusals import refused
from truerank.io.reading import read, read_json
from truerank.io.sharding import check, list_shards, shard
from truerank.io.shards import Shards, parse_manifest, read_columns, read_shard

ROWS = EMBEDDINGS.astype(np.float32)


def written(folder: Path, rows: int = 7, **options: Any) -> Path:
    return shard(ROWS, folder, rows=rows, **options)


def opened(path: Path) -> Shards:
    found = read(path).embeddings
    assert isinstance(found, Shards)
    return found


@pytest.mark.parametrize("rows", [1, 7, 36, 100])
def test_they_are_indexed_as_the_array(tmp_path: Path, rows: int) -> None:
    found = opened(written(tmp_path, rows))
    assert (found.shape, found.dtype, len(found)) == (ROWS.shape, ROWS.dtype, len(ROWS))
    for index in (
        slice(None), slice(3, 20), slice(5, 5), slice(30, 90), slice(-4, None), slice(1, 30, 3),
        slice(20, 4, -1), 0, 35, -1, np.array([3, 3, 35, 0]), np.array([], np.int64),
        np.arange(36) % 5 == 0, [1, 34], np.int64(17),
    ):  # fmt: skip
        assert np.array_equal(found[index], ROWS[index])
    assert np.array_equal(np.asarray(found), ROWS)
    assert np.array_equal(np.asarray(found, np.float64), EMBEDDINGS)
    assert (found.min(), found.max()) == (ROWS.min(), ROWS.max())
    with pytest.raises(IndexError):
        found[np.array([36])]


def as_parquet(folder: Path, step: int = 10) -> list[Path]:
    paths = []
    for start in range(0, len(ROWS), step):
        some = slice(start, start + step)
        table = pa.table({"embeddings": list(ROWS[some]), "label": LABELS[some], "id": IDS[some]})
        paths.append(folder / f"part-{start}.parquet")
        pq.write_table(table, paths[-1])
    return paths


def test_parquet_files_are_listed_as_they_are(tmp_path: Path) -> None:
    manifest = list_shards(as_parquet(tmp_path), tmp_path / "here" / "all.json")
    found = read(manifest)
    assert np.array_equal(np.asarray(found.embeddings), ROWS)
    assert np.array_equal(found.embeddings[np.array([35, 2])], ROWS[[35, 2]])
    assert (found.labels, found.ids) == (LABELS, IDS)
    assert scores(truerank.evaluate(manifest)) == expected(query_ids=IDS)


def test_shards_by_url(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    manifest = written(tmp_path, base="memory://shards")
    for path in tmp_path.glob("rows-*"):
        memory.pipe(f"/shards/{path.name}", path.read_bytes())
        path.unlink()
    try:
        assert scores(truerank.evaluate(manifest, LABELS)) == expected()
        memory.pipe("/shards/rows-00002.npy", b"short")
        with refused("memory://shards/rows-00002.npy has 5 bytes"):
            read(manifest)
        memory.rm("/shards/rows-00002.npy")
        with refused("shard memory://shards/rows-00002.npy cannot be read"):
            read(manifest)
    finally:
        memory.rm("/shards", recursive=True)
    by_file = list_shards([tmp_path / "x.npy"], tmp_path / "x.json") if save(tmp_path) else None
    value = read_json(by_file)
    value["shards"][0]["file"] = f"file://{tmp_path / 'x.npy'}"
    by_file.write_text(json.dumps(value))
    assert scores(truerank.evaluate(by_file, LABELS)) == expected()


def save(folder: Path) -> bool:
    np.save(folder / "x.npy", ROWS)
    return True


def test_a_scheme_that_nobody_knows(tmp_path: Path) -> None:
    manifest = written(tmp_path, base="nowhere://x")
    with refused("nowhere"):
        read(manifest)


def damaged(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "cut off":
        path.write_bytes(data[:-3])
    elif how == "another byte":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif how == "another header":
        path.write_bytes(data.replace(b"(7, 5)", b"(5, 7)"))
    elif how == "text":
        path.write_bytes(b"x" * len(data))
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["cut off", "gone", "another header", "text"])
def test_a_damaged_shard_is_named_before_anything_is_computed(tmp_path: Path, how: str) -> None:
    manifest = written(tmp_path)
    damaged(tmp_path / "rows-00003.npy", how)
    with refused("rows-00003.npy"):
        read(manifest)
    with refused("rows-00003.npy"):
        check(manifest)


def test_a_changed_byte_is_found_when_it_is_read(tmp_path: Path) -> None:
    manifest = written(tmp_path)
    found = opened(manifest)
    damaged(tmp_path / "rows-00003.npy", "another byte")
    assert np.array_equal(found[:21], ROWS[:21])
    for look in (
        lambda: found[21],
        lambda: read_shard(found.manifest, 3),
        lambda: truerank.evaluate(manifest, LABELS),
        lambda: check(manifest),
    ):
        with refused("rows-00003.npy does not hold what it held"):
            look()


def test_a_shard_that_is_cut_off_meanwhile(tmp_path: Path) -> None:
    found = opened(written(tmp_path))
    assert np.array_equal(found[21:28], ROWS[21:28])
    damaged(tmp_path / "rows-00003.npy", "cut off")
    with refused("rows-00003.npy is cut off"):
        found[21:28]


def test_integers_that_float64_cannot_tell_apart(tmp_path: Path) -> None:
    manifest = shard(np.array([[1, 2], [2**60, 3]]), tmp_path)
    with refused("rows-00000.npy holds integers beyond"):
        truerank.evaluate(manifest, [0, 0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "else"}, "no manifest of shards"),
        ({"dtype": "=1+1"}, "'=1+1' is no dtype"),
        ({"dtype": "(" * 5000}, "is no dtype"),
        ({"shards": [{"file": "\ud800.npy", "rows": 1, "bytes": 1}]}, "is no name of a file"),
        ({"shards": [{"file": "a\0.npy", "rows": 1, "bytes": 1}]}, "is no name of a file"),
        ({"version": 2}, "later version"),
        ({"rows": 35}, "says 35 rows"),
        ({"rows": "36"}, "'rows' must be an int"),
        ({"dimensions": 0}, "'dimensions' must be an int"),
        ({"dtype": "object"}, "real numbers"),
        ({"dtype": "nonsense"}, "no dtype"),
        ({"shards": {}}, "a list of 'shards'"),
        ({"shards": [3]}, "shard 0 as an object"),
        ({"shards": [{"rows": 36, "file": "x.npy"}]}, "the 'bytes' of shard 0"),
        ({"shards": [{"rows": 36, "file": "x.pt", "bytes": 3}]}, "must be .npy or .parquet"),
        ({"columns": ["labels"]}, "a shard has none"),
        ({"dimensions": 4}, "holds float32 of shape (7, 5)"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    manifest = written(tmp_path)
    manifest.write_text(json.dumps(read_json(manifest) | change))
    with refused(sentence):
        read(manifest)


def test_columns_that_do_not_belong_to_their_rows(tmp_path: Path) -> None:
    manifest = list_shards(as_parquet(tmp_path), tmp_path / "all.json")
    beside = tmp_path / "all-columns-00001.json"
    value = read_json(manifest)
    for columns in ({"labels": ["a"]}, {"ids": IDS[:10]}, {"more": [1] * 10}, [1]):
        beside.write_text(json.dumps(columns))
        stored = value["shards"][1]["columns"]
        stored |= {"bytes": beside.stat().st_size, "checksum": None}
        with refused("all-columns-00001.json"):
            read_columns(parse_manifest(manifest, value))
