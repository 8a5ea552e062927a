"""truerank neighbors: the lists of the Python function, by id, by row and for the worst."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS


def test_a_query_by_its_row(data: Path) -> None:
    done = run("neighbors", data / "embeddings.npy", "--labels", data / "labels.csv", "--query", 7)
    expected = truerank.neighbors(EMBEDDINGS, LABELS, queries=7)
    assert done.status == 0, done.err
    assert done.out == f"{expected}\n"
    assert done.out.startswith("query 7, label 0001\n3 relevant items among 35 candidates, at ")
    assert done.out.splitlines()[2].startswith("rank  label  verdict")


def test_a_query_by_its_id_with_levels_and_cameras(data: Path, tmp_path: Path) -> None:
    """All of the file counts: two crops share an id, same-camera mates are junk."""
    files = (data / "embeddings.npy", "--labels", data / "all.csv", "--levels", "level1,label")
    written = tmp_path / "found.json"
    asked = ("--query", "item-3", "-k", 4)
    done = run("neighbors", *files, *asked, "--format", "csv", "-o", written)
    assert done.status == 0, done.err
    expected = truerank.neighbors(
        EMBEDDINGS,
        {"level1": FAMILIES, "label": LABELS},
        query_ids=IDS,
        query_groups=GROUPS.astype(str),
        queries="item-3",
        k=4,
    )
    assert [one.query for one in expected] == [6, 7]
    assert done.out == expected.to_csv()
    assert json.loads(written.read_text()) == expected.to_dict()
    assert "near miss" in done.out


def test_the_worst(data: Path) -> None:
    files = ("neighbors", data / "embeddings.npy", "--labels", data / "labels.csv")
    done = run(*files, "--worst", 3, "-m", "mrr", "--format", "json")
    expected = truerank.neighbors(EMBEDDINGS, LABELS, worst=3, metric="mrr")
    assert json.loads(done.out) == expected.to_dict()


def test_ids_of_the_queries_alone_find_them(data: Path, tmp_path: Path) -> None:
    """A gallery without ids: the queries' names still name them."""
    query = tmp_path / "query.npz"
    names = np.array([f"probe {row}" for row in range(18)])
    np.savez(query, embeddings=EMBEDDINGS[1::2], labels=np.array(LABELS[1::2]), ids=names)
    sides = ("--gallery", data / "gallery.npy", "--gallery-labels", data / "gallery.csv")
    done = run("neighbors", query, *sides, "--query", "probe 2", "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["queries"][0]["query"] == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "no query is chosen: pass --query ID, --worst NUMBER or --all."),
        (["--query", "1", "--worst", "2"], "no query is chosen"),
        (["--query", "image"], "the rows have no ids by which 'image' could be found; pass --ids"),
        (["--query", "99"], "there is no query 99: rows are numbered 0 to 35."),
        (["--worst", "2", "-m", "auc"], "auc has no value for each query"),
        (["--query", "1", "-o", "x.tex"], "-o writes .json, .csv, .txt, .ibin or .ivecs here."),
    ],
)
def test_bad_input(data: Path, options: list[str], sentence: str) -> None:
    done = run("neighbors", data / "embeddings.npy", "--labels", data / "labels.csv", *options)
    assert sentence in done.complaint()


def test_an_unknown_id(data: Path) -> None:
    done = run("neighbors", data / "embeddings.npy", "--labels", data / "all.csv", "--query", "me")
    assert done.complaint() == (
        "no query has the id 'me'; the first ones are 'item-0', 'item-1', 'item-2'."
    )
