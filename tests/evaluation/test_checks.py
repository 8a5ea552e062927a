"""Notes on data that are probably not what they should be."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import truerank
from truerank import TruerankWarning
from truerank.core import metric as definitions
from truerank.core import registry


def clusters(classes: int = 12, size: int = 5, noise: float = 0.5) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), size)
    centres = rng.normal(size=(classes, 16))
    return centres[labels] + noise * rng.normal(size=(len(labels), 16)), labels


def similarities(rows: Any) -> Any:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("size", [2, 5, 20])
@pytest.mark.parametrize(
    ("distance", "sign", "meant"),
    [("precomputed", 1, "similarity"), ("similarity", -1, "precomputed")],
)
def test_a_matrix_the_wrong_way_round(size: int, distance: str, sign: int, meant: str) -> None:
    rows, labels = clusters(size=size)
    matrix = sign * similarities(rows)
    swapped = rf"far lower than by chance.*pass distance='{meant}'"
    with pytest.warns(TruerankWarning, match=swapped) as caught:
        truerank.evaluate(matrix, labels, distance=distance, metrics="map", confidence=None)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truerank.evaluate(matrix, labels, distance=meant, metrics="map", confidence=None)
        truerank.evaluate(-matrix, labels, distance=distance, metrics="map", confidence=None)


def test_one_note_is_enough() -> None:
    rows, labels = clusters()
    with pytest.warns(TruerankWarning) as caught:
        truerank.evaluate(
            similarities(rows), labels, distance="precomputed", metrics=["map", "auc"]
        )
    assert len(caught) == 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [2, 4, 30])
def test_luck_is_not_below_chance(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(60, 3)), np.arange(60) % (60 // size)
    matrix = similarities(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for distance in ("precomputed", "similarity"):
            truerank.evaluate(matrix, labels, distance=distance, metrics="hit@1", confidence=None)
        flat = np.zeros((60, 60))
        truerank.evaluate(flat, labels, distance="precomputed", metrics="hit@1", confidence=None)


def test_zero_vectors_are_counted_in_the_table() -> None:
    rows, labels = clusters()
    assert "zero vector" not in str(truerank.evaluate(rows, labels))
    rows[3] = 0
    assert "\n1 row is a zero vector, at cosine 0 to everything." in str(
        truerank.evaluate(rows, labels)
    )
    rows[[5, 8]] = 0
    assert "\n3 rows are zero vectors." in str(
        truerank.evaluate(rows, labels, distance="euclidean")
    )
    codes = (rows > 0).astype(np.uint8)
    assert "zero" not in str(truerank.evaluate(codes, labels, distance="hamming"))


@pytest.mark.parametrize(
    ("strangers", "open_set"), [(0, False), (1, False), (19, False), (20, True)]
)
def test_twenty_strangers_make_an_open_set(strangers: int, open_set: bool) -> None:
    """One stray singleton does not pull open-set metrics into the headline."""
    rows, labels = clusters()
    labels[:strangers] = 100 + np.arange(strangers)
    labels[strangers:] %= 3
    result = truerank.evaluate(rows, labels, confidence=None)
    more = ["dir@far=0.01", "mrep", "mfr"]
    named = [*result, *result.skipped]
    assert [name for name in more if name in named] == (more if open_set else [])


def test_all_metrics_are_those_that_apply() -> None:
    """The rest is listed with the reasons, one sentence for each reason."""
    rows, labels = clusters(classes=5, size=4)
    cases: list[dict[str, Any]] = [
        {"labels": labels},
        {"labels": labels, "embeddings": similarities(rows), "distance": "similarity"},
        {"relevance": labels[:, None] == labels, "gallery": rows + 1},
    ]
    for case in cases:
        options = {"embeddings": rows, "metrics": "all", "confidence": None, **case}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            result = truerank.evaluate(**options)
        assert len(result) > 20
        assert not any(score.reason for score in result.values())
        names = {registry.parse(name).name for name in (*result, *result.skipped)}
        assert names == set(definitions.names()) - {"accuracy"}  # of lists of trials
        said = [note for note in result.notes if note.startswith("Skipped ")]
        assert len(said) == len(set(result.skipped.values()))
        assert result.skipped["dir@far=0.1"] == "not defined: every query has a relevant item"
