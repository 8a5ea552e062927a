"""evaluate_lists: neighbor lists and labels in, a Result out; and the smallest sufficient k.

A k suffices for a metric if its lower and upper bounds are no further apart than requested.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.installed import __version__
from truerank._util.old_names import renamed_keywords
from truerank._util.threads import available_cores
from truerank.core.average import plain_mean
from truerank.core.metric import Metric
from truerank.evaluation.evaluate import put_together
from truerank.evaluation.index_loss import (
    NO_METRICS,
    Spread,
    compare_with_neighbors,
    nothing_listed,
)
from truerank.evaluation.list_input import ListPlaces, Prepared, choose, prepare
from truerank.evaluation.passes import Findings, column_bounds, fill_passes, score_groups
from truerank.evaluation.task_input import check_options
from truerank.intervals.interval import IntervalRequest
from truerank.result.result import Result
from truerank.task.task import TaskRules, level_parts


@renamed_keywords(neighbours="neighbors", no_mate="unmated")
def evaluate_lists(
    neighbors: Any,
    labels: Any = None,
    *,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    scores: Any = None,
    relevance: Any = None,
    metrics: Iterable[str] | str | None = None,
    average: str = "query",
    unmated: str = "report",
    confidence: float | None = 0.95,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    unlabelled: str = "error",
    named_by: str = "auto",
    gallery_size: int | None = None,
    settle: float | None = None,
    exact_neighbors: Any = None,
    k: int | None = None,
    seed: int = 0,
    units: str = "metric",
    threads: int | None = None,
) -> Result:
    """Score the lists that a search returned, with bounds for what it did not return.

    Items that a query could have found and that are not in its list may follow in any order: lower
    has the missing relevant items last, upper has them next, expected has them anywhere behind
    the list.

    Parameters
    ----------
    neighbors : (Q, k), or a list of lists, or {query: {item: score}}, or a path
        Row numbers of the gallery, nearest first, -1 for none; or ids, where gallery_ids are given
        (query_ids without a separate gallery). A path names .npy, .npz, .parquet, .ivecs, .ibin,
        .hdf5 (ann-benchmarks) or a run of TREC or MS MARCO, which goes by ids, as a mapping does.
    labels : (Q,) or (Q, L), or a path
        One label for each query, or a path of labels from coarse to fine.
    gallery_labels : (G,) or (G, L), or a path
        The same for the gallery. Without it the queries are their own gallery, and each row is
        taken out of its own list.
    query_ids, gallery_ids, query_groups, gallery_groups, junk, junk_labels, unlabelled
        As in evaluate: what a query never meets is taken out of its list, and what follows moves
        up. Ids of one side alone only say what the lists mean.
    scores : (Q, k), or a list of lists, or False
        What the search said of each item, rising or falling: equal ones tie. A file's own scores
        are used unless this is False.
    relevance : (Q, G) bool, graded or sparse, or {query: {item: grade}}, or a path of qrels
        Who is relevant to whom, in place of labels. A mapping and qrels (of TREC or BEIR) go by
        ids, and say what was not judged.
    metrics : strings, optional
        Ranking metrics, those of levels and grades included; "all" for all that apply.
    average, unmated, confidence, seed, units, threads
        As in evaluate. Intervals are conditional on the gallery.
    named_by : {"auto", "row", "id"}
        What lists name items by. Integers are row numbers, but ids where these are integers too.
    gallery_size : int, optional
        With judgements by id: how many items the gallery has, where only some are named. Without
        it, what a run did not return is worth nothing.
    settle : float, optional
        A width such as 0.01: the result says, for each metric, the smallest k of the lists at which
        lower and upper are no further apart.
    exact_neighbors : path or ExactNeighbors, optional
        The exact neighbors of the queries, by rows of the gallery: the result also says
        neighbour_recall@k, in `provenance["lists"]["neighbour_recall"]`. Without labels or
        relevance there is only that, of the lists as they are.
    k : int, optional
        Of neighbour_recall; by default as many places as every list had left for eligible items.

    Returns
    -------
    Result
        A mapping from metric string to Score; `provenance["lists"]` says how many places were
        repeated or unknown, how many relevant items were not returned, and what settles.

    Examples
    --------
    >>> import truerank
    >>> lists = [[0, 3], [2, 1]]
    >>> r = truerank.evaluate_lists(lists, ["a", "b"], gallery_labels=["a", "a", "b", "b"])
    >>> s = r["map"]
    >>> s.lower, s.expected, s.upper
    (0.75, 0.7916666666666666, 0.8333333333333334)
    """
    unjudged = labels is None and gallery_labels is None and relevance is None
    unjudged = unjudged and exact_neighbors is not None
    if unjudged:
        if metrics is not None:
            raise InputError("labels are missing: pass labels or relevance= to have metrics.")
        metrics, relevance = NO_METRICS, nothing_listed(neighbors, exact_neighbors)
    prepared = prepare(
        neighbors,
        labels,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        scores=scores,
        relevance=relevance,
        unmated=unmated,
        junk=junk,
        junk_labels=junk_labels,
        unlabelled=unlabelled,
        named_by=named_by,
        gallery_size=gallery_size,
        leave_one_out=False if unjudged else None,
    )
    return evaluate_prepared(
        prepared,
        metrics=metrics,
        average=average,
        confidence=confidence,
        settle=settle,
        exact_neighbors=exact_neighbors,
        k=k,
        seed=seed,
        units=units,
        threads=threads,
    )


def evaluate_prepared(
    prepared: Prepared,
    *,
    metrics: Iterable[str] | str | None,
    average: str,
    confidence: float | None,
    settle: float | None = None,
    exact_neighbors: Any = None,
    k: int | None = None,
    seed: int = 0,
    units: str = "metric",
    threads: int | None = None,
) -> Result:
    """The result of lists that are read and checked."""
    started = time.perf_counter()
    task, places = prepared.task, prepared.places
    check_options(task, average, threads, None)
    request = IntervalRequest.of(confidence, seed, units)
    width = check_width(settle)
    chosen, refusals = ([], {}) if metrics is NO_METRICS else choose(task, metrics)
    if k is not None and exact_neighbors is None:
        raise InputError("k is that of neighbour_recall, which needs exact_neighbors.")
    recall = None
    if exact_neighbors is not None:
        judged = task.masks.get("relevance")
        if judged is not None and judged.names is not None:
            raise InputError(
                "exact_neighbors go by rows of the gallery; pass query_ids and gallery_ids."
            )
        most, values = compare_with_neighbors(exact_neighbors, task, places, k)
        recall = Spread(task, request, average).recall(most, values)
    workers = threads or available_cores()
    scores, findings = score_groups(
        task,
        chosen,
        places.blocks,
        average=average,
        threads=workers,
        request=request,
        strangers=places.strangers,
    )
    findings.ties = listed_ties(places, task)
    facts = _provenance(task, places, findings, average)
    if width is not None:
        facts["lists"]["settle"] = smallest_k(
            places, task, chosen, width, average=average, threads=workers
        )
    if recall is not None:
        facts["lists"]["neighbour_recall"] = recall.to_dict(per_query=False)
    facts["seconds"] = round(time.perf_counter() - started, 3)
    skip = metrics is None or (isinstance(metrics, str) and metrics == "all")
    result = put_together(task, scores, findings, facts, skip_undefined=skip, names=prepared.names)
    result.skipped |= refusals
    return result


def _provenance(
    task: TaskRules, places: ListPlaces, findings: Findings, average: str
) -> dict[str, Any]:
    """What was evaluated and how."""
    return {
        "version": __version__,
        "queries": task.queries,
        "gallery": task.items,
        "dimensions": None,
        "leave_one_out": task.leave_one_out,
        "distance": {
            "distance": "lists",
            "grid": "none",
            "merged_rows": 0,
            "zero_rows": 0,
            "input_digest": digest(places),
            "notes": [],
        },
        "lists": about(places, task),
        "average": average,
        "excluded": task.exclusions(),
        "no_mate_option": task.unmated,
        "no_mate": task.unmated_counts(),
        "ties": findings.ties,
        "hierarchy": findings.hierarchy,
        "severity": None if findings.severity is None else findings.severity.to_dict(),
        "intervals": findings.intervals,
        "consistency": None,
        "task_digest": task.digest,
        "device": "cpu",
    }


# What is to be said about lists besides their scores: length, what was wrong, what is missing.


def about(places: ListPlaces, task: TaskRules) -> dict[str, Any]:
    """Facts of the lists for a result's provenance."""
    missing = np.zeros(len(places), np.int64)
    for block in places.blocks(task.view):
        groups = block.groups
        last = groups.offsets[1:] - 1
        behind = groups.before[last] == places.lengths[block.rows]
        missing[block.rows] = np.where(behind, groups.relevant[last], 0)
    lengths = places.lengths
    judged = task.masks.get("relevance")
    by_run = judged is not None and judged.names is not None
    return {
        **({"gallery_size": task.items if places.sized else None} if by_run else {}),
        "asked": places.asked,
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "taken_out": int(places.taken_out.sum()),
        "repeated": places.repeated,
        "unknown": places.unknown,
        "missing": {"queries": int(np.count_nonzero(missing)), "mates": int(missing.sum())},
    }


