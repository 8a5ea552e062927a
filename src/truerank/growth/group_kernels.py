"""Kernels over tie groups: what mates contribute in each, in random order, and without a fold.

What the j-th of R mates contributes with b others before it is a record: the terms for all mates,
each at all sizes, and, of the first and the last mate, the terms for these alone (0 for a term of
the other end). Records are found by (b, j) in a table of slots. All kernels but the first two begin
with the law (M, m at each size, R), the terms, and the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.growth.kernels import FIRST, LAST, NOTHING, fill_row
from truerank.jit import kernel

__all__ = [
    "ask",
    "contributions",
    "fill",
    "leaving",
    "mixtures",
    "moved_places",
    "moves",
    "rehash",
    "sums_of_mates",
]


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
