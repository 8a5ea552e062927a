"""Accuracy over the folds of a list of trials: LFW's protocol, which no evaluation of pairs has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.metric import Metric, ThresholdDefinition, register
from truerank.families.thresholds import certain, undefined

if TYPE_CHECKING:
    from truerank.core.score import Score

__all__ = ["FoldedTrials"]

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FoldedTrials:
    """Trials that a list deals into folds, each judged at the threshold best on the others."""

    apart: Reals
    """In the user's unit; similarities with their sign turned."""
    same: Flags
    folds: npt.NDArray[np.int64] | None
    larger_is_nearer: bool = False

    @property
    def lacking(self) -> str | None:
        """Why there is no accuracy over folds, None if there is one."""
        if self.folds is None:
            return "not defined: the list of trials has no folds"
        if any(len(np.unique(self.same[self._fold != fold])) < 2 for fold in range(self.count)):
            return "not defined: without some fold all trials are of one kind"
        return None

    @property
    def count(self) -> int:
        """The number of folds."""
        return int(self._fold.max(initial=-1)) + 1

    @cached_property
    def _fold(self) -> npt.NDArray[np.int64]:
        """The fold of each trial, by number."""
        given = np.empty(0, np.int64) if self.folds is None else self.folds
        return np.unique(given, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def thresholds(self) -> Reals:
        """For each fold the least of the thresholds that are right most often on the others."""
        others = (self._fold != fold for fold in range(self.count))
        return np.array([_best(self.apart[rest], self.same[rest]) for rest in others])

    @cached_property
    def right(self) -> Flags:
        """Whether each trial is judged rightly, at the threshold of its fold."""
        return np.asarray((self.apart <= self.thresholds[self._fold]) == self.same)

    @cached_property
    def shares(self) -> list[Fraction]:
        """The share of each fold that is judged rightly."""
        folds = (self.right[self._fold == fold] for fold in range(self.count))
        return [Fraction(int(fold.sum()), len(fold)) for fold in folds]

    @cached_property
    def mean(self) -> Fraction:
        """The mean of the folds' shares."""
        return sum(self.shares, Fraction(0)) / len(self.shares)

    def standard_error(self) -> float:
        """The standard deviation of the folds' shares over the root of their number."""
        count = len(self.shares)
        squares = sum(((share - self.mean) ** 2 for share in self.shares), Fraction(0))
        return math.sqrt(squares / (count * (count - 1)))

    def chance(self) -> float:
        """What accepting or rejecting everything gets, whichever is better on the others."""
        shares = []
        for fold in range(self.count):
            there, rest = self.same[self._fold == fold], self.same[self._fold != fold]
            positive = Fraction(int(there.sum()), len(there))
            shares.append(positive if 2 * int(rest.sum()) > len(rest) else 1 - positive)
        return float(sum(shares, Fraction(0)) / len(shares))

    def to_dict(self) -> dict[str, Any]:
        """The folds' accuracies, their mean and its standard error, and the thresholds.

        A threshold that accepts everything, or nothing, is None.
        """
        sign = -1.0 if self.larger_is_nearer else 1.0
        return {
            "accuracy": float(self.mean),
            "standard_error": self.standard_error(),
            "per_fold": [float(share) for share in self.shares],
            "thresholds": [
                sign * at if math.isfinite(at) else None for at in self.thresholds.tolist()
            ],
        }


def _best(apart: Reals, same: Flags) -> float:
    """The least of the best thresholds: half-way between two neighbouring distances, or beyond."""
    values, place = np.unique(apart, return_inverse=True)
    gain = np.bincount(place, np.where(same, 1, -1), minlength=len(values)).astype(np.int64)
    accepted = int(np.argmax(np.concatenate([[0], np.cumsum(gain)])))
    if accepted == 0:
        return -math.inf
    if accepted == len(values):
        return math.inf
    below, above = float(values[accepted - 1]), float(values[accepted])
    middle = below / 2 + above / 2
    return middle if below <= middle < above else below  # neighbouring floats have no middle


def _score(trials: FoldedTrials, metric: Metric) -> Score:
    reason = trials.lacking
    if reason is not None:
        return undefined(metric, reason)
    return certain(metric, float(trials.mean), len(trials.same), chance=trials.chance())


register(
    ThresholdDefinition(
        "accuracy",
        "accuracy over folds",
        "mean over the folds of a list of trials of the share judged rightly, at the threshold "
        "that is right most often on the other folds",
        "Huang, Ramesh, Berg & Learned-Miller, Labeled Faces in the Wild, 2007",
        score=_score,
        counted="trial",
        ties="none: trials at one distance are accepted or rejected together",
        family="trials",
        examples=("accuracy",),
    )
)
