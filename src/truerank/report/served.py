"""The classes that each threshold serves worst, as choose_threshold judges them.

Without a gallery a class is judged by its pairs; with one by its searches: the share of its queries
that do not find and accept their mate, or, where they have none, accept a stranger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.families.family import Positives
from truerank.task import TaskRules
from truerank.threshold.point import WORST, pair_rates

__all__ = ["by_pairs", "by_searches"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def by_pairs(
    task: TaskRules, positives: Positives, counts: Integers, cuts: Reals
) -> dict[str, Any] | None:
    """Worst classes by pairs; `counts` are the pairs of each class between two cuts."""
    code = task.query_codes[positives.query]
    place = np.searchsorted(cuts, positives.distance, side="left")
    true = np.zeros(counts.shape, np.int64)
    np.add.at(true, (code, place), 1)
    true = np.cumsum(true, axis=1)
    false = np.cumsum(counts, axis=1) - true
    genuine, impostors = true[:, -1], false[:, -1]
    judged = np.flatnonzero((genuine > 0) & (impostors > 0))
    utility = np.empty((len(cuts), len(judged)))
    for stop in range(len(cuts)):
        utility[stop] = pair_rates(
            true[judged, stop], genuine[judged], false[judged, stop], impostors[judged]
        )[2]
    return _worst("pairs", task, judged, utility, (true, false), (genuine, impostors))


def by_searches(
    task: TaskRules,
    with_mate: npt.NDArray[np.bool_],
    identified: Reals,
    nearest: Reals,
    cuts: Reals,
) -> dict[str, Any] | None:
    """Worst classes by searches: `identified` is where a query's mate is found and accepted."""
    codes = task.query_codes
    classes = len(task.named_levels.finest.values)
    sides = []
    for counts, distance in ((with_mate, identified), (~with_mate, nearest)):
        table = np.zeros((classes, len(cuts) + 1), np.int64)
        np.add.at(table, (codes[counts], np.searchsorted(cuts, distance[counts])), 1)
        sides.append(np.cumsum(table, axis=1))
    searches, strangers = (side[:, -1] for side in sides)
    missed, accepted = searches[:, None] - sides[0], sides[1]
    judged = np.unique(codes)
    utility = np.empty((len(cuts), len(judged)))
    for stop in range(len(cuts)):
        rates = [
            np.divide(errors[judged, stop], trials[judged], out=np.zeros(len(judged)),
                      where=trials[judged] > 0)
            for errors, trials in ((missed, searches), (accepted, strangers))
        ]  # fmt: skip
        utility[stop] = 1 - np.maximum(*rates)
    return _worst("searches", task, judged, utility, (missed, accepted), (searches, strangers))


def _worst(
    kind: str,
    task: TaskRules,
    judged: Integers,
    utility: Reals,
    counts: tuple[Integers, Integers],
    trials: tuple[Integers, Integers],
) -> dict[str, Any] | None:
    """The few classes of lowest utility at each stop, as text: a place in `labels`, two counts."""
    if not len(judged):
        return None
    chosen = [judged[np.lexsort((judged, row))[:WORST]] for row in utility]
    named = np.unique(np.concatenate(chosen))
    names = task.named_levels.finest.values
    middle = int(np.ceil(0.5 * (len(judged) - 1)))
    return {
        "kind": kind,
        "classes": len(judged),
        "labels": [str(names[code]) for code in named.tolist()],
        "trials": [[int(side[code]) for side in trials] for code in named.tolist()],
        "worst": [
            ";".join(f"{place} {first} {second}" for place, first, second in zip(
                np.searchsorted(named, some), *(side[some, stop] for side in counts), strict=True
            ))
            for stop, some in enumerate(chosen)
        ],
        "median": np.sort(utility, axis=1)[:, middle].tolist(),
    }  # fmt: skip
