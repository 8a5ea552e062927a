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

SCRIPTS = Path(__file__).parents[2] / "scripts"
SIMULATIONS = 400
"""docs/results/interval-methods.md has 1,000 of each; these are the first of them."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


SIMULATE = load("simulate_statistics")
WIDTHS = load("simulate_widths")


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("setting", SIMULATE.SETTINGS)
def test_coverage(setting: str) -> None:
    """At least 92 %, and not so much more that the intervals would be useless."""
    found = SIMULATE.coverage(SIMULATE.SETTINGS[setting], SIMULATIONS)
    shares = {metric: share for metric, (share, _) in found.items()}
    assert min(shares.values()) >= 0.92, shares
    assert max(shares.values()) <= 0.998, shares


@pytest.mark.slow
@pytest.mark.parametrize("test", ["size", "gallery size"])
def test_size(test: str) -> None:
    _, apart, separate = SIMULATE.TESTS[test]
    found = SIMULATE.rejections(apart, separate, SIMULATIONS)
    assert max(found.values()) <= 0.07, found


@pytest.mark.slow
@pytest.mark.parametrize("test", SIMULATE.COARSE)
def test_size_with_coarse_classes(test: str) -> None:
    _, classes = SIMULATE.COARSE[test]
    found = SIMULATE.coarse_rejections(classes, SIMULATIONS)
    assert max(found.values()) <= 0.08, found


@pytest.mark.slow
@pytest.mark.parametrize("test", SIMULATE.RUNS)
def test_size_with_runs(test: str) -> None:
    _, *design = SIMULATE.RUNS[test]
    found = SIMULATE.run_rejections(*design, SIMULATIONS // 2)
    assert max(found.values()) <= 0.09, found


@pytest.mark.slow
@pytest.mark.parametrize("classes", [30, 60, 200, 1000])
def test_an_interval_keeps_its_width(classes: int) -> None:
    """Up to 12 % of it, for a copy in half precision and with samples and shares drawn anew."""
    for name, (copied, drawn) in WIDTHS.spreads(classes, 5, classes // 4, 0.9, draws=5).items():
        assert max(copied, drawn) <= 0.12, (name, copied, drawn)


@pytest.mark.slow
def test_p_hardly_moves_with_the_names_of_many_classes() -> None:
    """Beyond 1,000 classes without ids, the shares of a test are dealt by name."""
    low, high = WIDTHS.tests_of_renamed_classes(1500, 8)
    assert high - low <= 0.35 * high, (low, high)


@pytest.mark.slow
@pytest.mark.parametrize("test", ["power 20", "gallery power"])
def test_power(test: str) -> None:
    _, apart, separate = SIMULATE.TESTS[test]
    found = SIMULATE.rejections(apart, separate, SIMULATIONS // 2)
    assert found["map"] >= 0.8, found


@pytest.mark.parametrize(
    ("setting", "simulations", "least"),
    [
        ("few", 20, 0.85),
        ("gallery few", 20, 0.85),
        ("tree", 3, 0.6),
        ("coarse", 4, 0.7),
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


def test_a_few_runs_of_one_method_are_not_told_apart() -> None:
    found = SIMULATE.run_rejections(12, 0.1, False, 6)
    assert set(found) == set(SIMULATE.RANKING)
    assert max(found.values()) <= 0.35, found
    assert max(SIMULATE.coarse_rejections(12, 6).values()) <= 0.35


def test_a_few_comparisons_tell_models_apart() -> None:
    """A model with twice the noise is found out each time, an equal one in no more than a few."""
    assert set(SIMULATE.rejections(1.0, False, 4).values()) == {1.0}
    equal = SIMULATE.rejections(0.0, False, 8)
    assert set(equal) == set(SIMULATE.RANKING)
    assert max(equal.values()) <= 0.25, equal
