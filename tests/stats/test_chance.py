"""Chance against a Monte-Carlo over random embeddings, for every metric that has one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import truerank
from tests import registered

METRICS = registered.of_rankings()


@pytest.mark.parametrize("separate", [False, True])
def test_random_embeddings_score_chance(separate: bool) -> None:
    """Over 60 draws, within four and a half standard errors of the mean."""
    rng = np.random.default_rng(1)
    fine = np.repeat(np.arange(16), np.tile([2, 3, 5, 8], 4))
    paths = np.column_stack([fine % 2, fine % 8, fine])
    sums: dict[str, list[float]] = {text: [] for text in METRICS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        for _ in range(60):
            x = rng.standard_normal((len(fine), 24))
            sides = {}
            if separate:
                sides = {"gallery": rng.standard_normal(x.shape), "gallery_labels": paths}
            result = truerank.evaluate(x, paths, metrics=METRICS, confidence=None, **sides)
            for text in METRICS:
                sums[text].append(result[text].expected)
    for text, values in sums.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - result[text].chance) <= 4.5 * error + 1e-12, text


# --- thresholds -----------------------------------------------------------------------------------


def test_random_scores_in_an_open_set() -> None:
    """The mean over random matrices; every draw has another threshold."""
    rng = np.random.default_rng(0)
    labels = [0, 0, 1, 1, 2, *range(10, 19)]
    gallery_labels = [0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5]
    names = ["dir@far=0.25", "dir@far=0.25,rank=3", "dir@far=1,rank=2", "ttr@far=0.25", "auc"]
    names += ["eer", "tar@far=0.1", "tar@far=0.01", "hit@3"]
    draws = []
    for _ in range(500):
        result = truerank.evaluate(
            rng.random((len(labels), len(gallery_labels))),
            labels,
            gallery_labels=gallery_labels,
            distance="precomputed",
            metrics=names,
            confidence=None,
        )
        draws.append([result[name].value for name in names])
    mean, error = np.mean(draws, axis=0), np.std(draws, axis=0) / np.sqrt(len(draws))
    for name, value, spread in zip(names, mean, error, strict=True):
        assert abs(result[name].chance - value) < 4 * spread, (name, result[name].chance, value)
    assert result["eer"].attainable == 0
    assert result["dir@far=1,rank=2"].chance > result["dir@far=0.25"].chance


def test_the_largest_f1_has_no_chance_level() -> None:
    """Accepting all pairs gets 2P/(2P + N); a threshold chosen among random scores gets more."""
    score = truerank.evaluate(np.ones((6, 2)), [0, 0, 0, 1, 2, 3], metrics="best_f1")["best_f1"]
    assert score.value == 6 / 18  # P = 3, N = 12
    assert score.chance is score.attainable is score.adjusted is None
    rng = np.random.default_rng(0)
    labels, stored = np.arange(20) % 10, np.arange(60) % 12
    positives = (labels[:, None] == stored).sum()
    draws = [
        truerank.evaluate(
            rng.random((20, 60)),
            labels,
            gallery_labels=stored,
            distance="precomputed",
            metrics="best_f1",
            confidence=None,
        )["best_f1"].value
        for _ in range(60)
    ]
    all_accepted = 2 * positives / (positives + 20 * 60)
    assert np.mean(draws) - all_accepted > 5 * np.std(draws) / np.sqrt(60)


def test_targets_that_meet_impostors_have_no_chance_level() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4))
    result = truerank.evaluate(rows, [*np.arange(20) // 2, *range(20, 30)], metrics=["dir@far=0.1"])
    assert result["dir@far=0.1"].chance is None
