"""Curves of a result: ROC and DET, DIR over FAR, CMC, and GOM's over its threshold axis.

A curve is a mapping from the names of its columns to arrays of one length, the abscissa first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.engine.counts import TieGroups
from truerank.evidence.gom import POINTS
from truerank.metrics import registry
from truerank.metrics.average import mean
from truerank.metrics.openset import observed_below
from truerank.metrics.registry import Metric, Scale

if TYPE_CHECKING:
    from truerank.evidence import Evidence
    from truerank.evidence.pooled import Pooled
    from truerank.space import Space

__all__ = ["Curve", "FirstMates", "from_evidence", "of_pairs"]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
ENDS = ("lower", "expected", "upper")


class Curve(Mapping[str, npt.NDArray[Any]]):
    """Columns of a curve by name.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> r.curve("cmc", ranks=3)["lower"].tolist()
    [0.75, 0.75, 1.0]
    """

    def __init__(self, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self.name, self._columns = name, dict(columns)

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        points = len(next(iter(self._columns.values())))
        return f"<curve {self.name}: {', '.join(self)}; {points:,} points>"


@dataclass(frozen=True)
class FirstMates:
    """The tie group of every query's nearest mate: all that the CMC curve depends on."""

    before: Integers
    size: Integers
    relevant: Integers

    def cmc(self, ranks: int) -> Curve:
        """hit@1, hit@2, ... with their tie bounds."""
        count = len(self.before)
        groups = TieGroups(
            np.arange(count + 1),
            self.before,
            self.size,
            self.relevant.astype(np.int32)[:, None],
            self.before + self.size,
        )
        hit = registry.ranking(Metric("hit", 1)).per_query
        one = Scale(np.ones(1))
        triples = [hit(groups, Metric("hit", rank), one) for rank in range(1, ranks + 1)]
        values = np.array([[mean(end) for end in triple] for triple in triples]).T
        columns = dict(zip(ENDS, values, strict=True))
        return Curve("cmc", {"rank": np.arange(1, ranks + 1), **columns})


def from_evidence(evidence: Evidence) -> dict[str, Curve]:
    """Every curve that what was seen can be drawn as."""
    found: dict[str, Curve] = {}
    targets, impostors = int(evidence.with_mate.sum()), int((~evidence.with_mate).sum())
    tau = np.arange(POINTS + 1) / POINTS
    for scale, gom in evidence.gom.items():
        if isinstance(gom, str):
            continue
        end = "" if scale == "fixed" else f"@scale={scale}"
        if targets:
            for number, name in enumerate(("mrp", "mvp", "mrep")):
                rows = dict(zip(ENDS, gom.curve(number, targets), strict=True))
                found[name + end] = Curve(name + end, {"tau": tau, **rows})
            rows = dict(zip(ENDS, gom.curve(3, targets), strict=True))
            name = "mrep@fp=frozen" + end.replace("@", ",")
            found[name] = Curve(name, {"tau": tau, **rows})
        for limit in gom.limits if impostors else ():
            name = str(registry.parse(f"mfr@b={limit},scale={scale}"))
            found[name] = Curve(name, {"tau": tau, "value": gom.false_curve(limit, impostors)})
    if targets and impostors:
        for rank in evidence.hits:
            name = "dir" if rank == 1 else f"dir@rank={rank}"
            found[name] = Curve(name, _dir_over_far(evidence, rank))
    if evidence.has_pool:
        pool = evidence.pool
        if pool.whole_curve and pool.genuine and pool.impostors:
            found |= of_pairs(pool, evidence.space)
    return found


def of_pairs(pool: Pooled, space: Space) -> dict[str, Curve]:
    """ROC and DET."""
    far, tar, threshold = _operating_points(pool, space)
    return {
        "roc": Curve("roc", {"far": far, "tar": tar, "threshold": threshold}),
        "det": Curve("det", {"far": far, "frr": 1 - tar, "threshold": threshold}),
    }


def _dir_over_far(evidence: Evidence, rank: int) -> dict[str, npt.NDArray[Any]]:
    """DIR where r of the queries without a mate are accepted, r from 0 to all of them.

    The threshold is NaN where nothing at all is accepted.
    """
    impostors = np.sort(evidence.nearest[~evidence.with_mate])
    count = len(impostors)
    accepted = np.unique(np.linspace(0, count, min(count, POINTS) + 1).astype(np.int64))
    limits = np.append(impostors, np.inf)[accepted]
    order = np.argsort(evidence.first[evidence.with_mate], kind="stable")
    first = evidence.first[evidence.with_mate][order]
    hits = evidence.hits[rank][:, evidence.with_mate][:, order]
    totals = _running_means(hits)
    place = np.searchsorted(first, limits, side="left")
    columns: dict[str, npt.NDArray[Any]] = {"far": np.searchsorted(impostors, limits) / count}
    columns |= dict(zip(ENDS, totals[:, place], strict=True))
    largest = observed_below(evidence, limits)
    threshold = evidence.space.in_unit(np.where(np.isfinite(largest), largest, 0.0))
    return columns | {"threshold": np.where(np.isfinite(largest), threshold, np.nan)}


def _running_means(hits: Reals) -> Reals:
    """Means over all queries of the hits of the first n, summed in integers."""
    count = hits.shape[1]
    one = 2.0 ** min(52, 62 - count.bit_length())
    sums = np.zeros((3, count + 1), np.int64)
    np.cumsum(np.rint(hits * one).astype(np.int64), axis=1, out=sums[:, 1:])
    return np.asarray(sums / (one * count), np.float64)


def _operating_points(pool: Pooled, space: Space) -> tuple[Reals, Reals, Reals]:
    """FAR, TAR and threshold: every corner of the curve, or some where there are very many."""
    steps = np.flatnonzero(np.diff(pool.true_accepts, prepend=0))
    if len(steps) > POINTS:
        true = np.linspace(0, pool.genuine, POINTS // 2 + 1)
        false = np.logspace(0, np.log10(pool.impostors), POINTS // 2 + 1)
        places = [
            np.searchsorted(counts[steps], wanted)
            for counts, wanted in ((pool.true_accepts, true), (pool.false_accepts, false))
        ]
        steps = steps[np.unique(np.minimum(np.concatenate(places), len(steps) - 1))]
    keep = np.unique(np.concatenate([steps - 1, steps]))
    keep = keep[keep >= 0]
    with np.errstate(invalid="ignore"):  # just below the distance 0 lies nothing: NaN
        threshold = space.in_unit(pool.cuts.at[keep])
    return (
        np.concatenate([[0.0], pool.false_accepts[keep] / pool.impostors, [1.0]]),
        np.concatenate([[0.0], pool.true_accepts[keep] / pool.genuine, [1.0]]),
        np.concatenate([[np.nan], threshold, [np.nan]]),
    )
