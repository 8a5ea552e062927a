"""Kernels of ranking metrics in smaller galleries: hypergeometric sums per relevant item.

X is how many of the b irrelevant items before a relevant one are among m drawn of all M.
Probabilities follow by their ratios from the mode on, in both directions until they are
negligible: no logarithm, no gamma function, so every machine gives the same bits. What the j-th
of R relevant items contributes with b others before it is a record (the terms at all sizes),
found by (b, j) in a table of slots. Other kernels add records up over tie groups, in random
order, and without each jackknife group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel

# Sums over hypergeometric laws: what one mate contributes to a metric, on average.
#
# X is how many of the b others before a mate are among m drawn of all M. Probabilities come by
# their ratios from the mode on, in both directions until nothing is left that could be seen: no
# logarithm, no gamma function, so that every machine gives the same bits. What the j-th of R
# mates contributes at b is the same number wherever it is computed, in a table's row or alone.
#
# A row has the contributions of mates 1 to R to each term for all mates, mate by mate, and then
# those of the first or the last mate to the terms for these alone.


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


# Kernels over tie groups: what mates contribute in each, in random order, and without a fold.


@kernel
def _slot(slots: Any, relevant: int, before: int, j: int) -> int:
    """The slot that holds a record's place, or else the empty one in which it is to be noted."""
    mask = slots.shape[0] - 1
    key = before * (relevant + 1) + j
    at = (before * 40503 + j * 30011) & mask
    while slots[at, 0] != key and slots[at, 0] >= 0:
        at = (at + 1) & mask
    return int(at)


@kernel
def rehash(old: Any, slots: Any, relevant: int) -> None:
    """Note the records of smaller slots in larger ones."""
    for at in range(old.shape[0]):
        if old[at, 0] >= 0:
            before = old[at, 0] // (relevant + 1)
            new = _slot(slots, relevant, before, old[at, 0] % (relevant + 1))
            slots[new, 0] = old[at, 0]
            slots[new, 1] = old[at, 1]


@kernel
def ask(
    slots: Any,
    relevant: int,
    inner: int,
    outer: int,
    used: int,
    room: int,
    first: int,
    b_low: Any,
    b_high: Any,
    j_low: Any,
    j_high: Any,
    places: Any,
    out: Any,
) -> tuple[int, int, int]:
    """Note a place for each record of the boxes from `first` on that has none: (b, j, place) in
    `out`. Of the room, `used` numbers are taken; a record has `inner` numbers, or `outer`. Beyond
    the room there are no places. places[box]: that of a record of the box, -1 without one.

    Returns the box at which `out` ends, how many there are, and the numbers used.
    """
    asked = 0
    for box in range(first, b_low.size):
        for before in range(b_low[box], b_high[box] + 1):
            for j in range(j_low[box], j_high[box] + 1):
                at = _slot(slots, relevant, before, j)
                if slots[at, 0] >= 0:
                    places[box] = slots[at, 1]
                    continue
                length = outer if j == 1 or j == relevant else inner
                if used + length > room:
                    places[box] = -1
                    continue
                if asked == out.shape[0]:
                    return box, asked, used
                places[box] = used
                slots[at, 0] = before * (relevant + 1) + j
                slots[at, 1] = used
                out[asked, 0] = before
                out[asked, 1] = j
                out[asked, 2] = used
                asked += 1
                used += length
    return b_low.size, asked, used


@kernel
def fill(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    slots: Any,
    values: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    asked: Any,
) -> None:
    """Fill the records (b, j, place) that were asked for, in the order of b and j: those of one b
    share what they are made of."""
    sizes = drawn.size
    first = 0
    while first < asked.shape[0]:
        before = asked[first, 0]
        last = first
        while last + 1 < asked.shape[0] and asked[last + 1, 0] == before:
            last += 1
        for size in range(sizes):
            fill_row(
                others, before, drawn[size], relevant, asked[first, 1], asked[last, 1], what, cut,
                which, every, weight, sums, spare, 0,
            )  # fmt: skip
            for i in range(first, last + 1):
                at, j = asked[i, 2], asked[i, 1]
                _note(values, at, j, relevant, which, every, spare, size, sizes)
        first = last + 1


