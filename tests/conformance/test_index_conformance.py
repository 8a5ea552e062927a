"""Lists on which benchmarks of vector indexes report something else.

Each right answer is a literal, worked out in the comment beside it. What the tools give was read in
their sources and seen in runs: VectorDBBench's metric.py, big-ann-benchmarks'
compute_recall_with_distance_ties, and ann-benchmarks' metrics.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import truerank


def neighbour_recall(listed: Sequence[int], distances: Sequence[float], k: int) -> float:
    """Of one query at 0 and items at these points on a line."""
    loss = truerank.index_loss(
        [list(listed)],
        embeddings=[[0.0]],
        gallery=np.array(distances)[:, None],
        distance="euclidean",
        confidence=None,
        k=k,
    )
    assert loss.full_recall.value == loss.stored_recall.value
    return loss.full_recall.value


def test_one_item_ten_times_is_one_of_ten() -> None:
    """VectorDBBench, and ann-benchmarks for a repeated point: 1.0."""
    points = [float(place) for place in range(1, 21)]
    assert neighbour_recall([0] * 10, points, 10) == 0.1
    relevance = np.array([[1] * 10 + [0] * 10])
    result = truerank.evaluate_lists(
        [[0] * 10], relevance=relevance, metrics=["recall@10", "precision@10", "map@10"]
    )
    assert result["recall@10"].value == result["precision@10"].value == 0.1
    assert result["map@10"].value == 0.1  # (1/1)/10
    assert result.provenance["lists"]["repeated"] == 9


def test_a_reversed_list_is_not_ideal() -> None:
    """VectorDBBench's NDCG: 1.0, whatever the order of what is returned."""
    relevance = np.array([[3, 2, 1, 0]])
    ideal, reverse = (
        truerank.evaluate_lists([row], relevance=relevance, metrics="ndcg@3,gain=linear")
        for row in ([0, 1, 2], [2, 1, 0])
    )
    assert ideal["ndcg@3,gain=linear"].value == 1.0
    # (1/log2(2) + 2/log2(3) + 3/log2(4)) / (3/log2(2) + 2/log2(3) + 1/log2(4))
    middle = 2 / math.log2(3)
    assert reverse["ndcg@3,gain=linear"].value == pytest.approx(
        (1 + middle + 1.5) / (3 + middle + 0.5), abs=1e-15
    )


def test_tied_items_do_not_stand_for_nearer_ones() -> None:
    """The 5 nearest missed, 10 that tie with the tenth returned. big-ann-benchmarks and
    ann-benchmarks: 10 of 10. Of the ten nearest five are strictly nearer and five are any of the
    tied ones: 5 of 10."""
    points = [1.0, 2.0, 3.0, 4.0, 5.0] + [6.0] * 15
    assert neighbour_recall(range(5, 15), points, 10) == 0.5
    assert neighbour_recall([0, 1, 2, 3, 4, 19, 18, 17, 16, 15], points, 10) == 1.0
    assert neighbour_recall([0, 1, 2, 3, 4, 5, 5, 5, 5, 5], points, 10) == 0.6


def test_fewer_items_than_places() -> None:
    """All three of three: 1, not 3 of 10."""
    assert neighbour_recall([2, 0, 1, -1], [1.0, 2.0, 3.0], 10) == 1.0


def test_ids_that_nobody_knows_are_no_hits_and_hold_their_places() -> None:
    result = truerank.evaluate_lists(
        [[900, 901, 0]], ["a"], gallery_labels=["a", "b"], metrics=["mrr", "precision@3"]
    )
    assert result["mrr"].value == 1 / 3
    assert result["precision@3"].value == 1 / 3
    assert result.provenance["lists"]["unknown"] == 2
