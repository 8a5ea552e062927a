"""Slow: intervals hold the truth and tests reject as often as they say, by simulation."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import truerank

SCRIPT = Path(__file__).parents[2] / "scripts" / "simulate_statistics.py"
SIMULATIONS = 1000


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulate_statistics", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


SIMULATE = load()


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("setting", SIMULATE.SETTINGS)
def test_coverage(setting: str) -> None:
    """At least 93 %, and not so much more that the intervals would be useless."""
    found = SIMULATE.coverage(SIMULATE.SETTINGS[setting], SIMULATIONS)
    shares = {metric: share for metric, (share, _) in found.items()}
    assert min(shares.values()) >= 0.93, shares
    assert max(shares.values()) <= 0.995, shares


@pytest.mark.slow
@pytest.mark.parametrize("test", ["size", "gallery size"])
def test_size(test: str) -> None:
    _, apart, separate = SIMULATE.TESTS[test]
    found = SIMULATE.rejections(apart, separate, SIMULATIONS)
    assert max(found.values()) <= 0.07, found


@pytest.mark.slow
@pytest.mark.parametrize("test", ["power 20", "gallery power"])
def test_power(test: str) -> None:
    _, apart, separate = SIMULATE.TESTS[test]
    found = SIMULATE.rejections(apart, separate, SIMULATIONS // 5)
    assert found["map"] >= 0.8, found


@pytest.mark.parametrize(
    ("setting", "simulations", "least"),
    [
        ("few", 20, 0.85),
        ("gallery few", 20, 0.85),
        ("tree", 3, 0.6),
        ("pairs few", 3, 0.6),
        ("strangers gallery", 3, 0.6),
        ("opis", 3, 0.6),
        ("gom", 3, 0.6),
    ],
)
def test_the_simulations_run(setting: str, simulations: int, least: float) -> None:
    """A few of each kind, seeded: intervals half as wide, or as wide as the scale, would show."""
    found = SIMULATE.coverage(SIMULATE.SETTINGS[setting], simulations)
    assert len(found) >= 2
    for metric, (share, width) in found.items():
        assert least <= share <= 1, (metric, share)
        assert 0.02 < width < 0.75, (metric, width)


def test_a_few_comparisons_tell_models_apart() -> None:
    """A model with twice the noise is found out each time, an equal one in no more than a few."""
    assert set(SIMULATE.rejections(1.0, False, 4).values()) == {1.0}
    equal = SIMULATE.rejections(0.0, False, 8)
    assert set(equal) == set(SIMULATE.RANKING)
    assert max(equal.values()) <= 0.25, equal
