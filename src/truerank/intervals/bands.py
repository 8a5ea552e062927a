"""Confidence bands of curves: pointwise at each point, or simultaneous around all points.

The pointwise band is, at each point, the metric's own interval there. The simultaneous one has
a higher confidence, so that the whole curve lies in it with the confidence that the user chose.
How high follows from the deviations of the jackknife groups, weighed at random (a multiplier
bootstrap of the largest deviation: Chernozhukov, Chetverikov & Kato, Annals of Statistics
2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from truerank._util.kernels import compiled
from truerank._util.types import Flags, Integers, Reals
from truerank.core import metric as definitions
from truerank.core.curve import POINTWISE, SIMULTANEOUS, BandMoves, Curve, CurveMoves
from truerank.core.jackknife import random_numbers
from truerank.core.student import MOST_FREEDOM, central, near, quantile
from truerank.intervals.interval import ends
from truerank.intervals.interval_kernels import _sum_rows

DRAWS = 2000
SEED = 0
"""The draws do not follow the user's seed: they stand for no data."""
MOST_POINTS = 128
"""Points whose largest deviation is looked at: neighbors move together."""
GRID = 2.0**30
"""Deviations, in units of their root mean square, are multiples of 2^-30: sums do not round."""

NOT_TOLD = "at none of its points are there enough pairs or queries for an interval"


def put_band(curve: Curve, moves: BandMoves, confidence: float) -> Curve:
    """The curve with its pointwise and its simultaneous band as further columns, or the reason why
    it has none.

    Both are NaN where the score has no interval; where it is at an end of its range, a curve that
    only rises or falls lies between its neighbors' limits. Its simultaneous band does so, too.
    """
    if isinstance(moves, str):
        return curve.without_band(moves)
    if isinstance(moves, tuple):
        for one in moves:
            curve = put_band(curve, one, confidence)
        return curve
    knots = np.arange(moves.values.shape[1]) if moves.knots is None else moves.knots
    column = np.asarray(curve[moves.column], np.float64)
    edges = _edges(column[knots], moves, confidence)
    if not edges:
        return curve.without_band(NOT_TOLD)
    columns, points = dict(curve), np.arange(len(column))
    for name, edge in edges.items():
        if moves.knots is not None:
            edge = column + np.interp(points, knots, edge - column[knots])
        columns[moves.before + name] = edge
    return Curve(curve.name, columns)


def _edges(column: Reals, moves: CurveMoves, confidence: float) -> dict[str, Reals]:
    """The edges of the bands around a column, by their names; none where nothing is told of it."""
    span, steep = (0.0, 1.0), False
    if moves.like is not None:
        known = definitions.entry(moves.like)
        span, steep = known.range, known.is_steep
    told = np.isfinite(moves.values).all(axis=0) & np.isfinite(column)
    if not told.any():
        return {}
    spread = _Spread.of(moves, told)
    freedom = spread.heavy if steep else spread.freedom.astype(np.float64)
    degrees = sorted(set(freedom.tolist()))
    everywhere = _together(_moving(moves, told & ~_sparse(moves)), confidence)
    students = (
        {number: quantile(confidence, number) for number in degrees},
        {number: near(everywhere, number) for number in degrees},
    )
    values = column[told]
    found = {}
    for names, t in zip((POINTWISE, SIMULTANEOUS), students, strict=True):
        limits = _limits(values, spread.error, freedom, t, span, steep)
        sparse = _sparse(moves)[told] & (names is SIMULTANEOUS)
        if moves.rises:
            _fill(limits, np.isin(values, span) | sparse, span, moves.rises)
            if names is SIMULTANEOUS:
                _tighten(limits, moves.rises)
            elif moves.bare is not None:
                for limit in limits:
                    limit[moves.bare[told]] = np.nan
        else:
            for limit in limits:
                limit[sparse] = np.nan
        for name, limit in zip(names, limits, strict=True):
            found[name] = np.full(len(column), np.nan)
            found[name][told] = limit
    return found


@dataclass(frozen=True)
class _Spread:
    """How far points move, as Replicates tells it of one score, for many points at once."""

    away: Reals
    """(folds, points): from the mean, in an order of the folds that no name can change."""
    seen: Reals
    """(points,): sum of their squares."""
    error: Reals
    freedom: Integers
    heavy: Reals
    """Degrees of freedom, fewer where a few folds move the curve most."""

    @staticmethod
    def of(moves: CurveMoves, told: Flags) -> _Spread:
        values = moves.values[:, told] + 0.0
        rows = sorted(range(len(values)), key=lambda row: blake2b(values[row].tobytes()).digest())
        values = values[rows]
        count = len(values)
        away = values - _sum(values) / count
        squares = away * away
        seen = _sum(squares)
        noise = np.zeros(len(seen)) if moves.noise is None else moves.noise[told]
        real = np.maximum(seen - noise, seen / 4)
        whole = np.where(seen > 0, seen, 1.0)
        shares = squares / whole
        kurtosis = count * _sum(shares * shares)
        least = 2 * count / (count - 1)
        worth = 2 * count / np.maximum(kurtosis - (count - 3) / (count - 1), least)
        freedom = np.maximum(3, np.floor((count - 1) * (real / whole) ** 2)).astype(np.int64)
        freedom[seen == 0.0] = count - 1
        heavy = np.maximum(3.0, np.minimum(freedom, worth))
        if count < 4:
            heavy = freedom.astype(np.float64)
        error = np.sqrt((count - 1) / count * real)
        return _Spread(away, seen, error, freedom, np.where(seen == 0.0, freedom, heavy))


