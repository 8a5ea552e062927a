"""Rows and classes that nothing tells apart: no order of theirs, and no name, may show in a result.

Duplicated rows, rows of zeros, one dimension, classes with equal contents; results before and after
rows are permuted and classes renamed, to the last bit.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import truerank
from tests.transformations import METRICS
from truerank.analysis.audit import Audit

SEEDS = range(6)
CLUSTERING = ["nmi", "ami", "pairwise_f1"]


def equal_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows on a coarse grid, some of them zeros; every fourth class is a copy of another."""
    rng = np.random.default_rng(seed)
    classes, size = int(rng.integers(24, 40)), int(rng.integers(2, 5))
    dimensions = 1 if seed % 3 == 0 else int(rng.integers(2, 6))
    labels = np.repeat(np.arange(classes), size)
    rows = rng.integers(-2, 3, size=(len(labels), dimensions)) + 3.0 * (labels[:, None] % 5)
    rows[rng.choice(len(rows), len(rows) // 10, replace=False)] = 0
    for copy in range(0, classes - 1, 4):
        rows[labels == copy] = rows[labels == copy + 1]
    return rows, labels


def distinct_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(30), 4)
    return rng.standard_normal((30, 6))[labels] + rng.standard_normal((120, 6)), labels


def rearranged(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An order of the rows, and other names for the classes, in that order."""
    rng = np.random.default_rng(1000 + seed)
    order = rng.permutation(len(labels))
    return order, rng.permutation(labels.max() + 1)[labels][order]


def evaluate(rows: np.ndarray, labels: np.ndarray, **options: Any) -> truerank.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.evaluate(rows, labels, **options)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("make", [equal_rows, distinct_rows])
@pytest.mark.parametrize("seed", SEEDS)
def test_clusters(seed: int, make: Any, distance: str) -> None:
    rows, labels = make(seed)
    order, renamed = rearranged(labels, seed)
    options: dict[str, Any] = {"metrics": CLUSTERING, "distance": distance}
    before = evaluate(rows, labels, **options)
    permuted = evaluate(rows[order], labels[order], **options)
    assert [repr(score) for score in permuted.values()] == [repr(s) for s in before.values()]
    other = evaluate(rows[order], renamed, **options)
    for name in CLUSTERING:
        assert (other[name].value, other[name].chance) == (before[name].value, before[name].chance)


SCORED = ("value", "lower", "expected", "upper", "chance", "attainable", "n", "threshold")


def scored(result: truerank.Result) -> dict[str, list[str]]:
    return {name: [repr(getattr(s, key)) for key in SCORED] for name, s in result.items()}


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock"])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_metric(seed: int, distance: str) -> None:
    """Sampled negatives too; in one dimension, 1, 2 and 4 have the same significand."""
    rows, labels = equal_rows(seed)
    order, renamed = rearranged(labels, seed)
    options: dict[str, Any] = {"metrics": METRICS, "distance": distance, "confidence": None}
    before = scored(evaluate(rows, labels, **options))
    assert scored(evaluate(rows[order], renamed, **options)) == before


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_intervals_of_permuted_rows(seed: int) -> None:
    rows, labels = equal_rows(seed)
    order, _ = rearranged(labels, seed)
    options: dict[str, Any] = {"metrics": METRICS, "distance": "euclidean"}
    before, after = (
        evaluate(rows[some], labels[some], **options) for some in (np.arange(len(rows)), order)
    )
    for name in METRICS:
        assert after[name].interval == before[name].interval, name
        assert after[name].replicates == before[name].replicates, name


def told(found: Audit) -> tuple[Any, ...]:
    """All that an audit says, but for the numbers of rows that it shows."""
    findings = [(one.name, one.severity, one.count, one.message) for one in found.findings]
    return findings, found.facts, found.sentences


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("make", [equal_rows, distinct_rows])
@pytest.mark.parametrize("seed", SEEDS)
def test_audits(seed: int, make: Any, distance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.analysis.audit.SAMPLE_NUMBERS", 40 * 120)
    rows, labels = make(seed)
    rows = rows.astype(np.float32)
    order, renamed = rearranged(labels, seed)
    before = truerank.audit(rows, labels, distance=distance)
    assert told(truerank.audit(rows[order], renamed, distance=distance)) == told(before)
    assert "float16 scoring" in before.facts


@pytest.mark.parametrize("seed", SEEDS)
def test_intervals_of_renamed_classes(seed: int) -> None:
    rows, labels = equal_rows(seed)
    order, renamed = rearranged(labels, seed)
    options: dict[str, Any] = {"metrics": ["map", "mrr", "auc", "nmi"]}
    before, after = evaluate(rows, labels, **options), evaluate(rows[order], renamed, **options)
    assert [s.interval for s in after.values()] == [s.interval for s in before.values()]


def differences(rows: np.ndarray, labels: np.ndarray, other: np.ndarray) -> list[Any]:
    results = [evaluate(some, labels, metrics=["map", "auc"]) for some in (rows, other)]
    return [(row.p, row.interval) for row in truerank.compare(*results).differences]


@pytest.mark.parametrize("seed", SEEDS)
def test_p_values_of_permuted_rows(seed: int) -> None:
    rows, labels = equal_rows(seed)
    order, _ = rearranged(labels, seed)
    other = rows + np.random.default_rng(seed).integers(-1, 2, size=rows.shape)
    assert differences(rows[order], labels[order], other[order]) == differences(rows, labels, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_p_values_of_renamed_classes(seed: int) -> None:
    rows, labels = equal_rows(seed)
    order, renamed = rearranged(labels, seed)
    other = rows + np.random.default_rng(seed).integers(-1, 2, size=rows.shape)
    assert differences(rows[order], renamed, other[order]) == differences(rows, labels, other)
