"""Sums over hypergeometric laws: what one mate contributes to a metric, on average.

X is how many of the b others before a mate are among m drawn of all M. Probabilities come by their
ratios from the mode on, in both directions until nothing is left that could be seen: no logarithm,
no gamma function, so that every machine gives the same bits. What the j-th of R mates contributes
at b is the same number wherever it is computed, in a table's row or alone.

A row has the contributions of mates 1 to R to each term for all mates, mate by mate, and then those
of the first or the last mate to the terms for these alone.
"""

from __future__ import annotations

from typing import Any

from truerank.jit import kernel

__all__ = [
    "ALL",
    "BEFORE",
    "FIRST",
    "FOUND",
    "LAST",
    "NOTHING",
    "PRECISION",
    "fill_row",
    "window_length",
]

PRECISION, FOUND, BEFORE = 0, 1, 2
"""Terms: E[j/(j + X); j + X <= cut], P(j + X <= cut) and E[min(X, cut)]."""
ALL, FIRST, LAST = 0, 1, 2
"""Which mates contribute to a term."""
NOTHING = 1e-20
"""Probabilities below this share of the mode's are not looked at."""
CERTAIN = 92.0
"""P(X <= mean - t) <= exp(-t^2 / (2 mean)), which is below 1e-20 once t^2 > 92 mean."""
MANY = 46.0
"""With so many drawn others before a mate on average, P(X = 0) is below 1e-20."""
BLOCK = 16
"""Mates whose numbers follow from one another."""
ROUNDED = 4.0
MOST_ROUNDED = 1024.0
"""Roundings, in units of 2^-53, that a sum has, and that a contribution may have."""


def window_length(others: int) -> int:
    """More than the numbers of drawn others that can be told from impossible ones.

    Their variance is at most M/16, and ten standard deviations on either side are enough; where few
    are drawn, they are spread as if by Poisson's law.
    """
    return 128 + 5 * (int(others**0.5) + 1)


@kernel
def _window(others: int, before: int, drawn: int, weight: Any, sums: Any) -> tuple[int, int]:
    """P(X = x), and their sums, for x from the first number returned on; the second number is how
    many there are."""
    low = max(0, drawn - (others - before))
    high = min(before, drawn)
    mode = int(float(drawn + 1) * float(before + 1) / float(others + 2))
    mode = min(max(mode, low), high)
    rest = float(others - before - drawn)
    room = weight.size
    first = mode
    value = 1.0
    place = room - 1
    weight[place] = 1.0
    while first > low and place > 0:  # down from the mode, at the far end of the array
        x = float(first)
        value *= x * (rest + x) / ((before - x + 1.0) * (drawn - x + 1.0))
        if value < NOTHING:
            break
        first -= 1
        place -= 1
        weight[place] = value
    count = room - place
    total = 0.0
    for i in range(count):
        weight[i] = weight[place + i]
        total += weight[i]
        sums[i] = total
    last = mode
    value = 1.0
    while last < high and count < room:
        x = float(last)
        value *= (before - x) * (drawn - x) / ((x + 1.0) * (rest + x + 1.0))
        if value < NOTHING:
            break
        last += 1
        weight[count] = value
        total += value
        sums[count] = total
        count += 1
    for i in range(count):
        weight[i] /= total
        sums[i] /= total
    return first, count


@kernel
def _over_rank(rank: float, count: int, weight: Any) -> float:
    """Sum of weight[i] / (rank + i), in four sums side by side."""
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    i = 0
    while i + 3 < count:
        a += weight[i] / (rank + i)
        b += weight[i + 1] / (rank + i + 1.0)
        c += weight[i + 2] / (rank + i + 2.0)
        d += weight[i + 3] / (rank + i + 3.0)
        i += 4
    while i < count:
        a += weight[i] / (rank + i)
        i += 1
    return (a + b) + (c + d)


@kernel
def _capped(first: int, count: int, cut: int, weight: Any) -> float:
    """Sum of weight[i] min(first + i, cut)."""
    total = 0.0
    for i in range(count):
        total += weight[i] * min(float(first + i), float(cut))
    return total


