"""The curves of verification: those of scikit-learn, and the one of F1."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    det_curve,
    roc_auc_score,
    roc_curve,
)

import truerank
from tests.families.rates import spread


def test_curves_are_those_of_scikit_learn() -> None:
    """Where nothing ties every corner of ROC and DET is one of scikit-learn's points."""
    rows, labels = spread(4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), 1)
    same, similarity = labels[i] == labels[j], (unit @ unit.T)[i, j]
    result = truerank.evaluate(rows, labels, metrics=["auc"])
    roc, det = result.curve("roc"), result.curve("det")
    fpr, tpr, cut = roc_curve(same, similarity, drop_intermediate=False)
    theirs = np.column_stack([fpr, tpr, 1 - cut])
    corners = np.column_stack([roc["far"], roc["tar"], roc["threshold"]])
    assert len(corners) > 100
    for far, tar, threshold in corners[1:-1]:
        near = np.abs(theirs[:, :2] - (far, tar)).max(axis=1) < 1e-12
        assert near.any(), (far, tar)
        # the threshold accepts the pairs of that point and none that scikit-learn takes next
        assert theirs[near, 2].max() <= threshold + 1e-7
        assert theirs[np.flatnonzero(near)[-1] + 1 :, 2].min(initial=np.inf) >= threshold - 1e-7
    assert corners[0, :2].tolist() == [0, 0]
    assert corners[-1, :2].tolist() == [1, 1]
    area = np.sum(np.diff(roc["far"]) * (roc["tar"][1:] + roc["tar"][:-1]) / 2)
    assert area == pytest.approx(roc_auc_score(same, similarity), abs=1e-12)
    assert (det["frr"] == 1 - roc["tar"]).all()
    false, miss, _ = det_curve(same, similarity)
    known = {(round(a, 12), round(b, 12)) for a, b in zip(false, miss, strict=True)}
    ours = {(round(a, 12), round(b, 12)) for a, b in zip(det["far"], det["frr"], strict=True)}
    # scikit-learn leaves out what lies before the first false accept and behind the last miss
    inside = {point for point in ours if point[0] > 0 and point[1] > 0}
    assert len(inside) > 100
    assert inside <= known


def test_the_curve_of_f1_comes_with_its_metric_alone() -> None:
    rows, labels = spread(5)
    with pytest.raises(truerank.InputError, match="no curve 'f1'; there are cmc, roc, det"):
        truerank.evaluate(rows, labels, metrics=["auc", "opis"]).curve("f1")
    alone = truerank.evaluate(rows, np.arange(len(rows)), metrics=["best_f1"])
    assert alone["best_f1"].reason == "not defined: no query has a relevant item in the gallery"
    with pytest.raises(truerank.InputError, match="no curve"):
        alone.curve("f1")
    together = truerank.evaluate(rows, np.zeros(len(rows)), metrics=["best_f1"])
    assert together["best_f1"].reason == "not defined: there are no pairs of different classes"


def test_the_curve_of_f1_has_its_best_point_however_long_it_is() -> None:
    """Of some thousand corners a thousand are drawn."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 20
    rows = rng.normal(size=(20, 8))[labels] + 0.7 * rng.normal(size=(300, 8))
    result = truerank.evaluate(rows, labels, metrics=["best_f1"], confidence=None)
    curve = result.curve("f1")
    assert len(curve["f1"]) < 2500 < result["best_f1"].n
    assert curve["f1"].max() == result["best_f1"].value
    assert (np.diff(curve["threshold"]) >= 0).all()
