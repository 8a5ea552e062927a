"""Figures from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.cli.driving import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plot")
    for number, name in enumerate(("a", "b")):
        rows, labels = clusters(3, classes=20, size=4)
        rows = rows + number * np.random.default_rng(0).normal(size=rows.shape)
        truerank.evaluate(rows, labels, metrics=["map@r", "eer"]).to_json(path / f"{name}.json")
    return path


@pytest.mark.parametrize(
    ("kind", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")]
)
def test_a_figure_in_each_format(folder: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    target = tmp_path / f"det.{kind}"
    done = run("plot", folder / "a.json", folder / "b.json", "--curve", "det", "-o", target)
    assert (done.status, done.out, done.err) == (0, "", ""), done
    assert target.read_bytes().startswith(start)


def test_options_reach_the_figure(folder: Path, tmp_path: Path) -> None:
    sizes = {}
    for name, options in {
        "plain": (),
        "none": ("--band", "none"),
        "bare": ("--band", "none", "--no-marks"),
        "named": ("--names", "one"),
    }.items():
        target = tmp_path / f"{name}.svg"
        done = run("plot", folder / "a.json", "--curve", "roc", "-o", target, *options)
        assert done.status == 0, done
        sizes[name] = len(target.read_bytes())
    assert sizes["plain"] > sizes["none"] > sizes["bare"]


def test_scores_of_runs_are_drawn(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        for seed in (0, 1):
            (tmp_path / f"{name}-{seed}.json").write_bytes((folder / f"{name}.json").read_bytes())
    runs = ("--runs", f"{tmp_path}/a-*.json", "--runs", f"{tmp_path}/b-0.json,{tmp_path}/b-1.json")
    done = run("plot", *runs, "-m", "map@r", "-o", tmp_path / "runs.svg")
    assert (done.status, done.out, done.err) == (0, "", ""), done
    first = (tmp_path / "runs.svg").read_bytes()
    run("plot", *runs, "-m", "map@r", "-o", tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == first
    several = run("plot", *runs, "-o", tmp_path / "several.svg").complaint()
    assert "name the metric to draw" in several
    single = ("plot", folder / "a.json", folder / "b.json", "-m", "eer")
    assert run(*single, "-o", tmp_path / "single.pdf").status == 0
    for kind, *words in (("forest",), ("differences", *runs), ("classes", "-m", "map@r")):
        given = () if kind == "differences" else (folder / "a.json",)
        done = run("plot", *given, "--curve", kind, *words, "-o", tmp_path / f"{kind}.svg")
        assert done.status == 0, done
    for words in (("--curve", "roc", *runs), ("--curve", "roc", "-m", "map@r"), ()):
        message = run("plot", folder / "a.json", *words, "-o", tmp_path / "no.pdf").complaint()
        assert "or -m METRIC for scores" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--curve", "roc", "-o", "roc.jpg"), "-o writes .pdf, .svg, .png. Got 'roc.jpg'."),
        (("--curve", "dir", "-o", "dir.pdf"), "this result has no curve 'dir'; there are"),
        (("--curve", "roc", "-o", "roc.pdf", "--names", "a,b"), "names must be 1 distinct names"),
    ],
)
def test_refusals(folder: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    placed = [tmp_path / word if "." in word else word for word in words]
    done = run("plot", folder / "a.json", *placed)
    assert done.status == 2
    assert message in done.err
