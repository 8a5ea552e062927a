"""The ladder: what a board shows of a score, and when it shows it at all.

A participant's first entry is shown, rounded; a later one only if it beats what is shown by more
than noise, and by more the more entries were tried. Whoever sends thousands of chosen submissions
sees a standstill, but for a few rungs (Blum and Hardt, The ladder: a reliable leaderboard for
machine learning competitions, 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from truerank.errors import InputError
from truerank.stats.intervals import ends
from truerank.stats.student import MOST_FREEDOM, quantile

__all__ = ["Measured", "Rung", "climb", "measure", "patience", "resolution"]


@dataclass(frozen=True)
class Measured:
    """A score and how far it can be trusted; never shown as it is."""

    value: float
    low: float
    high: float

    @property
    def noise(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Rung:
    """What a board shows: score and interval in multiples of a step, or exact at the end."""

    score: float
    low: float
    high: float
    step: float | None
    """The resolution; None for exact numbers."""

    @staticmethod
    def of(measured: Measured) -> Rung:
        """Rounded to the resolution of the interval: the score to the nearest, the ends outward."""
        step = resolution(measured.noise)
        return Rung(
            float(round(Fraction(measured.value) / step) * step),
            float(math.floor(Fraction(measured.low) / step) * step),
            float(math.ceil(Fraction(measured.high) / step) * step),
            float(step),
        )

    @staticmethod
    def exact(value: float, interval: tuple[float, float]) -> Rung:
        """The numbers as they are, for a board that answers no further submission."""
        return Rung(value, *interval, None)

    def to_dict(self) -> dict[str, float | None]:
        """Plain JSON values."""
        return dict(vars(self))

    @staticmethod
    def from_dict(data: Any) -> Rung:
        """The inverse of to_dict."""
        try:
            score, low, high = (float(data[name]) for name in ("score", "low", "high"))
            return Rung(score, low, high, None if data["step"] is None else float(data["step"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not the rung of a ladder ({error}).") from error


def resolution(noise: float) -> Fraction:
    """The largest of 1, 2 and 5 times a power of ten that is not above the noise.

    Examples
    --------
    >>> [float(resolution(noise)) for noise in (0.034, 0.0071, 0.5)]
    [0.02, 0.005, 0.5]
    """
    if not 0 < noise < math.inf:
        raise InputError(f"a resolution needs a noise above 0. Got {noise!r}.")
    power = Fraction(1)
    while power > noise:
        power /= 10
    while 10 * power <= noise:
        power *= 10
    return max(factor * power for factor in (1, 2, 5) if factor * power <= noise)


def measure(
    value: float,
    interval: tuple[float, float] | None,
    queries: int,
    t: float,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Measured:
    """A score with its interval, which is at least that of so many independent queries.

    Without that floor a submission whose classes all score alike, or whose score is 0 or 1, would
    have no noise to hide behind. `t` is Student's quantile of the interval.
    """
    low, high = limits
    share = (value - low) / (high - low)
    # Wilson's interval; at the limits of the range it is that of a share that was never seen.
    if 0 < share < 1:
        error = (high - low) * math.sqrt(share * (1 - share) / queries)
        floor = ends(value, error, t, limits)
    else:
        reach = (high - low) * t * t / (queries + t * t)
        floor = (low, low + reach) if share <= 0 else (high - reach, high)
    own = interval or floor
    return Measured(value, min(own[0], floor[0], value), max(own[1], floor[1], value))


def climb(
    shown: Rung | None,
    measured: Measured,
    *,
    tries: int = 1,
    confidence: float = 0.95,
    higher: bool = True,
) -> Rung | None:
    """What a new entry shows beside the participant's best; None if that stays.

    `tries` is how many entries the participant has sent, this one included.

    Examples
    --------
    >>> first = climb(None, Measured(0.613, 0.57, 0.65))
    >>> first.score, climb(first, Measured(0.64, 0.60, 0.68), tries=2), first.step
    (0.62, None, 0.02)
    >>> climb(first, Measured(0.7, 0.66, 0.74), tries=2).score
    0.7
    """
    if shown is not None:
        gain = measured.value - shown.score if higher else shown.score - measured.value
        if not gain > measured.noise * patience(tries, confidence):
            return None
    return Rung.of(measured)


def patience(tries: int, confidence: float = 0.95) -> float:
    """How much wider an interval must be to hold for so many tries at once (Bonferroni).

    The best of many submissions that know nothing lies above the others by luck; this is how far.
    Tries are counted in powers of two.

    Examples
    --------
    >>> [round(patience(tries), 2) for tries in (1, 2, 10, 10_000)]
    [1.0, 1.14, 1.51, 2.39]
    """
    together = 1 << max(0, tries - 1).bit_length()
    at_once = quantile(1 - (1 - confidence) / together, MOST_FREEDOM)
    return at_once / quantile(confidence, MOST_FREEDOM)
