"""Kernels of threshold consistency: the spread of the classes' utilities at every threshold.

Sums over classes are taken in integers, 1 standing for 2^50 or a little less, so that neither
the order of classes nor that of tied events changes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def _accumulate(counts: Any, true: Any, times: int) -> None:
    """From pairs and positives in each cell to negatives and positives accepted at each cut."""
    for i in range(counts.shape[0]):
        positives = 0
        negatives = 0
        for k in range(counts.shape[1]):
            positives += true[i, k]
            negatives += counts[i, k] - times * true[i, k]
            true[i, k] = positives
            counts[i, k] = negatives


SQUARE = 32


@kernel
def utility(
    true: float, false: float, genuine: float, impostors: float, square: float, precise: float
) -> float:
    """(1 + c^2) a b / (c^2 a + b): of specificity and sensitivity, or precision and recall.

    `precise` is 0 for specificity, else what a positive counts beside a negative.
    """
    sensitivity = true / genuine
    other = 1.0 - false / impostors
    if precise > 0.0:
        other = precise * true / (precise * true + false) if true + false > 0 else 0.0
    below = square * other + sensitivity
    return (1.0 + square) * other * sensitivity / below if below > 0 else 0.0


@kernel
def spread(first: int, second: int, count: int, one: float) -> float:
    """The mean of (U - mean)^2, from sums of U and U^2."""
    centre = first / one / count
    return max(second / one / count - centre * centre, 0.0)


@kernel
def exact(
    at: Any,
    code: Any,
    positive: Any,
    true: Any,
    false: Any,
    genuine: Any,
    impostors: Any,
    square: float,
    precise: float,
    one: float,
    end: float,
    spreads: Any,
    borders: Any,
    areas: Any,
    best: Any,
    best_at: Any,
) -> int:
    """Walk through events in order of their place `at`, from the state in true and false.

    Piece p reaches from borders[p] to the next border, with spreads[p]; areas are each class's
    integral of U, best its highest U and best_at where that begins. Returns the number of pieces.
    """
    count = true.size
    start = borders[0]
    since = np.full(count, start)
    first = 0
    second = 0
    now = np.zeros(count)
    for i in range(count):
        u = utility(true[i], false[i], genuine[i], impostors[i], square, precise)
        now[i] = u
        best[i] = u
        best_at[i] = start
        first += int(np.rint(u * one))
        second += int(np.rint(u * u * one))
    piece = 0
    event = 0
    while True:
        spreads[piece] = spread(first, second, count, one)
        piece += 1
        if event == at.size:
            break
        place = at[event]
        borders[piece] = place
        while event < at.size and at[event] == place:
            i = code[event]
            if positive[event]:
                true[i] += 1
            else:
                false[i] += 1
            u = utility(true[i], false[i], genuine[i], impostors[i], square, precise)
            first += int(np.rint(u * one)) - int(np.rint(now[i] * one))
            second += int(np.rint(u * u * one)) - int(np.rint(now[i] * now[i] * one))
            areas[i] += now[i] * (place - since[i])
            since[i] = place
            now[i] = u
            event += 1
            if (event == at.size or at[event] != place or code[event] != i) and u > best[i]:
                best[i] = u
                best_at[i] = place
    for i in range(count):
        areas[i] += now[i] * (end - since[i])
    return piece


@kernel
def bracketed(
    border: Any,
    at: Any,
    code: Any,
    true: Any,
    negatives: Any,
    genuine: Any,
    impostors: Any,
    square: float,
    precise: float,
    one: float,
    spreads: Any,
    errors: Any,
    borders: Any,
    areas: Any,
    best: Any,
    best_at: Any,
) -> int:
    """Walk as `exact` does where negatives are known at the borders of cells only.

    In cell k a class has between negatives[k] and negatives[k + 1] false accepts; errors are bounds
    of how far a spread can be from the true one. areas[0] and areas[1] bound each integral.
    """
    count = true.size
    piece = 0
    event = 0
    middle = np.zeros(count)
    half = np.zeros(count)
    since = np.zeros(count)
    after = np.zeros(count)  # utility with the negatives of the cell's end
    for i in range(count):
        best[i] = -1.0
        after[i] = utility(true[i], negatives[0, i], genuine[i], impostors[i], square, precise)
    for k in range(border.size - 1):
        first = 0
        second = 0
        wide = 0
        for i in range(count):
            high = after[i]
            low = utility(true[i], negatives[k + 1, i], genuine[i], impostors[i], square, precise)
            after[i] = low
            middle[i] = (low + high) / 2
            half[i] = (high - low) / 2
            since[i] = border[k]
            if middle[i] > best[i]:
                best[i] = middle[i]
                best_at[i] = border[k]
            first += int(np.rint(middle[i] * one))
            second += int(np.rint(middle[i] * middle[i] * one))
            wide += int(np.ceil(half[i] * half[i] * one))
        borders[piece] = border[k]
        while True:
            width = np.sqrt(wide / one / count)
            spreads[piece] = spread(first, second, count, one)
            errors[piece] = 2 * np.sqrt(spreads[piece]) * width + width * width
            piece += 1
            if event == at.size or at[event] >= border[k + 1]:
                break
            place = at[event]
            borders[piece] = place
            while event < at.size and at[event] == place:
                i = code[event]
                first -= int(np.rint(middle[i] * one))
                second -= int(np.rint(middle[i] * middle[i] * one))
                wide -= int(np.ceil(half[i] * half[i] * one))
                areas[0, i] += (middle[i] - half[i]) * (place - since[i])
                areas[1, i] += (middle[i] + half[i]) * (place - since[i])
                since[i] = place
                true[i] += 1
                high = utility(true[i], negatives[k, i], genuine[i], impostors[i], square, precise)
                low = utility(
                    true[i], negatives[k + 1, i], genuine[i], impostors[i], square, precise
                )
                after[i] = low
                middle[i] = (low + high) / 2
                half[i] = (high - low) / 2
                first += int(np.rint(middle[i] * one))
                second += int(np.rint(middle[i] * middle[i] * one))
                wide += int(np.ceil(half[i] * half[i] * one))
                event += 1
                if (event == at.size or at[event] != place or code[event] != i) and middle[
                    i
                ] > best[i]:
                    best[i] = middle[i]
                    best_at[i] = place
        for i in range(count):
            areas[0, i] += (middle[i] - half[i]) * (border[k + 1] - since[i])
            areas[1, i] += (middle[i] + half[i]) * (border[k + 1] - since[i])
    return piece


@kernel
def turned(table: Any, first: int, last: int) -> Any:
    """Some columns of a table as rows, square by square so that both stay in the cache."""
    out = np.empty((last - first, table.shape[0]), table.dtype)
    for row in range(0, table.shape[0], SQUARE):
        for column in range(first, last, SQUARE):
            for i in range(row, min(row + SQUARE, table.shape[0])):
                for k in range(column, min(column + SQUARE, last)):
                    out[k - first, i] = table[i, k]
    return out


@kernel
def dealt(
    place: Any,
    drawn: Any,
    sizes: Any,
    specificity: Any,
    square: float,
    one: float,
    first: Any,
    second: Any,
) -> None:
    """Deal positives, by the points that accept them, to classes in a random order.

    The utilities of all classes at each point, and their squares, are added up in integers.
    """
    for i in range(place.size - 1, 0, -1):
        j = np.int64(drawn[i] % np.uint64(i + 1))
        place[i], place[j] = place[j], place[i]
    held = np.zeros(specificity.size + 1, np.int64)
    start = 0
    for size in sizes:
        held[:] = 0
        for p in place[start : start + size]:
            held[p] += 1
        start += size
        true = 0
        for point in range(specificity.size):
            true += held[point]
            sensitivity = true / size
            below = square * specificity[point] + sensitivity
            u = 0.0
            if below > 0.0:
                u = (1 + square) * specificity[point] * sensitivity / below
            first[point] += int(np.rint(u * one))
            second[point] += int(np.rint(u * u * one))
