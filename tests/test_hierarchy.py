"""Hierarchical metrics against their definitions, over every order that the exact scores allow.

The tasks are tiny and drawn so that what goes wrong elsewhere is common: ties, duplicates, names
that occur under two parents, levels without items, relevances that coincide or are not monotone,
repeated ids, junk, queries without a mate.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.oracles import hierarchy, ranking, scores, task
from tests.test_brute_force import contains, masks, rows_of_vectors, ulps
from truerank import engine

SLOW = settings().max_examples >= 10_000
SINGLE = ["map", "map@r", "hit@1", "precision@2", "recall@2", "r_precision", "mrr", "minp"]
"""Metrics of one level."""
GRADED = ["h_ap", "asi", "ndcg", "ndcg@1", "ndcg@3", "ndcg@gain=linear", *SINGLE]
"""Metrics that are defined on a matrix of grades."""
BOUNDS = ("lower", "expected", "upper")
ENGINES: dict[str, dict[str, Any]] = {
    "rows sorted": {"sort_share": 0.0},
    "counted": {"sort_share": 2.0},
    "reference": {},
}
TWO_DISTANCES = st.sampled_from(["precomputed", "cosine"])


def metrics_of(depth: int) -> list[str]:
    """What is asked of a tree with this many levels."""
    rising, falling = range(1, depth + 1), range(depth, 0, -1)
    return [
        "h_ap",
        "h_ap@alpha=3",
        "h_ap@alpha=0.5",
        f"h_ap@rel={':'.join(str(v * v + 1) for v in rising)}",
        f"h_ap@rel={':'.join(f'0.{v}' for v in falling)}",
        "sum_wap",
        f"sum_wap@weights={':'.join(map(str, rising))}",
        "asi",
        "ndcg",
        "ndcg@1",
        "ndcg@3",
        "ndcg@gain=linear",
        "ndcg@2,gain=linear",
        *(at_level(name, v) for name in [*SINGLE, "asi"] for v in rising),
        "map",
        "hit@1",
    ]


def at_level(metric: str, level: Any) -> str:
    return f"{metric}{',' if '@' in metric else '@'}level={level}"


def evaluate(*arguments: Any, **options: Any) -> truerank.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.evaluate(*arguments, **options)


@dataclass
class Case:
    """One call of evaluate(); prints as that call."""

    embeddings: np.ndarray
    labels: list[list[Any]] | None
    """A path for each query, coarse to fine; None when the options hold grades."""
    leave_one_out: bool
    options: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, **more: Any) -> truerank.Result:
        return evaluate(self.embeddings, self.labels, **(self.options | more))

    @property
    def depth(self) -> int:
        return hierarchy.GRADED if self.labels is None else len(self.labels[0])

    @property
    def metrics(self) -> list[str]:
        return GRADED if self.labels is None else metrics_of(self.depth)

    @cached_property
    def distances(self) -> list[list[Any]]:
        """To the items that are left of the gallery, for each query."""
        gallery = self.options.get("gallery")
        matrix = scores.distances(
            self.options["distance"],
            self.embeddings.tolist(),
            None if gallery is None else gallery.tolist(),
        )
        return [[row[g] for g in items] for row, items in zip(matrix, self.items, strict=True)]

    @cached_property
    def agreements(self) -> list[list[tuple[bool, ...]]]:
        """In which columns the labels of query and item agree."""
        assert self.labels is not None
        gallery = self.options.get("gallery_labels", self.labels)
        return [
            [hierarchy.agreement(label, gallery[g]) for g in items]
            for label, items in zip(self.labels, self.items, strict=True)
        ]

    @cached_property
    def levels(self) -> list[list[int]]:
        """The levels or the grades of the items that are left."""
        if self.labels is None:
            grades = self.options["relevance"].astype(int).tolist()
            return [[row[g] for g in items] for row, items in zip(grades, self.items, strict=True)]
        return [[hierarchy.level(agreed) for agreed in row] for row in self.agreements]

    def question(self, metric: str) -> tuple[str, int, list[list[int]]]:
        """What the metric asks of an order, on how many levels, and each item's level there.

        Tree metrics go by the common path; those of one level by that column alone, by default
        the finest.
        """
        name, options = hierarchy.parse(metric)
        if self.labels is None or (name in hierarchy.DEFINITIONS and "level" not in options):
            return metric, self.depth, self.levels
        column = int(options.pop("level", self.depth)) - 1
        return (
            hierarchy.text(name, options),
            1,
            [[int(agreed[column]) for agreed in row] for row in self.agreements],
        )

    @cached_property
    def items(self) -> list[list[int]]:
        """What is left of the gallery for each query; junk goes by the finest label."""

        def finest(labels: list[list[Any]] | None) -> list[Any] | None:
            return None if labels is None else [label[-1] for label in labels]

        described = {
            name: self.options[name]
            for name in (
                "query_ids",
                "gallery_ids",
                "query_groups",
                "gallery_groups",
                "junk",
                "junk_labels",
                "relevance",
            )
            if name in self.options
        }
        queries = task.queries(
            finest(self.labels),
            finest(self.options.get("gallery_labels", self.labels)),
            **described,
            leave_one_out=self.leave_one_out,
        )
        return [query.items for query in queries]

    def __repr__(self) -> str:
        def code(value: Any) -> str:
            if isinstance(value, np.ndarray):
                return f"np.array({value.tolist()}, dtype={value.dtype.name!r})"
            return repr(value)

        arguments = [code(self.embeddings), code(self.labels)]
        arguments += [f"{name}={code(value)}" for name, value in self.options.items()]
        return f"truerank.evaluate({', '.join(arguments)})"


# --- drawing tasks --------------------------------------------------------------------------------


def paths(depth: int) -> st.SearchStrategy[list[list[Any]]]:
    """A few paths through a tree, whose names repeat under different parents."""
    kinds = [["a", "b", "c"], [3, 4, 5], [-1, 2**53, 2**53 + 1]]  # 0 and 1 could look one-hot
    columns = st.lists(st.sampled_from(kinds), min_size=depth, max_size=depth)
    return columns.flatmap(
        lambda names: st.lists(
            st.tuples(*(st.sampled_from(column) for column in names)).map(list),
            min_size=1,
            max_size=5,
        )
    )


@st.composite
def cases(draw: st.DrawFn, depth: int, distance: str) -> Case:
    """A task with a tree of this many levels; none at all for one with grades."""
    graded = depth == hierarchy.GRADED
    given = distance == "precomputed"
    # Only labels can say that the rows and the columns of a matrix are the same items.
    leave_one_out = draw(st.booleans()) and not (graded and given)
    rows = draw(st.integers(3, 7 if leave_one_out else 4))
    columns = rows if leave_one_out else draw(st.integers(3, 6))
    options: dict[str, Any] = {"distance": distance}

    if given:
        row = st.lists(st.sampled_from([0.25, 0.5, 0.1]), min_size=columns, max_size=columns)
        embeddings = np.array(draw(st.lists(row, min_size=rows, max_size=rows)))
    elif leave_one_out:
        [embeddings] = draw(rows_of_vectors([rows], distance))
    else:
        embeddings, options["gallery"] = draw(rows_of_vectors([rows, columns], distance))

    def one_per_item(name: str, value: st.SearchStrategy[Any]) -> None:
        """Describe the queries and, where there is one, the gallery."""
        options[f"query_{name}"] = draw(st.lists(value, min_size=rows, max_size=rows))
        if not leave_one_out:
            options[f"gallery_{name}"] = draw(st.lists(value, min_size=columns, max_size=columns))

    labels = None
    if graded:
        grade = draw(st.sampled_from([[0, 1], [0, 1, 2], [0, 0, 1, 3, 7]]))
        row = st.lists(st.sampled_from(grade), min_size=columns, max_size=columns)
        matrix = draw(st.lists(row, min_size=rows, max_size=rows))
        options["relevance"] = np.array(
            matrix, draw(st.sampled_from(["int64", "uint8", "float64"]))
        )
    else:
        one_per_item("labels", st.sampled_from(draw(paths(depth))))
        labels = options.pop("query_labels")
        if draw(st.integers(0, 2)) == 0:
            one_per_item("groups", st.integers(0, 1))
        # Something has to be left: labels that would make the whole gallery junk are refused.
        finest = {path[-1] for path in options.get("gallery_labels", labels)}
        if len(finest) > 1 and draw(st.integers(0, 3)) == 0:
            options["junk_labels"] = [draw(st.sampled_from(sorted(finest)))]
    if draw(st.integers(0, 2)) == 0:
        one_per_item("ids", st.integers(0, 4))
    elif "gallery" in options and contains(options["gallery"], embeddings):
        # Refused without ids: the gallery contains the queries.
        options["query_ids"] = list(range(rows))
        options["gallery_ids"] = list(range(rows, rows + columns))
    if draw(st.integers(0, 2)) == 0:
        options["junk"] = draw(masks(rows, columns))
    options["no_mate"] = draw(st.sampled_from(["report", "report", "zero"]))
    return Case(embeddings, labels, leave_one_out, options)


def as_tree(case: Case) -> Case:
    """The same task under names of which each has one parent: the paths themselves."""

    def named(labels: list[list[Any]]) -> list[list[str]]:
        return [[repr(path[: v + 1]) for v in range(len(path))] for path in labels]

    assert case.labels is not None
    options = dict(case.options)
    if "gallery_labels" in options:
        options["gallery_labels"] = named(options["gallery_labels"])
    options.pop("junk_labels", None)
    return Case(case.embeddings, named(case.labels), case.leave_one_out, options)


# --- the truth about a task -----------------------------------------------------------------------


def truth(case: Case, metric: str) -> list[ranking.Triple | None]:
    """The triple of each query; None for those that do not count."""
    asked, depth, every_levels = case.question(metric)
    found = [
        hierarchy.triple(asked, depth, distances, levels)
        for distances, levels in zip(case.distances, every_levels, strict=True)
    ]
    if case.options.get("no_mate") == "zero":
        return [triple or (Fraction(0),) * 3 for triple in found]
    return found


def mean(values: Sequence[Fraction | None]) -> Fraction | None:
    counted = [value for value in values if value is not None]
    return sum(counted, Fraction(0)) / len(counted) if counted else None


def check(case: Case, other: str) -> None:
    """Every metric of every query; and the same bits by another path through the engine."""
    result = case.evaluate(metrics=case.metrics)
    for metric in case.metrics:
        check_metric(case, metric, result[metric])
    with truerank.engine.settings(**ENGINES[other]):
        device = "reference" if other == "reference" else "auto"
        assert bits(case.evaluate(metrics=case.metrics, device=device)) == bits(result), other


def bits(result: truerank.Result) -> dict[str, list[bytes]]:
    """Everything numeric about the scores of a result, bit for bit."""
    return {
        name: [
            struct.pack("<d", math.nan if value is None else value)
            for value in (score.value, *(getattr(score, b) for b in BOUNDS), score.chance, score.n)
        ]
        + [getattr(score.per_query, b).tobytes() for b in BOUNDS if score.per_query is not None]
        for name, score in result.items()
    }


def check_metric(case: Case, metric: str, score: truerank.Score) -> None:
    true, levels = truth(case, metric), case.question(metric)[2]
    assert score.per_query is not None
    for q, exact in enumerate(true):
        actual = [float(getattr(score.per_query, bound)[q]) for bound in BOUNDS]
        if exact is None:
            assert all(map(math.isnan, actual)), f"{metric}, query {q} should not count: {actual}"
            continue
        said = f"{metric}, query {q}: {actual} is not {[float(value) for value in exact]}"
        assert all(ulps(a, e) <= 2 for a, e in zip(actual, exact, strict=True)), said
        assert actual[0] <= actual[1] <= actual[2], said
        if not ambiguous(case.distances[q], levels[q]):
            assert actual[0] == actual[1] == actual[2], said

    counted = [triple for triple in true if triple is not None]
    assert score.n == len(counted), metric
    if not counted:
        assert math.isnan(score.value), metric
        assert score.reason, metric
        return
    assert score.reason is None, metric
    assert score.value == score.lower <= score.expected <= score.upper, metric
    for position, bound in enumerate(BOUNDS):
        check_mean(f"{metric}, {bound}", getattr(score, bound), [t[position] for t in counted])
    asked, depth, every_levels = case.question(metric)
    chances = [hierarchy.chance(asked, depth, levels) for levels in every_levels]
    if case.options.get("no_mate") == "zero":
        chances = [value or Fraction(0) for value in chances]
    assert score.chance is not None, metric
    check_mean(f"{metric}, chance", score.chance, chances)


def check_mean(name: str, actual: float, values: Sequence[Fraction | None]) -> None:
    exact = mean(values)
    assert exact is not None
    assert ulps(actual, exact) <= 2, f"{name}: {actual} is not {float(exact)}"


def ambiguous(distances: Sequence[Any], levels: Sequence[int]) -> bool:
    """Whether items of different levels are tied."""
    found: defaultdict[Any, set[int]] = defaultdict(set)
    for distance, level in zip(distances, levels, strict=True):
        found[distance].add(level)
    return any(len(group) > 1 for group in found.values())


# --- every order of tiny random tasks -------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("depth", [1, 2, 3])
@settings(max_examples=1_600 if SLOW else 70)
@given(data=st.data())
def test_every_order(depth: int, data: st.DataObject) -> None:
    case = data.draw(cases(depth, data.draw(TWO_DISTANCES)))
    check(case, data.draw(st.sampled_from(sorted(ENGINES))))


@pytest.mark.thorough
@settings(max_examples=1_600 if SLOW else 70)
@given(data=st.data())
def test_every_order_of_graded_items(data: st.DataObject) -> None:
    case = data.draw(cases(hierarchy.GRADED, data.draw(TWO_DISTANCES)))
    check(case, data.draw(st.sampled_from(sorted(ENGINES))))


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_a_level_is_the_task_with_that_column_alone(data: st.DataObject) -> None:
    """Bit for bit, once the same items are removed: junk always goes by the finest label."""
    case = data.draw(cases(3, "precomputed"))
    assert case.labels is not None
    removed = np.ones(
        (len(case.labels), len(case.options.get("gallery_labels", case.labels))), bool
    )
    for q, items in enumerate(case.items):
        removed[q, items] = False
    common = {"distance": "precomputed", "no_mate": case.options["no_mate"], "junk": removed}
    result = case.evaluate(metrics=[at_level(name, v) for name in SINGLE for v in (1, 2, 3)])
    for level in (1, 2, 3):
        sides: dict[str, Any] = {}
        if "gallery_labels" in case.options:
            sides["gallery_labels"] = [path[level - 1] for path in case.options["gallery_labels"]]
        alone = evaluate(
            case.embeddings,
            [path[level - 1] for path in case.labels],
            **sides,
            **common,
            metrics=SINGLE,
        )
        expected = bits(alone)
        actual = bits(result)
        for name in SINGLE:
            there = str(result[at_level(name, level)].metric)
            assert actual[there] == expected[name], f"{name} at level {level}"


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_the_mean_over_levels(data: st.DataObject) -> None:
    """Each level's score is a mean over the queries that have a mate there; then the plain mean."""
    depth = data.draw(st.integers(1, 3))
    case = data.draw(cases(depth, "precomputed"))
    names = ["map", "map@r", "hit@1", "asi"]
    levels = range(1, depth + 1)
    result = case.evaluate(metrics=[at_level(n, v) for n in names for v in [*levels, "mean"]])
    for name in names:
        score = result[at_level(name, "mean")]
        true = [truth(case, at_level(name, v)) for v in levels]
        if not all(any(triple is not None for triple in level) for level in true):
            assert math.isnan(score.value)
            assert score.reason
            continue
        assert score.value == score.lower <= score.expected <= score.upper
        for position, bound in enumerate(BOUNDS):
            exact = [mean([t and t[position] for t in level]) for level in true]
            check_mean(f"{name}, {bound}", getattr(score, bound), exact)


