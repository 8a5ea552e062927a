"""Claims of papers: what each says, the rule that judges it, the evidence, the verdict.

The rule is a sentence, and a function of the evidence alone turns it into one of four verdicts.
It was written before the run; where a part of it was not, the page says so under what was run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

REPRODUCED = "reproduced"
IN_DIRECTION = "reproduced in direction"
NOT_REPRODUCED = "not reproduced"
UNDECIDED = "undecided"
VERDICTS = (REPRODUCED, IN_DIRECTION, NOT_REPRODUCED, UNDECIDED)
"""From the best to the least informative."""
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Evidence:
    """One number that a claim is judged by."""

    what: str
    value: float | None
    interval: tuple[float, float] | None = None
    paper: str = ""
    """What the paper has in its place."""
    scale: float = 1.0
    """What the number is multiplied by where it is shown: 100 for points."""
    digits: int = 2
    reason: str = ""
    """Why there is no value or no interval, where there should be one."""

    def shown(self) -> str:
        """The number as a page shows it."""
        if self.value is None:
            return self.reason or "none"
        text = self._number(self.value)
        if self.interval is not None:
            low, high = map(self._number, self.interval)
            text += f" ({low} to {high})"
        elif self.reason:
            text += f" ({self.reason})"
        return text

    def _number(self, value: float) -> str:
        scaled = self.scale * value
        if scaled != 0 and (abs(scaled) >= 1e6 or abs(scaled) < 10.0**-self.digits):
            return f"{scaled:.2e}"
        return f"{scaled:,.{self.digits}f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "what": self.what,
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "paper": self.paper,
            "scale": self.scale,
            "digits": self.digits,
            "reason": self.reason,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Evidence:
        """The inverse of to_dict."""
        ends = data["interval"]
        return Evidence(**{**data, "interval": None if ends is None else (ends[0], ends[1])})


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict."""

    key: str
    """A letter: (a), (b), ..."""
    statement: str
    """What the paper claims, in our words, with the place where it does."""
    rule: str
    """When it counts as reproduced."""
    verdict: str
    evidence: Sequence[Evidence] = field(default_factory=tuple)
    explanation: str = ""
    """What was found, and what else was tried if the claim failed."""
    tell: str = ""
    """The budget that would decide it, where the verdict is undecided."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.verdict!r} is no verdict")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "key": self.key,
            "statement": self.statement,
            "rule": self.rule,
            "verdict": self.verdict,
            "evidence": [one.to_dict() for one in self.evidence],
            "explanation": self.explanation,
            "tell": self.tell,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Claim:
        """The inverse of to_dict."""
        evidence = tuple(Evidence.from_dict(one) for one in data["evidence"])
        return Claim(**{**data, "evidence": evidence})


def decide_above(evidence: Evidence, bound: float = 0.0) -> str:
    """Whether a number is above a bound: its whole interval, its value alone, or not at all.

    Reproduced if the lower end is above the bound, not reproduced if the upper end is not, and
    undecided in between or without an interval.
    """
    if evidence.value is None or evidence.interval is None:
        return UNDECIDED
    low, high = evidence.interval
    if low > bound:
        return REPRODUCED
    return NOT_REPRODUCED if high <= bound else UNDECIDED


def decide_below(evidence: Evidence, bound: float = 0.0) -> str:
    """Whether a number is below a bound; see decide_above."""
    if evidence.value is None or evidence.interval is None:
        return UNDECIDED
    low, high = evidence.interval
    if high < bound:
        return REPRODUCED
    return NOT_REPRODUCED if low >= bound else UNDECIDED


def budget(
    evidence: Sequence[Evidence],
    seeds: int,
    bound: float = 0.0,
    decide: Callable[[Sequence[Evidence]], str] | None = None,
) -> str:
    """Number of seeds that would decide a claim, from interval widths and distances to a bound.

    A half-width falls with the root of the number of seeds at best: what is due to the test
    classes stays. All evidence has to be off the bound, or as much as `decide` needs for a verdict.
    """
    each = sorted({_seeds_for(one, seeds, bound) for one in evidence} | {seeds})
    needed, verdict = each[-1], ""
    if decide is not None:
        found = (
            (number, decide([_narrowed(one, math.sqrt(seeds / number)) for one in evidence]))
            for number in each
        )
        needed, verdict = next(
            (one for one in found if one[1] != UNDECIDED), (MOST_SEEDS, UNDECIDED)
        )
    if needed >= MOST_SEEDS:
        return "No number of seeds that is feasible: the values are at the bound."
    would = f" (then *{verdict}*, if the values do not change)" if verdict else ""
    return (
        f"About {needed} seeds instead of {seeds}{would}, if the intervals are wide because of "
        "the runs; the part due to the test classes shrinks only with more test classes."
    )


def _seeds_for(one: Evidence, seeds: int, bound: float) -> int:
    """How many seeds put an interval on one side of a bound."""
    if one.value is None or one.interval is None or not one.interval[0] <= bound < one.interval[1]:
        return seeds
    away, half = abs(one.value - bound), (one.interval[1] - one.interval[0]) / 2
    if away == 0:
        return MOST_SEEDS
    return min(MOST_SEEDS, math.ceil(seeds * (half / away) ** 2))


def _narrowed(one: Evidence, by: float) -> Evidence:
    if one.value is None or one.interval is None:
        return one
    half = (1 - 1e-9) * by * (one.interval[1] - one.interval[0]) / 2  # just off the bound
    return replace(one, interval=(one.value - half, one.value + half))


def combined(verdicts: Sequence[str]) -> str:
    """The verdict of a claim all of whose parts must hold.

    Reproduced if all parts are; not reproduced if none of them is and none is open; in direction if
    some are and none is open; else undecided.
    """
    if not verdicts:
        return UNDECIDED
    if all(one == REPRODUCED for one in verdicts):
        return REPRODUCED
    if UNDECIDED in verdicts:
        return UNDECIDED
    if all(one == NOT_REPRODUCED for one in verdicts):
        return NOT_REPRODUCED
    return IN_DIRECTION
