"""evaluate_lists: lists of neighbours and labels in, a Result out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from truerank import engine
from truerank.core import registry
from truerank.core.metric import Metric, RankingDefinition
from truerank.errors import InputError, warn
from truerank.evaluation.checks import check_options
from truerank.evaluation.results import put_together
from truerank.lists.facts import about, digest, listed_ties
from truerank.lists.nearest import compare_with_neighbors
from truerank.lists.places import Places
from truerank.lists.prepared import Prepared, prepare
from truerank.lists.settle import check_width, smallest_k
from truerank.lists.spread import Spread
from truerank.result import Result
from truerank.scoring import Findings, refused, score_groups
from truerank.stats.intervals import IntervalRequest
from truerank.task import TaskRules
from truerank.version import __version__

__all__ = ["choose", "evaluate_lists", "evaluate_prepared"]


def evaluate_lists(
    neighbours: Any,
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
    no_mate: str = "report",
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
    """Score what a search returned, with bounds for what it did not return.

    Items that a query could have found and that are not in its list may follow in any order: lower
    has the missing mates last, upper has them next, expected has them anywhere behind the list.

    Parameters
    ----------
    neighbours : (Q, k), or a list of lists, or {query: {item: score}}, or a path
        Row numbers of the gallery, nearest first, -1 for none; or ids, where gallery_ids are given
        (query_ids without a gallery of its own). A path names .npy, .npz, .parquet, .ivecs, .ibin,
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
    average, no_mate, confidence, seed, units, threads
        As in evaluate. Intervals are conditional on the gallery.
    named_by : {"auto", "row", "id"}
        What lists name items by. Integers are row numbers, but ids where these are integers too.
    gallery_size : int, optional
        With judgements by id: how many items the gallery has, where only some are named. Without
        it, what a run did not return is worth nothing.
    settle : float, optional
        A width such as 0.01: the result says, for each metric, the smallest k of the lists at which
        lower and upper are no further apart.
    exact_neighbors : path, or what truth returned, optional
        The exact neighbours of the queries, by rows of the gallery: the result also says
        neighbour_recall@k, in `provenance["lists"]["neighbour_recall"]`.
    k : int, optional
        Of neighbour_recall; by default as many places as every list had left for eligible items.

    Returns
    -------
    Result
        A mapping from metric string to Score; `provenance["lists"]` says how many places were
        repeated or unknown, how many mates were not returned, and what settles.

    Examples
    --------
    >>> import truerank
    >>> lists = [[0, 3], [2, 1]]
    >>> r = truerank.evaluate_lists(lists, ["a", "b"], gallery_labels=["a", "a", "b", "b"])
    >>> s = r["map"]
    >>> s.lower, s.expected, s.upper
    (0.75, 0.7916666666666666, 0.8333333333333334)
    """
    prepared = prepare(
        neighbours,
        labels,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        scores=scores,
        relevance=relevance,
        no_mate=no_mate,
        junk=junk,
        junk_labels=junk_labels,
        unlabelled=unlabelled,
        named_by=named_by,
        gallery_size=gallery_size,
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
    chosen, refusals = choose(task, metrics)
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
    workers = threads or engine.available_cores()
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


def choose(
    task: TaskRules, metrics: Iterable[str] | str | None
) -> tuple[list[Metric], dict[str, str]]:
    """The ranking metrics asked for, and why some of all do not apply."""
    deep = task.levels is not None and len(task.levels) > 1
    usual = registry.parse_all([*registry.DEFAULT, *(registry.DEFAULT_HIERARCHY if deep else ())])
    if metrics is None:
        return usual, {}
    if isinstance(metrics, str) and metrics == "all":
        others = registry.parse_all(registry.plainest(but={one.name for one in usual}))
        every = [*usual, *filter(_ranks, others)]
        reasons = refused(task, every)
        kept = [metric for metric in every if metric not in reasons]
        return kept, {str(metric): reason for metric, reason in reasons.items()}
    if not isinstance(metrics, str) and np.iterable(metrics):
        metrics = list(metrics)
    chosen = registry.parse_all(metrics)
    if task.levels is None:
        registry.check_judged(metrics)
    for metric in chosen:
        if not _ranks(metric):
            raise InputError(
                f"{metric} is no ranking metric: lists do not hold what it is measured on; pass "
                "the embeddings to evaluate."
            )
    for sentence in registry.advice_about(metrics):
        warn(sentence)
    return chosen, {}


def _ranks(metric: Metric) -> bool:
    return isinstance(registry.definition(metric), RankingDefinition)


def _provenance(
    task: TaskRules, places: Places, findings: Findings, average: str
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
        "no_mate_option": task.no_mate,
        "no_mate": task.no_mate_counts(),
        "ties": findings.ties,
        "hierarchy": findings.hierarchy,
        "severity": None if findings.severity is None else findings.severity.to_dict(),
        "intervals": findings.intervals,
        "consistency": None,
        "task_digest": task.digest,
        "device": "cpu",
    }
