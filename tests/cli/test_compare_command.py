"""truerank compare of files of embeddings, which are evaluated first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run


@pytest.fixture
def models(tmp_path: Path) -> dict[str, np.ndarray]:
    """Two models, as .npz with labels inside, in other orders, and as .npy beside labels.csv."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 5)
    centres = rng.normal(size=(30, 8))[y]
    found: dict[str, np.ndarray] = {"labels": y}
    for name, noise in (("ours", 0.8), ("theirs", 1.3)):
        rows = (centres + noise * rng.normal(size=(150, 8))).astype(np.float32)
        order = rng.permutation(150)
        np.savez(tmp_path / f"{name}.npz", embeddings=rows[order], label=y[order])
        np.save(tmp_path / f"{name}.npy", rows)
        found[name] = rows
    lines = "".join(f"{label}\n" for label in y)
    (tmp_path / "labels.csv").write_text(f"label\n{lines}", encoding="utf-8")
    return found


def test_files_that_hold_labels(models: dict[str, np.ndarray], tmp_path: Path) -> None:
    """The numbers are those of results that evaluate gives, whatever the order of rows."""
    results = [
        truerank.evaluate(models[name], models["labels"], metrics=["map@r", "hit@1"])
        for name in ("ours", "theirs")
    ]
    wanted = truerank.compare(*results, names=["ours", "theirs"]).to_json()
    files = [tmp_path / "ours.npz", tmp_path / "theirs.npz"]
    ran = run("compare", *files, "-m", "map@r,hit@1", "--format", "json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out) == json.loads(wanted)
    results[0].to_json(tmp_path / "ours.json")
    mixed = run(
        "compare", tmp_path / "ours.json", files[1], "-m", "map@r,hit@1", "--format", "json"
    )
    assert mixed.out == ran.out


def test_options_of_the_evaluation_apply(models: dict[str, np.ndarray], tmp_path: Path) -> None:
    results = [
        truerank.evaluate(
            models[name], models["labels"], metrics="map", distance="euclidean", confidence=0.8
        )
        for name in ("ours", "theirs")
    ]
    wanted = truerank.compare(*results, names=["a", "b"], confidence=0.8).to_json()
    files = [tmp_path / "ours.npy", tmp_path / "theirs.npy"]
    options = ["--labels", tmp_path / "labels.csv", "--distance", "euclidean"]
    options += ["--confidence", "0.8", "-m", "map", "--names", "a, b", "--format", "json"]
    ran = run("compare", *files, *options)
    assert ran.status == 0, ran.err
    assert json.loads(ran.out) == json.loads(wanted)
    several = run("compare", "--runs", f"{files[0]},{files[1]}", "--runs", files[1], *options)
    assert several.status == 0, several.err
    assert [row["runs"] for row in json.loads(several.out)["standings"]] == [2, 1]


def test_levels_and_units_of_the_evaluation(models: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Four departments are too few to leave out; the message names what helps, and it does."""
    paths = [(f"d{label % 4}", f"k{label}") for label in models["labels"]]
    lines = [f"{coarse},{fine}" for coarse, fine in paths]
    (tmp_path / "tree.csv").write_text("\n".join(["department,kind", *lines]), encoding="utf-8")
    labels = dict(zip(("department", "kind"), map(list, zip(*paths, strict=True)), strict=True))
    given = ["compare", tmp_path / "ours.npy", tmp_path / "theirs.npy", "-m", "ndcg"]
    given += ["--labels", tmp_path / "tree.csv", "--levels", "department,kind"]
    few = run(*given)
    assert few.status == 0, few.err
    assert "--units finer" in few.out
    results = [
        truerank.evaluate(models[name], labels, metrics="ndcg", units="finer")
        for name in ("ours", "theirs")
    ]
    wanted = truerank.compare(*results, names=["ours", "theirs"]).to_json()
    ran = run(*given, "--units", "finer", "--format", "json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out) == json.loads(wanted)
    assert json.loads(ran.out)["differences"][0]["p"] is not None


def test_what_is_refused(models: dict[str, np.ndarray], tmp_path: Path) -> None:
    files = [tmp_path / "ours.npy", tmp_path / "theirs.npy"]
    assert "holds no labels; pass --labels FILE" in run("compare", *files).complaint()
    result = truerank.evaluate(models["ours"], models["labels"], metrics="map")
    result.to_json(tmp_path / "a.json")
    labels = ["--labels", tmp_path / "labels.csv"]
    both = [tmp_path / "a.json", tmp_path / "a.json"]
    for options in (labels, ["--levels", "a,b"], ["--units", "finer"], ["--distance", "dot"]):
        assert "RESULTS hold scores already" in run("compare", *both, *options).complaint()
    over = run("compare", *files, *labels, "-o", tmp_path / "labels.csv")
    assert "written over the input" in over.complaint()
