"""neighbour_recall by the file that truth writes: the same share as by the vectors themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.refusals import refused
from truerank.analysis.neighbors import exact_neighbors


def brute(
    distance: np.ndarray[Any, Any], lists: np.ndarray[Any, Any], out: np.ndarray[Any, Any], k: int
) -> list[float]:
    """By sorting every row: strictly nearer items count, of tied ones as many as there is room."""
    found = []
    for row, listed, never in zip(distance, lists, out, strict=True):
        eligible = [item for item in range(len(row)) if not never[item]]
        most = min(k, len(eligible))
        last = sorted(row[item] for item in eligible)[most - 1]
        nearer = {item for item in eligible if row[item] < last}
        tied = {item for item in eligible if row[item] == last}
        seen = [item for item in listed if item >= 0 and not never[item]][:k]
        hits = len(nearer & set(seen)) + min(len(tied & set(seen)), most - len(nearer))
        found.append(hits / most)
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alone", [False, True])
def test_the_file_of_truth_says_what_vectors_say(seed: int, alone: bool, tmp_path: Path) -> None:
    """Small integers, so that much ties; the search forgets some and takes others twice."""
    draw = np.random.default_rng(seed)
    gallery = draw.integers(-2, 3, (40, 3)).astype(float)
    queries = gallery if alone else draw.integers(-2, 3, (12, 3)).astype(float)
    squares = ((queries[:, None] - gallery[None]) ** 2).sum(axis=2)
    noise = squares + draw.integers(0, 3, squares.shape)
    lists = np.argsort(noise, axis=1, kind="stable")[:, :9]
    lists[0, 3], lists[1, 2] = lists[0, 2], -1
    labels = draw.integers(0, 4, len(gallery))
    asked = labels[: len(queries)] if not alone else labels
    out = np.zeros(squares.shape, bool)
    if alone:
        np.fill_diagonal(out, True)
    exact_neighbors(queries, gallery, 40, distance="euclidean").save(tmp_path / "truth.ibin")
    sides: dict[str, Any] = {} if alone else {"gallery_labels": labels}
    for k in (1, 3, 8):
        result = truerank.evaluate_lists(
            lists, asked, **sides, exact_neighbors=tmp_path / "truth.ibin", k=k, metrics="map"
        )
        recall = result.provenance["lists"]["neighbour_recall"]
        expected = brute(squares, lists, out, k)
        assert recall["k"] == k
        assert recall["value"] == pytest.approx(float(np.mean(expected)), abs=1e-15)
        assert f"neighbour_recall@{k} against exact search" in str(result)
        vectors: dict[str, Any] = {"gallery": None if alone else gallery, "distance": "euclidean"}
        loss = truerank.index_loss(lists, asked, **sides, embeddings=queries, k=k, **vectors)
        assert recall["value"] == loss.full_recall.value


def test_what_truth_leaves_open_is_refused(tmp_path: Path) -> None:
    """Four items at one distance, of which the file lists two."""
    queries, gallery = np.zeros((1, 1)), np.array([[1.0], [1.0], [-1.0], [1.0], [5.0]])
    few = exact_neighbors(queries, gallery, 2, distance="euclidean")
    options: dict[str, Any] = {"gallery_labels": [0, 1, 0, 1, 0], "metrics": "map"}
    with refused("1 query could have other items among the 2 nearest"):
        truerank.evaluate_lists([[3, 2, 0]], [0], exact_neighbors=few, k=2, **options)
    with refused("neighbour_recall@3 needs 3"):
        truerank.evaluate_lists([[3, 2, 0]], [0], exact_neighbors=few, k=3, **options)
    whole = exact_neighbors(queries, gallery, 4, distance="euclidean")
    result = truerank.evaluate_lists([[3, 4, 0]], [0], exact_neighbors=whole, k=2, **options)
    assert result.provenance["lists"]["neighbour_recall"]["value"] == 0.5
    with refused("k is that of neighbour_recall, which needs exact_neighbors"):
        truerank.evaluate_lists([[3, 2, 0]], [0], k=2, **options)
    with refused("must be what truerank.exact_neighbors returned, or its file"):
        truerank.evaluate_lists([[3, 2, 0]], [0], exact_neighbors=[[1]], **options)


def test_units_of_a_loss_may_be_finer() -> None:
    """Few classes by the level that a metric uses: none has an interval but by finer ones."""
    draw = np.random.default_rng(2)
    fine = np.repeat(np.arange(40), 3)
    labels = {"coarse": fine // 10, "fine": fine}
    rows = draw.standard_normal((40, 6))[fine] + 0.9 * draw.standard_normal((120, 6))
    queries = rows + 0.5 * draw.standard_normal(rows.shape)
    squares = ((queries[:, None] - rows[None]) ** 2).sum(axis=2)
    lists = np.argsort(squares + draw.random(squares.shape), axis=1)[:, :20]
    options: dict[str, Any] = {
        "embeddings": queries,
        "gallery": rows,
        "gallery_labels": labels,
        "distance": "euclidean",
        "metrics": ["ndcg", "map@r"],
    }
    by_metric = truerank.index_loss(lists, labels, **options)
    finer = truerank.index_loss(lists, labels, units="finer", **options)
    assert by_metric["ndcg"].search.interval is None
    assert "4 classes of level 1 (coarse)" in str(by_metric["ndcg"].search.reason)
    assert "--units finer" in str(by_metric["ndcg"].search.reason)
    assert finer["ndcg"].search.interval is not None
    assert finer["ndcg"].search.value == by_metric["ndcg"].search.value
    assert finer["map@r"].search.interval == by_metric["map@r"].search.interval
    with refused("units"):
        truerank.index_loss(lists, labels, units="classes", **options)
