"""GOM at a rate: the threshold of the strangers, against fractions, and what cannot move it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.oracles import gom as oracle
from tests.random_tasks import cases
from truerank._util.errors import InputError

EXAMPLES = 400 if settings().max_examples >= 10_000 else 20
RATES = ("0", "0.25", "0.5", "1")
NAMES = [
    f"{name}@far={rate}{more}"
    for rate in RATES
    for name, more in (
        ("mrp", ""), ("mvp", ""), ("mvp", ",fp=frozen"), ("mrep", ""), ("mrep", ",fp=frozen"),
        ("mfr", ",b=2"),
    )
]  # fmt: skip


def largest_accepted(strangers: list[list[Fraction]], everybody: list[Fraction], rate: str) -> Any:
    """The largest distance below that of the stranger that must not be accepted."""
    nearest = sorted(min(one, default=Fraction(10**9)) for one in strangers)
    allowed = math.floor(Fraction(rate) * len(nearest))
    if allowed == len(nearest):
        return max(everybody, default=Fraction(0))
    below = [d for d in everybody if d < nearest[allowed]]
    return max(below, default=min(everybody, default=Fraction(0)) - 1)


@pytest.mark.thorough
@pytest.mark.parametrize("distance", ["cosine", "precomputed", "euclidean", "similarity"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_order(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    case.options["average"] = "query"
    distances = case.distances()
    queries = [
        ([distances[q][g] for g in query.items], query.relevant)
        for q, query in enumerate(case.queries())
    ]
    targets = [query for query in queries if any(query[1])]
    strangers = [query[0] for query in queries if not any(query[1])]
    everybody = [d for query in queries for d in query[0]]
    result = case.evaluate(metrics=NAMES, device="cpu")
    again = case.evaluate(metrics=NAMES, device="reference")
    assert {n: str(s) for n, s in again.items()} == {n: str(s) for n, s in result.items()}
    for name in NAMES:
        score = result[name]
        kind, _, text = name.partition("@")
        options = dict(part.split("=") for part in text.split(","))
        few = Fraction(options["far"]) * len(strangers) < 1 and options["far"] != "0"
        if not targets or not strangers or few:
            assert math.isnan(score.value)
            assert score.reason.startswith("not defined")
            continue
        limit = largest_accepted(strangers, everybody, options["far"])
        if kind == "mfr":
            rates = [oracle.false_rate(one, limit, 2) for one in strangers]
            assert score.value == pytest.approx(float(np.mean(rates)), abs=1e-12)
            assert score.n == len(strangers)
            continue
        frozen = options.get("fp") == "frozen"
        values = []
        for found, flags in targets:
            if kind == "mrp":
                values.append(oracle.retrieval_precision(found, flags, limit))
            elif kind == "mvp":
                values.append(oracle.verification_precision(found, flags, limit, frozen))
            else:
                values.append(oracle.combined(found, flags, limit, frozen))
        expected = np.mean([[float(one) for one in value] for value in values], axis=0)
        actual = (score.lower, score.expected, score.upper)
        assert actual == pytest.approx(expected.tolist(), abs=1e-12), name


def open_set(seed: int, classes: int = 12, strangers: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out: classes of four, and singletons that have nothing to find."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), 4)
    centres = rng.normal(size=(classes + strangers, 8))
    rows = centres[labels] + 0.6 * rng.normal(size=(len(labels), 8))
    return (
        np.concatenate([rows, centres[classes:]]).astype(np.float32),
        np.append(labels, np.arange(classes, classes + strangers)),
    )


AT_A_TENTH = ["mrep@far=0.1", "mvp@far=0.1", "mvp@far=0.1,fp=frozen", "mrp@far=0.1",
              "mfr@b=5,far=0.1"]  # fmt: skip


def replicates(result: Any, metric: str) -> list[float]:
    found = result[metric].replicates
    assert found is not None
    return sorted(found.values)


@pytest.mark.parametrize("average", ["query", "class"])
def test_replicates_are_scores_without_each_class(average: str) -> None:
    rows, labels = open_set(3)
    whole = truerank.evaluate(rows, labels, metrics=AT_A_TENTH, average=average)
    expected: dict[str, list[float]] = {metric: [] for metric in AT_A_TENTH}
    for label in np.unique(labels):
        kept = labels != label
        left = truerank.evaluate(
            rows[kept], labels[kept], metrics=AT_A_TENTH, average=average, confidence=None
        )
        for metric in AT_A_TENTH:
            expected[metric].append(left[metric].value)
    for metric in AT_A_TENTH:
        assert replicates(whole, metric) == pytest.approx(sorted(expected[metric]), abs=1e-10)
        low, high = whole[metric].interval
        assert low <= whole[metric].value <= high


def test_replicates_where_the_gallery_stays() -> None:
    rows, labels = open_set(4, classes=32)
    gallery = np.arange(len(rows)) % 2 == 0
    gallery[labels >= 32] = False
    some = {"gallery": rows[gallery], "gallery_labels": labels[gallery], "metrics": AT_A_TENTH}
    queries = ~gallery
    whole = truerank.evaluate(rows[queries], labels[queries], **some)
    expected: dict[str, list[float]] = {metric: [] for metric in AT_A_TENTH}
    for label in np.unique(labels[queries]):
        kept = queries & (labels != label)
        left = truerank.evaluate(rows[kept], labels[kept], **some, confidence=None)
        for metric in AT_A_TENTH:
            expected[metric].append(left[metric].value)
    for metric in AT_A_TENTH:
        assert replicates(whole, metric) == pytest.approx(sorted(expected[metric]), abs=1e-10)


def test_no_rescaling_of_distances_moves_them() -> None:
    rng = np.random.default_rng(0)
    distances = rng.permutation(60 * 40).reshape(60, 40) / 2400
    labels, stored = np.arange(60) % 30, np.arange(40) % 20
    found = []
    for same_order in (distances, np.sqrt(distances), distances**2, 7 * distances + 3):
        result = truerank.evaluate(
            same_order, labels, gallery_labels=stored, distance="precomputed", metrics=AT_A_TENTH
        )
        found.append({name: (s.value, s.interval, s.replicates) for name, s in result.items()})
    assert found[1:] == found[:1] * 3


def test_the_threshold_is_the_largest_accepted_distance() -> None:
    distances = [[0.1, 0.4, 0.6], [0.2, 0.25, 0.9], [0.3, 0.8, 0.9], [0.35, 0.5, 0.7]]
    result = truerank.evaluate(
        distances, ["a", "b", "x", "y"], gallery_labels=["a", "b", "c"], distance="precomputed",
        metrics=["mrep@far=0", "mrep@far=0.5", "mrep@far=1", "mvp@far=0.5", "mfr@b=1,far=0.5"],
    )  # fmt: skip
    assert result["mrep@far=0"].threshold == 0.25
    assert result["mrep@far=0.5"].threshold == 0.3
    assert result["mrep@far=1"].threshold == 0.9
    assert result["mvp@far=0.5"].per_query.lower[:2].tolist() == [1.0, 0.5]
    assert result["mfr@b=1,far=0.5"].per_query.lower[2:].tolist() == [1.0, 0.0]


def test_what_a_rate_excludes() -> None:
    for metric, says in (
        ("mrep@far=0.1,tau=0.2", "both far and tau"),
        ("mrep@far=0.1,integral=exact", "both far and integral"),
        ("mfr@far=0.1,scale=minmax", "the same on every scale"),
        ("mvp@fp=frozen", "needs tau= or far="),
    ):
        with pytest.raises(InputError, match=says):
            truerank.metrics.parse(metric)


def test_two_models_are_told_that_integrals_follow_their_scales() -> None:
    rows, labels = open_set(5)
    noisy = rows + np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
    for metrics, said in ((["map", "mrep", "mfr"], 1), (["map", "mrep@far=0.1"], 0)):
        results = [truerank.evaluate(one, labels, metrics=metrics) for one in (rows, noisy)]
        notes = truerank.compare(*results).notes
        assert sum("scale that each model" in note for note in notes) == said


def test_an_open_set_has_it_among_its_defaults() -> None:
    rows, labels = open_set(6, strangers=120)
    assert "mrep@far=0.01" in truerank.evaluate(rows, labels, confidence=None)
    few = labels < 12 + 19
    assert "mrep@far=0.01" not in truerank.evaluate(rows[few], labels[few], confidence=None)
