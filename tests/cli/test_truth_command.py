"""truerank truth: the lists of the Python function, in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import truerank
from tests.cli.driving import run
from truerank.io.vectors import read_ibin


def test_lists_are_written_with_their_ties(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(-2, 3, size=(30, 3)).astype(np.float32)
    np.save(tmp_path / "queries.npy", rows[:8])
    np.save(tmp_path / "gallery.npy", rows)
    target = tmp_path / "truth.ibin"
    files = (tmp_path / "queries.npy", tmp_path / "gallery.npy")
    done = run("truth", *files, "-k", 4, "-o", target, "--distance", "euclidean")
    assert done.status == 0, done.err
    expected = truerank.truth(rows[:8], rows, 4, distance="euclidean")
    assert np.array_equal(read_ibin(target)[0], expected.item)
    assert f"{target}: the 4 nearest of 8 queries; ties in truth.ibin.ties.npz." in done.out
    assert expected.ambiguous
    assert "could have other items in the last places" in done.out


def test_another_ending_is_refused_before_the_search(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    done = run("truth", tmp_path / "x.npy", tmp_path / "x.npy", "-o", tmp_path / "truth.csv")
    assert "must end in .ibin or .ivecs" in done.complaint()