def _sum(values: Reals) -> Reals:
    """Sums over the rows, one after the other, with what rounding loses added at the end."""
    total, lost = np.zeros((2, values.shape[1]))
    if compiled():
        _sum_rows(values, total, lost)
        return np.asarray(total + lost, np.float64)
    for row in values:
        more = total + row
        lost += np.where(np.abs(total) >= np.abs(row), (total - more) + row, (row - more) + total)
        total = more
    return np.asarray(total + lost, np.float64)


def _sparse(moves: CurveMoves) -> Flags:
    return np.zeros(moves.values.shape[1], bool) if moves.sparse is None else moves.sparse


def _moving(moves: CurveMoves, among: Flags) -> Reals:
    """(folds, points): deviations at some of the points, in units of their root sum of squares."""
    table = moves.values if moves.together is None else moves.together
    held = np.flatnonzero(among & np.isfinite(table).all(axis=0))
    held = held[(table[:, held] != table[:1, held]).any(axis=0)]
    picked = np.linspace(0, len(held) - 1, min(len(held), MOST_POINTS)).astype(np.int64)
    some = np.zeros(table.shape[1], bool)
    some[held[np.unique(picked)]] = True
    spread = _Spread.of(replace(moves, values=table, noise=None), some)
    return np.asarray(
        spread.away / np.sqrt(np.where(spread.seen > 0, spread.seen, 1.0)), np.float64
    )


def _together(moving: Reals, confidence: float) -> float:
    """The pointwise confidence at which all points lie in their intervals at once."""
    if not moving.shape[1]:
        return confidence
    weights, one = _weights(len(moving))
    largest = np.sort(np.abs(weights @ np.rint(moving * GRID)).max(axis=1)) / (one * GRID)
    reach = float(largest[math.ceil(confidence * DRAWS) - 1])
    return max(confidence, central(reach, MOST_FREEDOM))


@lru_cache(maxsize=4)
def _weights(count: int) -> tuple[Reals, float]:
    """(draws, folds): random whole numbers, nearly normal, and their standard deviation.

    Each is the number of ones among 64 random bits, less 32: no logarithm can round it.
    """
    ones = random_numbers(SEED, DRAWS * count)
    # ones of 2, of 4 and of 8 neighbouring bits, in their place, and of all in the highest byte
    ones -= (ones >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    ones = (ones & pairs) + ((ones >> np.uint64(2)) & pairs)
    ones = (ones + (ones >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    ones = (ones * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return ones.astype(np.float64).reshape(DRAWS, count) - 32.0, 4.0


def _limits(
    values: Reals,
    error: Reals,
    freedom: Reals,
    t: dict[float, float],
    limits: tuple[float, float],
    steep: bool,
) -> list[Reals]:
    """Low and high limit at each point; NaN where there is none."""
    low, high = np.full((2, len(values)), np.nan)
    points: Iterable[tuple[float, float, float]] = zip(
        values.tolist(), error.tolist(), freedom.tolist(), strict=True
    )
    for at, (value, spread, degrees) in enumerate(points):
        if value not in limits and spread > 0:
            low[at], high[at] = ends(value, spread, t[degrees], limits, steep=steep)
    return [low, high]


def _fill(limits: list[Reals], unknown: Flags, ends: tuple[float, float], rises: int) -> None:
    """Before and behind what is known of a monotone column, it lies between that and the end."""
    low, high = limits if rises > 0 else [limit[::-1] for limit in limits]
    held = np.flatnonzero(np.isfinite(low) & ~(unknown if rises > 0 else unknown[::-1]))
    if not len(held):
        return
    first, last = int(held[0]), int(held[-1])
    low[:first], high[:first] = ends[0], high[first]
    low[last + 1 :], high[last + 1 :] = low[last], ends[1]


def _tighten(limits: list[Reals], rises: int) -> None:
    """A monotone curve that lies in a band everywhere also lies in the narrower monotone one."""
    low, high = limits if rises > 0 else [limit[::-1] for limit in limits]
    low[:] = np.fmax.accumulate(low)
    high[:] = np.fmin.accumulate(high[::-1])[::-1]
