"""What users pass to evaluate, read and checked: a task's rules, its rows and gallery items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from truerank.arrays import DeviceMatrix, as_array, as_matrix
from truerank.errors import InputError
from truerank.evaluation.checks import check_relevance, check_sides
from truerank.files import read_side
from truerank.files.judgements import goes_by_id, read_qrels
from truerank.space import catalogue
from truerank.task import TaskRules

__all__ = ["prepare"]

Array = npt.NDArray[Any]


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
    no_mate: str = "report",
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
    if relevance is not None:  # it stands in the place of labels that nobody asked for
        queries.labels, items.labels = labels, gallery_labels
    separate = gallery is not None or items.labels is not None
    own, other = _first(query_ids, queries.ids), _first(gallery_ids, items.ids)
    if separate and query_ids is None and gallery_ids is None and (own is None or other is None):
        own = other = None
    if goes_by_id(relevance):
        relevance = _judgements(relevance, own, other)
    lazily = lazily and not given
    rows = _matrix(queries.embeddings, "embeddings", lazily, on_device)
    found = None if gallery is None else _matrix(items.embeddings, "gallery", lazily, on_device)
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
        no_mate=no_mate,
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
