"""Binary ranking metrics per query, with their mean over the order of ties: AP, MRR and others.

From tie groups follow (lower bound, expected, upper bound) of every query. Inside a tie group
the relevant items come last (lower), first (upper) or in random order (expected, by the closed
forms of McSherry & Najork 2008): the true minimum, mean and maximum over all rankings that
agree with the scores. The sums of changes without each jackknife group are also started here,
in plain float64 with a fixed order of operations, as they only say how much a score varies.
"""

from __future__ import annotations

import numpy as np

from truerank._util.types import Flags, Integers, Reals
from truerank.core.metric import (
    DeleteKernel,
    Law,
    Metric,
    RankedSums,
    RankingDefinition,
    Scale,
    register,
)
from truerank.core.parameters import LEVEL, Choice, Parameter
from truerank.core.tie_groups import NOWHERE, LeftOut, TieGroups
from truerank.metrics import ranking_kernels
from truerank.metrics.double_double_kernels import harmonics, settled
from truerank.metrics.ranking_kernels import _AVERAGE_PRECISION, _FIRST, _FOUND, _LAST, _add_moves

Triple = Reals
"""Shape (3, queries): lower, expected, upper."""


def _cut(groups: TieGroups, metric: Metric) -> Integers:
    if metric.cut == "r":
        return groups.mates
    return np.full(len(groups), NOWHERE if metric.cut is None else metric.cut, np.int64)


