"""Bands of the curves of pairs agree with the intervals of scores at the same operating point."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

import truerank
from tests.builders import clusters


def at_corner(result: truerank.Result, far: float) -> int:
    return int(np.searchsorted(result.curve("roc")["far"], far, side="right")) - 1


def test_roc_and_det_have_the_interval_of_tar() -> None:
    """Of 5,000 negatives any number is a rate of four digits, which a metric can be asked at."""
    rows, labels = clusters(0, classes=51, size=3, noise=1.5)
    own = (np.arange(len(rows)) % 3 > 0) & (labels < 50)
    first = np.arange(len(rows)) % 3 == 0

    def evaluate(metrics: list[str]) -> truerank.Result:
        gallery = {"gallery": rows[first], "gallery_labels": labels[first]}
        return truerank.evaluate(rows[own], labels[own], metrics=metrics, **gallery)

    result = evaluate(["auc"])
    roc, det = result.curve("roc"), result.curve("det")
    assert result["auc"].n == 5000 + 100
    asked = {k: f"tar@far={roc['far'][k]:.4f}" for k in range(20, len(roc["far"]) - 20, 12)}
    scores = evaluate([*dict.fromkeys(asked.values())])
    compared = 0
    for k, name in asked.items():
        score = scores[name]
        if score.value == roc["tar"][k] and score.interval is not None:
            compared += 1
            low, high = score.interval
            assert (roc["low"][k], roc["high"][k]) == pytest.approx((low, high), rel=1e-9)
            assert (det["low"][k], det["high"][k]) == pytest.approx((1 - high, 1 - low), rel=1e-9)
    assert compared >= 4


def test_bands_begin_where_intervals_do_and_simultaneous_ones_at_ten_negatives() -> None:
    rows, labels = clusters(1, classes=25, size=6, noise=1.5)
    result = truerank.evaluate(rows, labels, metrics=["auc"])
    negatives = result["auc"].n - 25 * 15
    for band, fewest in (("pointwise", 20), ("simultaneous", 10)):
        roc = result.curve("roc", band=band)
        told = np.flatnonzero(np.isfinite(roc["low"]))
        assert roc["far"][told[0] + 1] * negatives >= fewest > roc["far"][told[0]] * negatives
        assert np.array_equal(told, np.arange(told[0], len(roc["far"])))


def test_precision_over_recall_is_that_of_scikit_learn() -> None:
    rows, labels = clusters(2, classes=20, size=5)
    matrix = np.abs(rows[:, None] - rows[None]).sum(axis=2)
    i, j = np.triu_indices(len(rows), 1)
    same = labels[i] == labels[j]
    result = truerank.evaluate(matrix, labels, distance="precomputed", metrics=["auc"])
    curve = result.curve("pr", band=None)
    precision, recall, cut = precision_recall_curve(same, -matrix[i, j])
    pairs = zip(recall[:-1].tolist(), precision[:-1].tolist(), strict=True)
    known = dict(zip((-cut).tolist(), pairs, strict=True))
    points = zip(curve["threshold"], curve["recall"], curve["precision"], strict=True)
    found = [(t, r, p) for t, r, p in points if t in known]
    assert len(found) > 100
    assert all((r, p) == pytest.approx(known[t]) for t, r, p in found)
    assert curve["recall"][-1] == 1.0
    assert curve["precision"][-1] == same.mean()


@pytest.mark.parametrize("distance", ["cosine", "similarity"])
def test_the_band_of_f1_has_the_interval_of_the_best(distance: str) -> None:
    """Without a fold the best moves elsewhere, so that its interval is near, not the same."""
    rows, labels = clusters(3, classes=40, size=6, noise=1.0)
    rows = rows if distance == "cosine" else -np.abs(rows[:, None] - rows[None]).sum(axis=2)
    result = truerank.evaluate(rows, labels, metrics=["best_f1"], distance=distance)
    curve, best = result.curve("f1"), result["best_f1"]
    at = int(np.argmax(curve["f1"]))
    assert curve["f1"][at] == best.value
    ends = (curve["low"][at], curve["high"][at])
    assert ends == pytest.approx(best.interval, abs=0.1 * (best.interval[1] - best.interval[0]))


def test_a_list_of_trials_has_bands_over_its_people() -> None:
    rows, labels = clusters(4, classes=30, size=5, noise=1.5)
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(len(rows), 1)
    kept = (labels[i] == labels[j]) | (rng.random(len(i)) < 0.2)
    chosen = zip(i[kept], j[kept], strict=True)
    trials = [(int(a), int(b), bool(labels[a] == labels[b])) for a, b in chosen]
    result = truerank.verify(rows, trials, ["tar@far=0.1", "auc"], labels=labels)
    roc, score = result.curve("roc"), result["tar@far=0.1"]
    k = at_corner(result, 0.1)
    assert (roc["low"][k], roc["high"][k]) == pytest.approx(score.interval, abs=0.02)
    anonymous = truerank.verify(rows, trials, ["auc"])
    assert "low" not in anonymous.curve("roc")
