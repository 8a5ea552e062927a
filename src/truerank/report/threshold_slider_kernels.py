"""Kernel of the threshold slider: sums over queries, exact for any order of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel

LIMBS = 3
"""A value in [0, 1] is so many integers of 32 bits behind the point: nothing of it is rounded."""


@kernel
def _add(value: float, out: Any) -> None:
    for limb in range(LIMBS):
        value *= 4294967296.0
        whole = int(value)
        out[limb] += whole
        value -= whole


@kernel
def add_shares(
    offsets: Any,
    distance: Any,
    sums: Any,
    found: Any,
    accepted: Any,
    cuts: Any,
    bucket: Any,
    out: Any,
) -> None:
    """out[bucket of the query, cut] += its VP and its lower ReP there, in limbs."""
    for q in range(offsets.size - 1):
        first = offsets[q]
        stop = offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        behind = first
        for k in range(cuts.size):
            while behind < stop and distance[behind] <= cuts[k]:
                behind += 1
            if behind == first:
                continue
            true = found[behind - 1]
            share = true / (mates + accepted[q, k] - true)
            precision = sums[0, behind - 1] / true
            _add(share, out[bucket[q], k, 0])
            _add(np.sqrt(precision * share), out[bucket[q], k, 1])
