"""Rows that stand twice, or nearly: inside a class, across classes, and in the training set."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.auditing.findings import Found
from truerank.auditing.nearest import Nearest, Neighbours, neighbours
from truerank.errors import InputError, TruerankWarning
from truerank.space import Space, build
from truerank.space.digests import as_keys
from truerank.wording import count

__all__ = ["equal_rows", "leaks", "near_rows"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

NEAR = 0.05
"""A near duplicate is at most this much of the usual nearest distance away (squared distances)."""
EXPECTED = 0.01
"""Near duplicates that chance alone may be expected to give in a whole data set."""


def equal_rows(space: Space, codes: Integers, labelled: bool) -> Found:
    """Rows that equal another; without labels they have no classes."""
    found = Found()
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row, digest in enumerate(as_keys(space.query_digests)):
        groups[digest].append(row)
    inside: list[list[int]] = []
    across: list[list[int]] = []
    for rows in groups.values():
        if len(rows) > 1:
            mixed = len({int(codes[row]) for row in rows}) > 1
            (across if mixed and labelled else inside).append(rows)
    for name, some, severity, what, advice in (
        (
            "duplicates across classes",
            across,
            "error",
            "equal to a row of another class",
            "One of the labels is wrong, or the rows show both classes: relabel or drop them.",
        ),
        (
            "duplicates",
            inside,
            "warning",
            "equal to another row of the class" if labelled else "equal to another row",
            "Copies find each other at rank 1 and lift every score: drop them, or pass ids that "
            "they share.",
        ),
    ):
        number = sum(len(rows) for rows in some)
        if some:
            pairs = [tuple(rows[:2]) for rows in some]
            found.add(name, severity, number, pairs, f"{count(number, 'row')} {what}.", advice)
    equal = sum(len(rows) for rows in (*inside, *across))
    found.measure("rows that equal another", equal, f"{_number(equal, 'row')} equal to another.")
    return found


def near_rows(seen: Neighbours, labelled: bool) -> Found:
    """Rows far nearer to another than rows usually are."""
    found = Found()
    for name, kind, severity, what, advice in (
        (
            "near duplicates across classes",
            seen.other,
            "warning",
            "far nearer to a row of another class than rows usually are",
            "Look at these pairs: wrong labels, or one object under two names.",
        ),
        (
            "near duplicates",
            seen.same,
            "note",
            "far nearer to another row of the class than its rows usually are",
            "Shots of one moment are easy to find: consider ids that they share.",
        ),
    ):
        rows = _far_nearer(kind)
        if len(rows):
            plain = name if labelled else "near duplicates"
            pairs = sorted({tuple(sorted((int(r), int(kind.where[r])))) for r in rows})
            words = what if labelled else "far nearer to another row than rows usually are"
            found.add(
                plain, severity, len(rows), pairs, f"{count(len(rows), 'row')} {words}.", advice
            )
    return found


def _far_nearer(kind: Nearest) -> Integers:
    """Rows whose nearest of a kind is nearer than so many rows would have by chance.

    In data of intrinsic dimension m, squared distances to the nearest row fall below a share s of
    the median for about s^(m/2) ln 2 of the rows; m comes from the ratios of second to first
    nearest distances (Facco et al. 2017).
    """
    met = np.isfinite(kind.second) & (kind.first > 0)
    if np.count_nonzero(met) < 20:
        return np.empty(0, np.int64)
    first, second = kind.first[met], kind.second[met]
    dimension = 2 * len(first) / max(math.fsum(np.log(second / first)), 1e-300)
    share = min(NEAR, (EXPECTED / (math.log(2) * len(first))) ** (2 / dimension))
    return np.flatnonzero(met & (kind.first < share * np.median(first)))


def leaks(
    rows: Array,
    train: Array,
    distance: str,
    progress: Callable[[int, int], None] | None,
) -> Found:
    """Test rows that are in the training set, or far nearer to it than usual."""
    if train.shape[1] != rows.shape[1]:
        raise InputError(
            f"train must have {rows.shape[1]} dimensions like the embeddings. Got {train.shape[1]}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        space = build(distance, rows, train)
    where: dict[bytes, int] = {}
    for row, digest in enumerate(as_keys(space.gallery_digests)):
        where.setdefault(digest, row)
    pairs = [(r, where[d]) for r, d in enumerate(as_keys(space.query_digests)) if d in where]
    found = Found()
    advice = "The model has seen them: drop them from the test set, and look for how they got in."
    if pairs:
        found.add(
            "leaks",
            "error",
            len(pairs),
            pairs,
            f"{count(len(pairs), 'row')} equal to a training row (test row and training row).",
            advice,
        )
    apart = np.arange(len(rows)), -1 - np.arange(len(train))
    seen = neighbours(space, *apart, False, progress).other
    near = _far_nearer(seen)
    if len(near):
        found.add(
            "near leaks",
            "warning",
            len(near),
            [(int(row), int(seen.where[row])) for row in near],
            f"{count(len(near), 'row')} far nearer to a training row than test rows usually are.",
            advice,
        )
    found.measure(
        "rows found in the training set",
        len(pairs),
        f"{_number(len(pairs), 'row')} found in the training set.",
    )
    return found


def _number(number: int, noun: str) -> str:
    """'No row is', '1 row is', '1,200 rows are'."""
    if number == 0:
        return f"No {noun} is"
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"
