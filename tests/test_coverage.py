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

SCRIPT = Path(__file__).parents[1] / "scripts" / "simulate_statistics.py"
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


def test_the_simulations_run() -> None:
    """A few of each kind, so that the slow ones do not rot."""
    for name in ("few", "tree", "gallery few", "pairs few", "strangers gallery", "opis", "gom"):
        found = SIMULATE.coverage(SIMULATE.SETTINGS[name], 3)
        assert all(0 <= share <= 1 and width > 0 for share, width in found.values())
    assert set(SIMULATE.rejections(0.5, False, 2)) == set(SIMULATE.RANKING)
