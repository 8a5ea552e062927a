"""The claims about GOM, judged from the results of every model and seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truerank.benchmark.groups import compare_methods
from truerank.reproduce.claims import (
    IN_DIRECTION,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Evidence,
)
from truerank.reproduce.gom.agreement import Column, correlation_interval, rescaled_false_rate
from truerank.reproduce.gom.configuration import SHARES, limits_of
from truerank.reproduce.trained import Finished

__all__ = ["inversions", "judge", "rescaled"]

AGREES = 0.7
"""A rank correlation above which two metrics order eight models alike."""
POWERS = {"sqrt d": 0.5, "d^2": 2.0}


def judge(finished: Sequence[Finished], rates: Sequence[str]) -> list[Claim]:
    """Claims (a) and (b)."""
    return [_inversion(finished), _false_rate(finished, rates)]


def inversions(one: Finished) -> list[dict[str, Any]]:
    """Pairs that mAP and mVP_max order differently, with both differences and Holm's p."""
    by_map, by_vp = (compare_methods(one.runs, metric)["pairs"] for metric in ("map", "mvp_max"))
    found = []
    for a, b in zip(by_map, by_vp, strict=True):
        if a["difference"] * b["difference"] < 0:
            both = [1.0 if p is None else p for p in (a["adjusted_p"], b["adjusted_p"])]
            pair = {"first": a["first"], "second": a["second"], "map": a, "mvp_max": b}
            found.append({**pair, "p": max(both), "p of one": min(both)})
    return sorted(found, key=lambda pair: (pair["p"], pair["p of one"]))


