"""DIR and FAR in smaller galleries, against every sub-gallery."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest

import truerank
from tests import quiet
from tests.oracles import growth as oracle
from truerank.core import registry

CLOSE = 1e-12


def task(seed: int) -> dict[str, Any]:
    """Queries with and without a mate against a small gallery, with ties."""
    rng = np.random.default_rng(seed)
    gallery_labels = np.array([0, 0, 1, 1, 2, 3, 4, 5])
    labels = np.array([0, 1, 2, 3, 7, 8, 9, 7, 8, 9, 6])
    matrix = rng.integers(0, 9, (len(labels), len(gallery_labels))) / 10
    return {"embeddings": matrix, "labels": labels, "gallery_labels": gallery_labels}


def expected_far(row: np.ndarray, drawn: int, accepted: Any) -> Fraction:
    """The share of sub-galleries in which a stranger has anything accepted."""
    found = [
        any(accepted(row[item]) for item in items)
        for items in oracle.sub_galleries([False] * len(row), drawn)
    ]
    return Fraction(sum(found), len(found))


def identified(row: np.ndarray, mates: np.ndarray, drawn: int, accepted: Any) -> list[Fraction]:
    """Lower, expected and upper of being found first and accepted, over all sub-galleries."""
    if not accepted(row[mates].min()):
        return [Fraction(0)] * 3
    return list(oracle.triple("hit@1", row.tolist(), mates.tolist(), drawn))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_every_sub_gallery(seed: int, size: int) -> None:
    given = task(seed)
    matrix, labels, items = given["embeddings"], given["labels"], given["gallery_labels"]
    metrics = ["far@tau=0.3", "dir@tau=0.3", "dir@far=0.3", "ttr@tau=0.3"]
    result = quiet.evaluate(
        **given, distance="precomputed", metrics=metrics, gallery_sizes=[size], confidence=None
    )
    at = result.at_gallery(size)
    strangers = ~np.isin(labels, items)
    drawn = oracle.drawn_of(8, size, 8)

    rates = [expected_far(row, drawn, lambda d: d <= 0.3) for row in matrix[strangers]]
    found = at["far@tau=0.3"]
    assert abs(Fraction(found.value) - sum(rates) / len(rates)) <= CLOSE

    def check(name: str, accepted: Any) -> None:
        truth = []
        for row, label in zip(matrix[~strangers], labels[~strangers], strict=True):
            mates = items == label
            chosen = oracle.drawn_of(8 - int(mates.sum()), size, 8)
            truth.append(identified(row, mates, chosen, accepted))
        for end, values in zip(
            ("lower", "expected", "upper"), zip(*truth, strict=True), strict=True
        ):
            exact = sum(values, Fraction(0)) / len(values)
            assert abs(Fraction(getattr(at[name], end)) - exact) <= CLOSE, (name, end)

    check("dir@tau=0.3", lambda d: d <= 0.3)

    # the largest observed threshold whose expected rate is at most the target
    target = Fraction("0.3")
    limit = np.inf
    for distance in np.unique(matrix[strangers]):
        every = [
            expected_far(row, drawn, lambda d, most=distance: d <= most)
            for row in matrix[strangers]
        ]
        if sum(every) / len(every) > target:
            limit = distance
            break
    check("dir@far=0.3", lambda d: d < limit)
    if size < 8:
        assert "any item" in at.skipped["ttr@tau=0.3"]
    else:
        assert repr(at["dir@far=0.3"]) == repr(result["dir@far=0.3"])


def test_rates_that_meet_the_target_exactly() -> None:
    """One stranger accepted with probability 1/4, at a target of 0.25 and a little below it."""
    matrix = np.array([[0.1, 0.5, 0.6, 0.7], [0.2, 0.8, 0.8, 0.9]])
    given = {"labels": [0, 9], "gallery_labels": [0, 1, 2, 3], "distance": "precomputed"}
    result = truerank.evaluate(
        matrix,
        **given,
        metrics=["dir@far=1", "far@tau=0.2", "far@tau=0.8"],
        gallery_sizes=[1, 2],
        confidence=None,
    )
    assert result.at_gallery(1)["far@tau=0.2"].value == 0.25
    assert result.at_gallery(2)["far@tau=0.2"].value == 0.5
    assert result.at_gallery(1)["far@tau=0.8"].value == 0.75
    assert result.at_gallery(1)["dir@far=1"].value == 1.0


def test_a_deep_threshold_is_looked_for_again() -> None:
    """A twentieth of a gallery: the threshold lies far behind the nearest items."""
    rng = np.random.default_rng(1)
    matrix = rng.random((120, 400))
    labels = np.concatenate([np.arange(60), np.full(60, -5)])
    names = ["dir@far=0.5", "dir@far=0.9"]
    result = quiet.evaluate(
        matrix,
        labels,
        gallery_labels=np.arange(400),
        distance="precomputed",
        metrics=names,
        gallery_sizes=[2, 20],
        confidence=None,
    )
    for size in (2, 20):
        for name in names:
            target = float(name[8:])
            threshold = result.at_gallery(size)[name].threshold
            accepted = (matrix[60:] <= threshold).sum(axis=1)
            missed = np.ones(60)
            for i in range(size):
                missed *= np.maximum(400 - accepted - i, 0) / (400 - i)
            assert target - 0.02 < 1 - missed.mean() <= target


def test_intervals_with_a_gallery_of_its_own() -> None:
    rng = np.random.default_rng(2)
    given = {"gallery_labels": np.arange(50), "distance": "precomputed", "gallery_sizes": [10]}
    result = quiet.evaluate(
        rng.random((100, 50)), np.arange(100), metrics=["far@tau=0.05", "dir@far=0.2"], **given
    )
    at = result.at_gallery(10)
    low, high = at["far@tau=0.05"].interval
    assert low < at["far@tau=0.05"].value < high
    low, high = at["dir@far=0.2"].interval
    assert low < at["dir@far=0.2"].value < high


def own_gallery(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances with ties among 14 classes of two and 12 strangers, each its own gallery."""
    labels = np.concatenate([np.repeat(np.arange(14), 2), 50 + np.arange(12)])
    rng = np.random.default_rng(seed)
    matrix = rng.integers(2, 12, (len(labels),) * 2)
    matrix = np.minimum(matrix, matrix.T)
    matrix[labels[:, None] == labels] -= 1
    return matrix / 10, labels


