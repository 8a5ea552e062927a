"""compare: results of several models on one task in, differences with their certainty out.

Models are paired over the same classes: the jackknife or bootstrap that gives a score its interval
gives the difference its own, and a test. Holm's correction covers every pair and metric; models
that it cannot tell apart share their ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from truerank.comparison.differences import Difference, correct, difference, method
from truerank.comparison.models import check_same_task, choose_metrics, read_model
from truerank.comparison.naming import name_models
from truerank.comparison.shown import Comparison
from truerank.comparison.standings import Standing, stand
from truerank.errors import InputError
from truerank.stats.intervals import IntervalRequest

__all__ = ["Comparison", "Difference", "Standing", "compare"]


def compare(
    *results: Any,
    names: Iterable[str] | None = None,
    metrics: Iterable[str] | str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Which of several models is better, and how sure that is.

    Parameters
    ----------
    *results : Result, path of a result's JSON file, or list of these
        One for each model; a list holds runs of one model that differ in their seed.
    names : iterable of str, optional
        Of the models; otherwise what tells their files apart, or model 1, model 2, ...
    metrics : strings, optional
        By default all that every result has. Fewer metrics, fewer tests to correct for.
    confidence : float
        Of the intervals; 1 - confidence is the level of the tests.
    seed : int
        Of the bootstrap, for results with a gallery of their own.

    Returns
    -------
    Comparison
        Standings with the ranks left open, and all differences; it prints as a table.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(40), 5)
    >>> centres, noise = rng.standard_normal((40, 16)), rng.standard_normal((200, 16))
    >>> good, poor = (truerank.evaluate(centres[y] + s * noise, y) for s in (1.0, 2.0))
    >>> found = truerank.compare(good, poor, names=["good", "poor"], metrics="map@r")
    >>> [(row.model, row.ranks) for row in found.standings]
    [('good', (1, 1)), ('poor', (2, 2))]
    """
    request = IntervalRequest.of(confidence, seed)
    if request is None:
        raise InputError("The 'confidence' parameter of compare must be a number. Got None.")
    models = [read_model(result) for result in results]
    if len(models) < 2:
        raise InputError(f"compare takes at least two results. Got {len(models)}.")
    labels = name_models(results, names)
    check_same_task(models, labels)
    chosen, skipped = choose_metrics(models, labels, metrics)
    differences = correct(
        [
            difference(metric, models, labels, a, b, request)
            for metric in chosen
            for a, b in combinations(range(len(models)), 2)
        ]
    )
    standings = [
        standing
        for metric in chosen
        for standing in stand(metric, models, labels, differences, request)
    ]
    return Comparison(standings, differences, request.confidence, method(models), skipped)
