"""Vectors of index benchmarks: written by the layouts' own descriptions, read back as they were."""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

import truerank
from tests.files.samples import CLASSES, EMBEDDINGS, expected, scores
from tests.refusals import refused
from truerank.io.reading import read_embeddings
from truerank.io.vectors import read_ibin, read_ivecs

BYTES = (EMBEDDINGS * 4).astype(np.int64)
"""The embeddings as small integers."""


def as_rows(path: Path, rows: list[list[float]], code: str) -> Path:
    path.write_bytes(b"".join(struct.pack(f"<i{len(row)}{code}", len(row), *row) for row in rows))
    return path


def as_matrix(path: Path, rows: list[list[float]], code: str) -> Path:
    flat = [cell for row in rows for cell in row]
    path.write_bytes(struct.pack(f"<II{len(flat)}{code}", len(rows), len(rows[0]), *flat))
    return path


def test_floats_score_as_the_array_does(tmp_path: Path) -> None:
    rows = EMBEDDINGS.tolist()
    for path in (
        as_rows(tmp_path / "x.fvecs", rows, "f"),
        as_matrix(tmp_path / "x.fbin", rows, "f"),
    ):
        found = read_embeddings(path)
        assert isinstance(found.base, np.memmap) or isinstance(found, np.memmap)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, EMBEDDINGS)
        labels = [f"{number:04d}" for number in CLASSES]
        assert scores(truerank.evaluate(path, labels)) == expected()


def test_bytes(tmp_path: Path) -> None:
    small = (BYTES % 100).tolist()
    for path, code, kind in (
        (tmp_path / "x.bvecs", "B", np.uint8),
        (tmp_path / "x.u8bin", "B", np.uint8),
        (tmp_path / "x.i8bin", "b", np.int8),
    ):
        write = as_rows if path.suffix == ".bvecs" else as_matrix
        found = read_embeddings(write(path, small, code))
        assert found.dtype == kind
        assert found.tolist() == small


def test_lists_of_one_length_and_of_several(tmp_path: Path) -> None:
    even = as_rows(tmp_path / "even.ivecs", [[3, 1], [0, 2]], "i")
    found = read_ivecs(even)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [[3, 1], [0, 2]]
    ragged = [[], [7], [1, 2, 3], [5]]
    lists = read_ivecs(as_rows(tmp_path / "ragged.ivecs", ragged, "i"))
    assert [row.tolist() for row in lists] == ragged


def test_numbers_with_distances_behind_them(tmp_path: Path) -> None:
    path = as_matrix(tmp_path / "truth.ibin", [[3, 1], [0, 2]], "i")
    assert read_ibin(path)[1] is None
    path.write_bytes(path.read_bytes() + struct.pack("<4f", 0.5, 1, 0, 2))
    items, distances = read_ibin(path)
    assert items.tolist() == [[3, 1], [0, 2]]
    assert distances is not None
    assert distances.tolist() == [[0.5, 1], [0, 2]]


def test_an_array_of_an_hdf5_file(tmp_path: Path) -> None:
    path = tmp_path / "sift.hdf5"
    with h5py.File(path, "w") as file:
        file["train"], file["test"] = EMBEDDINGS, EMBEDDINGS[:3]
    assert read_embeddings(f"{path}:test").shape == (3, 5)
    assert read_embeddings(f"{path}:train").shape == EMBEDDINGS.shape
    with refused("holds train and test: name one of them"):
        read_embeddings(path)
    with refused("holds 'test', 'train' at its root; expected other"):
        read_embeddings(f"{path}:other")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.fbin", b"abc", "is cut off: it has 3 bytes"),
        ("x.fbin", struct.pack("<II3f", 2, 2, 1, 2, 3), "2 x 2 numbers, which would take 24 bytes"),
        ("x.fbin", struct.pack("<II", 0, 4), "0 x 4 numbers"),
        ("x.fvecs", struct.pack("<i2fi", 2, 1, 2, 2), "is cut off, or its rows have different"),
        ("x.fvecs", struct.pack("<i2fi2f", 2, 1, 2, 3, 1, 2), "row 1 does not have the 2 comp"),
        ("x.fvecs", struct.pack("<if", -5, 1), "its first row would have length -5"),
        ("x.bvecs", b"\1", "is cut off: it has 1 byte."),
    ],
)
def test_what_is_wrong_with_a_file(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(sentence):
        read_embeddings(tmp_path / name)