@pytest.mark.parametrize("size", [4, 21])
def test_without_each_class(size: int) -> None:
    """Replicates are what is left without a class's queries and, of the others' counts, without
    its items: by rational numbers."""
    matrix, labels = own_gallery(size)
    names = ["far@tau=0.3", "dir@tau=0.3", "dir@rank=3,tau=0.4", "fnir@rank=3,tau=0.4"]
    at = quiet.evaluate(
        matrix, labels, distance="precomputed", metrics=names, gallery_sizes=[size]
    ).at_gallery(size)
    every = np.arange(len(labels))
    for name in names:
        metric = registry.parse(name)
        truth = []
        for left_out in np.unique(labels):
            found = []
            for query in every[labels != left_out]:
                mates = (labels == labels[query]) & (every != query)
                if mates.any() != (metric.name != "far"):
                    continue
                others = len(labels) - 1 - int(mates.sum())
                drawn = oracle.drawn_of(others, size, len(labels))
                tau, rank = float(metric["tau"]), 0
                if metric.name != "far":
                    rank, first = int(metric["rank"]), matrix[query, mates].min()
                    tau = first if first <= tau else -1.0
                met = (matrix[query] <= tau) & (labels != left_out) & ~mates & (every != query)
                near = int(met.sum())
                # P(X <= rank - 1), or of being accepted at all
                ways = sum(
                    comb(near, x) * comb(others - near, drawn - x) for x in range(max(rank, 1))
                )
                share = Fraction(ways, comb(others, drawn))
                found.append((share if tau >= 0 else Fraction(0)) if rank else 1 - share)
            mean = sum(found, Fraction(0)) / len(found)
            truth.append(1 - mean if metric.name == "fnir" else mean)
        assert len(at[name].replicates.values) == len(truth)
        for value, exact in zip(at[name].replicates.values, truth, strict=True):
            assert abs(Fraction(value) - exact) <= CLOSE, name


