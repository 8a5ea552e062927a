"""truerank neighbors --all: the lists of the Python function, in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from truerank.io.vectors import read_ibin


def test_lists_are_written_with_their_ties(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(-2, 3, size=(30, 3)).astype(np.float32)
    np.save(tmp_path / "queries.npy", rows[:8])
    np.save(tmp_path / "gallery.npy", rows)
    target = tmp_path / "exact.ibin"
    files = (tmp_path / "queries.npy", "--all", "--gallery", tmp_path / "gallery.npy")
    done = run("neighbors", *files, "-k", 4, "-o", target, "--distance", "euclidean")
    assert done.status == 0, done.err
    expected = truerank.exact_neighbors(rows[:8], rows, 4, distance="euclidean")
    assert np.array_equal(read_ibin(target)[0], expected.item)
    assert f"{target}: the 4 nearest of 8 queries; ties in exact.ibin.ties.npz." in done.out
    assert expected.ambiguous
    assert "could have other items in the last places" in done.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-o", "x.csv"], "must end in .ibin or .ivecs"),
        ([], "say where the lists go: pass -o FILE"),
        (["-o", "x.ibin", "--query", "3"], "leave --query and --worst out"),
        (["-o", "x.ibin", "--labels", "x.npy"], "leave --labels out"),
    ],
)
def test_what_does_not_go_with_all(tmp_path: Path, options: list[str], sentence: str) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    given = [tmp_path / word if word.startswith("x.") else word for word in options]
    done = run("neighbors", tmp_path / "x.npy", "--all", "--gallery", tmp_path / "x.npy", *given)
    assert sentence in done.complaint()


def test_what_goes_with_all_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    one = ("neighbors", tmp_path / "x.npy", "--labels", tmp_path / "x.npy", "--query", "0")
    assert "go with --all" in run(*one, "--device", "cpu").complaint()
    assert "pass --all" in run(*one, "-o", tmp_path / "x.ibin").complaint()
    assert "pass --gallery FILE" in run("neighbors", tmp_path / "x.npy", "--all").complaint()
