"""What users pass to evaluate_lists, read and checked: a task's rules, and lists under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank.arrays import as_array
from truerank.errors import InputError, shortened, warn
from truerank.files import is_path, read_side
from truerank.files.judgements import (
    Grades,
    aligned,
    goes_by_id,
    judged_names,
    read_judgements,
)
from truerank.files.lists import ListFile, read_lists, run_of_mapping
from truerank.lists.places import Places
from truerank.lists.returned import Returned
from truerank.pairs import Judgements
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A task, what was returned for its queries, and how that counts."""

    task: TaskRules
    returned: Returned
    places: Places
    names: list[Any] | None
    """The queries' ids, where anything names them."""


def prepare(
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
    no_mate: str = "report",
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    unlabelled: str = "error",
    named_by: str = "auto",
    gallery_size: int | None = None,
    leave_one_out: bool | None = None,
) -> Prepared:
    """The task and its lists, from the arguments of evaluate_lists.

    Files of labels bring along ids and groups that were not passed. Ids keep rows apart where both
    sides have them; those that only a run and its judgements name do not, since there queries and
    items have names of their own.
    """
    found = _lists(neighbours, scores)
    queries, items = read_side(None, labels), read_side(None, gallery_labels)
    own = queries.ids if query_ids is None else query_ids
    other = items.ids if gallery_ids is None else gallery_ids
    alone = leave_one_out or (relevance is None and gallery_labels is None)
    names = _Names(own, own if alone else other, found)
    if goes_by_id(relevance):
        relevance = names.judgements(relevance, gallery_size)
    elif gallery_size is not None:
        raise InputError("gallery_size goes with a file of judgements, which names some items.")
    meet = not alone and own is not None and other is not None
    task = TaskRules(
        queries.labels,
        ids=own if alone or meet else None,
        groups=queries.groups if query_groups is None else query_groups,
        gallery_labels=items.labels,
        gallery_ids=other if alone or meet else None,
        gallery_groups=items.groups if gallery_groups is None else gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        no_mate=no_mate,
        unlabelled=unlabelled,
        leave_one_out=leave_one_out,
    )
    lists, of_items = found.neighbours, found.scores
    if found.queries is not None:
        lists, of_items = names.in_order(found, task.queries)
    returned = Returned.of(
        lists,
        of_items,
        queries=task.queries,
        items=task.gallery_size,
        ids=names.items,
        named_by="id" if found.by_id else named_by,
        unnamed=0 if gallery_size is None else task.gallery_size - len(names.items),
    )
    listed = None if names.queries is None else list(names.queries)
    sized = gallery_size is not None or not names.from_judgements
    return Prepared(task, returned, Places.of(returned, task, sized=sized), listed)


def _lists(neighbours: Any, scores: Any) -> ListFile:
    """The lists as they came, with the scores that go with them."""
    ignored = scores is False
    if is_path(neighbours):
        found = read_lists(neighbours)
    elif isinstance(neighbours, Mapping):
        found = run_of_mapping(neighbours)
    else:
        return ListFile(neighbours, None if ignored else scores)
    return found if scores is None else replace(found, scores=None if ignored else scores)


class _Names:
    """The ids of queries and items, from what was passed or else from a run and its judgements."""

    def __init__(self, queries: Any, items: Any, found: ListFile) -> None:
        self.queries: Any = None if queries is None else _column(queries, "query_ids")
        self.items: Any = None if items is None else _column(items, "gallery_ids")
        self.found = found
        self.from_judgements = False
        """Whether a run and its judgements are all that names queries and items."""

    def judgements(self, source: Any, gallery_size: Any) -> Judgements:
        """The judgements of a file or a mapping; with a run it may be all that names anything."""
        grades = read_judgements(source)
        if self.queries is None and self.items is None and self.found.by_id:
            self._from_judgements(grades, gallery_size)
        if self.queries is None or self.items is None:
            raise InputError(
                "judgements of a file or of {query: {item: grade}} name rows by id; pass query_ids "
                "and gallery_ids, or lists that go by id too: a TREC run or {query: {item: score}}."
            )
        size = None if gallery_size is None else _size(gallery_size, len(self.items))
        name = str(source) if is_path(source) else "relevance"
        return aligned(
            grades, self.queries, self.items, name, size=size, named=self.from_judgements
        )

    def _from_judgements(self, grades: Grades, gallery_size: Any) -> None:
        """The queries that are judged, and all items that a run or judgements name."""
        self.queries, judged = judged_names(grades)
        returned = [name for row in self.found.neighbours for name in row]
        self.items = list(dict.fromkeys([*returned, *judged]))
        self.from_judgements = True
        if gallery_size is None:
            warn(
                "the size of the gallery is unknown: what was not returned earns nothing in score "
                "and expected, and chance is that of the "
                f"{count(len(self.items), 'item')} returned or judged; pass gallery_size or "
                "gallery_ids."
            )

    def in_order(self, found: ListFile, queries: int) -> tuple[list[Any], list[Any] | None]:
        """Lists in the order of the queries; an empty one for a query that nobody names."""
        assert found.queries is not None
        if self.queries is None:
            raise InputError("the lists name their queries by id; pass query_ids.")
        place = {str(name): row for row, name in enumerate(found.queries)}
        if len(place) < len(found.queries):
            raise InputError("the lists name a query twice; pass one list for each.")
        rows = [place.get(str(name)) for name in self.queries]
        strangers = len(place) - len({row for row in rows if row is not None})
        if strangers == len(place):
            raise InputError("the lists name none of the queries; compare their ids.")
        if strangers:
            warn(f"{count(strangers, 'list')} of queries that are not evaluated are left out.")
        if len(rows) != queries:
            raise InputError(f"query_ids must have one value a row ({queries}). Got {len(rows)}.")
        lists = [() if row is None else found.neighbours[row] for row in rows]
        if found.scores is None:
            return lists, None
        if len(found.scores) != len(found.queries):
            raise InputError("scores must be as many lists as neighbours.")
        return lists, [() if row is None else found.scores[row] for row in rows]


def _column(ids: Any, name: str) -> list[Any]:
    array = as_array(ids, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be one value for each row. Got shape {array.shape} instead.")
    return list(array.tolist())


def _size(size: Any, named: int) -> int:
    is_number = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not is_number or not named <= size < 2**40:
        raise InputError(
            f"The 'gallery_size' parameter must be an int from {named}, the items that are named, "
            f"to 2^40 - 1. Got {shortened(size)} instead."
        )
    return int(size)
