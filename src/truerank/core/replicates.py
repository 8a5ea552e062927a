"""Replicates: a score without each fold of the classes, and the error that they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from truerank.cached import cached_property

__all__ = ["DyadicReplicates", "Replicates", "squares"]


@dataclass(frozen=True)
class Replicates:
    """A score without each fold; `noise` is what sampling adds to the sum of their squares."""

    values: tuple[float, ...]
    noise: float = 0.0

    @cached_property
    def _away(self) -> tuple[float, list[float]]:
        """How far the values lie from their mean, and the power of two that this is in units of.

        Of its size the squares neither overflow nor vanish, whatever unit a threshold has.
        """
        centre = math.fsum(self.values) / len(self.values)
        away = [value - centre for value in self.values]
        unit = math.ldexp(1.0, math.frexp(max(map(abs, away)))[1] - 1)
        return unit, [step / unit for step in away]

    @cached_property
    def _squared(self) -> list[float]:
        return [step**2 for step in self._away[1]]

    @cached_property
    def _squares(self) -> tuple[float, float]:
        """The sum of squares around the mean, with the sample's noise and without it.

        The noise is an estimate too: at least a quarter of what is seen is taken for real.
        """
        unit, seen = self._away[0], math.fsum(self._squared)
        return seen, max(seen - self.noise / unit / unit, seen / 4)

    def standard_error(self) -> float:
        """The standard error of the score that was computed with all folds."""
        count = len(self.values)
        return self._away[0] * math.sqrt((count - 1) / count * self._squares[1])

    @property
    def freedom(self) -> int:
        """Degrees of freedom, fewer where noise was taken out (Satterthwaite)."""
        seen, real = self._squares
        if seen == 0.0:
            return len(self.values) - 1
        return max(3, math.floor((len(self.values) - 1) * (real / seen) ** 2))

    @property
    def heavy_freedom(self) -> float:
        """Degrees of freedom, fewer still where a few folds move the score most.

        The variance of n squares of kurtosis k is that of 2n/(k - (n - 3)/(n - 1)) normal ones. It
        is no whole number: a few degrees more or less would widen an interval by leaps.
        """
        count = len(self.values)
        total = self._squares[0]
        if total == 0.0 or count < 4:
            return self.freedom
        kurtosis = count * math.fsum([(square / total) ** 2 for square in self._squared])
        worth = 2 * count / max(kurtosis - (count - 3) / (count - 1), 2 * count / (count - 1))
        return max(3.0, min(float(self.freedom), worth))

    def minus(self, other: Replicates) -> Replicates:
        """Replicates of a difference of two scores over the same folds."""
        pairs = zip(self.values, other.values, strict=True)
        return Replicates(tuple(a - b for a, b in pairs), self.noise + other.noise)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"values": list(self.values), "noise": self.noise}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Replicates:
        """The inverse of to_dict."""
        if "shares" in data:
            return DyadicReplicates.of(*([float(v) for v in data[n]] for n in ("values", "shares")))
        return Replicates(tuple(float(value) for value in data["values"]), float(data["noise"]))

    @staticmethod
    def mean(parts: list[Replicates]) -> Replicates:
        """Replicates of a mean of scores."""
        if len(parts) == 1:
            return parts[0]
        count = len(parts)
        if any(isinstance(part, DyadicReplicates) for part in parts):
            return DyadicReplicates.combined(parts, [1 / count] * count)
        columns = zip(*(part.values for part in parts), strict=True)
        noise = math.fsum(part.noise for part in parts) / count**2
        return Replicates(tuple(math.fsum(column) / count for column in columns), noise)


@dataclass(frozen=True)
class DyadicReplicates(Replicates):
    """Replicates over people, of a list of trials that belong to two people each.

    A trial of two people leaves with either, so its squares are seen twice: the noise is one of the
    two, measured without each share of these trials. Shares differ and average like scores do, as
    the noise does not: what two models have in common cancels in both.
    """

    shares: tuple[float, ...] = ()
    """The score without each share of the trials of two people."""

    @staticmethod
    def of(values: Sequence[float], shares: Sequence[float]) -> DyadicReplicates:
        """Replicates with the noise that the shares measure."""
        return DyadicReplicates(tuple(values), squares(shares), tuple(shares))

    @staticmethod
    def combined(parts: Sequence[Replicates], weights: Sequence[float]) -> DyadicReplicates:
        """Replicates of a weighted sum of scores on one list of trials."""
        both = []
        for name in ("values", "shares"):
            columns = zip(*(getattr(part, name) for part in parts), strict=True)
            both.append([math.fsum(map(mul, weights, column)) for column in columns])
        return DyadicReplicates.of(*both)

    def minus(self, other: Replicates) -> Replicates:
        """Replicates of a difference of two scores on one list of trials."""
        return DyadicReplicates.combined((self, other), (1.0, -1.0))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return super().to_dict() | {"shares": list(self.shares)}


def squares(values: Sequence[float]) -> float:
    """The sum of squares around the mean; in any order it has the same bits."""
    centre = math.fsum(values) / max(len(values), 1)
    away = [value - centre for value in values]
    return math.fsum(step * step for step in away)
