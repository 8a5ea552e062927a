"""Whether two metrics order models alike: rank correlation with an interval over seeds and classes.

Also what MFR becomes when distances are rescaled, from its curve alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.replicates import Replicates
from truerank.result import Result

__all__ = ["Column", "correlation", "correlation_interval", "rescaled_false_rate"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Runs = Mapping[str, Sequence[Result]]
DRAWS = 2000


class Column:
    """One metric of some models: a value for each seed, and how classes move the mean.

    Parameters
    ----------
    values : (models, seeds) array
    moves : (models, folds) array, optional
        The mean over seeds without each fold of the test classes.
    """

    def __init__(self, values: Reals, moves: Reals | None) -> None:
        self.values, self.moves = values, moves

    @staticmethod
    def of(runs: Runs, metric: str) -> Column:
        """A metric of each model's runs."""
        values = np.array([[run[metric].value for run in some] for some in runs.values()])
        kept = [[run[metric].replicates for run in some] for some in runs.values()]
        if any(one is None for some in kept for one in some):
            return Column(values, None)
        means = [Replicates.mean([one for one in some if one is not None]) for some in kept]
        return Column(values, np.array([mean.values for mean in means]))

    @property
    def means(self) -> Reals:
        """The mean of each model."""
        return np.asarray(self.values.mean(axis=1))

    def drawn(self, seeds: Integers, folds: Integers | None) -> Reals:
        """(draws, models): means for drawn seeds of each model and drawn folds of the classes.

        A fold's pseudo-value is k times the mean less k - 1 times the mean without it.
        """
        means = np.take_along_axis(self.values[None], seeds, axis=2).mean(axis=2)
        if self.moves is not None and folds is not None:
            count = self.moves.shape[1]
            whole = self.values.mean(axis=1, keepdims=True)
            pseudo = count * whole - (count - 1) * self.moves
            means = means + pseudo[:, folds].mean(axis=2).T - pseudo.mean(axis=1)
        return np.asarray(means)


def _ranks(values: Reals) -> Reals:
    """Ranks along the last axis, from 0, the mean rank where values are equal."""
    below = (values[..., :, None] > values[..., None, :]).sum(axis=-1)
    equal = (values[..., :, None] == values[..., None, :]).sum(axis=-1)
    return np.asarray(below + (equal - 1) / 2)


def _correlations(a: Reals, b: Reals) -> Reals:
    """Spearman's rank correlation along the last axis; NaN where all are equal."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    below = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(below > 0, (x * y).sum(axis=-1) / below, np.nan))


def correlation(a: Reals, b: Reals) -> float:
    """Spearman's rank correlation; NaN where all are equal."""
    return float(_correlations(a, b))


def correlation_interval(
    a: Column, b: Column, *, seed: int = 0
) -> tuple[float, tuple[float, float] | None]:
    """The correlation of the means, and its 95 % interval over draws of seeds and classes."""
    value = correlation(a.means, b.means)
    if math.isnan(value):
        return value, None
    rng = np.random.default_rng([2020, seed])
    seeds = rng.integers(a.values.shape[1], size=(DRAWS, *a.values.shape))
    folds = None
    if a.moves is not None and b.moves is not None and a.moves.shape == b.moves.shape:
        folds = rng.integers(a.moves.shape[1], size=(DRAWS, a.moves.shape[1]))
    found = _correlations(a.drawn(seeds, folds), b.drawn(seeds, folds))
    found = found[~np.isnan(found)]
    if len(found) < DRAWS // 2:
        return value, None
    low, high = np.quantile(found, [0.025, 0.975])
    return value, (float(low), float(high))


def rescaled_false_rate(curve: Mapping[str, Any], power: float) -> tuple[float, float]:
    """MFR of the distances to a power: its lower and upper bound from the curve over tau.

    mFR rises with tau, so that on each cell it lies between its values at the ends.
    """
    tau, rate = np.asarray(curve["tau"]), np.asarray(curve["value"])
    steps = np.diff(tau**power)
    return float((steps * rate[:-1]).sum()), float((steps * rate[1:]).sum())
