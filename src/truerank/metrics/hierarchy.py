"""Metrics of graded relevance: H-AP, weighted sums of AP, ASI and NDCG, with bounds.

Grades are the levels of a hierarchy (the length of the common path, 1 to L) or judgements.
Inside a tie group, items come in rising order of relevance (lower), falling order (upper) or
random order (expected).
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.kernels import interpreted
from truerank._util.types import Integers, Reals
from truerank.core.metric import Exclusive, Metric, RankedSums, RankingDefinition, Scale, register
from truerank.core.parameters import LEVEL, NUMBERS, POSITIVE, Choice, Parameter
from truerank.core.tie_groups import NOWHERE, TieGroups
from truerank.metrics import double_double_kernels, hierarchy_kernels
from truerank.metrics.double_double_kernels import harmonics, settled

LARGEST_GRADE = 52
"""The largest grade for which 2^grade - 1 is a float64."""


def _of_levels(metric: Metric, key: str, count: int) -> Reals:
    """A parameter's numbers, one for each level."""
    values = metric[key]
    if len(values) != count:
        raise InputError(
            f"the {key} option of {metric.name} needs one number for each of {count} levels, "
            f"coarse to fine. Got {metric.text(key)!r}."
        )
    return np.array([float(value) for value in values])


def _over(numerator: Reals, denominator: Integers) -> tuple[Reals, Reals]:
    """Elementwise quotients in double-double; 0 where the denominator is 0."""
    safe = np.maximum(denominator, 1).astype(np.float64)
    high = numerator / safe
    # the rest of a division is exact: numerator - high * safe, by splitting both factors
    product, error = interpreted(double_double_kernels.two_product)(high, safe)
    low = ((numerator - product) - error) / safe
    return np.where(denominator > 0, high, 0.0), np.where(denominator > 0, low, 0.0)


@lru_cache(maxsize=64)
def _level_worth(levels: int, alpha: str) -> tuple[float, ...]:
    """l^alpha for l = 1..L, correctly rounded; the common factor L^alpha cancels in H-AP."""
    context = Context(prec=60)
    levels_up = (Decimal(level) for level in range(1, levels + 1))
    return tuple(float(context.power(level, Decimal(alpha))) for level in levels_up)


def level_relevance(totals: Integers, metric: Metric, scale: Scale) -> tuple[Reals, Reals]:
    """The relevance of each query's grades in H-AP, in two parts."""
    custom = metric["rel"] is not None
    if scale.judged and metric["alpha"] != 1:
        raise InputError(
            "h_ap's alpha shapes levels; judgements are used as they are: leave it out."
        )
    if custom or scale.judged:
        values = _of_levels(metric, "rel", len(scale.values)) if custom else scale.values
        high = np.broadcast_to(values, totals.shape).copy()
        return high, np.zeros_like(high)
    worth = np.array(_level_worth(len(scale.values), metric.text("alpha")))
    return _over(np.broadcast_to(worth, totals.shape), totals)


def weight_relevance(totals: Integers, metric: Metric, scale: Scale) -> tuple[Reals, Reals]:
    """The relevance sum_{p <= l} w_p / |level >= p|, which makes H-AP the weighted mean of AP."""
    weights = np.ones(len(scale.values))
    if metric["weights"] is not None:
        weights = _of_levels(metric, "weights", len(weights))
    reached = totals[:, ::-1].cumsum(axis=1)[:, ::-1]
    high, low = _over(np.broadcast_to(weights, totals.shape), reached)
    exactly = interpreted(double_double_kernels.two_sum)
    for level in range(1, high.shape[1]):  # running sums over the levels, in double-double
        total, error = exactly(high[:, level - 1], high[:, level])
        rest = error + (low[:, level - 1] + low[:, level])
        high[:, level], low[:, level] = exactly(total, rest)
    return high, low


def relevance_order(
    worth: Reals, worth_low: Reals, totals: Integers
) -> tuple[npt.NDArray[np.int32], Reals, Reals, Reals, Reals, Reals]:
    """Each query's grades in order of rising relevance, in six arrays.

    The place of each grade; the relevance by place, its upper bits and its low part; and the two
    parts of the sum of all relevances.
    """
    place = np.empty(worth.shape, np.int32)
    value, value_top, value_low = (np.empty(worth.shape) for _ in range(3))
    total, total_low = np.empty(len(worth)), np.empty(len(worth))
    hierarchy_kernels.all_by_relevance(
        worth, worth_low, totals, place, value, value_top, value_low, total, total_low
    )
    return place, value, value_top, value_low, total, total_low


