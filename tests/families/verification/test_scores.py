"""Verification against brute force, scikit-learn and properties."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    det_curve,
    f1_score,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

import truerank
from tests.families.rates import EXAMPLES, RATES, TAUS, accepts, assert_resolves, close, see, spread
from tests.oracles import openset
from tests.random_tasks import MATRIX_DISTANCES, VECTOR_DISTANCES, cases


def verification_metrics() -> list[str]:
    return [
        "auc",
        "eer",
        "min_dcf",
        "min_dcf@fa=3,miss=2,p=0.5",
        "best_f1",
        *(f"{name}@far={x}" for name in ("tar", "fnmr") for x in RATES),
        *(f"threshold@far={x}" for x in RATES),
        *(f"{name}@tau={x}" for name in ("tar", "fmr", "fnmr") for x in TAUS),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("distance", [*VECTOR_DISTANCES, *MATRIX_DISTANCES])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_verification_by_brute_force(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    queries = see(case)
    trials = [
        (d, r) for query in queries for d, r in zip(query.distances, query.relevant, strict=True)
    ]
    kinds = {positive for _, positive in trials}
    times = 2 if case.leave_one_out else 1
    negatives = -(-sum(not positive for _, positive in trials) // times)
    for device in ("cpu", "reference"):
        result = case.evaluate(metrics=verification_metrics(), device=device)
        for name, score in result.items():
            if kinds != {True, False}:
                assert math.isnan(score.value)
                assert score.reason.startswith("not defined")
                continue
            kind, _, option = name.partition("@")
            key, _, text = option.partition("=")
            if key == "far" and 0 < Fraction(text) * negatives < 1:
                assert math.isnan(score.value)
                assert_resolves(score.reason, negatives)
                continue
            if kind == "threshold":
                tau = openset.tar_at_far(trials, Fraction(text))[1]
                assert (tau is None) == bool(score.reason)
                # distances have a unit of their own, so what is accepted tells
                if tau is not None and distance != "cityblock":
                    assert score.value == score.threshold
                    near = {d for d, _ in trials if accepts(case, d, Fraction(score.value))}
                    near |= {d for d, _ in trials if math.isclose(d, tau, rel_tol=1e-12)}
                    assert max(near) == tau or distance == "euclidean"
                continue
            if kind == "auc":
                exact = openset.auc(trials)
            elif kind == "eer":
                exact = openset.eer(trials)
            elif kind == "min_dcf":
                p, miss, fa = (1, 2, 3) if option else (1, 1, 1)
                exact = openset.min_dcf(
                    trials, Fraction(p, 2) if option else Fraction(1, 100), Fraction(miss),
                    Fraction(fa),
                )  # fmt: skip
            elif kind == "best_f1":
                exact, tau = openset.best_f1(trials)
                assert score.value == exact.numerator / exact.denominator
                assert score.chance is None
                if distance in MATRIX_DISTANCES:  # the unit is the oracle's
                    assert score.threshold == (-tau if distance == "similarity" else tau)
            elif key == "far":
                exact = openset.tar_at_far(trials, Fraction(text))[0]
                exact = 1 - exact if kind == "fnmr" else exact
            elif distance == "cityblock":  # the oracle promises no unit
                continue
            else:
                wanted = kind != "fmr"
                chosen = [d for d, positive in trials if positive == wanted]
                count = sum(accepts(case, d, Fraction(text)) for d in chosen)
                exact = Fraction(count, len(chosen))
                exact = 1 - exact if kind == "fnmr" else exact
            assert close(score.value, exact), (name, device, score.value, float(exact))


def test_scikit_learn_agrees_where_nothing_ties() -> None:
    rows, labels = spread(3)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), 1)
    same, similarity = labels[i] == labels[j], (unit @ unit.T)[i, j]
    result = truerank.evaluate(rows, labels, metrics=["auc", "tar@far=0.01", "tar@far=0.2", "eer"])
    assert result["auc"].value == pytest.approx(roc_auc_score(same, similarity), abs=1e-9)
    fpr, tpr, _ = roc_curve(same, similarity)
    for target in (0.01, 0.2):
        best = tpr[fpr <= target].max()
        assert result[f"tar@far={target}"].value == pytest.approx(best, abs=1e-12)
    false, miss, _ = det_curve(same, similarity)
    crossing = np.argmin(np.abs(false - miss))
    assert result["eer"].value == pytest.approx((false + miss)[crossing] / 2, abs=0.01)


def test_f1_is_that_of_scikit_learn() -> None:
    rows, labels = spread(5)
    matrix = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    i, j = np.triu_indices(len(rows), 1)
    same, distance = labels[i] == labels[j], matrix[i, j]
    result = truerank.evaluate(matrix, labels, distance="precomputed", metrics=["best_f1"])
    precision, recall, cut = precision_recall_curve(same, -distance)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    best = result["best_f1"]
    assert best.value == pytest.approx(f1.max(), abs=1e-12)
    assert best.threshold == -cut[f1.argmax()]
    assert best.n == len(same)
    curve = result.curve("f1", band=None)
    assert list(curve) == ["threshold", "f1", "precision", "recall"]
    assert curve["f1"].max() == best.value
    assert curve["threshold"][curve["f1"].argmax()] == best.threshold
    for threshold, *row in list(zip(*curve.values(), strict=True))[::37]:
        scorers = (f1_score, precision_score, recall_score)
        assert row == pytest.approx([known(same, distance <= threshold) for known in scorers])


def test_swapped_similarities_are_pointed_out() -> None:
    rows, labels = spread(7)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    with pytest.warns(truerank.TruerankWarning, match="may be swapped") as caught:
        truerank.evaluate(unit @ unit.T, labels, distance="precomputed", metrics="auc")
    assert [one.filename for one in caught] == [__file__]
    with pytest.warns(truerank.TruerankWarning, match="may be swapped") as caught:
        truerank.verify([0.1, 0.9], [(0, 1, True), (0, 2, False)], "auc")
    assert [one.filename for one in caught] == [__file__]
