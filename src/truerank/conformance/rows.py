"""Embeddings whose similarities are exact in every precision: rows of length 1 in short fractions.

Every component is a whole number over 4 (16, 64 where there are more rows), every row has length 1,
and every inner product is a multiple of the square of that: cosine, inner product and euclidean
distance rank alike and tie alike in float32, however they are computed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from truerank.conformance.cases import Case, of_rows

__all__ = ["drawn", "shuffled"]

DIMENSIONS = 8
TRIES = 20_000


def drawn(
    name: str,
    topic: str,
    labels: Sequence[float],
    wanted: Callable[[Case], bool],
    *,
    repeat: Sequence[tuple[int, int]] = (),
) -> Case:
    """The first case of a seeded sequence that is as wanted; `repeat` makes rows equal."""
    draw = random.Random(name)
    denominator = 4 if len(labels) <= 6 else 16 if len(labels) <= 12 else 64
    for _ in range(TRIES):
        rows = [_unit(draw, denominator) for _ in labels]
        for place, like in repeat:
            rows[place] = rows[like]
        case = of_rows(name, topic, rows, labels, denominator)
        if wanted(case):
            return case
    raise RuntimeError(f"no rows for the case {name!r}")


def shuffled(case: Case, seed: int, arrangement: str) -> Case:
    """The same rows in another order."""
    order = list(range(len(case.rows)))
    random.Random(seed).shuffle(order)
    return of_rows(
        case.name,
        case.topic,
        [case.rows[place] for place in order],
        [case.labels[place] for place in order],
        case.denominator,
        arrangement,
    )


def _unit(draw: random.Random, denominator: int) -> list[int]:
    """Whole numbers whose squares add up to the denominator's square."""
    ends = 1 if denominator <= 16 else 2  # few large numbers are squares, many the sum of two
    while True:
        row: list[int] = []
        left = denominator**2
        for _ in range(DIMENSIONS - ends):
            most = math.isqrt(left)
            row.append(draw.randint(-most, most))
            left -= row[-1] ** 2
        most = math.isqrt(left)
        start = draw.randint(0, most) if ends == 2 else 0
        for first in (*range(start, most + 1), *range(start)) if ends == 2 else (0,):
            last = math.isqrt(left - first**2)
            if last**2 == left - first**2:
                row += [first, last][2 - ends :]
                draw.shuffle(row)
                return row
