"""Levels by name and by number, trees with holes, and grades in a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.metrics.trees import BOUNDS, GRADED, POINTS, SLOW, TREE, at_level, bits, cases
from tests.oracles import hierarchy, ranking
from tests.quiet import evaluate
from tests.rounding import ulps


@pytest.mark.parametrize(("name", "number"), [("order", 1), ("Genus", 2), ("species", 3)])
@pytest.mark.parametrize("metric", ["map", "map@r", "hit@1", "asi"])
def test_a_level_by_its_column_name(metric: str, name: str, number: int) -> None:
    result = evaluate(POINTS, TREE, metrics=[at_level(metric, name), at_level(metric, number)])
    by_name, by_number = (result[at_level(metric, level)] for level in (name, number))
    assert by_name.value == by_number.value
    np.testing.assert_array_equal(by_name.per_query.lower, by_number.per_query.lower)


def test_levels_count_from_one_whatever_numbers_pandas_gave_the_columns() -> None:
    unnamed = pd.DataFrame(TREE.to_numpy(str))
    result = evaluate(POINTS, unnamed, metrics=["map@level=1", "map@level=2", "map@level=3"])
    expected = evaluate(POINTS, TREE, metrics=["map@level=1", "map@level=2", "map@level=3"])
    assert [score.value for score in result.values()] == [s.value for s in expected.values()]


def test_columns_of_the_gallery_in_another_order() -> None:
    """Matched by name or refused, but never compared with another level."""
    gallery = POINTS[::-1] + 0.5
    sides = {"gallery": gallery, "metrics": ["h_ap"]}
    expected = evaluate(POINTS, TREE, gallery_labels=TREE, **sides)["h_ap"].value
    try:
        result = evaluate(POINTS, TREE, gallery_labels=TREE[TREE.columns[::-1]], **sides)
    except truerank.InputError:
        return
    assert result["h_ap"].value == expected


def test_columns_with_one_name_are_not_one_level() -> None:
    """Refused, or told apart by their numbers."""
    twice = TREE.set_axis(["name", "name", "species"], axis=1)
    expected = evaluate(POINTS, TREE, metrics=["h_ap"])["h_ap"].value
    try:
        result = evaluate(POINTS, twice, metrics=["h_ap"])
    except truerank.InputError:
        return
    assert result["h_ap"].value == expected


def test_the_levels_have_names() -> None:
    assert evaluate(POINTS, TREE, metrics=["h_ap"]).provenance["hierarchy"]["levels"] == [
        "order",
        "Genus",
        "species",
    ]
    plain = evaluate(POINTS, TREE.to_numpy(str), metrics=["h_ap"])
    assert plain.provenance["hierarchy"]["levels"] == ["1", "2", "3"]


def test_a_name_under_two_parents_is_two_nodes() -> None:
    """On the way through the tree; a level by itself needs no tree and goes by its own names."""
    labels = [["plants", "ivy"], ["plants", "ivy"], ["pets", "ivy"], ["pets", "ivy"]]
    x = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]]  # the nearest ivy is always the other one
    metrics = ["h_ap", "ndcg@1", "hit@1,level=1", "hit@1,level=2", "hit@1"]
    with pytest.warns(truerank.TruerankWarning, match="more than one parent"):
        result = truerank.evaluate(x, labels, metrics=metrics)
    values = [result[metric].value for metric in metrics]
    assert values == [pytest.approx((1 / 3 + 1 / 2) / 2), 0.0, 0.0, 1.0, 1.0]


def test_gallery_items_without_labels_share_nothing() -> None:
    options: dict[str, Any] = {"distance": "precomputed", "metrics": ["h_ap", "ndcg", "asi"]}
    distances = np.array([[0.1, 0.2, 0.3]])
    gallery = [[None, None], ["a", "b"], ["a", "c"]]
    with pytest.raises(truerank.InputError):
        evaluate(distances, [["a", "b"]], gallery_labels=gallery, **options)
    result = evaluate(
        distances, [["a", "b"]], gallery_labels=gallery, unlabelled="distractor", **options
    )
    for name in ("h_ap", "ndcg", "asi"):
        exact = hierarchy.definition(name, 2)((0, 2, 1))
        assert ulps(result[name].value, exact) <= 1, name


@pytest.mark.parametrize("level", [1, 2])
def test_items_that_share_a_finer_level_as_well_are_left_out(level: int) -> None:
    """The exclusive AP of HAPPIER's code: items of a higher level are neither right nor wrong."""
    rng = np.random.default_rng(level)
    paths = [(row % 2, row % 4, row % 8) for row in range(40)]
    distances = rng.integers(0, 9, (40, 40))
    labels, groups = ([str(path[: level + more]) for path in paths] for more in (0, 1))
    score = evaluate(
        distances, labels, query_groups=groups, distance="precomputed", metrics=["map"]
    )["map"]
    found = score.per_query
    assert found is not None
    for query, own in enumerate(paths):
        shared = [
            hierarchy.level([a == b for a, b in zip(own, path, strict=True)]) for path in paths
        ]
        kept = [item for item, v in enumerate(shared) if item != query and v <= level]
        exact = ranking.triple(
            "map",
            [distances[query, item] for item in kept],
            [shared[item] == level for item in kept],
        )
        for bound, value in zip(BOUNDS, exact, strict=True):
            assert ulps(getattr(found, bound)[query], value) <= 2


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 30)
@given(data=st.data())
def test_sparse_grades_are_grades(data: st.DataObject) -> None:
    case = data.draw(cases(hierarchy.GRADED, "precomputed"))
    expected = bits(case.evaluate(metrics=GRADED))
    grades = case.options["relevance"]
    for sparse in (scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_matrix):
        assert bits(case.evaluate(metrics=GRADED, relevance=sparse(grades))) == expected


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 30)
@given(data=st.data())
def test_yes_or_no_is_a_grade(data: st.DataObject) -> None:
    case = data.draw(cases(hierarchy.GRADED, "precomputed"))
    grades = case.options["relevance"] > 0
    expected = case.evaluate(metrics=GRADED, relevance=grades.astype(int))
    result = case.evaluate(metrics=GRADED, relevance=grades)
    assert bits(result) == bits(expected)
    for bound in BOUNDS:
        np.testing.assert_array_equal(
            getattr(result["h_ap"].per_query, bound), getattr(result["map"].per_query, bound)
        )


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ["hit@1"],
        ["hit@1,level=1"],
        ["map@level=mean"],
        ["h_ap"],
        ["h_ap", "hit@1,level=1"],
        ["h_ap", "auc", "mrep", "mrep@tau=0.4", "dir@tau=0.4"],
        ["hit@1,level=1", "auc", "mrep", "mrep@tau=0.4", "dir@tau=0.4"],
    ],
)
def test_curves_and_thresholds_go_by_the_finest_label(names: list[str], tree: bool) -> None:
    """Whatever else is asked for, and where paths that end in one label differ."""
    rng = np.random.default_rng(8)
    fine = rng.permutation(np.arange(40) % 7)
    coarse = fine // 3 if tree else np.arange(40) % 5
    distances = rng.permutation(1600).reshape(40, 40) / 1600
    options = {"distance": "precomputed", "confidence": None}
    result = evaluate(distances, np.column_stack([coarse, fine]), metrics=names, **options)
    ranks = []
    for q in range(40):
        order = [g for g in np.argsort(distances[q]) if g != q]
        ranks.append(1 + [fine[g] == fine[q] for g in order].index(True))
    expected = [np.mean([rank <= k for rank in ranks]) for k in range(1, 21)]
    assert result.curve("cmc", ranks=20)["lower"].tolist() == pytest.approx(expected)
    alone = [name for name in names if name.startswith(("auc", "mrep", "dir"))]
    if alone:
        wanted = evaluate(distances, fine, metrics=alone, **options)
        assert {n: result[n].value for n in alone} == {n: wanted[n].value for n in alone}


@pytest.mark.parametrize("average", ["query", "class"])
def test_classes_are_the_finest_labels(average: str) -> None:
    generator = np.random.default_rng(3)
    fine = np.array([0] * 9 + [1] * 2 + [2] * 4)
    labels = np.stack([fine // 2, fine], axis=1)
    result = evaluate(
        generator.standard_normal((15, 3)), labels, metrics=["h_ap", "asi", "ndcg"], average=average
    )
    for score in result.values():
        values = score.per_query.lower
        expected = (
            values.mean()
            if average == "query"
            else np.mean([values[fine == name].mean() for name in range(3)])
        )
        assert score.value == pytest.approx(expected, rel=1e-14)


def test_a_level_needs_levels() -> None:
    """Grades are not levels of a tree."""
    relevance = 3 * np.eye(8, dtype=int)[::-1]
    with pytest.raises(truerank.InputError):
        evaluate(POINTS, None, relevance=relevance, metrics=["map@level=2"])


def test_one_level_is_enough() -> None:
    result = evaluate(POINTS, TREE["species"], metrics=["h_ap", "sum_wap", "asi", "ndcg"])
    assert all(score.n == 8 for score in result.values())
