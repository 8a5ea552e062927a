"""The adversary of the ties paper: a system that sees neither its inputs nor their order.

It may repeat vectors, make all of them equal, quantise noise, or order and copy rows by any rule
of its own. None of that may lift the headline number above chance by more than sampling noise;
each of these tricks does lift what a plain sort reports, once the rows come class by class.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import truerank
from tests import registered
from tests.quiet import evaluate

CLASSES, SIZE = 30, 20
ROWS = CLASSES * SIZE
METRICS = registered.ranking()
SORTED = np.repeat(np.arange(CLASSES), SIZE)

Trick = Callable[[np.random.Generator], np.ndarray]


def noise(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((ROWS, 16))


def repeated(rng: np.random.Generator) -> np.ndarray:
    """Each vector stands for twenty rows, drawn without looking."""
    return rng.standard_normal((CLASSES, 16))[rng.permutation(ROWS) % CLASSES]


def few_vectors(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((2, 16))[rng.integers(2, size=ROWS)]


def signs(rng: np.random.Generator) -> np.ndarray:
    """Quantised to one bit in few dimensions: everything ties with many others."""
    return np.sign(rng.standard_normal((ROWS, 3)))


TRICKS: dict[str, Trick] = {
    "all zero": lambda rng: np.zeros((ROWS, 16)),
    "all one": lambda rng: np.ones((ROWS, 16)),
    "two vectors": few_vectors,
    "repeated vectors": repeated,
    "one bit": signs,
    "noise": noise,
    "half of it constant": lambda rng: np.where(rng.random((ROWS, 1)) < 0.5, 1.0, noise(rng)),
}


def naive_map(x: np.ndarray, y: np.ndarray) -> float:
    """mAP as most code has it: rounded scores, a stable sort, oneself dropped, an average."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    unit = x / np.where(length > 0, length, 1)
    values = []
    for query in range(len(y)):
        order = np.argsort(-np.round(unit @ unit[query], 9), kind="stable")
        hits = y[order[order != query]] == y[query]
        precision = np.cumsum(hits) / np.arange(1, len(y))
        values.append((precision * hits).sum() / hits.sum())
    return float(np.mean(values))


@pytest.mark.parametrize("order", ["class by class", "classes in turn", "shuffled"])
@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_beats_chance(trick: str, order: str) -> None:
    """Over draws of the trick, the mean score is at most chance, up to its sampling error."""
    y = {
        "class by class": SORTED,
        "classes in turn": SORTED.reshape(CLASSES, SIZE).T.ravel(),
        "shuffled": np.random.default_rng(3).permutation(SORTED),
    }[order]
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    for seed in range(12):
        x = TRICKS[trick](np.random.default_rng([5, seed]))
        result = evaluate(x, y, metrics=METRICS, confidence=None)
        for name in METRICS:
            scores[name].append(result[name].value - result[name].chance)
    for name, gains in scores.items():
        error = np.std(gains, ddof=1) / np.sqrt(len(gains))
        assert np.mean(gains) <= 4 * error + 1e-12, name


@pytest.mark.parametrize("trick", ["all zero", "all one", "two vectors", "one bit"])
def test_the_same_tricks_lift_a_plain_sort(trick: str) -> None:
    """With rows class by class, as files often are, ties are broken in the adversary's favour."""
    x = TRICKS[trick](np.random.default_rng(7))
    chance = truerank.evaluate(x, SORTED, metrics=["map"], confidence=None)["map"].chance
    assert naive_map(x, SORTED) > 1.1 * chance


def test_rows_put_in_order_move_a_plain_sort_only() -> None:
    """Twenty orders of the same constant vectors: one score here, a wide range there."""
    plain, ours = [], set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = rng.permutation(SORTED) if seed else SORTED
        plain.append(naive_map(np.ones((ROWS, 4)), y))
        score = truerank.evaluate(np.ones((ROWS, 4)), y, metrics=["map"], confidence=None)["map"]
        ours.add((score.lower, score.expected, score.upper))
    assert len(ours) == 1
    assert max(plain) > 1.5 * min(plain)


def test_copies_of_a_gallery_gain_nothing() -> None:
    """Submitting every gallery vector of a blind system twice leaves the score at chance."""
    rng = np.random.default_rng(11)
    y = rng.permutation(SORTED)
    gains = []
    for seed in range(12):
        one = np.random.default_rng([13, seed]).standard_normal((ROWS, 8))
        result = truerank.evaluate(
            np.random.default_rng([17, seed]).standard_normal((ROWS, 8)),
            y,
            gallery=np.concatenate([one, one]),
            gallery_labels=np.concatenate([y, rng.permutation(SORTED)]),
            metrics=["map"],
            confidence=None,
        )
        gains.append(result["map"].value - result["map"].chance)
    assert np.mean(gains) <= 4 * np.std(gains, ddof=1) / np.sqrt(12)
