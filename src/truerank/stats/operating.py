"""Intervals of error rates at a fixed threshold, over the classes that happened to be tested."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = ["rate_interval"]

Integers = npt.NDArray[np.int64]


def rate_interval(
    errors: Integers, trials: Integers, *, shared: bool, confidence: float = 0.95
) -> tuple[float, float] | None:
    """The interval of sum(errors)/sum(trials), where classes are what could have been others.

    With `shared`, each trial stands in two classes (a pair of different classes), once in the
    counts of either. The rate is then a U-statistic of degree two over classes, and its jackknife
    variance is that of class sums with every deviation counted double. On the log-odds scale, so
    that it stays between 0 and 1; None where there are no errors, or nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = rate_interval(np.array([2, 1, 3, 2]), np.array([50] * 4), shared=False)
    >>> round(low, 3), round(high, 3)
    (0.027, 0.059)
    """
    total = int(trials.sum())
    rate = int(errors.sum()) / total
    classes = len(trials)
    if not 0 < rate < 1 or classes < 2:
        return None
    deviation = (errors - rate * trials) * (2.0 if shared else 1.0)
    error = float(np.sqrt((deviation**2).sum() * classes / (classes - 1))) / total
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error / (rate * (1 - rate))
    centre = log(rate / (1 - rate))
    low, high = (1 / (1 + exp(-(centre + sign * reach))) for sign in (-1, 1))
    return low, high
