"""Rankings of single queries, against lists sorted by hand from integer points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truerank
from tests.refusals import refused
from truerank.result.ranked_rows import Neighbors, find_queries


def points(seed: int = 0, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Points on a small grid of integers: distances that tie, and that plain sums get right."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (rows, 3)).astype(float), rng.integers(0, 8, rows)


def by_hand(
    x: np.ndarray, query: int, right: np.ndarray, excluded: np.ndarray
) -> dict[int, tuple[float, int, int, bool]]:
    """row -> (distance, first and last rank, whether right) of all candidates, nearest first."""
    squares = ((x - x[query]) ** 2).sum(axis=1)
    kept = [row for row in range(len(x)) if not excluded[row]]
    kept.sort(key=lambda row: (squares[row], right[row], row))
    return {
        row: (
            float(np.sqrt(squares[row])),
            1 + sum(squares[other] < squares[row] for other in kept),
            sum(squares[other] <= squares[row] for other in kept),
            bool(right[row]),
        )
        for row in kept
    }


def listed(items: Any) -> dict[int, tuple[float, int, int, bool]]:
    columns = (items.row, items.distance, items.first, items.last, items.right)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {row: tuple(rest) for row, *rest in rows}


@pytest.mark.parametrize("k", [1, 7, 200])
def test_a_ranking_is_the_sorted_list(k: int) -> None:
    x, y = points()
    found = truerank.neighbors(x, y, queries=range(len(x)), k=k, distance="euclidean")
    assert [one.query for one in found] == list(range(len(x)))
    for query, one in enumerate(found):
        expected = by_hand(x, query, y == y[query], np.arange(len(x)) == query)
        assert list(listed(one.nearest).items()) == list(expected.items())[:k]
        mates = [(row, facts) for row, facts in expected.items() if facts[3]]
        assert list(listed(one.relevant).items()) == mates
        assert one.candidates == len(x) - 1


def test_junk_never_stands_in_a_list() -> None:
    x, y = points(1)
    rng = np.random.default_rng(2)
    cameras, ids = rng.integers(0, 3, len(x)), rng.integers(0, 50, len(x)).astype(str)
    mask = rng.random((len(x), len(x))) < 0.1
    found = truerank.neighbors(
        x,
        y,
        queries=range(len(x)),
        k=len(x),
        query_ids=ids,
        query_groups=cameras,
        junk=mask,
        junk_labels=[3],
        distance="euclidean",
    )
    for query, one in enumerate(found):
        mine = y == y[query]
        gone = (ids == ids[query]) | (mine & (cameras == cameras[query])) | mask[query] | (y == 3)
        assert listed(one.nearest) == by_hand(x, query, mine, gone)
        assert one.nearest.id == [ids[row] for row in one.nearest.row]
        assert one.nearest.label == [y[row] for row in one.nearest.row]
        assert one.nearest.group == [cameras[row] for row in one.nearest.row]
        assert (one.id, one.label, one.group) == (ids[query], y[query], cameras[query])


def test_a_gallery_of_its_own_with_distractors() -> None:
    x, y = points(3)
    labels = [None if label == 5 else str(label) for label in y[20:]]
    found = truerank.neighbors(
        x[:20],
        y[:20].astype(str),
        gallery=x[20:],
        gallery_labels=labels,
        queries=[4],
        k=40,
        unlabelled="distractor",
        distance="euclidean",
    )
    right = np.array([label == str(y[4]) for label in labels])
    apart = np.concatenate([x[20:], x[4:5]])
    expected = by_hand(apart, 40, np.append(right, False), np.arange(41) == 40)
    assert listed(found[0].nearest) == expected
    assert found[0].nearest.label == [labels[row] for row in found[0].nearest.row]


@pytest.mark.parametrize("distance", ["cosine", "dot", "cityblock", "euclidean"])
def test_ranks_are_those_of_the_score(distance: str) -> None:
    """Mean reciprocal ranks and precisions computed from the lists are evaluate's own."""
    rng = np.random.default_rng(4)
    y = np.repeat(np.arange(12), 4)
    x = (rng.standard_normal((12, 5))[y] + rng.standard_normal((48, 5))).astype(np.float32)
    result = truerank.evaluate(x, y, metrics=["mrr", "precision@5"], distance=distance)
    found = truerank.neighbors(x, y, queries=range(48), k=5, distance=distance)
    first, five = (result[metric].per_query.lower.tolist() for metric in ("mrr", "precision@5"))
    assert [1 / one.relevant.last[0] for one in found] == first
    assert [one.nearest.right.mean() for one in found] == five


