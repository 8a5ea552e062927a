"""Kernels over tie groups: what mates contribute in each, in random order, and without a fold.

They all begin with the law (M, m, R), the terms, and the table of rows that is filled on demand.
"""

from __future__ import annotations

from typing import Any

from truerank.growth.kernels import ALL, FIRST, LAST, NOTHING, fill_row
from truerank.jit import kernel

__all__ = ["contributions", "leaving", "mixtures", "moves"]


@kernel
def _row(
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
    known: Any,
    table: Any,
    weight: Any,
    sums: Any,
    spare: Any,
) -> tuple[bool, int]:
    """Where the row of so many others stands: in the table, which is filled on demand, or in
    `spare`, with the mates j_low to j_high alone."""
    if before < known.size:
        at = before * spare.size
        if known[before] == 0:
            fill_row(
                others, before, drawn, relevant, 1, relevant, what, cut, which, every, weight,
                sums, table, at,
            )  # fmt: skip
            known[before] = 1
        return True, at
    fill_row(
        others, before, drawn, relevant, j_low, j_high, what, cut, which, every, weight, sums,
        spare, 0,
    )  # fmt: skip
    return False, 0


@kernel
def _add(
    row: Any,
    at: int,
    relevant: int,
    j_low: int,
    j_high: int,
    which: Any,
    every: int,
    factor: float,
    out: Any,
    g: int,
) -> None:
    """Add the contributions of mates j_low to j_high, times a factor, to out[g]."""
    for k in range(which.size):
        if which[k] == ALL:
            total = 0.0
            for j in range(j_low, j_high + 1):
                total += row[at + (j - 1) * every + k]
            out[g, k] += factor * total
        elif (which[k] == FIRST and j_low == 1) or (which[k] == LAST and j_high == relevant):
            out[g, k] += factor * row[at + (relevant - 1) * every + k]


@kernel
def _add_mate(
    table: Any,
    before: int,
    width: int,
    relevant: int,
    j: int,
    which: Any,
    every: int,
    factor: float,
    out: Any,
    g: int,
) -> None:
    """_add of one mate from a row that the table has: most mates stand alone in their groups."""
    at = before * width + (j - 1) * every
    for k in range(every):
        out[g, k] += factor * table[at + k]
    if j == 1 or j == relevant:
        at = before * width + (relevant - 1) * every
        for k in range(every, which.size):
            if (which[k] == FIRST and j == 1) or (which[k] == LAST and j == relevant):
                out[g, k] += factor * table[at + k]


@kernel
def contributions(
    others: int,
    drawn: int,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    known: Any,
    table: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    owner: Any,
    before: Any,
    seen: Any,
    mates: Any,
    number: Any,
    given: Any,
    out: Any,
) -> None:
    """out[query, term]: what the mates of its groups contribute, all of a group behind `before`
    others and `seen` other mates; groups with a number contribute what is given.

    The groups come in the order of `before`, in which rows of the table lie one after the other;
    those of one query are in that order anyway.
    """
    for g in range(owner.size):
        q = owner[g]
        if number[g] >= 0:
            for k in range(which.size):
                out[q, k] += given[number[g], k]
            continue
        j_low = seen[g] + 1
        j_high = seen[g] + mates[g]
        if mates[g] == 1 and before[g] < known.size and known[before[g]] == 1:
            _add_mate(table, before[g], spare.size, relevant, j_low, which, every, 1.0, out, q)
            continue
        held, at = _row(
            others, before[g], drawn, relevant, j_low, j_high, what, cut, which, every, known,
            table, weight, sums, spare,
        )  # fmt: skip
        if held:
            _add(table, at, relevant, j_low, j_high, which, every, 1.0, out, q)
        else:
            _add(spare, at, relevant, j_low, j_high, which, every, 1.0, out, q)


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
    drawn: int,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    known: Any,
    table: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    before: Any,
    tied: Any,
    seen: Any,
    mates: Any,
    chance: Any,
    out: Any,
) -> None:
    """What the mates of groups that hold `tied` others contribute in random order."""
    for g in range(before.size):
        for k in range(which.size):
            out[g, k] = 0.0
        for i in range(1, mates[g] + 1):
            first, last = _places(i, mates[g], tied[g], chance)
            j = seen[g] + i
            for y in range(first, last + 1):
                b = before[g] + y
                if b < known.size and known[b] == 1:
                    _add_mate(table, b, spare.size, relevant, j, which, every, chance[y], out, g)
                    continue
                held, at = _row(
                    others, b, drawn, relevant, j, j, what, cut, which, every, known,
                    table, weight, sums, spare,
                )  # fmt: skip
                if held:
                    _add(table, at, relevant, j, j, which, every, chance[y], out, g)
                else:
                    _add(spare, at, relevant, j, j, which, every, chance[y], out, g)


@kernel
def leaving(between: Any, equal: Any, gone: Any, larger: Any, offsets: Any, out: Any) -> None:
    """out[g, fold]: irrelevant items up to the end of each group that leave with each fold, which
    is made of the columns of the counts that `larger` puts into it."""
    for q in range(offsets.size - 1):
        for g in range(offsets[q], offsets[q + 1]):
            if g > offsets[q]:
                for c in range(out.shape[1]):
                    out[g, c] = out[g - 1, c]
            for c in range(larger.shape[0]):
                taken = int(between[g, c]) + int(equal[g, c]) - int(gone[g, c])
                if taken == 0:  # as of most folds
                    continue
                for way in range(larger.shape[1]):
                    out[g, larger[c, way]] += taken


@kernel
def moves(
    others: int,
    drawn: int,
    relevant: int,
    what: Any,
    cut: Any,
    which: Any,
    every: int,
    known: Any,
    table: Any,
    weight: Any,
    sums: Any,
    spare: Any,
    before: Any,
    seen: Any,
    mates: Any,
    offsets: Any,
    lost: Any,
    change: Any,
    marked: Any,
    out: Any,
) -> None:
    """How contributions move where each fold takes lost[g, fold] of the others before a group.

    out[term, query, fold]. `change` and `marked` have room for every number of others that a fold
    may take; change[0] is for what there is with all of them.
    """
    terms = which.size
    for query in range(offsets.size - 1):
        for g in range(offsets[query], offsets[query + 1]):
            j_low = seen[g] + 1
            j_high = seen[g] + mates[g]
            used = terms if j_low == 1 or j_high == relevant else every
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
                    held, at = _row(
                        others, before[g] - number, drawn, relevant, j_low, j_high, what, cut,
                        which, every, known, table, weight, sums, spare,
                    )  # fmt: skip
                    for k in range(terms):
                        change[number, k] = 0.0
                    if held:
                        _add(table, at, relevant, j_low, j_high, which, every, 1.0, change, number)
                    else:
                        _add(spare, at, relevant, j_low, j_high, which, every, 1.0, change, number)
                    for k in range(terms if number > 0 else 0):
                        change[number, k] -= change[0, k]
                for k in range(used):
                    out[k, query, c] += change[gone, k]
