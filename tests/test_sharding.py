"""shard: whatever holds rows becomes shards with the same rows, and evaluates to the same bits."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import truerank
from tests.files.samples import CLASSES, EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS, scores
from tests.refusals import refused
from tests.test_checkpoint import bits
from truerank.io.reading import read, read_json
from truerank.io.sharding import check, list_shards, read_stream, shard

ROWS = EMBEDDINGS.astype(np.float32)
SMALL = np.abs(EMBEDDINGS * 4).astype(np.uint8)


def vecs(rows: npt.NDArray[Any], code: str) -> bytes:
    return b"".join(struct.pack(f"<i{len(row)}{code}", len(row), *row) for row in rows.tolist())


def matrix(rows: npt.NDArray[Any], code: str) -> bytes:
    return struct.pack(f"<II{rows.size}{code}", *rows.shape, *rows.ravel().tolist())


def npy(rows: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


STREAMS = {
    "npy": (npy(ROWS), ROWS),
    "fbin": (matrix(ROWS, "f"), ROWS),
    "u8bin": (matrix(SMALL, "B"), SMALL),
    "i8bin": (matrix(SMALL.astype(np.int8), "b"), SMALL.astype(np.int8)),
    "fvecs": (vecs(ROWS, "f"), ROWS),
    "bvecs": (vecs(SMALL, "B"), SMALL),
}


def source(kind: str, folder: Path) -> tuple[Any, npt.NDArray[Any]]:
    """The same rows as a file or as a value of this kind."""
    path = folder / f"x.{kind}"
    if kind in STREAMS:
        path.write_bytes(STREAMS[kind][0])
        return path, STREAMS[kind][1]
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["train"], file["test"] = ROWS, ROWS[:3]
        return f"{path}:train", ROWS
    if kind == "npz":
        np.savez(path, embeddings=ROWS)
    elif kind == "pt":
        torch.save(torch.tensor(ROWS), path)
    elif kind == "parquet":
        pq.write_table(pa.table({"embeddings": list(ROWS)}), path, row_group_size=10)
    elif kind == "wide.parquet":
        pq.write_table(pa.table({f"e{n}": ROWS[:, n] for n in range(5)}), path)
    elif kind == "json":
        return shard(ROWS, folder / "before", rows=11), ROWS
    elif kind == "array":
        return ROWS, ROWS
    elif kind == "tensor":
        return torch.tensor(ROWS), ROWS
    else:
        return (ROWS[start : start + 5] for start in range(0, 36, 5)), ROWS
    return path, ROWS


@pytest.mark.parametrize(
    "kind",
    [*STREAMS, "hdf5", "npz", "pt", "parquet", "wide.parquet", "json", "array", "tensor", "blocks"],
)
def test_every_source_becomes_its_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truerank.io.sharding.BLOCK_NUMBERS", 20)  # blocks of four rows
    given, rows = source(kind, tmp_path)
    manifest = shard(given, tmp_path / "shards", rows=10)
    found = read(manifest)
    assert np.array_equal(np.asarray(found.embeddings), rows)
    assert found.embeddings.dtype == rows.dtype
    assert [part["rows"] for part in read_json(manifest)["shards"]] == [10, 10, 10, 6]
    assert check(manifest)["columns"] == []
    options: dict[str, Any] = {"metrics": ["map@r", "auc"], "distance": "euclidean"}
    alone = truerank.evaluate(rows, LABELS, **options)
    assert bits(truerank.evaluate(manifest, LABELS, **options)) == bits(alone)


@pytest.mark.parametrize("distance", ["cosine", "dot", "cityblock", "hamming"])
def test_a_gallery_in_shards(distance: str, tmp_path: Path) -> None:
    manifests = [shard(SMALL[some], tmp_path / name, rows=4) for name, some in
                 (("q", slice(12)), ("g", slice(12, 36)))]  # fmt: skip
    labels = {"gallery_labels": CLASSES[12:] % 3, "distance": distance, "metrics": "all"}
    labels |= {"junk_labels": [2], "query_ids": np.arange(12), "gallery_ids": np.arange(12, 36)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        alone = truerank.evaluate(SMALL[:12], CLASSES[:12] % 3, gallery=SMALL[12:], **labels)
        found = truerank.evaluate(manifests[0], CLASSES[:12] % 3, gallery=manifests[1], **labels)
    assert bits(found) == bits(alone)


def test_a_matrix_of_distances_in_shards(tmp_path: Path) -> None:
    given = np.abs(ROWS @ ROWS.T)
    manifest = shard(given, tmp_path, rows=5)
    options: dict[str, Any] = {"distance": "precomputed", "metrics": ["map", "auc"]}
    with pytest.warns(truerank.TruerankWarning):
        alone = truerank.evaluate(given, LABELS, **options)
    with pytest.warns(truerank.TruerankWarning):
        assert bits(truerank.evaluate(manifest, LABELS, **options)) == bits(alone)


def table(folder: Path, ids: list[str] = IDS) -> Path:
    path = folder / "labels.csv"
    lines = zip(FAMILIES, LABELS, ids, GROUPS, strict=True)
    rows = "".join(f"{family},{label},{name},{group}\n" for family, label, name, group in lines)
    path.write_text("family,label,id,group\n" + rows)
    return path


def test_labels_of_another_file(tmp_path: Path) -> None:
    rows, labels = tmp_path / "x.npy", table(tmp_path)
    np.save(rows, ROWS)
    manifest = shard(rows, tmp_path / "s", rows=7, labels=labels, levels=["family", "label"])
    assert read_json(manifest)["columns"] == ["family", "label", "ids", "groups"]
    alone = truerank.evaluate(rows, labels)
    assert scores(truerank.evaluate(manifest, labels)) == scores(alone)
    found = read(manifest)
    assert found.labels == {"family": FAMILIES, "label": LABELS}
    assert (found.ids, found.groups) == (IDS, [str(one) for one in GROUPS])
    assert read(manifest, levels=["label"]).labels == {"label": LABELS}
    with refused("no column 'order'"):
        read(manifest, levels=["order"])


def test_labels_are_matched_by_id(tmp_path: Path) -> None:
    names = [f"n{row}" for row in range(36)]
    rows = tmp_path / "x.npz"
    order = np.random.default_rng(2).permutation(36)
    np.savez(rows, embeddings=ROWS[order], id=np.array(names)[order])
    labels = table(tmp_path, names)
    manifest = shard(rows, tmp_path / "s", rows=7, labels=labels)
    assert scores(truerank.evaluate(manifest)) == scores(truerank.evaluate(rows, labels))
    assert read(manifest).labels == [LABELS[row] for row in order]


def test_kinds_of_labels_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, embeddings=ROWS, label=CLASSES, group=GROUPS)
    found = read(shard(path, tmp_path / "s", rows=7))
    assert (found.labels, found.groups) == (CLASSES.tolist(), GROUPS.tolist())


def test_what_was_interrupted_is_written_again(tmp_path: Path) -> None:
    def broken() -> Iterator[npt.NDArray[Any]]:
        yield ROWS[:20]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shard(broken(), tmp_path, rows=3)
    assert not (tmp_path / "manifest.json").exists()
    assert len(list(tmp_path.iterdir())) == 6
    manifest = shard(ROWS, tmp_path, rows=30)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["manifest.json", "rows-00000.npy", "rows-00001.npy"]
    with refused("holds a manifest"):
        shard(ROWS, manifest.parent)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (3, "a path, an array, or an iterable"),
        ([], "no rows"),
        ([ROWS, ROWS[:, :3]], "rows from 36 on are float32 of 3 dimensions"),
        ([ROWS, ROWS.astype(np.float64)], "rows from 36 on are float64"),
        ([[1.0, 2.0]], "must have shape (rows, dimensions)"),
        (np.array([["a"]]), "real numbers"),
        ("nowhere.npy", "cannot read nowhere.npy"),
    ],
)
def test_what_is_refused(given: Any, sentence: str, tmp_path: Path) -> None:
    with refused(sentence):
        shard(given, tmp_path)
    assert not (tmp_path / "manifest.json").exists()


def test_too_few_labels(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("label\n" + "a\n" * 40)
    with refused("40 labels"):
        shard(ROWS, tmp_path / "s", labels=labels)
    labels.write_text("label\n" + "a\n" * 30)
    with refused("30 values for 36 rows"):
        shard(ROWS, tmp_path / "s", labels=labels)
    for rows in (0, True, 1.5):
        with refused("'rows' parameter"):
            shard(ROWS, tmp_path / "s", rows=rows)  # type: ignore[arg-type]


def test_files_that_cannot_be_listed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", ROWS[:, :2])
    np.savez(tmp_path / "c.npz", embeddings=ROWS)
    for names, sentence in (
        ("ab", "the files before it"),
        ("c", "listed as it is"),
        ("", "no files"),
    ):
        with refused(sentence):
            list_shards([next(tmp_path.glob(f"{name}.*")) for name in names], tmp_path / "m.json")


@pytest.mark.parametrize("kind", STREAMS)
def test_streams(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.io.sharding.BLOCK_NUMBERS", 20)
    data, rows = STREAMS[kind]
    assert np.array_equal(np.concatenate(list(read_stream(io.BytesIO(data), kind))), rows)
    with refused("cut off after 35 rows"):
        list(read_stream(io.BytesIO(data[:-1]), kind))
    for short in (b"", data[:3], b"\0" * 100):
        with refused("the stream"):
            list(read_stream(io.BytesIO(short), kind))
    if not kind.endswith("vecs"):
        with refused("goes on after its 36 rows"):
            list(read_stream(io.BytesIO(data + b"x"), kind))


def test_rows_of_different_lengths_in_a_stream() -> None:
    data = bytearray(vecs(ROWS, "f"))
    data[24:28] = struct.pack("<i", 4)
    with refused("do not all have 5 components"):
        list(read_stream(io.BytesIO(bytes(data)), "fvecs"))
