"""The utility of the classes over the thresholds of the calibration range, as a curve.

Its mean over the classes and how far they lie apart; and single classes, those served worst and
best, or all of them where they are few.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.metric import Metric
from truerank.families.opis.classes import ClassTable
from truerank.families.opis.collect import CountedClasses
from truerank.families.opis.scores import class_mean, class_utility, measured
from truerank.families.opis.utilities import Utilities
from truerank.space import Distances

__all__ = ["CLASS", "utility_curve"]

Integers = npt.NDArray[np.int64]
POINTS = 100
SINGLE = 12
"""Classes served worst, and as many served best, that have a column of their own."""
CLASS = "class "
"""How the names of their columns begin."""
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def utility_curve(family: CountedClasses, metric: Metric) -> Curve | None:
    """The curve of the utility that a metric compares; None where it is not defined."""
    found = measured(family, metric)
    if found is None:
        return None
    (low, high), seen = found
    if seen.events is not None:
        table = _from_events(family, seen, np.linspace(low, high, POINTS + 1))
    else:
        first, last = seen.columns
        columns = np.unique(np.linspace(first, last, POINTS + 1).astype(np.int64))
        table = replace(
            seen.table,
            cuts=np.clip(seen.table.cuts[columns], low, high),
            positives=seen.table.positives[:, columns],
            negatives=seen.table.negatives[:, columns],
        )
    utility = class_utility(
        table.positives.astype(np.float64),
        table.negatives.astype(np.float64),
        table.genuine[:, None].astype(np.float64),
        table.impostors[:, None].astype(np.float64),
        family.formula(metric),
    )
    ranked = np.lexsort((table.classes, seen.areas.mean(axis=0)))
    if len(ranked) > 2 * SINGLE:
        ranked = np.append(ranked[:SINGLE], ranked[-SINGLE:])
    names = family.context.task.named_levels.finest.values
    ordered = np.sort(utility, axis=0)
    places = {name: int(share * (len(ordered) - 1) + 0.5) for name, share in QUANTILES.items()}
    return Curve(
        "utility",
        {
            "threshold": family.context.space.in_unit(table.cuts),
            "mean": class_mean(utility),
            **{name: ordered[place] for name, place in places.items()},
            **{f"{CLASS}{names[table.classes[i]]}": utility[i] for i in ranked},
        },
    )


def _from_events(family: CountedClasses, seen: Utilities, cuts: Distances) -> ClassTable:
    """Counts of the classes at some distances of the range, from every step of their counts."""
    assert seen.events is not None
    code, place, positive = seen.events
    space, tables = family.context.space, []
    cell = np.searchsorted(space.linear(cuts), place, side="left")
    for start, flags in zip(seen.start, (positive, ~positive), strict=True):
        steps: Integers = np.zeros((len(start), len(cuts) + 1), np.int64)
        np.add.at(steps, (code[flags], cell[flags]), 1)
        tables.append(start[:, None] + np.cumsum(steps[:, :-1], axis=1))
    return replace(seen.table, cuts=cuts, positives=tables[0], negatives=tables[1])