# --- what the metrics have to do with each other --------------------------------------------------


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_one_level_is_average_precision(data: st.DataObject) -> None:
    case = data.draw(cases(1, "precomputed"))
    names = ["map", "h_ap", "h_ap@alpha=3", "h_ap@rel=7", "sum_wap", "sum_wap@weights=5"]
    result = case.evaluate(metrics=[*names, "map@level=1", "map@level=mean"])
    for name in [*names, "map@level=1"]:
        for bound in BOUNDS:
            np.testing.assert_array_equal(
                getattr(result[name].per_query, bound), getattr(result["map"].per_query, bound)
            )
    assert result["map@level=mean"].lower == pytest.approx(result["map"].lower, nan_ok=True)


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 50)
@given(data=st.data())
def test_sum_wap_is_the_weighted_mean_of_the_levels(data: st.DataObject) -> None:
    """For each query, over the levels at which something is left for it."""
    depth = data.draw(st.integers(2, 3))
    case = as_tree(data.draw(cases(depth, "precomputed")))
    case.options["no_mate"] = "report"
    weights = data.draw(st.lists(st.integers(1, 9), min_size=depth, max_size=depth))
    name = "sum_wap@weights=" + ":".join(map(str, weights))
    levels = [f"map@level={v}" for v in range(1, depth + 1)]
    result = case.evaluate(metrics=[name, *levels])
    for bound in BOUNDS:
        at = np.array([getattr(result[level].per_query, bound) for level in levels])
        weight = np.where(np.isnan(at), 0, np.array(weights)[:, None])
        with np.errstate(invalid="ignore"):
            expected = np.nansum(at * weight, axis=0) / weight.sum(axis=0)
        np.testing.assert_allclose(
            getattr(result[name].per_query, bound), expected, rtol=1e-15, atol=0
        )


