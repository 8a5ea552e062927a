"""A fit beyond the gallery says what it is, and how far it errs."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import truerank
from truerank import InputError
from truerank.core.score import AtSize, Score
from truerank.result.gallery_sizes import SEEN, extrapolate, sizes_for


def on_a_line(size: int) -> float:
    return NormalDist().cdf(3.0 - 0.3 * np.log(size))


def exact(value: float) -> Score:
    return Score("map", value, value, value, value)


def at_sizes(value: Any) -> list[AtSize]:
    return [AtSize(size, {"map": exact(value(size))}, {}) for size in sizes_for(10_000)]


def test_a_line_is_found_again() -> None:
    found = extrapolate(at_sizes(on_a_line), {"map": exact(on_a_line(10_000))}, 10_000, 10**6)
    assert found["map"].value == pytest.approx(on_a_line(10**6), rel=1e-6)
    assert found["map"].error == pytest.approx(0, abs=1e-6)
    assert found.to_dict()["extrapolated"] is found["map"].to_dict()["extrapolated"] is True


def test_the_error_is_what_the_fit_makes_of_the_gallery() -> None:
    """Straight up to a tenth, constant from there on: the early line goes on downwards."""

    def bent(size: int) -> float:
        return on_a_line(min(size, 1000))

    found = extrapolate(at_sizes(bent), {"map": exact(bent(10_000))}, 10_000, 20_000)
    expected = on_a_line(10_000) - on_a_line(1000)
    assert found["map"].error == pytest.approx(expected, rel=0.01)
    assert "EXTRAPOLATED to a gallery of 20,000 from one of 10,000 items" in str(found)
    assert f"{100 * found['map'].error:+.2f}" in str(found)
    assert "no bound" in SEEN
    assert "in 8 to 30 % of the data sets" in SEEN
    assert found.to_dict()["notes"] == [SEEN]
    assert SEEN in " ".join(str(found).split())


def test_a_perfect_score_is_not_fitted() -> None:
    found = extrapolate(at_sizes(lambda size: 1.0), {"map": exact(1.0)}, 10_000, 20_000)
    assert list(found) == []
    assert "0 or 1" in found.skipped["map"]


def test_foretells_what_a_larger_set_has() -> None:
    """3,000 rows, foretold from 600 of their classes' rows."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(500), 6)
    rows = rng.normal(size=(500, 16))[labels] + rng.normal(size=(3000, 16))
    small = labels < 100
    part = truerank.evaluate(
        rows[small], labels[small], metrics=["map", "mrr"], gallery_sizes=sizes_for(600)
    )
    whole = truerank.evaluate(rows, labels, metrics=["map", "mrr"])
    foretold = part.extrapolate(3000)
    for name in ("map", "mrr"):
        low, high = part[name].interval
        spread = (high - low) / 2
        assert abs(foretold[name].value - whole[name].value) < abs(foretold[name].error) + spread


@pytest.mark.parametrize("gallery", [50, 60, 99, 360, 1234, 10_000, 123_457])
def test_the_sizes_that_are_listed_are_enough(gallery: int) -> None:
    at = [AtSize(size, {"map": exact(on_a_line(size))}, {}) for size in sizes_for(gallery)]
    found = extrapolate(at, {"map": exact(on_a_line(gallery))}, gallery, 10 * gallery)
    assert found["map"].value == pytest.approx(on_a_line(10 * gallery), rel=1e-6)


def test_what_a_fit_needs() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    result = truerank.evaluate(rows, np.arange(50) // 5, metrics="map", gallery_sizes=[20])
    with pytest.raises(InputError, match=r"gallery_sizes=\[2, 3, 5, 16, 28, 50\]"):
        result.extrapolate(100)
    few = truerank.evaluate(rows[:20], np.arange(20) // 5, metrics="map", gallery_sizes=[2, 10])
    with pytest.raises(InputError, match="20 items is too small for a fit"):
        few.extrapolate(100)
    for wrong in (50, 2.5, True, "100"):
        with pytest.raises(InputError, match="more than the 50 items"):
            result.extrapolate(wrong)
