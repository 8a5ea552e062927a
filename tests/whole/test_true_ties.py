"""Items with the same true cosine tie, on every path: triples against rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest

from tests.quiet import evaluate
from truerank._util.settings import settings

QUERY = [[1.0, 0, 0]]
ITEMS = [[0.0, 1, 1], [0, 1, 2], [0, 1, 3], [0, 2, 5]]

KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "bags of words": lambda rng: rng.poisson(0.15, (24, 40)),
    "counts": lambda rng: rng.poisson(1, (24, 5)),
    "0/1 attributes": lambda rng: rng.random((24, 8)) < 0.4,
    "ternary": lambda rng: rng.integers(-1, 2, (24, 5)),
    "small integers": lambda rng: rng.integers(-3, 4, (24, 3)),
}
PATHS: dict[str, dict[str, Any]] = {
    "float64": {"method": "float64"},
    "filter": {"method": "filter"},
    "symmetric": {"method": "symmetric", "side": 7},
    "sorted": {"sort_share": 0.0},
    "streamed": {"query_rows": 5, "gallery_rows": 7},
}


def true_similarities(rows: list[list[int]]) -> list[list[Fraction]]:
    """Squared cosines with their signs, which rank as cosines do; zero rows are orthogonal."""

    def similarity(x: list[int], y: list[int]) -> Fraction:
        product = sum(a * b for a, b in zip(x, y, strict=True))
        squares = sum(a * a for a in x) * sum(b * b for b in y)
        return Fraction(product * abs(product), squares or 1)

    return [[similarity(x, y) for y in rows] for x in rows]


def reciprocal_rank(similar: list[Fraction], relevant: list[bool]) -> list[Fraction]:
    """1/rank of the nearest mate: last, at random and first of those it ties with."""
    best = max(value for value, mate in zip(similar, relevant, strict=True) if mate)
    before = sum(value > best for value in similar)
    mates = [mate for value, mate in zip(similar, relevant, strict=True) if value == best]
    size, hits = len(mates), sum(mates)
    places = [Fraction(comb(size - j, hits - 1), comb(size, hits)) for j in range(1, size + 1)]
    mean = sum(chance / (before + j) for j, chance in enumerate(places, start=1))
    return [Fraction(1, before + size - hits + 1), Fraction(mean), Fraction(1, before + 1)]


def expected_triple(similar: list[list[Fraction]], labels: Any) -> list[float]:
    """Mean over queries of the bounds and of the expectation, leaving the query out."""
    found = []
    for query, row in enumerate(similar):
        others = [item for item in range(len(row)) if item != query]
        relevant = [bool(labels[item] == labels[query]) for item in others]
        if any(relevant):
            found.append(reciprocal_rank([row[item] for item in others], relevant))
    return [float(sum(part) / len(found)) for part in zip(*found, strict=True)]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_what_is_orthogonal_ties(device: str) -> None:
    """All cosines are 0: one mate of four is first, second, third or last."""
    options = {"gallery": ITEMS, "gallery_labels": [1, 0, 0, 0], "device": device}
    result = evaluate(QUERY, [1], metrics=["map", "auc", "fmr@tau=1", "fnmr@tau=1"], **options)
    ap = result["map"]
    assert (ap.lower, ap.upper) == (0.25, 1.0)
    assert ap.expected == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, abs=1e-15)
    assert result["auc"].value == 0.5
    assert (result["fmr@tau=1"].value, result["fnmr@tau=1"].value) == (1.0, 0.0)
    below = evaluate(QUERY, [1], metrics=["fmr@tau=0.999999", "fnmr@tau=0.999999"], **options)
    assert [score.value for score in below.values()] == [0.0, 1.0]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("path", list(PATHS))
def test_triples_are_those_of_rational_cosines(kind: str, path: str) -> None:
    rng = np.random.default_rng(11)
    rows, labels = np.asarray(KINDS[kind](rng)).astype(int), rng.integers(0, 9, 24)
    similar = true_similarities(rows.tolist())
    scaled = rows * 2.0 ** rng.integers(-9, 9, (24, 1))  # a power of two changes nothing
    for some in (rows, scaled.astype(np.float32)):
        with settings(**PATHS[path]):
            score = evaluate(some, labels, metrics=["mrr"], confidence=None, device="cpu")["mrr"]
        wanted = expected_triple(similar, labels)
        assert [score.lower, score.expected, score.upper] == pytest.approx(wanted, abs=1e-14)


def test_weights_with_disjoint_supports_tie() -> None:
    """No row is short; those that share no word with the query are equally far from it."""
    rng = np.random.default_rng(3)
    rows = rng.random((60, 30)) * (np.arange(30) // 3 == np.arange(60)[:, None] % 10)
    labels = np.arange(60) // 2 % 15
    result = evaluate(rows, labels, metrics=["mrr"], confidence=None)
    blocks = np.arange(60) % 10
    for query, (low, high) in enumerate(
        zip(result["mrr"].per_query.lower, result["mrr"].per_query.upper, strict=True)
    ):
        mates = (labels == labels[query]) & (np.arange(60) != query)
        if not (mates & (blocks == blocks[query])).any():
            assert low == pytest.approx(1 / (59 - mates.sum() + 1))
            assert high == pytest.approx(1 / 6)


def test_cosines_that_round_alike_are_counted() -> None:
    """Two items whose true cosines to the query differ by less than its distance can say."""
    query, near, far = [2089, 2104, 2202], [2240, 2099, 2352], [1980, 2161, 2160]
    cosines = true_similarities([query, near, far])[0]
    assert cosines[1] != cosines[2]
    options = {"gallery": [near, far, [1, 0, 0]], "gallery_labels": [0, 1, 1], "metrics": ["mrr"]}
    result = evaluate([query], [0], confidence=None, **options)
    assert (result["mrr"].lower, result["mrr"].upper) == (0.5, 1.0)
    facts = result.provenance["distance"]
    assert (facts["short_rows"], facts["rounded_alike"]) == (4, 1)
    assert "1 distinct cosine tied with another by rounding" in "".join(result.notes)
    counts = KINDS["counts"](np.random.default_rng(0))
    facts = evaluate(counts, np.arange(24) % 6, confidence=None).provenance["distance"]
    assert (facts["short_rows"], facts["rounded_alike"]) == (int(counts.any(axis=1).sum()), 0)
