"""Verification (1:1): every pair that may meet is a trial, a positive one if it is relevant.

FAR(tau) is the share of negatives with d <= tau (also called FMR), FRR(tau) the share of positives
with d > tau (FNMR). Pairs tied in distance are accepted or rejected together, so nothing here is
ambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.family import Units
from truerank.families.pool import Pooled
from truerank.families.thresholds import measure, undefined

__all__ = ["PooledPairs"]


@dataclass(frozen=True)
class PooledPairs:
    """All pairs as one pool, and how many trials they are to a user."""

    pool: Pooled
    units: Units
    both_orders: bool
    """Whether each pair is met twice."""

    @property
    def lacking(self) -> str | None:
        """Why nothing is defined on these pairs, None if they are of both kinds."""
        if not self.pool.genuine:
            return "not defined: no query has a mate in the gallery"
        if not self.pool.impostors:
            return "not defined: there are no pairs of different classes"
        return None

    @property
    def positives(self) -> int:
        """Number of positive trials."""
        return self._trials(self.pool.genuine)

    @property
    def negatives(self) -> int:
        """Number of negative trials."""
        return self._trials(self.pool.impostors)

    def score(self, metric: Metric) -> Score:
        """A metric's score on these pairs."""
        reason = self.lacking
        return measure(metric, self) if reason is None else undefined(metric, reason)

    def _trials(self, met: int) -> int:
        # In leave-one-out both orders of a pair are met (but for lopsided masks): one trial.
        return -(-met // (2 if self.both_orders else 1))
