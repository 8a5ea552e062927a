"""Sums over the tie groups of each query, and their grades."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = [
    "choose_grades",
    "count_grades",
    "merge_grades",
    "sum_grades",
    "sum_groups",
]


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