def _h_ap(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    return _weighted(groups, *level_relevance(groups.totals, metric, scale))


def _sum_wap(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    return _weighted(groups, *weight_relevance(groups.totals, metric, scale))


def _weighted(groups: TieGroups, worth: Reals, worth_low: Reals) -> Reals:
    out = np.empty((3, len(groups)))
    if groups.untied and groups.before.max() < NOWHERE:
        ranking = (groups.offsets, groups.before, groups.grade, groups.totals)
        hierarchy_kernels.untied_hierarchical_precision(*ranking, worth, worth_low, out)
        return out
    high, low = harmonics(groups.before, groups.size)
    hierarchy_kernels.hierarchical_precision(
        groups.offsets,
        groups.before,
        groups.size,
        groups.grade,
        groups.graded,
        groups.totals,
        worth,
        worth_low,
        high,
        low,
        out,
    )
    return out


def _h_ap_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return _weighted_ranked(ranked, *level_relevance(ranked.totals, metric, scale))


def _sum_wap_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return _weighted_ranked(ranked, *weight_relevance(ranked.totals, metric, scale))


def _weighted_ranked(ranked: RankedSums, worth: Reals, worth_low: Reals) -> Reals:
    place, value, value_top, value_low, total, total_low = relevance_order(
        worth, worth_low, ranked.totals
    )
    high, low = ranked.weighted_precision_sum(place, value, value_top, value_low)
    return settled(high, low, total, total_low)


def gains(metric: Metric, scale: Scale) -> Reals:
    """NDCG's gain of each grade."""
    gain = scale.values
    if metric["gain"] != "linear":
        if (gain != np.rint(gain)).any() or gain.max() > LARGEST_GRADE:
            raise InputError(
                f"ndcg's gain 2^grade - 1 needs whole grades up to {LARGEST_GRADE}; "
                "use ndcg@gain=linear for these judgements."
            )
        gain = np.ldexp(1.0, gain.astype(np.int64)) - 1.0
    return gain


def cut_and_discounts(
    metric: Metric, totals: Integers, longest: int, most: int = NOWHERE
) -> tuple[int, tuple[Reals, Reals]]:
    """NDCG's cut and its table of discounts, for relevant items up to rank `longest`.

    The table has `most` entries at the most.
    """
    cut = min(longest, NOWHERE) if metric.cut is None else int(metric.cut)
    size = min(cut, max(longest, int(totals.sum(axis=1).max()))) + 1
    return cut, _discounts(min(1 << (size - 1).bit_length(), most))


def _ndcg(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    gain = gains(metric, scale)
    totals = groups.totals
    last = groups.offsets[1:] - 1
    longest = int((groups.before[last] + (1 if groups.untied else groups.size[last])).max())
    tabled = hierarchy_kernels.TABLED + 1
    cut, (high, low) = cut_and_discounts(metric, totals, longest, tabled)
    out = np.empty((3, len(groups)))
    if groups.untied and longest < tabled:
        ranking = (groups.offsets, groups.before, groups.grade, totals)
        steps = _discount_steps(len(high))
        hierarchy_kernels.untied_discounted_gain(*ranking, gain, cut, high, low, *steps, out)
        return out
    hierarchy_kernels.discounted_gain(
        groups.offsets,
        groups.before,
        groups.size,
        groups.grade,
        groups.graded,
        totals,
        gain,
        cut,
        high,
        low,
        out,
    )
    return out


def _ndcg_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    gain = gains(metric, scale)
    cut, tables = cut_and_discounts(metric, ranked.totals, int(ranked.ends[1].max()) + 1)
    sums, sums_low = ranked.discounted(len(gain), cut, tables)
    out = np.empty((3, len(ranked)))
    hierarchy_kernels.settle_gains(sums, sums_low, ranked.totals, gain, cut, *tables, out)
    return out


@lru_cache(maxsize=4)
def _discounts(count: int) -> tuple[Reals, Reals]:
    high, low = np.zeros(count), np.zeros(count)
    hierarchy_kernels.discount_table(count, high, low)
    return high, low


@lru_cache(maxsize=4)
def _discount_steps(count: int) -> tuple[Reals, Reals]:
    step, step_low = np.empty(count - 1), np.empty(count - 1)
    hierarchy_kernels.discount_steps(*_discounts(count), step, step_low)
    return step, step_low


def _asi(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    if len(groups.before) == len(groups):  # one group a query: ties in bulk, and few are different
        table = np.column_stack([groups.before, groups.size, groups.graded])
        distinct, first, number = np.unique(table, axis=0, return_index=True, return_inverse=True)
        if len(distinct) < len(groups):
            few = TieGroups(
                np.arange(len(first) + 1),
                groups.before[first],
                groups.size[first],
                groups.graded[first],
                groups.candidates[first],
            )
            return _asi(few, metric, scale)[:, number.ravel()]
    out = np.empty((3, len(groups)))
    high, low = harmonics_of_depths(groups.totals)
    if groups.untied:
        ranking = (groups.offsets, groups.before, groups.grade, groups.totals)
        hierarchy_kernels.untied_set_intersection(*ranking, high, low, out)
        return out
    hierarchy_kernels.set_intersection(
        groups.offsets,
        groups.before,
        groups.size,
        groups.grade,
        groups.graded,
        groups.totals,
        high,
        low,
        out,
    )
    return out


def _asi_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    tables = harmonics_of_depths(ranked.totals)
    high, low, overlap = ranked.intersected(tables)
    out = np.empty((3, len(ranked)))
    hierarchy_kernels.settle_overlaps(high, low, overlap, ranked.mates, *tables, out)
    return out


def harmonics_of_depths(totals: Integers) -> tuple[Reals, Reals]:
    """H(n) as far as ASI's depths reach, in two parts."""
    return _harmonic_sums(1 << int(totals.sum(axis=1).max()).bit_length())


@lru_cache(maxsize=4)
def _harmonic_sums(count: int) -> tuple[Reals, Reals]:
    high, low = np.empty(count), np.empty(count)
    hierarchy_kernels.harmonic_sums(high, low)
    return high, low


def _asi_effort(totals: Integers, candidates: Integers) -> float:
    """Steps that ASI's chance takes: at each depth, some deviations around the likeliest count."""
    depth = totals.sum(axis=1)
    spread = np.minimum(totals, 24 * np.sqrt(totals * depth[:, None] / candidates[:, None]) + 24)
    return float((depth * spread.sum(axis=1)).sum())


def monotone(totals: Integers) -> npt.NDArray[np.bool_]:
    """Whether Eq. 4 relevance l/|level l| never falls towards finer levels that occur."""
    queries, levels = totals.shape
    good = np.ones(queries, bool)
    for coarse in range(levels):
        for fine in range(coarse + 1, levels):
            both = (totals[:, coarse] > 0) & (totals[:, fine] > 0)
            falls = (coarse + 1) * totals[:, fine] > (fine + 1) * totals[:, coarse]
            good &= ~(both & falls)
    return good


_HAPPIER = "Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval"

for _definition in (
    RankingDefinition(
        "h_ap",
        "hierarchical average precision",
        "AP in which an item counts by its relevance: (l/L)^alpha shared by the items whose common "
        "path with the query has length l",
        f"{_HAPPIER}, ECCV 2022",
        per_query=_h_ap,
        ranked=_h_ap_ranked,
        graded=True,
        family="hierarchy",
        parameters=(
            Parameter("alpha", POSITIVE, "the larger, the more the finer levels count", "1"),
            Parameter("rel", NUMBERS, "your relevances, one for each level, coarse to fine"),
        ),
        exclusive=(Exclusive("alpha", "rel", "relevances of your own need none"),),
        examples=("h_ap", "h_ap@alpha=3", "h_ap@alpha=0.5"),
    ),
    RankingDefinition(
        "sum_wap",
        "weighted mean of the levels' AP",
        "mean, with weights, of the AP at each level with a relevant item; always prefers finer "
        "matches",
        f"{_HAPPIER}, ECCV 2022, supplementary A.2",
        per_query=_sum_wap,
        ranked=_sum_wap_ranked,
        graded=True,
        family="hierarchy",
        parameters=(
            Parameter("weights", NUMBERS, "one for each level, coarse to fine; all 1 if left out"),
        ),
        examples=("sum_wap",),
    ),
    RankingDefinition(
        "asi",
        "average set intersection",
        "overlap of the first n items with the n best possible ones, level by level, averaged over "
        "n up to the number of relevant items",
        "Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate "
        "Multiple Semantic Scales, CVPR 2021",
        per_query=_asi,
        ranked=_asi_ranked,
        graded=True,
        family="hierarchy",
        parameters=(LEVEL,),
        effort=_asi_effort,
        examples=("asi", "asi@level=1", "asi@level=mean"),
    ),
    RankingDefinition(
        "ndcg",
        "normalised discounted cumulative gain",
        "sum of (2^grade - 1)/log2(1 + rank), divided by that of the best order of all items; with "
        "@k only ranks up to k count",
        "Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, TOIS 2002; "
        "Burges et al., ICML 2005",
        per_query=_ndcg,
        ranked=_ndcg_ranked,
        graded=True,
        family="hierarchy",
        cut="number or none",
        parameters=(
            Parameter(
                "gain",
                Choice(("exponential", "linear")),
                "of a grade: 2^grade - 1, or the grade itself, as in nDCG@k, ndcg_cut_k, ndcg_at_k",
                "exponential",
            ),
        ),
        examples=("ndcg", "ndcg@5", "ndcg@gain=linear"),
    ),
):
    register(_definition)