def listed_ties(places: ListPlaces, task: TaskRules) -> dict[str, int]:
    """Ties by returned scores between relevant and other items: queries, and groups."""
    queries = total = 0
    for block in places.blocks(task.view):
        groups = block.groups
        owner = np.repeat(block.rows, np.diff(groups.offsets))
        listed = groups.before < places.lengths[owner]
        mixed = groups.ambiguous & listed
        queries += len(np.unique(owner[mixed]))
        total += int(mixed.sum())
    return {"queries": queries, "groups": total}


def digest(places: ListPlaces) -> str:
    """A fingerprint of what was returned, as it counts."""
    found = blake2b(digest_size=16)
    for array in (places.offsets, places.item, np.unique(places.run, return_inverse=True)[1]):
        found.update(np.ascontiguousarray(array, "<i8").tobytes())
    return found.hexdigest()


# The smallest k that settles a metric: its lower and upper are no further apart than asked.


def check_width(width: Any) -> float | None:
    """A width that a user asks for, as a share; None for none."""
    if width is None:
        return None
    is_number = isinstance(width, (int, float, np.number)) and not isinstance(width, bool)
    if not is_number or not 0 <= width < 1:
        raise InputError(
            "The 'settle' parameter must be a width from 0 to below 1, such as 0.01, or None. "
            f"Got {shortened(width)} instead."
        )
    return float(width)


