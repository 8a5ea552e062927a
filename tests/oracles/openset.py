"""Verification, open-set and threshold metrics by their definitions, in Fractions.

In: trials (distance, is it a positive pair) or queries with the distances of what they may meet.
Out: rates as Fractions. A pair is accepted at tau iff its distance is at most tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

Trial = tuple[Fraction, bool]


@dataclass(frozen=True)
class Query:
    """One query: distances of its candidates and which of them are relevant."""

    distances: list[Fraction]
    relevant: list[bool]

    @property
    def has_mate(self) -> bool:
        return any(self.relevant)

    @property
    def nearest(self) -> Fraction | None:
        return min(self.distances, default=None)

    @property
    def nearest_mate(self) -> Fraction | None:
        mates = [d for d, r in zip(self.distances, self.relevant, strict=True) if r]
        return min(mates, default=None)


def limit(impostors: Sequence[Fraction], target: Fraction) -> Fraction | None:
    """d*: accept iff d < d*; None accepts everything."""
    r = floor(target * len(impostors))
    return sorted(impostors)[r] if r < len(impostors) else None


def far(trials: Sequence[Trial], tau: Fraction) -> Fraction:
    negatives = [d for d, positive in trials if not positive]
    return Fraction(sum(d <= tau for d in negatives), len(negatives))


def tar(trials: Sequence[Trial], tau: Fraction) -> Fraction:
    positives = [d for d, positive in trials if positive]
    return Fraction(sum(d <= tau for d in positives), len(positives))


def tar_at_far(trials: Sequence[Trial], target: Fraction) -> tuple[Fraction, Fraction | None]:
    """The rate, and the largest observed distance that is accepted."""
    d_star = limit([d for d, positive in trials if not positive], target)
    accepted = [(d, positive) for d, positive in trials if d_star is None or d < d_star]
    positives = sum(positive for _, positive in trials)
    tau = max((d for d, _ in accepted), default=None)
    return Fraction(sum(positive for _, positive in accepted), positives), tau


def auc(trials: Sequence[Trial]) -> Fraction:
    positives = [d for d, positive in trials if positive]
    negatives = [d for d, positive in trials if not positive]
    won = sum(Fraction(1) if p < n else Fraction(p == n, 2) for p in positives for n in negatives)
    return Fraction(won) / (len(positives) * len(negatives))


def eer(trials: Sequence[Trial]) -> Fraction:
    """Operating points from rejecting everything on; the first pair of them that meets."""
    before = (Fraction(0), Fraction(1))
    for tau in sorted({d for d, _ in trials}):
        after = (far(trials, tau), 1 - tar(trials, tau))
        if after[0] >= after[1]:
            gap_before, gap_after = before[1] - before[0], after[1] - after[0]
            return before[1] + gap_before / (gap_before - gap_after) * (after[1] - before[1])
        before = after
    raise AssertionError("accepting everything has FAR 1 and FRR 0")


def min_dcf(trials: Sequence[Trial], p: Fraction, miss: Fraction, fa: Fraction) -> Fraction:
    costs = [miss * p]
    costs += [
        miss * p * (1 - tar(trials, tau)) + fa * (1 - p) * far(trials, tau)
        for tau in {d for d, _ in trials}
    ]
    return min(costs) / min(miss * p, fa * (1 - p))


def best_f1(trials: Sequence[Trial]) -> tuple[Fraction, Fraction]:
    """The largest harmonic mean of precision and recall, and the least distance that attains it."""
    positives = sum(positive for _, positive in trials)
    found = []
    for tau in sorted({d for d, _ in trials}):
        accepted = [positive for d, positive in trials if d <= tau]
        precision, recall = (Fraction(sum(accepted), n) for n in (len(accepted), positives))
        mean = 2 / (1 / precision + 1 / recall) if any(accepted) else Fraction(0)
        found.append((mean, -tau))
    value, least = max(found)
    return value, -least
