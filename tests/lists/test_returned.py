"""What users pass as lists: what it means, and what is refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truerank
from tests.refusals import refused

LABELS, GALLERY = ["a", "b"], ["a", "a", "b", "b"]
LISTS = [[0, 3, 1], [2, 1, -1]]
SIDES = {"gallery_labels": GALLERY, "metrics": ["map", "mrr"], "confidence": None}


def values(lists: Any, **options: Any) -> dict[str, tuple[float, float, float]]:
    result = truerank.evaluate_lists(lists, LABELS, **(SIDES | options))
    return {name: (one.lower, one.expected, one.upper) for name, one in result.items()}


@pytest.mark.parametrize(
    "lists",
    [
        np.array(LISTS),
        np.array(LISTS, np.int16),
        np.array(LISTS, np.int64).astype(np.uint64),  # -1 as usearch and others write it
        np.array(LISTS).astype(np.uint32),
        [np.array([0, 3, 1]), (2, 1)],
        [[0, 3, 1], [2, None, 1]],
        np.array(LISTS, object),
    ],
    ids=lambda value: type(value).__name__ + str(getattr(value, "dtype", "")),
)
def test_one_list_in_many_shapes(lists: Any) -> None:
    assert values(lists) == values(LISTS)


@pytest.mark.parametrize(
    ("ids", "lists"),
    [
        (["w", "x", "y", "z"], [["w", "z", "x"], ["y", "x", ""]]),
        (np.array(["w", "x", "y", "z"]), np.array([["w", "z", "x"], ["y", "x", "none of them"]])),
        ([7, 8, 9, -1], [[7, -1, 8], [9, 8]]),
        ([2**63, 8, 9, 3], np.array([[2**63, 3, 8], [9, 8, 2**64 - 1]], np.uint64)),
    ],
)
def test_lists_of_ids(ids: Any, lists: Any) -> None:
    rows = [[0, 3, 1], [2, 1]]
    if any("none of them" in map(str, row) for row in lists):
        rows[1].append(99)
    assert values(lists, gallery_ids=ids) == values(rows)


def test_integers_are_rows_where_ids_are_names_and_asked_about_where_these_are_digits() -> None:
    names = ["one", "two", "three", "four"]
    assert values(LISTS, gallery_ids=names) == values(LISTS)
    digits = ["3", "2", "1", "0"]
    with refused("named_by='row' or named_by='id'"):
        values(LISTS, gallery_ids=digits)
    assert values(LISTS, gallery_ids=digits, named_by="row") == values(LISTS)
    turned = [[3, 0, 2], [1, 2, -1]]
    assert values(turned, gallery_ids=digits, named_by="id") == values(LISTS)


def test_rows_whose_ids_repeat_are_named_by_their_numbers() -> None:
    """Crops of one item: none of them meets a query of their id."""
    ids = {"query_ids": [5, 6], "gallery_ids": [5, 5, 6, 8]}
    with refused("2 gallery rows share the id 5"):
        values([[0], [2]], **ids)
    found = values([[0, 1, 2], [2, 3]], named_by="row", unmated="zero", **ids)
    assert found["mrr"] == (0.5, 0.5, 0.5)


def test_repeated_and_unknown_items_are_wrong_in_their_places() -> None:
    result = truerank.evaluate_lists(
        [[0, 0, 0, 1]], ["a"], gallery_labels=["a", "a", "b"], metrics=["map", "recall@4"]
    )
    assert result["map"].value == (1 + 2 / 4) / 2
    assert result["recall@4"].value == 1.0
    assert result.provenance["lists"]["repeated"] == 2
    assert "2 repeated items, 0 unknown items" in " ".join(str(result).split())
    result = truerank.evaluate_lists(
        [[99, 0]], ["a"], gallery_labels=["a", "b"], metrics=["mrr", "map"]
    )
    assert result["mrr"].value == 0.5
    assert result.provenance["lists"]["unknown"] == 1


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8])
def test_unknown_rows_of_small_and_unsigned_integers(kind: Any) -> None:
    lists = np.array([[0, 99, 3], [2, 98, 1]], kind)
    assert values(lists) == values(lists.astype(np.int64))
    result = truerank.evaluate_lists(lists, LABELS, **SIDES)
    assert result.provenance["lists"]["unknown"] == 2


def test_junk_and_the_query_itself_move_what_follows_up() -> None:
    """In leave-one-out, by row and by id; cameras; labels; a mask."""
    alone = truerank.evaluate_lists([[0, 1], [1, 2, 0], [0, 2]], ["a", "a", "b"], metrics="mrr")
    assert alone["mrr"].per_query is not None
    assert alone["mrr"].per_query.lower.tolist()[:2] == [1.0, 0.5]
    assert alone.provenance["lists"]["taken_out"] == 3
    options: dict[str, Any] = {"gallery_labels": ["a", "a", "b"], "metrics": "mrr"}
    cameras = {"query_groups": [1], "gallery_groups": [1, 2, 1]}
    for extra in (cameras, {"junk": [[True, False, False]]}):
        found = truerank.evaluate_lists([[0, 1, 2]], ["a"], **options, **extra)
        assert found["mrr"].value == 1.0
        assert found.provenance["lists"]["longest"] == 2
    found = truerank.evaluate_lists([[2, 0, 1]], ["a"], junk_labels=["b"], **options)
    assert found["mrr"].value == 1.0


def test_a_row_that_nobody_labels_is_a_distractor() -> None:
    options = {"gallery_labels": ["a", None], "metrics": "mrr"}
    with refused("no label"):
        truerank.evaluate_lists([[1, 0]], ["a"], **options)
    found = truerank.evaluate_lists([[1, 0]], ["a"], unlabelled="distractor", **options)
    assert found["mrr"].value == 0.5


@pytest.mark.parametrize(
    ("lists", "options", "words"),
    [
        ([[0]], {}, "there are 1 lists of neighbors but 2 queries"),
        (np.zeros((2, 2, 2), int), {}, "Got shape (2, 2, 2)"),
        (np.zeros((2, 2)), {}, "row numbers or ids, with -1 for none. Got dtype float64"),
        ([["x"], ["y"]], {}, "neighbors hold 'x', which is no row number; pass gallery_ids"),
        ([[0], 3], {}, "Got 3 for query 1"),
        ("nowhere.npy", {}, "cannot read nowhere.npy"),
        (LISTS, {"named_by": "name"}, "must be one of auto, row, id"),
        (LISTS, {"named_by": "id"}, "named_by='id' needs gallery_ids"),
        (LISTS, {"gallery_ids": [1, 2]}, "gallery_ids must have one value per row (4)"),
        (LISTS, {"gallery_ids": [1, 2, 3, None]}, "None or NaN in gallery_ids row 3"),
        (LISTS, {"scores": [[1, 2, 3], [1, 2]]}, "query 1 has 2 for 3"),
        (LISTS, {"scores": [[1.0, 3, 2], [1, 2, 3]]}, "rise in place 2 of query 0 and fall in"),
        (LISTS, {"scores": [[1.0, 2, 3], [3, 2, 1]]}, "rise in place 2 of query 0 and fall in"),
        (LISTS, {"scores": [[1.0, float("nan"), 3], [1, 2, 3]]}, "NaN, in place 2 of query 0"),
        (LISTS, {"scores": [["x"] * 3] * 2}, "scores must be numbers"),
        (LISTS, {"metrics": "auc"}, "auc is no ranking metric"),
        (LISTS, {"metrics": "nmi"}, "nmi is no ranking metric"),
        (LISTS, {"settle": 1.5}, "The 'settle' parameter must be a width from 0 to below 1"),
        (LISTS, {"gallery_size": 9}, "gallery_size goes with a file of judgements"),
        (
            LISTS,
            {"gallery_labels": None, "gallery_ids": [1, 2]},
            "without a gallery; pass query_ids",
        ),
        (LISTS, {"unmated": "never"}, "must be one of report, zero, error"),
    ],
)
def test_what_is_refused(lists: Any, options: dict[str, Any], words: str) -> None:
    with refused(words):
        values(lists, **options)


def test_scores_where_nothing_was_returned_do_not_matter() -> None:
    scores = [[0.5, 0.7, 0.9], [0.2, 0.3, -3.4e38]]
    assert values(LISTS, scores=scores) == values(LISTS)


def test_all_metrics_and_those_that_do_not_apply() -> None:
    result = truerank.evaluate_lists(LISTS, LABELS, gallery_labels=GALLERY, metrics="all")
    assert {"map", "bpref", "ndcg", "asi"} <= set(result)
    assert "auc" not in result
    assert "h_ap" in result.skipped


def test_results_can_be_compared_with_each_other_and_with_the_whole_ranking() -> None:
    random = np.random.default_rng(3)
    labels = np.repeat(np.arange(40), 5)
    rows = (random.standard_normal((40, 6))[labels] * 2 + random.standard_normal((200, 6))).astype(
        np.float32
    )
    whole = truerank.evaluate(rows, labels, metrics=["map", "hit@1"])
    order = np.argsort(-(rows @ rows.T) / np.outer(*[np.linalg.norm(rows, axis=1)] * 2), axis=1)
    long, short = (
        truerank.evaluate_lists(order[:, :k], labels, metrics=["map", "hit@1"]) for k in (20, 5)
    )
    assert short["map"].value < long["map"].value < whole["map"].value
    for other in (long, whole):
        compared = truerank.compare(other, short)
        (difference,) = [one for one in compared.differences if one.metric == "map"]
        assert difference.interval is not None
        assert difference.interval[0] > 0
    assert "conditional on this gallery" in "".join(truerank.compare(whole, short).notes)
