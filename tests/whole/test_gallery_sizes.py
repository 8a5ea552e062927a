"""evaluate(gallery_sizes=...) against every sub-gallery of tiny tasks, and against drawn ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests import registered
from tests.oracles import growth as oracle
from tests.random_tasks import MATRIX_DISTANCES, VECTOR_DISTANCES, Case, cases

METRICS = [*registered.ranking(), "precision@2", "recall@2", "hit@3", "map@3,divisor=min"]
EXAMPLES = 400 if settings().max_examples >= 10_000 else 8
"""For each distance."""
CLOSE = 1e-12


def check(case: Case, share: Fraction) -> None:
    distances, queries = case.distances(), case.queries()
    whole = case.evaluate(metrics=METRICS, confidence=None)
    items = whole.provenance["gallery"]
    sizes = sorted({max(1, round(share * items)), items})
    result = case.evaluate(metrics=METRICS, gallery_sizes=sizes, confidence=None)
    for size in sizes:
        found = result.at_gallery(size)
        for metric in METRICS:
            rows = found[metric].per_query
            for q, (row, query) in enumerate(zip(distances, queries, strict=True)):
                values = [getattr(rows, end)[q] for end in ("lower", "expected", "upper")]
                if not any(query.relevant):
                    assert case.options["unmated"] == "zero" or np.isnan(values).all()
                    continue
                others = len(query.items) - sum(query.relevant)
                drawn = oracle.drawn_of(others, size, items)
                mine = [row[g] for g in query.items]
                truth = oracle.triple(metric, mine, query.relevant, drawn)
                for value, exact in zip(values, truth, strict=True):
                    assert abs(Fraction(float(value)) - exact) <= CLOSE, (metric, size, q)
    for metric in METRICS:
        assert repr(result.at_gallery(items)[metric]) == repr(whole[metric])


@pytest.mark.parametrize("distance", [*VECTOR_DISTANCES, *MATRIX_DISTANCES])
def test_every_sub_gallery(distance: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(data.draw(cases(distance)), data.draw(st.fractions(0, 1, max_denominator=9)))

    run()


def average_precision(ranks: np.ndarray) -> float:
    """Of the ranks of all mates, ascending from 1 on."""
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks))


@pytest.mark.parametrize("size", [37, 240])
def test_drawn_galleries(size: int) -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(40), 9)
    rows = rng.normal(size=(40, 12))[labels] + 1.2 * rng.normal(size=(360, 12))
    names = ["map", "hit@5", "mrr", "minp", "precision@10", "r_precision", "map@r"]
    result = truerank.evaluate(rows, labels, metrics=names, gallery_sizes=[size], confidence=None)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similar = unit @ unit.T
    drawn = round(Fraction((360 - 9) * size, 360))
    sums: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(40):
        means: dict[str, list[float]] = {name: [] for name in names}
        for query in range(0, 360, 3):
            others = np.flatnonzero(labels != labels[query])
            mates = np.flatnonzero((labels == labels[query]) & (np.arange(360) != query))
            there = similar[query, rng.choice(others, drawn, replace=False)]
            own = np.sort(similar[query, mates])[::-1]
            ranks = np.array([np.sum(there > s) for s in own]) + np.arange(1, len(own) + 1)
            mate_count = len(own)
            inside = ranks <= mate_count
            means["map"].append(average_precision(ranks))
            means["hit@5"].append(float(ranks[0] <= 5))
            means["mrr"].append(1 / ranks[0])
            means["minp"].append(mate_count / ranks[-1])
            means["precision@10"].append(float(np.sum(ranks <= 10)) / 10)
            means["r_precision"].append(float(np.mean(inside)))
            means["map@r"].append(float(np.sum((np.arange(1, 9) / ranks)[inside])) / mate_count)
        for name in names:
            sums[name].append(float(np.mean(means[name])))
    for name in names:
        exact = float(np.mean(result.at_gallery(size)[name].per_query.lower[::3]))
        error = np.std(sums[name]) / np.sqrt(len(sums[name]))
        assert abs(np.mean(sums[name]) - exact) < 4.5 * error, name


def leave_each_class_out(
    rows: np.ndarray, labels: np.ndarray, size: int, metrics: list[str]
) -> dict[str, float]:
    """Standard errors of the jackknife, by evaluating without each class once more."""
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for label in np.unique(labels):
        kept = labels != label
        smaller = round(size * int(kept.sum()) / len(labels))
        found = truerank.evaluate(
            rows[kept], labels[kept], metrics=metrics, gallery_sizes=[smaller], confidence=None
        ).at_gallery(smaller)
        for name in metrics:
            values[name].append(found[name].value)
    count = len(np.unique(labels))
    return {
        name: float(np.sqrt((count - 1) / count * np.sum((np.array(v) - np.mean(v)) ** 2)))
        for name, v in values.items()
    }


@pytest.mark.parametrize("size", [60, 230])
def test_intervals_are_those_of_classes_left_out(size: int) -> None:
    rng = np.random.default_rng(8)
    labels = np.repeat(np.arange(30), 8)
    rows = rng.normal(size=(30, 10))[labels] + rng.normal(size=(240, 10))
    metrics = ["map", "hit@5", "map@r", "mrr", "minp", "bpref"]
    truth = leave_each_class_out(rows, labels, size, metrics)
    result: Any = truerank.evaluate(rows, labels, metrics=metrics, gallery_sizes=[size])
    for name in metrics:
        score = result.at_gallery(size)[name]
        assert score.interval[0] < score.value < score.interval[1]
        assert score.replicates.standard_error() == pytest.approx(truth[name], rel=0.12), name


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [1, 8])
def test_what_is_computed_at_once_changes_no_bit(
    ties: bool, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither how many queries wait for each other, nor what there is room for, nor threads."""
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(48), rng.integers(2, 2 + classes, 48))
    rows = rng.normal(size=(48, 8))[labels] + rng.normal(size=(len(labels), 8))
    if ties:
        rows = np.sign(rows) * (np.abs(rows) > 0.7)

    def told(threads: int) -> list[Any]:
        result: Any = truerank.evaluate(rows, labels, gallery_sizes=[9, 40, 60], threads=threads)
        every = [result.at_gallery(size).to_dict(per_query=True) for size in result.gallery_sizes]
        return [one["scores"] for one in every]

    expected = told(1)
    assert expected[0]["map"]["interval"] is not None
    assert told(2) == expected
    monkeypatch.setattr("truerank.metrics.gallery_sizes.ENOUGH", 1)
    monkeypatch.setattr("truerank.intervals.ranking_replicates.AT_ONCE", 1)
    monkeypatch.setattr("truerank.metrics.gallery_sizes.AT_A_TIME", 2)
    monkeypatch.setattr("truerank.metrics.gallery_sizes.FEWEST_SLOTS", 2)
    assert told(2) == expected
    monkeypatch.setattr("truerank.metrics.gallery_sizes.ROOM", 100)
    assert told(1) == expected
