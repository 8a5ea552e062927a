"""Embeddings that users bring along are read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.trained import read_embedded

from truerank._util.errors import InputError


def test_rows_and_labels_are_told_apart_by_what_they_are(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((4, 3), dtype=np.float32)
    for labels in (np.array([[3, 3, 9, 1]], np.uint16), np.array(["b", "b", "c", "a"])):
        np.savez(tmp_path / "x.npz", some=rows, other=labels)
        found = read_embedded(tmp_path / "x.npz", "x")
        assert found.rows.tobytes() == rows.tobytes()
        assert found.labels.tolist() == [1, 1, 2, 0]
        assert found.has_mate.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"rows": np.zeros((4, 3))}, "one label for each row"),
        ({"rows": np.zeros((4, 3)), "labels": np.arange(5)}, "one label for each row"),
        ({"rows": np.full((4, 3), np.nan), "labels": np.arange(4)}, "NaN or infinite"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(InputError, match=says):
        read_embedded(tmp_path / "x.npz", "x")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file"):
        read_embedded(tmp_path / "x.npz", "x")
    (tmp_path / "x.npz").write_text("no zip")
    with pytest.raises(InputError, match="cannot be read"):
        read_embedded(tmp_path / "x.npz", "x")
