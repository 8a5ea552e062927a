"""How the vectors lie in space: collapse, odd norms, and rows that are near to everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.auditing.findings import EXAMPLES, Found
from truerank.wording import count

__all__ = [
    "Shape",
    "collapse",
    "constant_dimensions",
    "hubness",
    "measure",
    "norms",
    "zero_vectors",
]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

HUB_SKEW, WORSE_HUB_SKEW = 3.0, 6.0
"""Plain Gaussian noise of 128 dimensions has a skew near 3.5."""
GRID = 2.0**18
"""Directions are rounded to multiples of 1/GRID: whole numbers add up the same in any order."""
EXACT_ROWS = 1 << 17
"""Rows whose products of multiples of 1/GRID a float64 adds up exactly."""
NORM_DEVIATIONS, NORM_FACTOR = 8.0, 2.0


@dataclass(frozen=True)
class Shape:
    """What one walk over the rows measures; a direction is a row scaled to length 1."""

    norms: Reals
    low: Reals
    """The smallest and"""
    high: Reals
    """the largest value of each dimension."""
    mean: Reals
    """Of the directions,"""
    covariance: Reals
    """and how they vary around it."""


def measure(rows: Array) -> Shape:
    """The shape of a set of vectors, some of its rows at a time."""
    total, dimension = rows.shape
    norms = np.empty(total)
    mean = np.zeros(dimension, np.int64)
    moments = np.zeros((dimension, dimension), np.int64)
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    step = max(1, min(EXACT_ROWS, (1 << 21) // dimension))
    for start in range(0, total, step):
        some = np.asarray(rows[start : start + step], np.float64)
        scale = np.abs(some).max(axis=1)
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        lengths = np.sqrt(((some / safe) ** 2).sum(axis=1)) * safe[:, 0]
        norms[start : start + step] = np.where(scale > 0, lengths, 0.0)
        unit = np.rint(GRID * (some / np.where(lengths > 0, lengths, 1.0)[:, None]))
        mean += unit.sum(axis=0).astype(np.int64)
        moments += (unit.T @ unit).astype(np.int64)
        low, high = np.minimum(low, some.min(axis=0)), np.maximum(high, some.max(axis=0))
    middle = mean / total / GRID
    covariance = moments / total / GRID**2 - np.outer(middle, middle)
    return Shape(norms, low, high, middle, covariance)


def zero_vectors(shape: Shape) -> Found:
    """Rows of zeros, which point nowhere."""
    found = Found()
    zero = np.flatnonzero(shape.norms == 0)
    if len(zero):
        found.add(
            "zero vectors",
            "error",
            len(zero),
            [(int(row),) for row in zero],
            f"{count(len(zero), 'row')} of zeros, which are equally near to everything.",
            "Compute them again: an all-zero vector usually is a failed input.",
        )
    return found


def constant_dimensions(shape: Shape) -> Found:
    """Dimensions in which all rows are equal."""
    found = Found()
    dimension = len(shape.mean)
    dead = np.flatnonzero(shape.low == shape.high)
    if len(dead):
        found.add(
            "constant dimensions",
            "warning" if len(dead) > dimension // 2 else "note",
            len(dead),
            [],
            f"{len(dead)} of {dimension} dimensions are constant ({', '.join(map(str, dead[:8]))}"
            f"{', ...' if len(dead) > 8 else ''}).",
            "They carry nothing; a dead unit, or padding.",
        )
    return found


def collapse(shape: Shape) -> Found:
    """Rows that all point one way, or vary in few dimensions."""
    found = Found()
    total, dimension = len(shape.norms), len(shape.mean)
    common = float(shape.mean @ shape.mean)
    found.measure(
        "cosine between random rows",
        round(common, 4),
        f"Two random rows have a cosine of {common:.4f} on average.",
    )
    if common > 0.9:
        found.add(
            "collapsed vectors",
            "error" if common > 0.999 else "warning",
            total,
            [],
            f"All rows point the same way: their cosines are {common:.4f} on average.",
            "Training has collapsed, or the embeddings need centring; low precision will hurt.",
        )
    rank = _effective_rank(shape.covariance)
    found.measure(
        "effective rank",
        round(rank, 1),
        f"The rows vary in about {rank:.1f} of {dimension} dimensions (effective rank).",
    )
    if dimension >= 8 and rank < max(2.0, 0.05 * min(dimension, total - 1)):
        found.add(
            "dimensional collapse",
            "warning",
            dimension,
            [],
            f"The rows vary in about {rank:.1f} of {dimension} dimensions (effective rank).",
            "The model wastes its dimensions; a smaller embedding may do as well.",
        )
    return found


def _effective_rank(covariance: Reals) -> float:
    """As many equal eigenvalues as would have the entropy of these."""
    values = np.clip(np.linalg.eigvalsh(covariance), 0.0, None)
    if values.sum() > 0:
        share = values[values > 0] / values.sum()
        return float(np.exp(-(share * np.log(share)).sum()))
    return 0.0


def norms(shape: Shape) -> Found:
    """Rows much longer or shorter than the others."""
    found = Found()
    positive = shape.norms > 0
    logs = np.log2(shape.norms[positive])
    if len(logs) < 20:
        return found
    centre = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - centre)))
    bound = max(NORM_DEVIATIONS * spread, math.log2(NORM_FACTOR))
    with np.errstate(divide="ignore"):
        odd = np.flatnonzero((np.abs(np.log2(shape.norms) - centre) > bound) & positive)
    found.measure("median norm", float(f"{2**centre:.4g}"), f"The median norm is {2**centre:.4g}.")
    if len(odd):
        found.add(
            "norm anomalies",
            "warning",
            len(odd),
            [(int(row),) for row in odd],
            f"{count(len(odd), 'row')} with a norm far from the usual {2**centre:.3g}.",
            "Look at these inputs; with euclidean or dot they distort the ranking.",
        )
    return found


def hubness(occurrences: Integers) -> Found:
    """Rows that are among the nearest of very many others."""
    found = Found()
    spread, skew = _spread_and_skew(occurrences)
    found.measure(
        "skew of occurrences among the ten nearest",
        round(skew, 2),
        f"How often a row is among the ten nearest of others has a skew of {skew:.2f} (hubness).",
    )
    if skew > HUB_SKEW and len(occurrences) > 50:
        hubs = np.argsort(-occurrences, kind="stable")
        top = int(occurrences[hubs[0]])
        found.add(
            "hubness",
            "warning" if skew > WORSE_HUB_SKEW else "note",
            int((occurrences > occurrences.mean() + 5 * spread).sum()),
            [(int(row),) for row in hubs[:EXAMPLES]],
            f"A few rows are near to everything (skew {skew:.1f}; one is among the ten nearest of "
            f"{top} rows).",
            "Centre or whiten the embeddings, or rescale scores locally (CSLS).",
        )
    return found


def _spread_and_skew(counts: Integers) -> tuple[float, float]:
    """Standard deviation and skew, from sums of whole numbers: no order of the rows shows."""
    total, values = len(counts), counts.tolist()
    one, two, three = (sum(value**power for value in values) for power in (1, 2, 3))
    square = total * two - one**2
    if not square:
        return 0.0, 0.0
    cube = total**2 * three - 3 * total * one * two + 2 * one**3
    return math.sqrt(square) / total, cube / square**1.5
