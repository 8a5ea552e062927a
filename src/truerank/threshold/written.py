"""The threshold as it is written into a program: a short decimal with room on both sides.

Ordinary floating point errs in the last digits, so that a threshold at the very distance of the
last accepted pair may reject it. A decimal between the last accepted and the first rejected
distance, with a margin to both, accepts and rejects the same pairs in any arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from truerank.engine import resolve_device, sweep
from truerank.engine.cuts import largest_float
from truerank.engine.observers import Collector
from truerank.space import Distances, Space, catalogue
from truerank.task import TaskRules

__all__ = ["MARGIN", "WrittenThreshold", "write", "write_between"]

MARGIN = Fraction(1, 10**7)
"""What float64 code may err by; of thresholds above 1, this share of them."""
REACH = 10
"""Margins around the threshold in which pairs are looked for."""
MOST_DIGITS = 17


@dataclass(frozen=True)
class WrittenThreshold:
    """A decimal to compare distances with."""

    text: str
    within: int
    """Pairs that lie within the margin of it, which other arithmetic may decide differently."""


def write(
    task: TaskRules, space: Space, threshold: float, options: Mapping[str, Any]
) -> WrittenThreshold:
    """A decimal between the last accepted pair, at the threshold, and the first rejected one."""

    def around(low: Fraction, high: Fraction) -> Distances:
        ends = largest_float(space.raw(low)), largest_float(space.raw(high))
        collector = Collector([ends])
        device = resolve_device(options["device"])
        sweep(task.view, space, [collector], device=device, threads=options["threads"])
        return collector.distances(0, *ends)

    times = 2 if task.leave_one_out else 1  # every pair is seen from both of its rows
    return write_between(space, threshold, around, times)


def write_between(
    space: Space,
    threshold: float,
    around: Callable[[Fraction, Fraction], Distances],
    times: int = 1,
) -> WrittenThreshold:
    """A decimal between pairs, which `around` lists in ascending order between two thresholds in
    the user's unit, the nearer one first; each stands there so many times."""
    turn = -1 if catalogue.find(space.facts.distance).larger_is_nearer else 1
    last = turn * Fraction(threshold)
    margin = MARGIN * max(Fraction(1), abs(last))
    reach = REACH * margin
    pairs = turn * space.in_unit(around(turn * (last - reach), turn * (last + reach)))
    rejected = pairs[pairs > float(last)]
    first = Fraction(float(rejected[0])) if len(rejected) else last + reach
    if first - last >= 2 * margin:
        chosen = _shortest(last + margin, first - margin)
    else:
        chosen = _shortest(last, first)
    near = np.abs(pairs - float(chosen)) < float(margin)
    return WrittenThreshold(f"{turn * chosen:f}", -(-int(np.count_nonzero(near)) // times))


def _shortest(low: Fraction, high: Fraction) -> Decimal:
    """The number of fewest decimals from low to high, and of those the one nearest their middle."""
    middle = (low + high) / 2
    for digits in range(MOST_DIGITS):
        whole = round(middle * 10**digits)
        if low * 10**digits <= whole <= high * 10**digits:
            return Decimal(whole).scaleb(-digits)
    return Decimal(float(low))