@kernel
def _negligible(mean: float, most: float) -> bool:
    """Whether X <= most is too improbable to be seen."""
    away = mean - most
    return away > 0.0 and away * away > CERTAIN * mean


@kernel
def _certain(
    x: int,
    relevant: int,
    j_low: int,
    j_high: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    out: Any,
    at: int,
) -> None:
    """Contributions where X is one number for certain."""
    for j in range(j_low, j_high + 1):
        for k in range(what.size):
            if (which[k] == FIRST and j > 1) or (which[k] == LAST and j < relevant):
                continue
            inside = j + x <= cut[k]
            if what[k] == PRECISION:
                value = float(j) / float(j + x) if inside else 0.0
            elif what[k] == FOUND:
                value = 1.0 if inside else 0.0
            else:
                value = float(min(x, cut[k]))
            place = (j - 1) * every + k if which[k] == ALL else (relevant - 1) * every + k
            out[at + place] = value


@kernel
def _share(
    j: int, limit: int, most: int, mean: float, first: int, count: int, weight: Any
) -> float:
    """E[1/(j + X); X <= limit] as a sum, or for j = 1 as it was left at the end of the weights."""
    if limit == most and mean >= MANY and j == 1:
        return float(weight[weight.size - 1])
    inside = min(max(limit - first + 1, 0), count)
    return _over_rank(float(j + first), inside, weight)


@kernel
def _last_terms(
    limit: int, rank: float, before: int, drawn: int, first: int, count: int, weight: Any, sums: Any
) -> tuple[float, float, float]:
    """P(X <= y), P(X = y) (b - y)(m - y) / rank and P(X = y + 1) / rank for y the limit."""
    at = limit - first
    held = 0.0
    here = 0.0
    if at >= 0:
        held = sums[min(at, count - 1)]
        if at < count:
            here = weight[at] * (before - float(limit)) * (drawn - float(limit)) / rank
    after = weight[at + 1] / rank if 0 <= at + 1 < count else 0.0
    return held, here, after


@kernel
def _chained(
    others: int,
    before: int,
    drawn: int,
    mean: float,
    j_from: int,
    j_to: int,
    j_low: int,
    j_high: int,
    cut: int,
    first: int,
    count: int,
    weight: Any,
    sums: Any,
    out: Any,
    at: int,
    step: int,
) -> None:
    """E[j/(j + X); j + X <= cut] of j from j_from to j_to, up or down, kept from j_low to j_high:
    that of j in out[at + j step].

    F_j = E[1/(j + X); X <= y] is the integral of t^(j-1) G(t), G the sum of P(X = x) t^x up to y.
    G solves the differential equation of the hypergeometric function but for its last term, so that
    partial integration gives, with one y,
    (j + b)(j + m) F_j + (j - 1)(M - b - m - j + 1) F_(j-1)
    = (M + 1) P(X <= y) + P(X = y) (b - y)(m - y) / (j + y).
    The roundings are counted; where they have become too many, the sum itself is taken.
    """
    most = min(before, drawn)
    whole = float(others + 1)
    value = 0.0
    rounded = 0.0
    down = j_to < j_from
    for n in range(abs(j_to - j_from) + 1):
        j = j_from - n if down else j_from + n
        limit = min(cut - j, most)
        if limit < 0 or _negligible(mean, float(limit)):
            value = 0.0
            rounded = ROUNDED
            if j_low <= j <= j_high:
                out[at + j * step] = 0.0
            continue
        fresh = n == 0
        if not fresh:
            upper = j + 1 if down else j  # the larger number of the step
            left = (upper - 1.0) * float(others - before - drawn - upper + 1)
            scale = float(upper + before) * float(upper + drawn)
            own, other = (left, scale) if down else (scale, left)
            rounded = abs(other / own) * rounded + abs(whole / own) + ROUNDED
            fresh = not rounded * j <= MOST_ROUNDED
            if not fresh:
                y = cut - upper
                if y >= most:
                    value = (whole - other * value) / own
                else:
                    held, here, after = _last_terms(
                        y, float(cut), before, drawn, first, count, weight, sums
                    )
                    if down:
                        value = (whole * held - other * value + here) / own + after
                    else:
                        value = (whole * held - other * (value - after) + here) / own
                    value = max(value, 0.0)
        if fresh:
            value = _share(j, limit, most, mean, first, count, weight)
            rounded = ROUNDED
        if j_low <= j <= j_high:
            out[at + j * step] = j * value


