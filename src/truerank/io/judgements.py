"""Judgements (TREC and BEIR qrels, mappings) and taxonomies ((child, parent) tables).

A TREC qrels file has the four columns query, iteration, item, grade, separated by white space;
BEIR's has three, separated by tabs, below the header 'query-id corpus-id score'. A pair without
a judgement is unjudged, which differs from grade 0. A taxonomy turns the finest labels into
label paths from coarse to fine; nodes without a parent are roots.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from truerank._util.arrays import as_array
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.files import as_path, check_readable, read_text
from truerank._util.text import count
from truerank.io.reading import is_path
from truerank.io.tables import read_csv
from truerank.task.relevance import Judgements, PairList

Grades = dict[tuple[str, str], int]
"""The grade of each judged pair of a query and an item, by their ids as text."""
BEIR = ["query-id", "corpus-id", "score"]


def goes_by_id(relevance: Any) -> bool:
    """Whether judgements name queries and items by id: a file, or {query: {item: grade}}."""
    return is_path(relevance) or isinstance(relevance, Mapping)


def read_judgements(source: Any) -> Grades:
    """The grade of each pair of a file or of {query: {item: grade}}; a negative one is unjudged."""
    lines = _lines(source) if is_path(source) else _entries(source)
    name = source if is_path(source) else "relevance"
    grades: Grades = {}
    places: dict[tuple[str, str], Any] = {}
    for place, query, item, grade in lines:
        pair = query, item
        value = _whole(grade)
        if value is None:
            raise InputError(
                f"{name} {place} has the grade {shortened(grade)}; expected a whole number."
            )
        if grades.setdefault(pair, value) != value:
            raise InputError(
                f"{name} judges item {shortened(item)} of query {shortened(query)} twice: grade "
                f"{grades[pair]} in {places[pair]}, {value} in {place}; keep one of them."
            )
        places.setdefault(pair, place)
    if not grades:
        raise InputError(f"{name} holds no judgement.")
    return grades


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, str, str]]:
    """The line, the query, the item and the grade of each judgement in a file."""
    named = False
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split("\t") if named else line.split()
        if not line.strip():
            continue
        if number == 1 and cells == BEIR:
            named = True
            continue
        if len(cells) != (3 if named else 4):
            expected = "query-id corpus-id score" if named else "query iteration item grade"
            raise InputError(f"{path} line {number} must be '{expected}'. Got {shortened(line)}.")
        yield f"line {number}", cells[0].strip(), cells[-2].strip(), cells[-1].strip()


def _entries(judged: Mapping[Any, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """The same of a mapping; ids are compared as text."""
    for query, items in judged.items():
        if not isinstance(items, Mapping):
            raise InputError(
                "relevance must map each query to {item: grade}. "
                f"Got {shortened(items)} for query {shortened(query)}."
            )
        for item, grade in items.items():
            yield f"relevance[{query!r}][{item!r}]", str(query), str(item), grade


def _whole(grade: Any) -> int | None:
    """A grade such as 1, "1" or "1.0" as an integer; None for anything else."""
    try:
        value = float(grade)
    except (TypeError, ValueError):
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def judged_names(grades: Grades) -> tuple[list[str], list[str]]:
    """The queries and the items that judgements name, each once."""
    return list(dict.fromkeys(q for q, _ in grades)), list(dict.fromkeys(i for _, i in grades))


def read_qrels(source: Any, query_ids: Sequence[Any], gallery_ids: Sequence[Any]) -> Judgements:
    """The judgements of a file, or of a mapping, on these queries and items."""
    name = source if is_path(source) else "relevance"
    return aligned(read_judgements(source), query_ids, gallery_ids, str(name))


def aligned(
    grades: Grades,
    query_ids: Sequence[Any],
    gallery_ids: Sequence[Any],
    name: str,
    *,
    size: int | None = None,
    named: bool = False,
) -> Judgements:
    """Judgements of queries and items by their ids, which are compared as text.

    `size` is the number of items where some have no id: these come last. Judgements are `named`
    where nothing else names queries and items.
    """
    rows = {str(one): number for number, one in enumerate(query_ids)}
    items = {str(one): number for number, one in enumerate(gallery_ids)}
    judged: list[tuple[int, int, int]] = []
    unknown = 0
    for (query, item), value in grades.items():
        if query in rows and item in items:
            judged.append((rows[query], items[item], value))
        elif value > 0:
            unknown += 1
    if unknown:
        warnings.warn(
            f"{count(unknown, 'judgement')} of {name} name a query or item that is not evaluated.",
            TruerankWarning,
            stacklevel=3,
        )
    if not judged:
        raise InputError(f"{name} judges no pair of query_ids and gallery_ids; compare the ids.")
    table = np.array(sorted(judged), np.int64)
    table = table[table[:, 2] >= 0]
    shape = (len(query_ids), len(gallery_ids) if size is None else size)
    names = (list(rows), list(items)) if named else None
    return Judgements.of_grades(shape, PairList(table[:, 0], table[:, 1]), table[:, 2], names)


def read_taxonomy(path: str | os.PathLike[str]) -> dict[str, str]:
    """Each child's parent."""
    check_readable(path)
    columns = read_csv(as_path(path), header=frozenset({"child", "parent"}))
    if set(columns) != {"child", "parent"}:
        raise InputError(f"{path} must have the columns child and parent.")
    parents: dict[str, str] = {}
    for child, parent in zip(columns["child"], columns["parent"], strict=True):
        if child is None:
            raise InputError(f"{path} has a row without a child.")
        if parent is None:
            continue
        if parents.setdefault(child, parent) != parent:
            raise InputError(f"{path} gives {child!r} two parents, {parents[child]!r}, {parent!r}.")
    return parents


