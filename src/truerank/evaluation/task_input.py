"""Input of evaluate, read and checked: the rules of the task, its rows and gallery items.

Refused are impossible options and shapes, and a gallery that holds half of the queries, bit for
bit; a gallery that holds fewer of them gives a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from truerank._util.arrays import DeviceMatrix, as_array
from truerank._util.errors import InputError, check_choice, shortened, warn
from truerank._util.progress import check_progress
from truerank._util.text import count, either
from truerank._util.types import Array
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.digests import as_keys
from truerank.io.judgements import goes_by_id, read_qrels
from truerank.io.reading import as_matrix, gallery_of, read_side
from truerank.result.curves import NearestRelevant
from truerank.task.checks import check_shape
from truerank.task.relevance import Mask
from truerank.task.task import TaskRules

# What users pass to evaluate, read and checked: a task's rules, its rows and gallery items.


def prepare(
    embeddings: Any,
    labels: Any = None,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    distance: str = "cosine",
    unmated: str = "report",
    unlabelled: str = "error",
    lazily: bool = False,
    on_device: bool = False,
) -> tuple[TaskRules, Array, Array | None]:
    """The task, the queries' rows and the gallery's, from the arguments of evaluate.

    Files bring along labels, ids and groups that were not passed; ids only if both sides have them.
    With `lazily`, rows of shards are not read here.
    With `on_device`, tensors of a GPU stay there (as DeviceMatrix).
    """
    given = catalogue.find(distance).given
    queries, items = read_side(embeddings, labels), read_side(gallery, gallery_labels)
    items = gallery_of(queries, items, precomputed=given)
    if relevance is not None:  # it stands in the place of labels that nobody asked for
        queries.labels, items.labels = labels, gallery_labels
    separate = items.embeddings is not None or items.labels is not None
    own, other = _first(query_ids, queries.ids), _first(gallery_ids, items.ids)
    if separate and query_ids is None and gallery_ids is None and (own is None or other is None):
        own = other = None
    if goes_by_id(relevance):
        relevance = _judgements(relevance, own, other)
    lazily = lazily and not given
    rows = _matrix(queries.embeddings, "embeddings", lazily, on_device)
    found = None
    if items.embeddings is not None:
        found = _matrix(items.embeddings, "gallery", lazily, on_device)
    relevance = check_relevance(relevance, rows, found, given)
    check_sides(rows, found, queries.labels, items.labels, relevance, given)
    alone = found is None and items.labels is None
    task = TaskRules(
        queries.labels,
        ids=own,
        groups=_first(query_groups, queries.groups),
        gallery_labels=items.labels,
        gallery_ids=other,
        gallery_groups=_first(gallery_groups, items.groups),
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        unmated=unmated,
        unlabelled=unlabelled,
        leave_one_out=alone and not (given and queries.labels is None),
    )
    return task, rows, found


def _matrix(value: Any, name: str, lazily: bool, on_device: bool) -> Array:
    there: Any = DeviceMatrix.of(value) if on_device else None
    return as_matrix(value, name, lazily=lazily) if there is None else there


def _first(passed: Any, in_file: Any) -> Any:
    return in_file if passed is None else passed


def _judgements(source: Any, query_ids: Any, gallery_ids: Any) -> Any:
    if query_ids is None or gallery_ids is None:
        raise InputError(
            "a file of judgements, or {query: {item: grade}}, names rows by id; pass query_ids and "
            "gallery_ids."
        )
    ids = [as_array(side, "ids").tolist() for side in (query_ids, gallery_ids)]
    return read_qrels(source, *ids)


# What an evaluation refuses, each in one sentence: options, shapes, queries in their gallery.


MOST_THREADS = 1024


def check_options(task: TaskRules, average: str, threads: int | None, progress: Any) -> None:
    """What is averaged over exists, the threads are a number, and progress can be called."""
    check_progress(progress)
    check_choice("average", average, ("query", "class"))
    if average == "class" and task.levels is None:
        raise InputError("average='class' needs labels; relevance= does not name classes.")
    check_threads(threads)


def check_threads(threads: int | None) -> None:
    """A number of threads, or none for all cores."""
    if threads is not None and (
        isinstance(threads, bool)
        or not isinstance(threads, (int, np.integer))
        or not 1 <= threads <= MOST_THREADS
    ):
        raise InputError(
            f"The 'threads' parameter must be an int >= 1 and at most {MOST_THREADS}. "
            f"Got {shortened(threads)} instead."
        )


def check_sides(
    rows: Array,
    items: Array | None,
    labels: Any,
    gallery_labels: Any,
    relevance: Any,
    given: bool,
) -> None:
    """A gallery comes with its labels and the other way round; a matrix has its own."""
    if given and items is not None:
        raise InputError(
            f"a {either(catalogue.names(given=True))} matrix already covers the gallery; leave "
            "gallery out and pass gallery_labels for its columns."
        )
    if not given and items is None and gallery_labels is not None:
        raise InputError("gallery_labels came without a gallery; pass gallery= or leave both out.")
    if items is not None and labels is not None and gallery_labels is None and relevance is None:
        raise InputError("a gallery came without gallery_labels; pass one label for each item.")


def check_relevance(relevance: Any, rows: Array, items: Array | None, given: bool) -> Mask | None:
    """The judgements as a mask with a cell for each query and gallery item."""
    mask = Mask.of(relevance, "relevance")
    check_shape(mask, (len(rows), _gallery_size(rows, items, given)))
    return mask


def _gallery_size(rows: Array, items: Array | None, given: bool) -> int:
    return rows.shape[1] if given else len(rows if items is None else items)


def check_rows(task: TaskRules, rows: Array) -> None:
    """Each row has its label."""
    if len(rows) != task.queries:
        header = " If the first line of their file is a header, name the column label."
        raise InputError(
            f"embeddings have {len(rows)} rows but there are {task.queries} labels; "
            f"pass one label for each row.{header if task.queries == len(rows) + 1 else ''}"
        )


def check_task(task: TaskRules, rows: Array, items: Array | None, *, given: bool) -> None:
    """The arrays have the rows, columns and dimensions that the task needs."""
    if items is not None and items.shape[1] != rows.shape[1]:
        raise InputError(
            "queries and gallery must have the same number of dimensions. "
            f"Got {rows.shape} and {items.shape}."
        )
    check_rows(task, rows)
    gallery = _gallery_size(rows, items, given)
    if gallery == task.gallery_size:
        return
    if not given:
        raise InputError(
            f"the gallery has {gallery} rows but there are {task.gallery_size} gallery labels; "
            "pass one label for each item."
        )
    fix = (
        "a matrix without gallery_labels must be square"
        if task.leave_one_out
        else "pass one gallery label for each column"
    )
    raise InputError(f"the matrix of shape {rows.shape} needs {task.gallery_size} columns; {fix}.")


def check_queries_in_gallery(task: TaskRules, space: Space) -> None:
    """Refuse a gallery that holds half of the queries, bit for bit; warn if it holds fewer."""
    found, queries = _found_again(task, space), task.queries
    if not found:
        return
    so_that = (
        "pass ids (query_ids, gallery_ids; a column id in files), so that no query finds itself"
    )
    if found == queries:
        raise InputError(f"the gallery contains the queries: leave it out or {so_that}.")
    share = f"{found:,} of {count(queries, 'query')}"
    if 2 * found >= queries and space.facts.distance not in _OFTEN_EQUAL:
        raise InputError(
            f"the gallery contains {share}, bit for bit and with their label: {so_that}, or leave "
            "them out of the gallery."
        )
    warn(
        f"the gallery contains {share}, bit for bit and with their label: if they are the same "
        f"items, {so_that}."
    )


_OFTEN_EQUAL = ("hamming",)
"""Codes of few bits, of which many are equal without being the same item."""


def swapped(task: TaskRules, first: NearestRelevant, distance: str) -> str | None:
    """A sentence if mates stand so far behind that a matrix must be read the wrong way round.

    A random order puts the nearest mate behind a share s of the others with the probability
    (1 - s)^mates, whose mean over queries is then one half.
    """
    mates = task.n_relevant[task.n_relevant > 0]
    others = np.maximum(task.items - mates, 1)
    tied = (first.size - first.relevant) / (first.relevant + 1)
    behind = np.minimum((first.before + tied) / others, 1.0)
    queries = len(mates)
    if not queries:
        return None
    doubt = max(_FAR_BELOW, _DEVIATIONS / np.sqrt(12 * queries))
    if np.mean((1 - behind) ** mates) >= 0.5 - doubt:
        return None
    what, meant = "similarities", "similarity"
    if catalogue.find(distance).larger_is_nearer:
        what, meant = "distances", "precomputed"
    return (
        f"relevant items rank far lower than by chance: the matrix seems to hold {what}; if so, "
        f"pass distance={meant!r}."
    )


_FAR_BELOW, _DEVIATIONS = 0.1, 5.0
"""How far below one half the mean is, at least, and in standard deviations of that of chance."""


def _found_again(task: TaskRules, space: Space) -> int:
    """Queries that meet a gallery row of their own numbers and label."""
    queries = zip(as_keys(space.query_digests), task.query_codes.tolist(), strict=True)
    items = list(zip(as_keys(space.gallery_digests), task.gallery_codes.tolist(), strict=True))
    rows = Counter(items)
    if task.group_names is None:
        return sum(query in rows for query in queries)
    own, other = task.group_names.codes
    other = other if task.columns is None else other[task.columns]
    junk = Counter(zip(items, other.tolist(), strict=True))  # mates of the query's own group
    return sum(
        rows[query] > junk[query, group] for query, group in zip(queries, own.tolist(), strict=True)
    )
