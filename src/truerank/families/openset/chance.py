"""Chance in an open set: what scores that are drawn at random, whatever the input, get.

The candidates of a query come in one after the other as if at constant rates; an impostor is
accepted at its first candidate. So whether a target's i-th candidate comes before the threshold is
a race between its candidates and those of the impostors, of which the order alone matters.
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import kernel

__all__ = ["accepted_target", "identified_target"]

Reals = npt.NDArray[np.float64]


def accepted_target(candidates: int, impostors: int, allowed: int) -> float:
    """Probability that a target has any candidate accepted, when `allowed` impostors have."""
    return float(_in_time(candidates, impostors, allowed, 1)[0])


def identified_target(
    candidates: int, relevant: int, impostors: int, allowed: int, rank: int
) -> float:
    """Probability that the first relevant candidate is accepted, and among the first `rank`."""
    last = min(rank, candidates - relevant + 1)
    parts, none_yet = [], 1.0
    for before, early in enumerate(_in_time(candidates, impostors, allowed, last).tolist()):
        first = relevant / (candidates - before)
        parts.append(none_yet * first * early)
        none_yet *= 1.0 - first
    return fsum(parts)


def _in_time(candidates: int, impostors: int, allowed: int, count: int) -> Reals:
    """Probabilities, for i = 1 to count, that candidate i comes before impostor `allowed` + 1."""
    out = np.ones(count)
    if allowed < impostors:  # otherwise everything is accepted
        _race(float(candidates), impostors, allowed, out)
    return out


@kernel
def _race(candidates: float, impostors: int, allowed: int, out: Any) -> None:
    """Run the race of _in_time; each impostor has as many candidates as the target."""
    ahead = np.zeros(allowed + 1)  # impostors accepted when the latest candidate came
    ahead[0] = 1.0
    for number in range(out.size):
        waiting = candidates - number
        total = 0.0
        carried = 0.0
        for accepted in range(allowed + 1):
            carried += ahead[accepted]
            rivals = (impostors - accepted) * candidates
            ours = waiting / (waiting + rivals)
            ahead[accepted] = carried * ours
            carried -= ahead[accepted]
            total += ahead[accepted]
        out[number] = total