@kernel
def fill_row(
    others: int,
    before: int,
    drawn: int,
    relevant: int,
    j_low: int,
    j_high: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    weight: Any,
    sums: Any,
    out: Any,
    at: int,
) -> None:
    """What mates number j_low to j_high contribute with so many others before each of them, in the
    row of `out` that begins at `at`.

    Numbers up to the mean of X are reached from 1 on, where errors shrink; others in blocks, from
    the end at which they do. So a mate's number does not depend on which others are asked for.
    """
    if before == 0 or drawn == 0 or drawn == others:
        x = 0 if before == 0 or drawn == 0 else before
        _certain(x, relevant, j_low, j_high, what, cut, which, every, out, at)
        return
    mean = float(before) * float(drawn) / float(others)
    most = min(before, drawn)
    apart = BLOCK * int(mean / BLOCK) if mean >= MANY else 0
    first = 0
    count = 0
    for k in range(what.size):  # is there anything that takes the probabilities themselves?
        low = relevant if which[k] == LAST else j_low
        high = 1 if which[k] == FIRST else j_high
        if low > high:
            continue
        limit = min(cut[k] - (0 if what[k] == BEFORE else low), most)
        ends = min(cut[k] - (0 if what[k] == BEFORE else high), most)
        if limit < 0 or _negligible(mean, float(limit)):
            continue  # so is all that follows
        closed = what[k] == FOUND or (what[k] == PRECISION and mean >= MANY and high <= apart)
        closed = closed or (what[k] == PRECISION and mean >= MANY and high == 1)
        if ends < most or not closed:
            first, count = _window(others, before, drawn, weight, sums)
            break
    weight[weight.size - 1] = float(others + 1) / (float(before + 1) * float(drawn + 1))
    for k in range(what.size):
        low = relevant if which[k] == LAST else j_low
        high = 1 if which[k] == FIRST else j_high
        if low > high:
            continue
        step = every if which[k] == ALL else 0
        place = at + k - every if which[k] == ALL else at + (relevant - 1) * every + k
        if what[k] == PRECISION:
            if low <= apart:
                to = min(high, apart)
                _chained(
                    others, before, drawn, mean, 1, to, low, to, cut[k], first, count, weight,
                    sums, out, place, step,
                )  # fmt: skip
            block = max(low - 1, apart) // BLOCK
            while block * BLOCK < high:
                start = block * BLOCK + 1
                middle = start + BLOCK // 2
                left = (middle - 1.0) * abs(float(others - before - drawn - middle + 1))
                up = left < float(middle + before) * float(middle + drawn)
                end = start + BLOCK - 1
                _chained(
                    others, before, drawn, mean, start if up else end,
                    min(end, high) if up else max(start, low), max(start, low), min(end, high),
                    cut[k], first, count, weight, sums, out, place, step,
                )  # fmt: skip
                block += 1
            continue
        for j in range(low, high + 1):
            limit = min(cut[k] - (0 if what[k] == BEFORE else j), most)
            if limit < 0 or _negligible(mean, float(limit)):
                value = float(cut[k]) if what[k] == BEFORE else 0.0
            elif what[k] == BEFORE:
                value = _capped(first, count, cut[k], weight)
            elif limit == most:
                value = 1.0
            else:
                inside = min(limit - first + 1, count)
                value = sums[inside - 1] if inside > 0 else 0.0
            out[place + j * step] = value