@kernel
def _note(
    values: Any,
    at: int,
    j: int,
    relevant: int,
    which: Any,
    every: int,
    row: Any,
    size: int,
    sizes: int,
) -> None:
    """Put the numbers of the j-th mate at one size into its record."""
    for k in range(every):
        values[at + k * sizes + size] = row[(j - 1) * every + k]
    if j == 1 or j == relevant:
        for k in range(every, which.size):
            mine = (which[k] == FIRST and j == 1) or (which[k] == LAST and j == relevant)
            values[at + k * sizes + size] = row[(relevant - 1) * every + k] if mine else 0.0


@kernel
def _make(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    before: int,
    j: int,
) -> None:
    """Make a record that has no place."""
    for size in range(drawn.size):
        fill_row(
            others, before, drawn[size], relevant, j, j, what, cut, which, every, weight, sums,
            spare, 0,
        )  # fmt: skip
        _note(alone, 0, j, relevant, which, every, spare, size, drawn.size)


@kernel
def _add(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    slots: Any,
    values: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    before: int,
    j_low: int,
    j_high: int,
    factor: float,
    total: Any,
    out: Any,
    row: int,
) -> None:
    """Add what mates j_low to j_high contribute, times a factor, to a row of `out`."""
    inner = every * drawn.size
    outer = which.size * drawn.size
    for i in range(inner):
        total[i] = 0.0
    for j in range(j_low, j_high + 1):
        slot = _slot(slots, relevant, before, j)
        at = slots[slot, 1]
        length = outer if j == 1 or j == relevant else inner
        if slots[slot, 0] >= 0:
            for i in range(length):
                alone[i] = values[at + i]
        else:
            _make(
                others, drawn, relevant, what, cut, which, every, weight, sums, spare, alone,
                before, j,
            )  # fmt: skip
        for i in range(inner):
            total[i] += alone[i]
        for i in range(inner, length):
            out[row, i] += factor * alone[i]
    for i in range(inner):
        out[row, i] += factor * total[i]


@kernel
def sums_of_mates(
    relevant: int, inner: int, offsets: Any, seen: Any, places: Any, values: Any, out: Any
) -> None:
    """`contributions` where no two mates tie and all records have their places, as mostly."""
    total = np.empty(out.shape[1])
    for q in range(offsets.size - 1):
        for i in range(total.size):
            total[i] = 0.0
        for g in range(offsets[q], offsets[q + 1]):
            at = places[g]
            for i in range(inner):
                total[i] += values[at + i]
            if seen[g] == 0 or seen[g] == relevant - 1:
                for i in range(inner, total.size):
                    total[i] += values[at + i]
        for i in range(total.size):
            out[q, i] = total[i]


@kernel
def contributions(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    slots: Any,
    values: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    offsets: Any,
    before: Any,
    seen: Any,
    mates: Any,
    number: Any,
    given: Any,
    total: Any,
    out: Any,
) -> None:
    """out[query, term and size]: what the mates of its groups contribute, all of a group behind
    `before` others and `seen` other mates; groups with a number contribute what is given."""
    outer = which.size * drawn.size
    for q in range(offsets.size - 1):
        for g in range(offsets[q], offsets[q + 1]):
            if number.size > 0 and number[g] >= 0:
                for i in range(outer):
                    out[q, i] += given[number[g], i]
                continue
            j = seen[g] + 1
            _add(
                others, drawn, relevant, what, cut, which, every, slots, values, weight, sums,
                spare, alone, before[g], j, seen[g] + mates[g], 1.0, total, out, q,
            )  # fmt: skip


@kernel
def _places(i: int, mates: int, tied: int, chance: Any) -> tuple[int, int]:
    """P(Y = y), how many of a group's other items come before its i-th mate, in chance[y], for y
    from the first number returned to the second.

    C(i-1+y, y) C(m-i+o-y, o-y) / C(m+o, o), by its ratios from near the largest on.
    """
    mode = 0
    if mates > 1:
        mode = int(float((i - 1) * tied + i - mates) / float(mates - 1)) + 1
        mode = min(max(mode, 0), tied)
    chance[mode] = 1.0
    value = 1.0
    last = mode
    total = 1.0
    while last < tied:
        y = float(last)
        value *= (i + y) * (tied - y) / ((y + 1.0) * (mates - i + tied - y))
        if value < NOTHING:
            break
        last += 1
        chance[last] = value
        total += value
    value = 1.0
    first = mode
    while first > 0:
        y = float(first - 1)
        value *= (y + 1.0) * (mates - i + tied - y) / ((i + y) * (tied - y))
        if value < NOTHING:
            break
        first -= 1
        chance[first] = value
        total += value
    for y in range(first, last + 1):
        chance[y] /= total
    return first, last


