"""Judgements and taxonomies on disk: TREC qrels, and (child, parent) tables.

A qrels file has four columns, query, iteration, item, grade, divided by white space. A taxonomy has
two, child and parent, divided by commas; nodes without a parent are roots.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from truerank.errors import InputError, TruerankWarning, shortened
from truerank.files.paths import as_path
from truerank.files.reading import check_readable, read_text
from truerank.files.tables import read_csv
from truerank.pairs import Mask, PairList
from truerank.wording import count

__all__ = ["judged_names", "read_qrels", "read_taxonomy"]


def judged_names(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """The queries and the items that a file of judgements names, each once."""
    queries: dict[str, None] = {}
    items: dict[str, None] = {}
    for query, item, _ in _judgements(path):
        queries[query], items[item] = None, None
    return list(queries), list(items)


def _judgements(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, int]]:
    """The query, the item and the grade of each line."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split()
        if not cells:
            continue
        try:
            query, _, item, grade = cells
            value = int(grade)
        except ValueError:
            raise InputError(
                f"{path} line {number} must be 'query iteration item grade'. Got {shortened(line)}."
            ) from None
        yield query, item, value


def read_qrels(
    path: str | os.PathLike[str], query_ids: Sequence[Any], gallery_ids: Sequence[Any]
) -> Mask:
    """Judgements as a (queries, gallery) mask; ids are compared as text."""
    rows = {str(name): number for number, name in enumerate(query_ids)}
    items = {str(name): number for number, name in enumerate(gallery_ids)}
    judged: dict[tuple[int, int], int] = {}
    unknown = 0
    for query, item, value in _judgements(path):
        if query in rows and item in items:
            judged[rows[query], items[item]] = max(0, value)
        elif value > 0:
            unknown += 1
    if unknown:
        warnings.warn(
            f"{count(unknown, 'judgement')} of {path} name a query or item that is not evaluated.",
            TruerankWarning,
            stacklevel=3,
        )
    if not judged:
        raise InputError(f"{path} judges no pair of query_ids and gallery_ids; compare the ids.")
    pairs = np.array(sorted(pair for pair, grade in judged.items() if grade > 0), np.int64)
    pairs = pairs.reshape(-1, 2)
    grades = np.array([judged[query, item] for query, item in pairs.tolist()], np.int64)
    shape = (len(query_ids), len(gallery_ids))
    return Mask.of_pairs("relevance", shape, PairList(pairs[:, 0], pairs[:, 1]), grades)


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