def _found(groups: TieGroups, cut: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Relevant items among the first `cut`: fewest, most, and the mean as numerator, denominator.

    Only the one group that straddles the cut can hold a fraction of its relevant items.
    """
    each = np.repeat(cut, np.diff(groups.offsets))
    before, size, relevant = groups.before, groups.size, groups.relevant
    fewest = groups.per_query(np.clip(each - (before + size - relevant), 0, relevant))
    most = groups.per_query(np.clip(each - before, 0, relevant))
    whole = groups.per_query(np.where(before + size <= each, relevant, 0))
    straddles = (before < each) & (each < before + size)
    width = np.maximum(groups.per_query(np.where(straddles, size, 0)), 1)
    part = groups.per_query(np.where(straddles, relevant * (each - before), 0))
    return fewest, most, whole * width + part, width


def _share(groups: TieGroups, cut: Integers, divisor: Integers) -> Triple:
    if groups.untied:
        inside = np.empty(len(groups), np.int64)
        ranking_kernels.count_before(groups.offsets, groups.before, cut, inside)
        return _alike(inside / divisor)
    fewest, most, numerator, denominator = _found(groups, cut)
    return np.stack([fewest / divisor, numerator / (denominator * divisor), most / divisor])


def _alike(values: Reals) -> Triple:
    """Of queries whose order is not open, all three bounds are one."""
    return np.broadcast_to(values, (3, len(values)))


def _precision(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    cut = _cut(groups, metric)
    return _share(groups, cut, cut)


def _r_precision(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    return _share(groups, groups.mates, groups.mates)


def _recall(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    return _share(groups, _cut(groups, metric), groups.mates)


def _recall_at_1(metric: Metric) -> str | None:
    if metric.cut != 1:
        return None
    return (
        "recall@1 is the share of the relevant items found at rank 1; metric-learning papers mean "
        "hit@1 by Recall@1."
    )


def _hit(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    """Whether relevant items of the first group reach into the first `cut`; no other matters."""
    cut = _cut(groups, metric)
    first = groups.offsets[:-1]
    if groups.untied:
        return _alike((groups.before[first] < cut).astype(np.float64))
    before, size, relevant = groups.before[first], groups.size[first], groups.relevant[first]
    lower = (before + size - relevant < cut).astype(np.float64)
    upper = (before < cut).astype(np.float64)
    expected = lower.copy()
    open_ = np.flatnonzero(lower != upper)
    drawn = cut[open_] - before[open_]
    reached = np.empty(len(open_))
    ranking_kernels.expected_hit(size[open_], relevant[open_], drawn, reached)
    expected[open_] = reached
    return np.stack([lower, expected, upper])


def _average_precision(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    cut = _cut(groups, metric)
    divisor = groups.mates
    if metric["divisor"] == "min":
        divisor = np.minimum(divisor, cut)
    out = np.empty((3, len(groups)))
    high, low = harmonics(groups.before, groups.size)
    ranking_kernels.average_precision(
        groups.offsets, groups.before, groups.size, groups.relevant, cut, divisor, high, low, out
    )
    return out


def _reciprocal_rank(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    numerator, cut = np.ones(len(groups), np.int64), _cut(groups, metric)
    return _extreme(groups, groups.offsets[:-1], numerator, cut, last=False)


def _inverse_negative_penalty(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    return _extreme(groups, groups.offsets[1:] - 1, groups.mates, _cut(groups, metric), last=True)


def _extreme(
    groups: TieGroups, which: Integers, numerator: Integers, cut: Integers, *, last: bool
) -> Triple:
    """numerator/rank, 0 beyond the cut, of the first or last relevant item, in groups `which`."""
    before, size, relevant = groups.before[which], groups.size[which], groups.relevant[which]
    if groups.untied:
        return _alike(_inverse(numerator, before + 1, cut))
    lower = _inverse(numerator, before + size if last else before + size - relevant + 1, cut)
    upper = _inverse(numerator, before + relevant if last else before + 1, cut)
    expected = lower.copy()
    tied = np.flatnonzero((relevant < size) & (before < cut))
    if tied.size:
        # Equal groups have equal expectations; ties in bulk come in few distinct groups.
        room = np.minimum(size, cut - before)
        columns = (before, size, relevant, numerator, room)
        table = np.column_stack([column[tied] for column in columns])
        distinct, number = np.unique(table, axis=0, return_inverse=True)
        k, t, m, top, reached = (np.ascontiguousarray(column) for column in distinct.T)
        out = np.empty(len(distinct))
        high, low = harmonics(k, t)
        ranking_kernels.expected_extreme_rank(k, t, m, reached, last, top, high, low, out)
        expected[tied] = np.clip(out[number.ravel()], lower[tied], upper[tied])
    return np.stack([lower, expected, upper])


def _inverse(numerator: Integers, rank: Integers, cut: Integers) -> Reals:
    """numerator/rank, 0 for ranks beyond the cut."""
    return np.where(rank <= cut, numerator / rank, 0.0)


def _binary_preference(groups: TieGroups, metric: Metric, scale: Scale) -> Triple:
    """A mate with c others before it earns D - min(c, R), of D = min(R, N) for each of R mates.

    Of a group's o others, any number from 0 to o is equally likely to come before one of its mates.
    Unless R is passed inside the group, a mate so earns the mean of first and last place. Else
    D = R, and its o + 1 places earn first, first - 1, ..., 1, 0, ..., 0, in all
    first (first + 1) / 2. No query has two groups of that kind.
    """
    mates, own = groups.mates, np.diff(groups.offsets)
    most = np.maximum(np.minimum(mates, groups.candidates - mates), 1)  # without others all earn 1
    seen = np.concatenate([[0], np.cumsum(groups.relevant)])
    before = groups.before - seen[:-1] + np.repeat(seen[groups.offsets[:-1]], own)
    others = groups.size - groups.relevant
    limit, whole = np.repeat(mates, own), np.repeat(most, own)
    first = whole - np.minimum(before, limit)
    last = whole - np.minimum(before + others, limit)
    passed = (before < limit) & (limit < before + others)
    twice = groups.per_query(np.where(passed, 0, groups.relevant * (first + last)))
    total = mates * most
    expected = twice / (2 * total)

    inside = np.flatnonzero(passed)
    query = np.searchsorted(groups.offsets, inside, side="right") - 1
    # Products of several counts outgrow 64 bits; Python's integers do not, and round once.
    places, top = (others[inside] + 1).astype(object), first[inside].astype(object)
    part = groups.relevant[inside] * top * (top + 1)
    expected[query] = (twice[query] * places + part) / (2 * total[query] * places)

    lower = groups.per_query(groups.relevant * last)
    upper = groups.per_query(groups.relevant * first)
    return np.stack([lower / total, expected, upper / total])


def _cut_without(metric: Metric) -> int:
    return UP_TO_R if metric.cut == "r" else NOWHERE if metric.cut is None else int(metric.cut)


def _precision_without(metric: Metric) -> DeleteKernel:
    return found(_cut_without(metric), _cut_without(metric))


def _r_precision_without(metric: Metric) -> DeleteKernel:
    return found(UP_TO_R, UP_TO_R)


def _recall_without(metric: Metric) -> DeleteKernel:
    return found(_cut_without(metric), UP_TO_R)


def _hit_without(metric: Metric) -> DeleteKernel:
    return found(_cut_without(metric), 0)


def _average_precision_without(metric: Metric) -> DeleteKernel:
    return average_precision_without(_cut_without(metric), metric["divisor"] == "min")


def _reciprocal_rank_without(metric: Metric) -> DeleteKernel:
    return rank_of_first(_cut_without(metric))


def _inverse_negative_penalty_without(metric: Metric) -> DeleteKernel:
    return RANK_OF_LAST


def _cut_ranked(ranked: RankedSums, metric: Metric) -> Integers:
    """Number of ranks that count for each query."""
    if metric.cut == "r":
        return ranked.mates
    most = ranked.items if metric.cut is None else min(int(metric.cut), ranked.items)
    return np.full(len(ranked), most, np.int64)


def _precision_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    cut = _cut_ranked(ranked, metric)
    asked = cut if metric.cut == "r" else np.full(len(ranked), int(metric.cut or 0))
    return ranked.found(cut) / asked


def _r_precision_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return ranked.found(ranked.mates) / ranked.mates


def _recall_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return ranked.found(_cut_ranked(ranked, metric)) / ranked.mates


def _hit_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return (ranked.ends[0] < _cut_ranked(ranked, metric)).astype(np.float64)


def _reciprocal_rank_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return _inverse(np.ones(1, np.int64), ranked.ends[0] + 1, _cut_ranked(ranked, metric))


def _inverse_negative_penalty_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    return ranked.mates / (ranked.ends[1] + 1)


def _average_precision_ranked(ranked: RankedSums, metric: Metric, scale: Scale) -> Reals:
    cut = _cut_ranked(ranked, metric)
    divisor = ranked.mates
    if metric["divisor"] == "min":
        asked = cut if metric.cut in (None, "r") else np.full(len(ranked), int(metric.cut))
        divisor = np.minimum(divisor, asked)
    high, low = ranked.precision_sum(cut)
    return settled(high, low, divisor.astype(np.float64), np.zeros(len(ranked)))


_DIVISORS = {"r": "r", "min": "smaller"}
_REALITY = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"
_MANNING = "Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008, chapter 8"


# How values of ranking metrics move without each fold of the gallery, added up query by query.
#
# Tie groups split by fold come in; sums over the queries go out, as truerank.core.jackknife takes
# them. One kernel does it all for a run of queries: what is computed of one query stays in the
# processor's cache, and threads meet only where they begin and end. Plain float64 with a fixed
# order of operations: these values only say how far a score moves.


UP_TO_R = -1
"""The cut-off R, each query's number of mates."""

RANK_OF_LAST = DeleteKernel(_LAST)
"""R / rank of the last mate."""


def found(cut: int, divisor: int) -> DeleteKernel:
    """Mates among the first `cut`, over `divisor` (UP_TO_R: over R; 0: 1 if there are any)."""
    return DeleteKernel(_FOUND, cut, divisor)


def rank_of_first(cut: int) -> DeleteKernel:
    """1 / rank of the first mate, 0 if that rank is beyond the cut."""
    return DeleteKernel(_FIRST, cut)


def average_precision_without(cut: int, smaller: bool) -> DeleteKernel:
    """Sum of precisions at mates up to the cut, over R, or over min(R, cut)."""
    return DeleteKernel(_AVERAGE_PRECISION, cut, int(smaller))


for _definition in (
    RankingDefinition(
        "precision",
        "precision at k",
        "relevant items among the first k, divided by k",
        _MANNING,
        per_query=_precision,
        reduced=_precision_without,
        law=lambda metric: Law("found", divisor="cut"),
        ranked=_precision_ranked,
        cut="number",
        parameters=(LEVEL,),
        examples=("precision@1", "precision@10", "precision@1,level=1"),
    ),
    RankingDefinition(
        "r_precision",
        "R-precision",
        "precision at R, the query's number of relevant items",
        _REALITY,
        per_query=_r_precision,
        reduced=_r_precision_without,
        law=lambda metric: Law("found", up_to_r=True),
        parameters=(LEVEL,),
        ranked=_r_precision_ranked,
        examples=("r_precision",),
    ),
    RankingDefinition(
        "map",
        "mean average precision",
        "precision at the rank of each relevant item, summed and divided by R; with @r or @k only "
        "ranks up to R or k count",
        f"{_MANNING}; MAP@R: {_REALITY}",
        per_query=_average_precision,
        reduced=_average_precision_without,
        law=lambda metric: Law("precision", divisor=_DIVISORS[metric["divisor"]]),
        ranked=_average_precision_ranked,
        cut="optional",
        parameters=(
            Parameter(
                "divisor",
                Choice(("r", "min")),
                "what the sum is divided by: R, or the smaller of R and k",
                "r",
                needs_cut=True,
            ),
            LEVEL,
        ),
        examples=(
            "map",
            "map@r",
            "map@10",
            "map@10,divisor=min",
            "map@level=1",
            "map@r,level=mean",
        ),
    ),
    RankingDefinition(
        "hit",
        "hit rate at k (CMC)",
        "1 if any relevant item is among the first k, else 0; metric-learning papers call it "
        "Recall@k",
        "Moon & Phillips, Computational and performance aspects of PCA-based face-recognition "
        "algorithms, Perception 2001",
        per_query=_hit,
        reduced=_hit_without,
        law=lambda metric: Law("found", "first", "one"),
        ranked=_hit_ranked,
        cut="number",
        parameters=(LEVEL,),
        examples=("hit@1", "hit@5"),
    ),
    RankingDefinition(
        "recall",
        "recall at k",
        "relevant items among the first k, divided by R (not the hit rate)",
        _MANNING,
        per_query=_recall,
        reduced=_recall_without,
        law=lambda metric: Law("found"),
        ranked=_recall_ranked,
        advice=_recall_at_1,
        cut="number",
        parameters=(LEVEL,),
        examples=("recall@1", "recall@10"),
    ),
    RankingDefinition(
        "mrr",
        "mean reciprocal rank",
        "1 / rank of the first relevant item; with @k, 0 if that rank is beyond k",
        "Voorhees, The TREC-8 Question Answering Track Report, 1999",
        per_query=_reciprocal_rank,
        reduced=_reciprocal_rank_without,
        law=lambda metric: Law("precision", "first", "one"),
        cut="number or none",
        parameters=(LEVEL,),
        ranked=_reciprocal_rank_ranked,
        examples=("mrr", "mrr@10"),
    ),
    RankingDefinition(
        "minp",
        "mean inverse negative penalty",
        "R / rank of the last relevant item",
        "Ye et al., Deep Learning for Person Re-identification: A Survey and Outlook, TPAMI 2022",
        per_query=_inverse_negative_penalty,
        reduced=_inverse_negative_penalty_without,
        law=lambda metric: Law("precision", "last", "one"),
        parameters=(LEVEL,),
        ranked=_inverse_negative_penalty_ranked,
        examples=("minp",),
    ),
    RankingDefinition(
        "bpref",
        "binary preference",
        "1 - min(irrelevant items before it, R) / min(R, N) of each relevant item, averaged, where "
        "N counts the irrelevant items; of qrels, those judged irrelevant: unjudged items are left "
        "out",
        "Buckley & Voorhees, Retrieval Evaluation with Incomplete Information, SIGIR 2004; as in "
        "trec_eval",
        per_query=_binary_preference,
        judged=True,
        law=lambda metric: Law("before", divisor="preference", up_to_r=True),
        parameters=(LEVEL,),
        examples=("bpref",),
    ),
):
    register(_definition)


def add_moves(
    left: LeftOut,
    ways: list[DeleteKernel],
    wanted: Flags,
    before: Reals,
    own: Integers,
    weights: Reals,
    *,
    none_counts: bool,
) -> Integers:
    """(ways, 6, folds): what truerank.core.jackknife.ChangeSums adds up, of each way to compute.

    `wanted` and `before` are (ways, queries): whose values are wanted, and what they were with all
    folds. Each query leaves with the folds `own`; one without a mate left may count as 0.
    """
    sums = np.zeros((len(ways), 6, left.folds), np.int64)
    how = np.array(ways, np.int64).reshape(len(ways), len(DeleteKernel._fields))
    alike = bool((weights == 1.0).all())
    some = np.zeros(sums.shape)
    _add_moves(left, how, wanted, before, own, weights, alike, none_counts, some, sums)
    return sums
