"""evaluate() on tiny random tasks, against every order that the exact scores allow."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests import registered
from tests.oracles import ranking, scores, task
from tests.random_tasks import MATRIX_DISTANCES, VECTOR_DISTANCES, Case, cases
from tests.rounding import ulps

CUTS = ["precision@2", "precision@3", "recall@2", "recall@4", "hit@2", "hit@3"]
CUTS += ["mrr@1", "mrr@2", "mrr@4"]
CUTS += ["map@1", "map@3", "map@3,divisor=min"]
METRICS = [*registered.ranking(), *CUTS]
EXAMPLES = 1_500 if settings().max_examples >= 10_000 else 60
"""For each distance: some 10,000 in all when there is time."""
ONE_DIVISION = {"precision", "recall", "hit", "r_precision", "mrr", "minp", "bpref"}
"""Metrics whose bounds are one integer over another: there the nearest double is demanded."""


# --- the truth about a task -----------------------------------------------------------------------


@dataclass
class Truth:
    """What the oracles say about one metric of a case."""

    per_query: list[ranking.Triple | None]
    """None for queries that do not count."""
    chance_per_query: list[Fraction | None]
    classes: list[Any] | None

    def mean(self, values: Sequence[Fraction | None]) -> Fraction | None:
        """Over the queries that count, or over the means of their classes; None without any."""
        counted = [(q, value) for q, value in enumerate(values) if value is not None]
        if not counted:
            return None
        if self.classes is None:
            return sum((value for _, value in counted), Fraction(0)) / len(counted)
        by_class: defaultdict[Any, list[Fraction]] = defaultdict(list)
        for q, value in counted:
            by_class[self.classes[q]].append(value)
        means = [sum(members, Fraction(0)) / len(members) for members in by_class.values()]
        return sum(means, Fraction(0)) / len(means)


def truth(
    case: Case, metric: str, distances: scores.Matrix, queries: Sequence[task.Query]
) -> Truth:
    zero = Fraction(0)
    per_query: list[ranking.Triple | None] = []
    chances: list[Fraction | None] = []
    for row, query in zip(distances, queries, strict=True):
        if any(query.relevant):
            per_query.append(ranking.triple(metric, [row[g] for g in query.items], query.relevant))
            chances.append(ranking.chance(metric, query.relevant))
        elif case.options["unmated"] == "zero":
            per_query.append((zero, zero, zero))
            chances.append(zero)
        else:
            per_query.append(None)
            chances.append(None)
    return Truth(
        per_query, chances, case.labels if case.options.get("average") == "class" else None
    )


def check(case: Case) -> None:
    distances, queries = case.distances(), case.queries()
    truths = {metric: truth(case, metric, distances, queries) for metric in METRICS}
    for device in ("reference", "cpu"):
        result = case.evaluate(metrics=METRICS, device=device)
        for metric in METRICS:
            check_metric(metric, result[metric], truths[metric], f"{metric} on {device}")
        check_reasons(result, queries)


def check_metric(metric: str, score: Any, true: Truth, where: str) -> None:
    bounds = [score.per_query.lower, score.per_query.expected, score.per_query.upper]
    for q, exact in enumerate(true.per_query):
        actual = [float(values[q]) for values in bounds]
        if exact is None:
            assert all(math.isnan(value) for value in actual), (
                f"{where}, query {q} should not count: {actual}"
            )
            continue
        said = f"{where}, query {q}: {actual} is not {[float(value) for value in exact]}"
        assert all(ulps(a, e) <= 1 for a, e in zip(actual, exact, strict=True)), said
        assert actual[0] <= actual[1] <= actual[2], said
        if metric.partition("@")[0] in ONE_DIVISION:
            assert (actual[0], actual[2]) == (float(exact[0]), float(exact[2])), said
        if exact[0] == exact[2]:
            assert actual[0] == actual[1] == actual[2], said

    for name, position in (("lower", 0), ("expected", 1), ("upper", 2)):
        check_mean(
            f"{where}, {name}",
            getattr(score, name),
            true,
            [t and t[position] for t in true.per_query],
        )
    check_mean(f"{where}, chance", score.chance, true, true.chance_per_query)
    assert score.n == sum(exact is not None for exact in true.per_query)
    if score.n:
        assert score.value == score.lower <= score.expected <= score.upper
        assert score.reason is None
    else:
        assert math.isnan(score.value)
        assert score.reason


def check_mean(
    name: str, actual: float | None, true: Truth, values: Sequence[Fraction | None]
) -> None:
    exact = true.mean(values)
    if exact is None:
        assert actual is None or math.isnan(actual), name
        return
    assert actual is not None, name
    assert ulps(actual, exact) <= 2, f"{name}: {actual} is not {float(exact)}"


def check_reasons(result: Any, queries: Sequence[task.Query]) -> None:
    reasons = Counter(query.reason for query in queries if query.reason is not None)
    assert {
        reason: count for reason, count in result.provenance["no_mate"].items() if count
    } == dict(reasons)


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("distance", [*VECTOR_DISTANCES, *MATRIX_DISTANCES])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_order(distance: str, data: st.DataObject) -> None:
    check(data.draw(cases(distance)))


def test_no_mate_as_an_error() -> None:
    """Of six queries two are alone in their class and two have their mate on their own camera."""
    labels, cameras = ["a", "a", "b", "c", "d", "d"], [0, 1, 0, 0, 1, 1]
    with pytest.raises(truerank.InputError):
        truerank.evaluate(np.eye(6), labels, query_groups=cameras, unmated="error")


def test_gallery_that_contains_the_queries() -> None:
    """Without ids the query would find itself: the message says what to do about it."""
    embeddings, labels = np.eye(4), [0, 0, 1, 1]
    with pytest.raises(truerank.InputError, match="the gallery contains the queries"):
        truerank.evaluate(embeddings, labels, gallery=embeddings[::-1], gallery_labels=labels[::-1])


def test_gallery_items_without_a_label_are_distractors_on_request() -> None:
    """They take ranks like any negative; without the option they are refused."""
    case = {"gallery": np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), "metrics": ["map", "mrr"]}
    arguments = (np.array([[1.0, 0.1]]), ["a"])
    with pytest.raises(truerank.InputError):
        truerank.evaluate(*arguments, **case, gallery_labels=[None, "a", "b"])
    result = truerank.evaluate(
        *arguments,
        **case,
        gallery_labels=[None, "a", "b"],
        unlabelled="distractor",
    )
    assert float(result["map"]) == float(result["mrr"]) == 0.5