# Taxonomy: from the finest labels and a table of parents to label paths, coarse to fine.


class Taxonomy:
    """A hierarchy of labels, given by the parent of each node.

    Examples
    --------
    >>> from truerank import Taxonomy
    >>> tree = Taxonomy({"polar": "bear", "brown": "bear", "bear": "mammal", "monarch": "insect"})
    >>> tree.levels(["polar", "monarch"])
    [('mammal', 'bear', 'polar'), ('insect', 'monarch', 'monarch')]
    """

    def __init__(self, parents: Mapping[Any, Any]) -> None:
        try:
            self.parents = dict(parents)
        except (TypeError, ValueError):
            raise InputError(
                f"a taxonomy is a mapping from child to parent. Got {shortened(parents)}."
            ) from None
        if not all(isinstance(parent, Hashable) for parent in self.parents.values()):
            raise InputError("a taxonomy's nodes must be values such as int or str.")
        for node in self.parents:
            self.path(node)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Taxonomy:
        """From a CSV file with the columns child and parent."""

        return Taxonomy(read_taxonomy(path))

    def path(self, node: Any) -> list[Any]:
        """From the root down to the node."""
        steps = [node]
        while steps[-1] in self.parents:
            steps.append(self.parents[steps[-1]])
            if len(steps) > len(self.parents) + 1:
                raise InputError(f"the taxonomy has a cycle through {node!r}.")
        return steps[::-1]

    def levels(self, labels: Any) -> list[tuple[Any, ...]]:
        """The path of each label; shorter ones repeat their last node, so that all have one length.

        Pass the result as `labels` to evaluate.
        """
        finest = labels if isinstance(labels, list) else as_array(labels, "labels").tolist()
        if not isinstance(finest, list) or not all(isinstance(item, Hashable) for item in finest):
            raise InputError("labels must be one value per row, such as int or str.")
        if not finest:
            raise InputError("labels is empty; at least one row is needed.")
        known = set(self.parents) | set(self.parents.values())
        strangers = [label for label in dict.fromkeys(finest) if label not in known]
        if strangers:
            raise InputError(
                f"the taxonomy does not contain {shortened(strangers[0])}"
                f"{f' and {len(strangers) - 1} more labels' if len(strangers) > 1 else ''}."
            )
        paths = {label: self.path(label) for label in dict.fromkeys(finest)}
        depth = max(len(path) for path in paths.values())
        full = {
            label: tuple(path + [path[-1]] * (depth - len(path))) for label, path in paths.items()
        }
        return [full[label] for label in finest]
