"""Kernels over tie groups: sums and grades per query, first ranks per jackknife group."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def mates_left(left: Any, q: int, out: Any) -> None:
    """R of a query without each fold."""
    total = np.int32(0)
    for c in range(out.size):
        out[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        total += np.int32(left.relevant[g])
        for c in range(out.size):
            out[c] += np.int32(left.gone[g, c])
    for c in range(out.size):
        out[c] = total - out[c]


@kernel
def first_ranks(left: Any, q: int, mates: Any, missing: Any, out: Any) -> None:
    """The rank of a query's first mate without each fold, 0 where there is none.

    `mates` are those without each fold; `missing` is room to work in.
    """
    for c in range(out.size):
        missing[c] = 0
        out[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        behind = np.int32(left.before[g] + left.size[g] + 1)
        m0 = np.int32(left.relevant[g])
        waiting = np.int32(0)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            m = np.int32(m0 - left.gone[g, c])
            fresh = (m > 0) & (out[c] == 0)
            out[c] = np.int32(behind - missing[c] - m) if fresh else out[c]
            waiting |= np.int32((mates[c] > 0) & (out[c] == 0))
        if waiting == 0:
            break


# Sums over the tie groups of each query, and their grades.


@kernel
def sum_groups(values: Any, offsets: Any, totals: Any) -> None:
    """Sums over the groups of each query."""
    for q in range(totals.size):
        total = 0
        for g in range(offsets[q], offsets[q + 1]):
            total += values[g]
        totals[q] = total


@kernel
def sum_grades(size: Any, graded: Any, offsets: Any, grade: Any, totals: Any) -> None:
    """Sums over the groups of each query, grade by grade; and each lone item's grade, else 0."""
    grades = graded.shape[1]
    for q in range(totals.shape[0]):
        for g in range(offsets[q], offsets[q + 1]):
            if size[g] == 1:
                own = 0
                for i in range(grades):
                    own += (i + 1) * graded[g, i]
                grade[g] = own
                totals[q, own - 1] += 1
            else:
                grade[g] = 0
                for i in range(grades):
                    totals[q, i] += graded[g, i]


@kernel
def merge_grades(
    grade: Any, graded: Any, lowest: int, offsets: Any, kept: Any, merged: Any, count: Any
) -> None:
    """The groups with items of grade index `lowest` or more, how many, and such groups of a query.

    `kept` and `merged` have one place to spare: a group is written before it is known to stay.
    """
    place = 0
    for q in range(count.size):
        first = place
        for g in range(offsets[q], offsets[q + 1]):
            kept[place] = g
            if grade[g] > 0:
                merged[place, 0] = 1
                place += grade[g] > lowest
                continue
            total = 0
            for i in range(lowest, graded.shape[1]):
                total += graded[g, i]
            merged[place, 0] = total
            place += total > 0
        count[q] = place - first


@kernel
def count_grades(grade: Any, offsets: Any, totals: Any) -> None:
    """Items of each query by grade, where nothing ties."""
    for q in range(totals.shape[0]):
        own = grade[offsets[q] : offsets[q + 1]]
        for level in range(totals.shape[1]):
            total = 0
            for g in range(own.size):  # once for each level, but many items at a time
                total += own[g] == level + 1
            totals[q, level] = total


@kernel
def choose_grades(grade: Any, lowest: int, offsets: Any, kept: Any, count: Any) -> None:
    """The items of grade `lowest` or more, where nothing ties, and how many of each query.

    `kept` has one place to spare: an item is written before it is known to stay.
    """
    place = np.uint64(0)
    for q in range(count.size):
        first = place
        for g in range(offsets[q], offsets[q + 1]):
            kept[place] = g
            place += np.uint64(grade[g] >= lowest)
        count[q] = place - first