@kernel
def mixtures(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    slots: Any,
    values: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    before: Any,
    tied: Any,
    seen: Any,
    mates: Any,
    chance: Any,
    total: Any,
    out: Any,
) -> None:
    """What the mates of groups that hold `tied` others contribute in random order."""
    for g in range(before.size):
        for i in range(1, mates[g] + 1):
            first, last = _places(i, mates[g], tied[g], chance)
            j = seen[g] + i
            for y in range(first, last + 1):
                _add(
                    others, drawn, relevant, what, cut, which, every, slots, values, weight, sums,
                    spare, alone, before[g] + y, j, j, chance[y], total, out, g,
                )  # fmt: skip


@kernel
def leaving(
    between: Any,
    equal: Any,
    gone: Any,
    larger: Any,
    ways: int,
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    out: Any,
) -> None:
    """out[g, fold]: irrelevant items up to the end of each group that leave with each fold, which
    is made of the columns of the counts that `larger` puts into it; items are in `ways` columns."""
    for q in range(offsets.size - 1):
        mates = 0
        so_far = 0
        for g in range(offsets[q], offsets[q + 1]):
            if g > offsets[q]:
                for c in range(out.shape[1]):
                    out[g, c] = out[g - 1, c]
            mates += relevant[g]
            until = before[g] + size[g] - mates
            rest = ways * (until - so_far)
            so_far = until
            for c in range(larger.shape[0]):
                if rest == 0:
                    break
                taken = int(between[g, c]) + int(equal[g, c]) - int(gone[g, c])
                if taken == 0:  # as of most folds
                    continue
                rest -= taken
                for way in range(larger.shape[1]):
                    out[g, larger[c, way]] += taken


@kernel
def moved_places(before: Any, lost: Any, marked: Any, out: Any) -> int:
    """A group, out[0, i], and a number of others before it, out[1, i], all of them or without a
    fold; returns how many. `marked` has room for every number of others that a fold may take."""
    count = 0
    for g in range(before.size):
        marked[0] = 0
        for c in range(lost.shape[1]):
            gone = int(lost[g, c])
            if gone == 0:
                continue
            for with_fold in (1, 0):
                number = 0 if with_fold else gone
                if marked[number] != g + 1:
                    marked[number] = g + 1
                    out[0, count] = g
                    out[1, count] = before[g] - number
                    count += 1
    return count


@kernel
def moves(
    others: int,
    drawn: Any,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    slots: Any,
    values: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    alone: Any,
    before: Any,
    seen: Any,
    mates: Any,
    offsets: Any,
    lost: Any,
    places: Any,
    change: Any,
    marked: Any,
    total: Any,
    moved: Any,
    out: Any,
) -> None:
    """How contributions move where each fold takes lost[g, fold] of the others before a group.

    out[term and size, query, fold]. `places` are those of the records that `moved_places` lists.
    `change` and `marked` have room for every number of others that a fold may take; change[0] is
    for what there is with all of them. `moved` is a query's part.
    """
    outer = which.size * drawn.size
    listed = 0
    for query in range(offsets.size - 1):
        for c in range(lost.shape[1]):
            for i in range(outer):
                moved[c, i] = 0.0
        for g in range(offsets[query], offsets[query + 1]):
            j_low = seen[g] + 1
            j_high = seen[g] + mates[g]
            length = outer if j_low == 1 or j_high == relevant else every * drawn.size
            marked[0] = 0
            for c in range(lost.shape[1]):
                gone = int(lost[g, c])
                if gone == 0:
                    continue
                for with_fold in (1, 0):
                    number = 0 if with_fold else gone
                    if marked[number] == g + 1:
                        continue
                    marked[number] = g + 1
                    at = places[listed]
                    listed += 1
                    if mates[g] == 1 and at >= 0:  # as mostly
                        for i in range(length):
                            change[number, i] = values[at + i]
                    else:
                        for i in range(length):
                            change[number, i] = 0.0
                        _add(
                            others, drawn, relevant, what, cut, which, every, slots, values,
                            weight, sums, spare, alone, before[g] - number, j_low, j_high, 1.0,
                            total, change, number,
                        )  # fmt: skip
                    for i in range(length if number > 0 else 0):
                        change[number, i] -= change[0, i]
                for i in range(length):
                    moved[c, i] += change[gone, i]
        for i in range(outer):
            for c in range(lost.shape[1]):
                out[i, query, c] = moved[c, i]