def smallest_k(
    places: ListPlaces,
    task: TaskRules,
    metrics: list[Metric],
    width: float,
    *,
    average: str,
    threads: int,
) -> dict[str, Any]:
    """For each metric the smallest k from which on the bounds are near enough, or None.

    No bound moves outward as k grows (Places.cut), so that halving finds it. But items that are
    repeated or unknown push others back: with such, every k is looked at, the largest first.
    """
    whole = _widths(places, task, metrics, average, threads)
    most = {metric: places.asked if gap <= width else None for metric, gap in whole.items()}
    """Enough; None where even the whole lists are not."""
    least = dict.fromkeys(whole, 0)
    """Not enough."""
    by_halves = not places.strangers.any()
    while True:
        unsure: dict[int, list[Metric]] = {}
        for metric, enough in most.items():
            if enough is not None and enough - least[metric] > 1:
                k = (enough + least[metric]) // 2 if by_halves else enough - 1
                unsure.setdefault(k, []).append(metric)
        if not unsure:
            break
        for k, some in unsure.items():
            for metric, gap in _widths(places.cut(k), task, some, average, threads).items():
                if gap <= width:
                    most[metric] = k
                else:
                    least[metric] = k
    return {"width": width, "k": {str(metric): k for metric, k in most.items()}}


def _widths(
    places: ListPlaces, task: TaskRules, metrics: list[Metric], average: str, threads: int
) -> dict[Metric, float]:
    """Upper less lower of each metric; nothing to settle where no query counts."""
    passes = fill_passes(task, metrics, places.blocks, threads)
    bounds = {
        column.metric: column_bounds(column, task, average)
        for current in passes
        for column in current.columns
    }
    found = {}
    for metric in metrics:
        parts = [bounds[part] for part in level_parts(task, metric)]
        lower, _, upper = (plain_mean(ends) for ends in zip(*parts, strict=True))
        if lower == lower:
            found[metric] = upper - lower
    return found
