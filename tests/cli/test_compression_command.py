"""`truerank compression` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run

LABELS = np.repeat(np.arange(20), 4)
RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((20, 12))[LABELS] + 0.5 * RNG.standard_normal((80, 12))).astype(
    np.float32
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(map(str, LABELS)))
    return tmp_path


def test_as_in_python(files: Path) -> None:
    done = run(
        *("compression", files / "rows.npy", "--labels", files / "labels.csv", "--dims", "4, 6"),
        *("--dtypes", "int8,binary", "--margin", "0.05", "--threads", "1", "--format", "json"),
        *("-o", files / "sweep.csv"),
    )
    assert done.status == 0, done
    wanted = truerank.compression_sweep(
        ROWS,
        list(map(str, LABELS)),
        dims=[4, 6],
        dtypes=["int8", "binary"],
        margin=0.05,
        threads=1,
    )
    assert json.loads(done.out) == json.loads(wanted.to_json())
    assert (files / "sweep.csv").read_text() == wanted.to_csv()


def test_units_of_finer_levels(files: Path) -> None:
    """Four departments are too few to draw from; the message names what helps, and it does."""
    rng = np.random.default_rng(1)
    types = np.repeat(np.arange(40), 5)
    rows = rng.standard_normal((40, 12))[types] + 0.3 * rng.standard_normal((200, 12))
    np.save(files / "tree.npy", rows.astype(np.float32))
    lines = [f"{kind % 4},{kind}" for kind in types]
    (files / "tree.csv").write_text("department,kind\n" + "\n".join(lines))
    given = ("compression", files / "tree.npy", "--labels", files / "tree.csv")
    given += ("--levels", "department,kind", "-m", "ndcg", "--dtypes", "float16", "--threads", "1")
    few = run(*given)
    assert few.status == 0
    assert "--units finer" in few.out
    done = run(*given, "--units", "finer", "--format", "json", "-o", files / "sweep.json")
    assert done.status == 0, done
    labels = {"department": [f"{kind % 4}" for kind in types], "kind": list(map(str, types))}
    wanted = truerank.compression_sweep(
        rows.astype(np.float32),
        labels,
        dtypes=["float16"],
        metrics="ndcg",
        threads=1,
        units="finer",
    )
    assert json.loads(done.out) == json.loads(wanted.to_json())
    assert "interval needs" not in done.out
    assert "'coarse' is not one of" in run(*given, "--units", "coarse").complaint()


def test_a_gallery_names_finer_units(files: Path) -> None:
    """Twelve departments are too few to draw; the 36 types are enough."""
    for name, rows in zip(("tree.npy", "g.npy"), RNG.standard_normal((2, 180, 8)), strict=True):
        np.save(files / name, rows.astype(np.float32))
    lines = [f"d{row // 5 % 12},t{row // 5}" for row in range(180)]
    (files / "tree.csv").write_text("department,type\n" + "\n".join(lines))
    both = (files / "tree.npy", "--labels", files / "tree.csv", "--gallery", files / "g.npy")
    both += ("--gallery-labels", files / "tree.csv", "--levels", "department,type")
    done = run("compression", *both, "-m", "ndcg@10", "--dtypes", "int8", "--threads", "1")
    assert done.status == 0, done.err
    sentence = "No interval: 12 classes of level 1 (department): a test needs at least 30"
    words = " ".join(done.out.split())
    assert f'{sentence}; a finer level has enough: pass units="finer" (--units finer).' in words


def test_the_table_names_the_smallest(files: Path) -> None:
    done = run(
        "compression", files / "rows.npy", "--labels", files / "labels.csv", "--threads", "1"
    )
    assert done.status == 0
    assert "12 x int8" in done.out
    assert "the original" in done.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--dims", "4,x"), "--dims takes whole numbers"),
        (("--dims", "13"), "from 1 to 12"),
        (("--dtypes", "int4"), "float16, int8 or binary"),
        (("--margin", "-1"), "must be a number from 0 to 1"),
    ],
)
def test_bad_input(files: Path, options: tuple[str, ...], sentence: str) -> None:
    command = ("compression", files / "rows.npy", "--labels", files / "labels.csv")
    assert sentence in run(*command, *options).complaint()