# --- that what the specification claims of ties is true of the definitions ------------------------


@st.composite
def ranked_lists(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """The number of levels, and items as (distance, level), some of them tied and one relevant."""
    depth = draw(st.integers(1, 3))
    item = st.tuples(st.integers(0, 2), st.integers(0, depth))
    items = draw(
        st.lists(item, min_size=1, max_size=6).filter(lambda found: any(v for _, v in found))
    )
    return depth, [d for d, _ in items], [v for _, v in items]


def by_worth(distances: Sequence[int], levels: Sequence[int], worth: Any) -> hierarchy.Order:
    return tuple(
        v for _, v in sorted(zip(distances, levels, strict=True), key=lambda i: (i[0], worth(i[1])))
    )


@pytest.mark.thorough
@settings(max_examples=10_000 if SLOW else 200)
@given(ranked_lists())
def test_the_bounds_put_what_is_worth_most_last_or_first(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    depth, distances, levels = drawn
    relevance = hierarchy.level_relevance(levels, depth)
    worths = {
        "asi": lambda v: v,
        "ndcg": lambda v: v,
        "ndcg@2": lambda v: v,
        "sum_wap": lambda v: v,
        "h_ap": lambda v: relevance[v],
    }
    for metric, worth in worths.items():
        measure = hierarchy.definition(metric, depth)
        true = hierarchy.triple(metric, depth, distances, levels)
        assert true is not None
        assert measure(by_worth(distances, levels, worth)) == true[0], metric
        assert measure(by_worth(distances, levels, lambda v, w=worth: -w(v))) == true[2], metric


@pytest.mark.thorough
@settings(max_examples=10_000 if SLOW else 200)
@given(ranked_lists())
def test_h_ap_is_a_weighted_mean_of_average_precisions(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    """The decomposition, with its minimum, mean and maximum."""
    depth, distances, levels = drawn
    relevance = [hierarchy.level_relevance(levels, depth)[v] for v in levels]
    parts, before = [], Fraction(0)
    for value in sorted(set(relevance) - {0}):
        at_least = [r >= value for r in relevance]
        weight = (value - before) * sum(at_least)
        parts.append((weight, ranking.triple("map", distances, at_least)))
        before = value
    total = sum(weight for weight, _ in parts)
    assert hierarchy.triple("h_ap", depth, distances, levels) == tuple(
        sum(weight * precision[bound] for weight, precision in parts) / total for bound in range(3)
    )


# --- golden values --------------------------------------------------------------------------------


def one_query(
    levels: Sequence[int], depth: int, metrics: Sequence[str], distances: Sequence[float] = ()
) -> truerank.Result:
    """One query whose gallery shows these levels, in this order unless distances are given."""
    return evaluate(
        np.array([distances or np.arange(len(levels))], float),
        [["same"] * depth],
        gallery_labels=[["same"] * v + [f"other {v}"] * (depth - v) for v in levels],
        distance="precomputed",
        metrics=list(metrics),
    )


@pytest.mark.parametrize(
    ("levels", "value"),
    [
        ([2] * 10 + [1] * 2, 0.825758),  # coarse items are worth more: two share what ten share
        ([1] * 2 + [2] * 10, 1.0),
        ([2, 2, 2, 2, 1, 1], 1.0),
    ],
)
def test_h_ap_of_short_lists(levels: list[int], value: float) -> None:
    assert float(hierarchy.h_ap(tuple(levels), 2)) == pytest.approx(value, abs=5e-7)
    score = one_query(levels, 2, ["h_ap"])["h_ap"]
    assert score.lower == score.expected == score.upper == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize(
    ("before", "hierarchical_rank"), [(2, Fraction(5, 3)), (1, Fraction(4, 3))]
)
def test_severity_of_an_inversion(before: int, hierarchical_rank: Fraction) -> None:
    """Fig. 3 of HAPPIER: what a coarser item costs that stands before a mate; there rel is l/L."""
    relevances = [Fraction(before, 3), Fraction(1)]
    assert hierarchy.hierarchical_rank(relevances, 1) == hierarchical_rank
    exact = (relevances[0] + hierarchical_rank / 2) / sum(relevances)
    for metric in ("h_ap@rel=1:2:3", "h_ap@rel=0.5:1:1.5"):
        assert one_query([before, 3], 3, [metric])[metric].value == float(exact)


def test_ndcg_and_asi_by_hand() -> None:
    result = one_query([1, 0, 2], 2, ["ndcg", "ndcg@1", "ndcg@2", "ndcg@gain=linear", "asi"])
    ideal = 3 + 1 / math.log2(3)
    assert result["ndcg"].value == pytest.approx((1 + 3 / 2) / ideal, rel=1e-15)
    assert result["ndcg@1"].value == pytest.approx(1 / 3, rel=1e-15)
    assert result["ndcg@2"].value == pytest.approx(1 / ideal, rel=1e-15)
    linear = (1 + 2 / 2) / (2 + 1 / math.log2(3))
    assert result["ndcg@gain=linear"].value == pytest.approx(linear, rel=1e-15)
    assert result["asi"].value == 0.25  # nothing of {2} at depth 1, half of {2, 1} at depth 2


def test_coinciding_relevances_are_one_level_of_worth() -> None:
    """1/2 shared by one item and 1 shared by two: all three are worth the same, in any order."""
    for levels in ([1, 2, 2, 0], [2, 1, 2, 0], [2, 2, 1, 0]):
        assert one_query(levels, 2, ["h_ap"])["h_ap"].value == 1.0
    tied = one_query([1, 2, 2, 0], 2, ["h_ap"], [0.5, 0.5, 0.5, 0.5])["h_ap"]
    exact = ranking.triple("map", [0] * 4, [True, True, True, False])
    assert (tied.lower, tied.expected, tied.upper) == tuple(map(float, exact))


def test_everything_tied() -> None:
    """A larger gallery that says nothing, by linearity of the expectation in each definition."""
    sizes = {3: 20, 2: 100, 1: 30, 0: 200}
    levels = [v for v, size in sizes.items() for _ in range(size)]
    items, positives = len(levels), sum(v > 0 for v in levels)
    result = one_query(levels, 3, ["h_ap", "ndcg", "asi"], [1.0] * items)

    relevance = hierarchy.level_relevance(levels, 3)
    # Item k stands at each rank equally often, and each other item before it in (rank - 1) of
    # (items - 1) cases.
    inverse = sum(Fraction(1, rank) for rank in range(1, items + 1))
    total = Fraction(0)
    for level, size in sizes.items():
        others = sum(n * min(relevance[level], relevance[v]) for v, n in sizes.items())
        others -= relevance[level]
        share = Fraction(items) - inverse  # the sum over ranks of (rank - 1) / rank
        total += size * (relevance[level] * inverse + others * share / (items - 1)) / items
    h_ap = total / sum(size * relevance[v] for v, size in sizes.items())
    assert ulps(result["h_ap"].expected, h_ap) <= 2

    gain = Fraction(sum(size * (2**v - 1) for v, size in sizes.items()), items)
    everywhere = sum(hierarchy.discount(rank) for rank in range(1, items + 1))
    ideal = sum((2**v - 1) * hierarchy.discount(rank) for rank, v in enumerate(levels, start=1))
    assert ulps(result["ndcg"].expected, gain * everywhere / ideal) <= 2

    asi = Fraction(0)
    for n in range(1, positives + 1):
        for v in (1, 2, 3):
            most, size = levels[:n].count(v), sizes[v]
            for found in range(min(n, size) + 1):
                ways = math.comb(size, found) * math.comb(items - size, n - found)
                asi += Fraction(min(found, most) * ways, n * math.comb(items, n))
    assert ulps(result["asi"].expected, asi / positives) <= 2


def test_longer_lists_without_ties() -> None:
    """Against the double loop of Eq. 2 and 3, and the counting of ASI and NDCG, in floats."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, (150, 3)).astype(str)
    x = generator.standard_normal((150, 8))
    result = evaluate(x, labels, metrics=["h_ap", "asi", "ndcg"])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for q in range(0, 150, 10):
        order = [g for g in np.argsort(-unit @ unit[q]) if g != q]
        levels = tuple(hierarchy.level(hierarchy.agreement(labels[q], labels[g])) for g in order)
        for name in ("h_ap", "asi", "ndcg"):
            exact = hierarchy.definition(name, 3)(levels)
            assert ulps(result[name].per_query.lower[q], exact) <= 4, (name, q)


# --- one engine, however it works -----------------------------------------------------------------


def test_the_same_bits_on_every_path_with_many_ties() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-1, 2, (60, 3)).astype(float)
    fine = generator.integers(0, 12, 60)
    labels = np.stack([fine // 6, fine // 3, fine], axis=1)
    options = {"query_groups": generator.integers(0, 3, 60), "query_ids": np.arange(60) // 2}
    metrics = [*metrics_of(3), "map@level=mean", "asi@level=mean"]
    expected = None
    ways = [("auto", 0.0), ("auto", 0.05), ("auto", 2.0), ("reference", 0.05)]  # it sorts all
    for device, share in ways:
        for tiles in ({}, {"query_rows": 7, "gallery_rows": 5, "mates": 128}):
            with truerank.engine.settings(sort_share=share, **tiles):
                found = bits(evaluate(x, labels, **options, device=device, metrics=metrics))
            expected = expected or found
            assert found == expected, (device, share, tiles)


# --- relevances that leave nothing, or more than a double holds -----------------------------------


@pytest.mark.parametrize("metric", ["h_ap@rel=0:1", "sum_wap@weights=0:1", "h_ap@alpha=100"])
def test_no_query_spoils_the_mean(metric: str) -> None:
    """The second query has coarse mates alone, which these relevances may call worth nothing."""
    distances = np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]])
    gallery = [["a", "x"], ["a", "z"], ["b", "x"]]
    options = {"gallery_labels": gallery, "distance": "precomputed", "metrics": [metric]}
    score = evaluate(distances, [["a", "x"], ["a", "y"]], **options)[metric]
    values = score.per_query.lower
    assert values[0] == 1.0
    assert score.n == np.count_nonzero(~np.isnan(values))
    assert score.value == np.nanmean(values) == 1.0


# --- labels and grades ----------------------------------------------------------------------------

TREE = pd.DataFrame(
    {
        "order": ["birds", "birds", "birds", "birds", "bats", "bats", "bats", "bats"],
        "Genus": ["Corvus", "Corvus", "Pica", "Pica", "Myotis", "Myotis", "Nyctalus", "Nyctalus"],
        "species": ["corax", "corax", "pica", "pica", "blythii", "blythii", "noctula", "noctula"],
    }
)
POINTS = np.random.default_rng(2).standard_normal((8, 3))


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


# --- what a result says beside the scores ---------------------------------------------------------


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 60)
@given(data=st.data())
def test_severity_against_a_loop(data: st.DataObject) -> None:
    """The errors are those that hit@1 counts, of the queries that have a mate to find."""
    depth = data.draw(st.integers(2, 3))
    case = as_tree(data.draw(cases(depth, "precomputed")))
    case.options["no_mate"] = "report"
    assert case.labels is not None
    result = case.evaluate(metrics=["h_ap", "hit@1"])
    severity = result.severity()
    by_level: Counter[str] = Counter()
    by_class: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    for label, distances, levels in zip(case.labels, case.distances, case.levels, strict=True):
        if depth not in levels:
            continue
        shared = hierarchy.worst_first_level(distances, levels)
        if shared < depth:
            name = str(shared) if shared else "none"
            by_level[name] += 1
            by_class[label[-1]][name] += 1
    assert severity.errors == sum(by_level.values())
    assert without_zeros(severity.by_level) == by_level
    found = {label: without_zeros(counts) for label, counts in severity.by_class.items()}
    assert {label: counts for label, counts in found.items() if counts} == by_class
    assert severity.errors == np.sum(result["hit@1"].per_query.lower == 0)


def without_zeros(counts: Any) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def test_severity_by_column_name() -> None:
    """The nearest of each bird is a bird of the other genus, that of each bat is a bird."""
    distances = np.full((8, 8), 0.9)
    distances[:4, :4] = [[0, 5, 0.1, 5], [5, 0, 5, 0.1], [0.1, 5, 0, 5], [5, 0.1, 5, 0]]
    distances[4:, :4] = 0.5
    severity = evaluate(distances, TREE, distance="precomputed", metrics=["h_ap"]).severity()
    assert severity.errors == 8
    assert without_zeros(severity.by_level) == {"order": 4, "none": 4}


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 60)
@given(data=st.data())
def test_share_of_queries_with_relevances_that_are_not_monotone(data: st.DataObject) -> None:
    depth = data.draw(st.integers(2, 3))
    case = data.draw(cases(depth, "precomputed"))
    share = case.evaluate(metrics=["h_ap"]).provenance["hierarchy"]["non_monotone_share"]
    counted = [levels for levels in case.levels if any(levels)]
    if counted:
        strange = sum(not hierarchy.is_monotone(levels, depth) for levels in counted)
        assert share == pytest.approx(strange / len(counted), rel=1e-15)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric",
    [
        "map@level=4",
        "map@level=0",
        "map@level=-1",
        "map@r,level=family",
        "asi@level=4",
        "h_ap@alpha=0",
        "h_ap@alpha=-1",
        "h_ap@alpha=nan",
        "h_ap@alpha=inf",
        "h_ap@alpha=steep",
        "h_ap@rel=1:2",
        "h_ap@rel=1:2:3:4",
        "h_ap@rel=1:2:-3",
        "h_ap@rel=1:2:nan",
        "h_ap@rel=0:0:0",
        "sum_wap@weights=1:2",
        "sum_wap@weights=1:2:3:4",
        "sum_wap@weights=1:-2:3",
        "sum_wap@weights=0:0:0",
        "sum_wap@weights=1::3",
        "ndcg@gain=cubic",
        "ndcg@0",
        "asi@5",
    ],
)
def test_wrong_metrics_are_refused_in_a_sentence(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before any distance is computed."""
    monkeypatch.setattr(engine, "tie_groups", None)
    with pytest.raises(truerank.InputError) as refused:
        evaluate(POINTS, TREE, metrics=[metric])
    message = str(refused.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))


def test_a_level_needs_levels() -> None:
    """Grades are not levels of a tree."""
    relevance = 3 * np.eye(8, dtype=int)[::-1]
    with pytest.raises(truerank.InputError):
        evaluate(POINTS, None, relevance=relevance, metrics=["map@level=2"])


def test_one_level_is_enough() -> None:
    result = evaluate(POINTS, TREE["species"], metrics=["h_ap", "sum_wap", "asi", "ndcg"])
    assert all(score.n == 8 for score in result.values())
