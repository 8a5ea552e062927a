"""Ids, cameras and junk labels in separate files: what is excluded, by masks written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run

RNG = np.random.default_rng(17)
PEOPLE = RNG.normal(size=(30, 8))
CAMERAS = RNG.normal(size=(3, 8))
QUERY = np.arange(60) % 30
ITEM = np.where(np.arange(150) % 10 == 0, -1, np.arange(150) % 25)
QUERY_CAMERA, ITEM_CAMERA = RNG.integers(3, size=60), RNG.integers(3, size=150)
ROWS = PEOPLE[QUERY] + CAMERAS[QUERY_CAMERA] + 0.5 * RNG.normal(size=(60, 8))
ITEMS = PEOPLE[ITEM] + CAMERAS[ITEM_CAMERA] + 0.5 * RNG.normal(size=(150, 8))
QUERY_ID, ITEM_ID = np.arange(60), np.arange(150) + 40
"""Queries 40 to 59 are crops of the photographs of items 0 to 19."""


def distances() -> np.ndarray:
    rows, items = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ROWS, ITEMS))
    return np.asarray(1 - rows @ items.T)


SAME = QUERY[:, None] == ITEM
EXCLUDED = (
    (SAME & (QUERY_CAMERA[:, None] == ITEM_CAMERA))
    | (QUERY_ID[:, None] == ITEM_ID)
    | (ITEM == -1)[None, :]
)


def hit_at_1() -> float:
    distance = np.where(EXCLUDED, np.inf, distances())
    mated = (SAME & ~EXCLUDED).any(axis=1)
    return float((ITEM[distance.argmin(axis=1)] == QUERY)[mated].mean())


@pytest.fixture
def task(tmp_path: Path) -> list[object]:
    arrays = {"query": ROWS, "gallery": ITEMS, "labels": QUERY, "gallery-labels": ITEM}
    arrays |= {"groups": QUERY_CAMERA, "gallery-groups": ITEM_CAMERA, "distances": distances()}
    arrays["neighbours"] = distances().argsort(axis=1)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    for name, ids in (("ids", QUERY_ID), ("gallery-ids", ITEM_ID)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id", *map(str, ids)]))
    options: list[object] = ["--junk-label=-1"]
    for name in ("labels", "gallery-labels", "groups", "gallery-groups"):
        options += [f"--{name}", tmp_path / f"{name}.npy"]
    for name in ("ids", "gallery-ids"):
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    return options


def test_evaluate_with_everything_in_files_of_its_own(task: list[object], tmp_path: Path) -> None:
    given = [tmp_path / "query.npy", "--gallery", tmp_path / "gallery.npy", *task]
    done = run("evaluate", *given, "-m", "hit@1", "--no-intervals", "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["scores"]["hit@1"]["value"] == hit_at_1()


def test_a_matrix_of_distances_has_ids_and_cameras_too(task: list[object], tmp_path: Path) -> None:
    given = [tmp_path / "distances.npy", "--distance", "precomputed", *task]
    done = run("evaluate", *given, "-m", "hit@1", "--no-intervals", "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["scores"]["hit@1"]["value"] == hit_at_1()


def test_lists_sweeps_and_single_queries(task: list[object], tmp_path: Path) -> None:
    given = [tmp_path / "neighbours.npy", "--named-by", "row", *task]
    done = run("lists", *given, "-m", "hit@1", "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["scores"]["hit@1"]["value"] == hit_at_1()
    given = [tmp_path / "query.npy", "--gallery", tmp_path / "gallery.npy", *task]
    done = run("compression", *given, "-m", "hit@1", "--dtypes", "float16", "--format", "json")
    assert done.status == 0, done.err
    assert repr(hit_at_1()) in done.out
    done = run("neighbors", *given, "--query", "7", "-k", 1, "--format", "json")
    assert done.status == 0, done.err
    [nearest] = json.loads(done.out)["queries"][0]["nearest"]
    assert nearest["row"] == np.where(EXCLUDED, np.inf, distances())[7].argmin()


def test_files_without_such_a_column_are_refused(task: list[object], tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("label,name\na,b\n")
    given = ("evaluate", tmp_path / "query.npy", "--labels", tmp_path / "labels.npy")
    for option, words in (("groups", "group or camera"), ("ids", "id")):
        told = run(*given, f"--{option}", tmp_path / "names.csv").complaint()
        assert told.endswith(f"holds no {option}: expected a column or array called {words}.")
    told = run(*given, "--gallery-groups", tmp_path / "groups.npy").complaint()
    assert told == "--gallery-groups came without --gallery."
    given = ("lists", tmp_path / "neighbours.npy", "--labels", tmp_path / "labels.npy")
    told = run(*given, "--gallery-groups", tmp_path / "groups.npy").complaint()
    assert told == "--gallery-groups came without --gallery-labels."


def test_files_of_labels_beside_a_matrix_may_hold_embeddings(tmp_path: Path) -> None:
    """The files that were evaluated before re-ranking name the matrix's rows and columns."""
    known = {"query": (ROWS, QUERY, QUERY_CAMERA), "gallery": (ITEMS, ITEM, ITEM_CAMERA)}
    for name, (rows, labels, camera) in known.items():
        np.savez(tmp_path / f"{name}.npz", embeddings=rows, label=labels, camera=camera)
    np.save(tmp_path / "matrix.npy", distances())
    sides = ["--labels", tmp_path / "query.npz", "--gallery-labels", tmp_path / "gallery.npz"]
    given = [tmp_path / "matrix.npy", *sides, "--distance", "precomputed"]
    done = run("evaluate", *given, "-m", "hit@1", "--no-intervals", "--format", "json")
    assert done.status == 0, done.err
    wanted = truerank.evaluate(
        distances(),
        QUERY,
        gallery_labels=ITEM,
        query_groups=QUERY_CAMERA,
        gallery_groups=ITEM_CAMERA,
        metrics="hit@1",
        distance="precomputed",
    )
    assert json.loads(done.out)["scores"]["hit@1"]["value"] == wanted["hit@1"].value


def test_parts_by_camera(tmp_path: Path) -> None:
    """By the name that the column has in the file; the scores of each camera by hand."""
    np.savez(tmp_path / "query.npz", embeddings=ROWS, label=QUERY, camera=QUERY_CAMERA)
    np.savez(tmp_path / "gallery.npz", embeddings=ITEMS, label=ITEM, camera=ITEM_CAMERA)
    given = [tmp_path / "query.npz", "--gallery", tmp_path / "gallery.npz", "-m", "hit@1"]
    done = run("evaluate", *given, "--by", "camera", "--no-intervals", "--format", "csv")
    assert done.status == 0, done.err
    excluded = SAME & (QUERY_CAMERA[:, None] == ITEM_CAMERA)
    nearest = np.where(excluded, np.inf, distances()).argmin(axis=1)
    counts = (SAME & ~excluded).any(axis=1)
    for camera in range(3):
        some = counts & (camera == QUERY_CAMERA)
        share = float((ITEM[nearest] == QUERY)[some].mean())
        assert f"\n{camera},{share}," in done.out
    assert done.out.startswith("camera,hit@1,queries\n")
    wanted = run("evaluate", *given, "--by", "group", "--no-intervals", "--format", "csv")
    assert wanted.out.replace("group,", "camera,") == done.out