def _inversion(finished: Sequence[Finished]) -> Claim:
    evidence, certain, half, seen = [], 0, 0, 0
    for one in finished:
        pairs = inversions(one)
        seen += len(pairs)
        certain += sum(pair["p"] < 0.05 for pair in pairs)
        half += sum(pair["p"] >= 0.05 > pair["p of one"] for pair in pairs)
        for pair in pairs[:2]:
            for metric in ("map", "mvp_max"):
                found = pair[metric]
                ends = found["interval"]
                p = found["adjusted_p"]
                evidence.append(
                    Evidence(
                        f"{one.name}: {metric} of {pair['first']} less {pair['second']} (points; "
                        f"p {'none' if p is None else f'{p:.3g}'} by Holm)",
                        found["difference"],
                        None if ends is None else (ends[0], ends[1]),
                        scale=100,
                        reason=found["reason"] or "",
                    )
                )
        if not pairs:
            evidence.append(Evidence(f"{one.name}: pairs in another order", 0, digits=0))
    if certain:
        verdict = REPRODUCED
    elif half:
        verdict = IN_DIRECTION
    elif seen:
        verdict = UNDECIDED
    else:
        verdict = NOT_REPRODUCED
    count = sum(len(one.methods) * (len(one.methods) - 1) // 2 for one in finished)
    return Claim(
        "a",
        "A model that is better by mAP need not be better by mVP_max: retrieval and verification "
        "order models differently (section 7, Table 3).",
        "Reproduced if at least one pair of models stands in opposite order in mAP and in mVP_max, "
        "both differences certain (p below .05 by Holm over all pairs of a data set); in direction "
        "if one of the two is; undecided if pairs do so and neither is; not reproduced if none "
        "does.",
        verdict,
        evidence,
        f"Of {count} pairs, {seen} stand in opposite order; both differences are certain for "
        f"{certain} of them, one of the two for {half}.",
        "More seeds, or models that lie farther apart.",
    )


def rescaled(one: Finished, limit: int, power: float) -> np.ndarray[Any, Any]:
    """(models, seeds): MFR of the distances to a power, from the curves of the folds' models."""
    folds = range(one.config.protocol.folds)
    name = f"mfr@b={limit}"
    found = []
    for method in one.methods:
        values = []
        for seed in one.seeds:
            ends = [
                rescaled_false_rate(one.saved(method, seed, fold).curve(name), power)
                for fold in folds
            ]
            values.append(math.fsum((low + high) / 2 for low, high in ends) / len(ends))
        found.append(values)
    return np.array(found)


def _false_rate(finished: Sequence[Finished], rates: Sequence[str]) -> Claim:
    evidence, stays, agrees = [], [], []
    for one in finished:
        gallery = int(one.saved(one.methods[0], one.seeds[0], 0).provenance["gallery"])
        limits = limits_of(gallery)
        limit = limits[SHARES[1]]
        name = f"mfr@b={limit}"
        plain = Column.of(one.runs, name)
        others: Mapping[str, Column] = {
            **{words: Column(rescaled(one, limit, power), None) for words, power in POWERS.items()},
            "min-max": Column.of(one.runs, f"{name},scale=minmax"),
        }
        for words, column in others.items():
            stays.append(_correlated(f"{one.name}: order after {words}", plain, column))
        for rate in rates:
            found = Column.of(one.runs, f"dir@far={rate}")
            turned = Column(-found.values, None if found.moves is None else -found.moves)
            what = f"{one.name}: order by DIR at FAR {rate} (reversed: lower is better)"
            agrees.append(_correlated(what, plain, turned))
            at_rate = Column.of(one.runs, f"mfr@b={limit},far={rate}")
            agrees.append(_correlated(f"{one.name}: order by mFR at FAR {rate}", plain, at_rate))
        for share, other in limits.items():
            if other != limit:
                column = Column.of(one.runs, f"mfr@b={other}")
                evidence.append(
                    _correlated(f"{one.name}: order with B {100 * share:g} % of the gallery",
                                plain, column)
                )  # fmt: skip
    lows = [item.interval[0] if item.interval else None for item in [*stays, *agrees]]
    highs = [item.interval[1] if item.interval else None for item in [*stays, *agrees]]
    if any(high is not None and high < AGREES for high in highs):
        verdict = NOT_REPRODUCED
    elif all(low is not None and low > AGREES for low in lows):
        verdict = REPRODUCED
    else:
        verdict = UNDECIDED
    return Claim(
        "b",
        "MFR finds the models that are unfit for the open set (sections 5 and 7).",
        "Reproduced if the order of the models by MFR survives the square root, the square and the "
        "min-max rescaling of distances, and agrees with the orders by DIR and by mFR at a common "
        f"FAR: Spearman's correlations with lower ends above {AGREES:g}. Not reproduced if one of "
        f"them has its upper end below {AGREES:g}, else undecided.",
        verdict,
        [*stays, *agrees, *evidence],
        "MFR integrates over a scale that each model makes for itself: "
        f"{_ends(finished[-1], rates)} Tried to save it: other B, and a higher FAR, both in the "
        "table. `mrep@far`, `mvp@far`, "
        "`mrp@far` and `mfr@far` do not depend on the scale, and stand beside it among the "
        "defaults.",
        "More seeds narrow the intervals of the correlations; more models would as well."
        if verdict == UNDECIDED
        else "",
    )


def _ends(one: Finished, rates: Sequence[str]) -> str:
    """The models that MFR finds best and worst, and what they find at a FAR, in a sentence."""
    limit = limits_of(int(one.saved(one.methods[0], one.seeds[0], 0).provenance["gallery"]))
    name, rate = f"mfr@b={limit[SHARES[1]]}", rates[-1]
    values = {method: one.summary(method, name)["mean"] for method in one.methods}
    told = [
        f"{method} ({100 * values[method]:.1f} %, DIR at FAR {rate} "
        f"{100 * one.summary(method, f'dir@far={rate}')['mean']:.2f} %)"
        for method in (min(values, key=values.__getitem__), max(values, key=values.__getitem__))
    ]
    return f"on {one.name} it finds {told[0]} the best and {told[1]} the worst."


def _correlated(what: str, a: Column, b: Column) -> Evidence:
    value, ends = correlation_interval(a, b)
    if math.isnan(value):
        return Evidence(what, None, reason="all models are equal")
    return Evidence(what, value, ends, reason="" if ends else "too few draws differ")
