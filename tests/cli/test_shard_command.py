"""truerank shard: files and pipes become shards, which evaluate takes in their place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, LABELS

ROWS = EMBEDDINGS.astype(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(LABELS) + "\n")
    return tmp_path / "x.npy", tmp_path / "y.csv"


def test_shards_score_as_their_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows, labels = files
    done = run("shard", rows, "--labels", labels, "--rows", 10, "-o", tmp_path / "s")
    assert done.status == 0, done.err
    manifest = tmp_path / "s" / "manifest.json"
    assert done.out == f"{manifest}: 36 rows of 5 float32 in 4 shards, with labels.\n"
    done = run("shard", manifest, "--check")
    assert done.out == f"{manifest}: 36 rows of 5 float32 in 4 shards, all as they were written.\n"
    found = [tmp_path / name for name in ("a.json", "b.json")]
    assert run("evaluate", rows, "--labels", labels, "-o", found[0]).status == 0
    done = run("evaluate", manifest, "-o", found[1], "--report", tmp_path / "page.html")
    assert done.status == 0, done.err
    alone, sharded = (json.loads(path.read_text()) for path in found)
    assert sharded["scores"] == alone["scores"]
    assert sharded["provenance"]["distance"] == alone["provenance"]["distance"]


def test_other_commands_take_a_manifest(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows, labels = files
    run("shard", rows, "--labels", labels, "--rows", 10, "-o", tmp_path / "s")
    for command in (("neighbors", "--query", "3"), ("audit",), ("compression", "--dims", "2")):
        name, *options = command
        expected = run(name, rows, "--labels", labels, *options)
        assert expected.status == 0, expected.err
        assert run(name, tmp_path / "s" / "manifest.json", *options).out == expected.out


def test_files_in_place(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = run("shard", files[0], files[0], "--in-place", "-o", tmp_path / "all.json")
    assert done.out == f"{tmp_path / 'all.json'}: 72 rows of 5 float32 in 2 shards.\n"


def test_rows_from_a_pipe(files: tuple[Path, Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "truerank", "shard", "-", "--format", "npy", "-o", tmp_path / "s"],
        input=files[0].read_bytes(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "s" / "rows-00000.npy"), ROWS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "-o FOLDER"),
        (("--check", "-o", "s"), "--check takes one manifest"),
        (("x.npy", "-o", "s"), "one file becomes shards"),
        (("--in-place", "--rows", "3", "-o", "s"), "leave --labels and --rows out"),
        (("--format", "npy", "-o", "s"), "--format goes with rows from a pipe"),
    ],
)
def test_what_does_not_go_together(
    options: tuple[str, ...],
    sentence: str,
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files[0].parent)
    assert sentence in run("shard", "x.npy", *options).complaint()