def drawn_classes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 60 classes of four and of 80 strangers, wide and narrow ones."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.repeat(np.arange(60), 4), 60 + np.arange(80)])
    centres, spread = rng.normal(size=(140, 6)), np.exp(0.4 * rng.normal(size=140)) / 2
    return centres[codes] + spread[codes][:, None] * rng.normal(size=(len(codes), 6)), codes


def test_evaluations_without_each_class() -> None:
    """As an evaluation without the class gives, in a gallery of as large a share; but for the
    rounding of how many are drawn."""
    rows, labels = drawn_classes(3)
    names, size = ["far@tau=0.1", "dir@tau=0.1", "dir@rank=5,tau=0.1"], 80
    at = quiet.evaluate(rows, labels, metrics=names, gallery_sizes=[size]).at_gallery(size)
    chosen = [0, 7, 59, 60, 139]
    for left_out in chosen:
        kept = labels != left_out
        fewer = round(size * int(kept.sum()) / len(labels))
        rest = quiet.evaluate(
            rows[kept], labels[kept], metrics=names, gallery_sizes=[fewer], confidence=None
        ).at_gallery(fewer)
        for name in names:
            moved = at[name].replicates.values[left_out] - at[name].value
            assert moved == pytest.approx(rest[name].value - at[name].value, abs=2e-3), name


def test_rows_in_another_order_keep_every_bit() -> None:
    rows, labels = drawn_classes(4)
    order = np.random.default_rng(0).permutation(len(labels))
    names = ["far@tau=0.1", "dir@tau=0.1", "dir@far=0.2"]
    once, again = (
        quiet.evaluate(rows[some], labels[some], metrics=names, gallery_sizes=[50]).at_gallery(50)
        for some in (np.arange(len(labels)), order)
    )
    for name in names:
        assert once[name].interval is not None
        assert once[name].interval == again[name].interval
        assert once[name].replicates == again[name].replicates


def test_intervals_hardly_differ_from_those_of_one_item_more() -> None:
    """At a FAR target too: nothing else changes but one item of 320."""
    rows, labels = drawn_classes(5)
    names = ["far@tau=0.1", "dir@tau=0.1", "dir@far=0.2", "dir@far=0.2,rank=3"]
    result = quiet.evaluate(rows, labels, metrics=names, gallery_sizes=[319, 320])
    for name in names:
        ends = [result.at_gallery(size)[name].interval for size in (319, 320)]
        widths = [high - low for low, high in ends]
        assert widths[0] == pytest.approx(widths[1], rel=0.15), name


@pytest.mark.slow
def test_intervals_cover_the_expectation_over_new_classes() -> None:
    names = ["far@tau=0.1", "dir@tau=0.1", "dir@far=0.1", "dir@far=0.25,rank=3"]
    sizes = [40, 160]
    found: dict[tuple[str, int], list[Any]] = {(name, size): [] for name in names for size in sizes}
    for seed in range(120):
        rows, labels = drawn_classes(1000 + seed)
        result = quiet.evaluate(rows, labels, metrics=names, gallery_sizes=sizes)
        for (name, size), some in found.items():
            score = result.at_gallery(size)[name]
            some.append((score.value, *score.interval))
    for key, some in found.items():
        value, low, high = np.array(some).T
        truth = value.mean()
        # 5 standard errors below 95 %; and no wider than twice what the spread of scores asks for
        assert np.mean((low <= truth) & (truth <= high)) > 0.85, key
        assert np.mean(high - low) < 2 * 2 * 1.96 * value.std(), key