def test_similarities_and_given_distances() -> None:
    matrix = np.array([[0.0, 0.9, 0.1, 0.9], [0.9, 0, 0.5, 0.2], [0.1, 0.5, 0, 0.3], [0, 0, 0, 0]])
    near = truerank.neighbors(matrix, [0, 0, 1, 1], queries=0, distance="similarity")[0]
    assert near.nearest.row.tolist() == [3, 1, 2]
    assert near.nearest.distance.tolist() == [0.9, 0.9, 0.1]
    far = truerank.neighbors(matrix, [0, 0, 1, 1], queries=0, distance="precomputed")[0]
    assert far.nearest.row.tolist() == [2, 3, 1]


def test_levels_make_near_misses() -> None:
    labels = {
        "family": ["cats", "cats", "cats", "cars", "cats"],
        "species": ["lion", "lynx", "lion", "mini", "lynx"],
    }
    x = np.array([[0.0], [1], [2], [1], [4]])
    one = truerank.neighbors(x, labels, queries=0, distance="euclidean")[0]
    assert one.nearest.row.tolist() == [3, 1, 2, 4], "of tied items the more alike come last"
    plain = list(one.nearest.plain(["family", "species"]))
    assert [item["verdict"] for item in plain] == ["wrong", "near miss", "right", "near miss"]
    assert [item["level"] for item in plain] == [None, "family", "species", "family"]


def test_judgements_show_their_grades() -> None:
    relevance = np.array([[0, 2, 0, 0.5], [0, 0, 0, 0]])
    x = np.array([[0.0], [9]])
    found = truerank.neighbors(
        x, gallery=[[1.0], [2], [3], [4]], relevance=relevance, queries=[0, 1], distance="euclidean"
    )
    assert found[0].nearest.grade.tolist() == [0, 2, 0, 0.5]
    assert found[0].relevant.row.tolist() == [1, 3]
    assert found[0].relevant.grade.tolist() == [2, 0.5]
    assert len(found[1].mates) == 0
    assert "No relevant item among 4 candidates." in str(found)


def test_nothing_left_to_rank() -> None:
    one = truerank.neighbors([[0.0], [1]], [0, 0], queries=0, query_ids=["a", "a"])[0]
    assert (len(one.nearest), one.candidates) == (0, 0)


def test_many_queries_are_done_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points(5)
    whole = truerank.neighbors(x, y, queries=range(60), distance="euclidean").to_json()
    monkeypatch.setattr("truerank.result.ranked_rows.PAIRS", 150)
    assert truerank.neighbors(x, y, queries=range(60), distance="euclidean").to_json() == whole


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (60, "there is no query 60: rows are numbered 0 to 59."),
        (-1, "there is no query -1"),
        ("image", "the queries have no ids by which 'image' could be found."),
        ([], "no query is asked for"),
        (1.5, "a query is a row number, or its id as text. Got 1.5."),
        (True, "a query is a row number"),
    ],
)
def test_queries_that_are_not_there(asked: Any, sentence: str) -> None:
    x, y = points()
    with refused(sentence):
        truerank.neighbors(x, y, queries=asked)


def test_ids_find_all_their_rows() -> None:
    assert find_queries(["b", 0, "a"], ["a", "b", "b"], 3).tolist() == [1, 2, 0]
    assert find_queries("7", [3, 7], 2).tolist() == [1]
    with refused("no query has the id 'c'; the first ones are 'a', 'b'."):
        find_queries("c", ["a", "b", "b"], 3)


@pytest.mark.parametrize("k", [0, -1, 2.0, True, "3"])
def test_k_is_a_number(k: Any) -> None:
    x, y = points()
    with refused("The 'k' parameter of neighbors must be an int >= 1."):
        truerank.neighbors(x, y, queries=0, k=k)


def test_forms_agree() -> None:
    x, y = points()
    found = truerank.neighbors(x, y, queries=[0, 1], k=2, distance="euclidean")
    assert isinstance(found, Neighbors)
    data = found.to_dict()
    lines = found.to_csv().splitlines()
    header = lines[0].split(",")
    assert header[:2] == ["query", "query_id"]
    rows = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
    for one in data["queries"]:
        mine = [row for row in rows if row["query"] == str(one["query"])]
        assert [row["row"] for row in mine[:2]] == [str(item["row"]) for item in one["nearest"]]
        beyond = {item["row"] for item in one["mates"]} - {item["row"] for item in one["nearest"]}
        assert {int(row["row"]) for row in mine[2:]} == beyond
    assert found.to_text().count("query ") == 2
