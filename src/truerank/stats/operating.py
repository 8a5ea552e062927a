"""Intervals of the rates at a threshold, over the classes that happened to be tested."""

from __future__ import annotations

from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from truerank.stats.intervals import ends
from truerank.stats.student import quantile

__all__ = ["mean_interval", "rate_interval"]

Integers = npt.NDArray[np.int64]
ONE = 2.0**30
"""Values are summed in units of 2^-30: the order of rows cannot show."""


def rate_interval(
    errors: Integers, trials: Integers, *, shared: bool, confidence: float = 0.95
) -> tuple[float, float] | None:
    """The interval of sum(errors)/sum(trials), where classes are what could have been others.

    With `shared`, each trial stands in two classes (a pair of different classes), once in the
    counts of either. The rate is then a U-statistic of degree two over classes, and its jackknife
    variance is that of class sums with every deviation counted double; it errs on the wide side.
    It is taken on the log-odds scale, so that it stays between 0 and 1; None where there are no
    errors, or nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = rate_interval(np.array([2, 1, 3, 2] * 5), np.array([50] * 20), shared=False)
    >>> round(low, 3), round(high, 3)
    (0.034, 0.047)
    """
    total = int(trials.sum())
    rate = int(errors.sum()) / total
    classes = len(trials)
    if not 0 < rate < 1 or classes < 2:
        return None
    deviation = (errors - rate * trials) * (2.0 if shared else 1.0)
    error = sqrt(fsum((deviation**2).tolist()) * classes / (classes - 1)) / total
    return ends(rate, error, quantile(confidence, classes - 1), (0.0, 1.0), steep=True)


def mean_interval(values: npt.NDArray[np.float64], codes: Integers) -> tuple[float, float] | None:
    """The 95 % interval of a mean over queries (NaN: does not count) that come in classes.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = mean_interval(np.array([0.2, 0.4, 0.3, 0.5] * 5), np.arange(20) // 2)
    >>> round(low, 3), round(high, 3)
    (0.313, 0.389)
    """
    held = ~np.isnan(values)
    classes, number = np.unique(codes[held], return_inverse=True)
    sums = np.zeros(len(classes), np.int64)
    np.add.at(sums, number, np.rint(values[held] * ONE).astype(np.int64))
    counts = np.bincount(number, minlength=len(classes))
    return rate_interval(sums, (counts * ONE).astype(np.int64), shared=False)
