"""neighbours: what some queries find, and where their mates are, in the ranking that was scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.errors import InputError, shortened
from truerank.evaluation import evaluate_task
from truerank.evaluation.checks import check_options, check_task
from truerank.evaluation.prepared import prepare
from truerank.files.hdf5 import chosen_distance
from truerank.progress import shown
from truerank.ranked import Neighbours, find_queries, rank
from truerank.space import build, catalogue, probe
from truerank.task import TaskRules

__all__ = ["look", "neighbours"]

Array = npt.NDArray[Any]


def neighbours(
    embeddings: Any,
    labels: Any = None,
    *,
    queries: Any = None,
    worst: int | None = None,
    metric: str = "map@r",
    k: int = 10,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    distance: str | None = None,
    unlabelled: str = "error",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Neighbours:
    """The nearest items of some queries, and the ranks of all their mates.

    Distances are those that `evaluate` ranks by, so what is listed is what was scored; a query
    costs a single row of distances.

    Parameters
    ----------
    embeddings, labels : as in evaluate
    queries : int, str or a list of these
        Row numbers, or ids as text; all rows that share an id.
    worst : int, optional
        Instead, so many of the queries with the lowest value of a metric, the worst first.
    metric : str
        The metric by which `worst` chooses; one with a value for each query.
    k : int
        How many of the nearest items to list.
    progress : callable or bool, optional
        As in evaluate, while the worst queries are looked for.
    gallery, gallery_labels, query_ids, gallery_ids, query_groups, gallery_groups, junk, \
junk_labels, relevance, distance, unlabelled, threads
        As in evaluate.

    Returns
    -------
    Neighbours
        A NeighbourList for each query; it prints as tables.

    Examples
    --------
    >>> import truerank
    >>> points, labels = [[0.0], [1], [1], [3], [9]], ["a", "a", "b", "b", "b"]
    >>> found = truerank.neighbours(points, labels, queries=0, k=3, distance="euclidean")
    >>> print(found)
    query 0, label a
    rank  label  verdict  row  distance
    1-2   b      wrong      2         1
    1-2   a      right      1         1
    3     b      wrong      3         3
    1 mate among 4 candidates, at rank 1-2.
    <BLANKLINE>
    Items at one distance share their ranks; of these, mates are listed last.
    """
    distance = chosen_distance(distance, embeddings, gallery)
    task, rows, items = prepare(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        distance=distance,
        unlabelled=unlabelled,
    )
    names = task.id_names
    ids = None if names is None else [names.values[code] for code in names.codes[0].tolist()]
    with shown(progress, "ranking") as report:
        return look(
            task,
            rows,
            items,
            ids=ids,
            queries=queries,
            worst=worst,
            metric=metric,
            k=k,
            distance=distance,
            threads=threads,
            progress=report,
        )


def look(
    task: TaskRules,
    rows: Array,
    items: Array | None,
    *,
    ids: Any,
    queries: Any,
    worst: int | None,
    metric: str,
    k: int,
    distance: str,
    threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> Neighbours:
    """The same for rows (and gallery items) in a task's order; `ids` are the queries' names."""
    if (queries is None) == (worst is None):
        raise InputError("say which queries to look at: pass queries or worst, one of the two.")
    check_options(task, "query", threads, progress)
    check_task(task, rows, items, given=catalogue.find(distance).given)
    values = None
    if worst is None:
        chosen = find_queries(queries, ids, task.queries)
    else:
        options = {"distance": distance, "threads": threads, "progress": progress}
        values = _values(task, rows, items, metric, options)
        chosen = _lowest(values, worst)
    space = build(distance, rows, items, task.columns, threads=threads)
    probe(space)
    found = rank(task, space, chosen, k)
    return found if values is None else found.chosen_by(metric, values[chosen])


def _values(
    task: TaskRules, rows: Array, items: Array | None, metric: str, options: dict[str, Any]
) -> npt.NDArray[np.float64]:
    """What every query gets in a metric, the lower bound over ties."""
    asked = registry.parse(metric)
    known = registry.definition(asked)
    if not known.higher_is_better or not known.is_mean(asked):
        raise InputError(f"{metric} has no value for each query to choose the worst by; try map@r.")
    score = evaluate_task(task, rows, items, metrics=[metric], confidence=None, **options)[metric]
    if score.reason is not None or score.per_query is None:
        raise InputError(f"{metric} is not defined here: {score.reason}.")
    return score.per_query.lower


def _lowest(values: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """The queries with the lowest values, of equal ones in their order."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise InputError(
            f"The 'worst' parameter must be an int >= 1. Got {shortened(most)} instead."
        )
    counted = np.flatnonzero(~np.isnan(values))
    order: npt.NDArray[np.int64] = counted[np.argsort(values[counted], kind="stable")][:most]
    return order
