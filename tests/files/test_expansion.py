"""Files that would take up more memory than there is: refused before memory is set aside."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

import truerank
from tests.cli.driving import run
from tests.refusals import refusal
from truerank._util import arrays
from truerank.io.reading import read

ROWS, DIMENSIONS = 1 << 18, 32
SIZE = "64 MB"


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "available", lambda: 10 << 20)


def save_npz(path: Path) -> None:
    rows = np.zeros((ROWS, DIMENSIONS), np.float64)
    np.savez_compressed(path, labels=np.zeros(3, np.int64), embeddings=rows)


def save_torch(path: Path) -> None:
    """torch does not compress, but reads what is."""
    whole = path.with_name("whole.pt")
    torch.save({"embeddings": torch.zeros(ROWS, DIMENSIONS, dtype=torch.float64)}, whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    whole.unlink()


def save_parquet(path: Path) -> None:
    labels = pyarrow.array(["a"] * (1 << 21)).dictionary_encode()
    parquet.write_table(pyarrow.table({"label": labels}), path)


def peak(call: Callable[[], Any]) -> tuple[str, int]:
    """What the call is refused with, and the most memory that it took."""
    tracemalloc.start()
    try:
        return refusal(call), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "save", "what"),
    [
        ("bomb.npz", save_npz, "array 'embeddings'"),
        ("bomb.pt", save_torch, "what"),
        ("bomb.parquet", save_parquet, "column 'label'"),
    ],
)
def test_what_is_too_large_is_named_before_it_is_read(
    name: str, save: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    save(path)
    assert path.stat().st_size < 1 << 20
    message, most = peak(lambda: read(path))
    assert message.startswith(f"{what} ")
    assert str(path) in message
    assert ("16 MB" if what.startswith("column") else SIZE) in message
    assert "10 MB are free" in message
    assert most < 4 << 20
    assert "are free" in run("evaluate", path).complaint()


def test_as_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    with path.open("wb") as file:
        np.savez_compressed(file, header=np.zeros(ROWS * DIMENSIONS, np.float64))
    rows, labels = np.eye(4), [0, 0, 1, 1]
    message, most = peak(lambda: truerank.evaluate(rows, labels, checkpoint=path))
    assert message.startswith("array 'header'")
    assert SIZE in message
    assert most < 4 << 20


def test_as_a_task(tmp_path: Path) -> None:
    path = tmp_path / "hidden.task"
    with path.open("wb") as file:
        np.savez_compressed(file, header=np.zeros(ROWS * DIMENSIONS, np.float64))
    message, most = peak(lambda: truerank.Task.load(path))
    assert message.startswith("array 'header'")
    assert most < 4 << 20
