"""What a search returned, as users have it, becomes lists of gallery rows, place after place.

In: a matrix, ragged lists or a file, of row numbers or ids, and maybe scores. Out: Returned, in
which equal scores are runs and what is no gallery item is UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array, as_plain
from truerank.errors import InputError, check_choice, shortened
from truerank.lists.names import NAMED_BY, Names

__all__ = ["UNKNOWN", "Returned", "flattened"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
UNKNOWN = -1
"""In the place of a gallery row: something that is none."""


@dataclass(frozen=True)
class Returned:
    """The places of every list, query after query; what was returned nowhere is left out."""

    offsets: Integers
    """Query q owns the places offsets[q] to offsets[q + 1]."""
    item: Integers
    """The gallery row in each place, or UNKNOWN."""
    column: Integers
    """Where a place stood in the list as it was returned, from 0."""
    run: Integers
    """A number that neighbouring places share if their scores are equal; it never falls."""
    asked: int
    """Places that were asked for: those of the longest list, whether filled or not."""

    @staticmethod
    def of(
        neighbours: Any,
        scores: Any,
        *,
        queries: int,
        items: int,
        ids: Any = None,
        named_by: str = "auto",
        unnamed: int = 0,
    ) -> Returned:
        """Lists from what a user passes; `ids` are the gallery's, where it has any.

        Of the items, the last so many may be `unnamed`.
        """
        check_choice("named_by", named_by, NAMED_BY)
        found, lengths = flattened(neighbours, "neighbours")
        if len(lengths) != queries:
            raise InputError(
                f"there are {len(lengths)} lists of neighbours but {queries} queries; pass one "
                "list for each query."
            )
        names = Names.of(ids, items - unnamed, named_by, found)
        row, none = names.rows(found)
        start = np.cumsum(lengths) - lengths
        query = np.repeat(np.arange(queries), lengths)
        column = np.arange(len(row)) - start[query]
        held = ~none
        run = np.arange(int(held.sum()))
        if scores is not None:
            run = _runs(_scores(scores, lengths)[held], query[held], column[held])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(query[held], minlength=queries))])
        asked = int(lengths.max()) if len(lengths) else 0
        return Returned(offsets, row[held], column[held], run, asked)


def flattened(value: Any, name: str) -> tuple[npt.NDArray[Any], Integers]:
    """All cells of a matrix or of ragged lists, one after another, and the length of each list."""
    if not isinstance(value, (list, tuple)):
        value = as_array(value, name)
    if isinstance(value, np.ndarray) and (value.dtype != object or value.ndim == 0):
        if value.ndim != 2:
            raise InputError(
                f"{name} must have shape (queries, places), or be a list for each query. "
                f"Got shape {value.shape} instead."
            )
        return value.ravel(), np.full(len(value), value.shape[1], np.int64)
    rows = [_row(row, name, number) for number, row in enumerate(value)]
    if not rows:
        raise InputError(f"{name} is empty; pass a list for each query.")
    lengths = np.array([len(row) for row in rows], np.int64)
    kinds = {row.dtype.kind for row in rows if len(row)}
    if kinds <= {"i", "u", "f"}:
        filled = [row for row in rows if len(row)]
        return np.concatenate(filled) if filled else np.empty(0, np.int64), lengths
    cells = (as_plain(cell) for row in rows for cell in row.tolist())
    return np.fromiter(cells, object, int(lengths.sum())), lengths


def _row(row: Any, name: str, number: int) -> npt.NDArray[Any]:
    if row is None:
        return np.empty(0, np.int64)
    if isinstance(row, (str, bytes)) or not np.iterable(row):
        raise InputError(
            f"{name} must hold a list for each query. Got {shortened(row)} for query {number}."
        )
    if isinstance(row, (list, tuple)) and any(
        isinstance(cell, str) or cell is None for cell in row
    ):
        array = np.fromiter(row, object, len(row))
    else:
        array = as_array(row, f"{name} of query {number}")
    if array.ndim != 1:
        raise InputError(
            f"{name} of query {number} must be a list of items. Got shape {array.shape} instead."
        )
    return array if len(array) else np.empty(0, np.int64)


def _scores(scores: Any, lengths: Integers) -> npt.NDArray[np.float64]:
    """One number for each place of the lists."""
    flat, own = flattened(scores, "scores")
    if not np.array_equal(own, lengths):
        wrong = int(np.flatnonzero(own != lengths)[0]) if len(own) == len(lengths) else None
        where = "" if wrong is None else f" (query {wrong} has {own[wrong]} for {lengths[wrong]})"
        raise InputError(f"scores must be as many as neighbours{where}; pass one for each place.")
    if flat.dtype.kind not in "fiub":
        raise InputError(f"scores must be numbers. Got dtype {flat.dtype} instead.")
    if flat.dtype.kind in "iu" and len(flat) and np.abs(flat.astype(object)).max() > 2**53:
        raise InputError("scores hold integers beyond 2^53, which float64 cannot tell apart.")
    return np.asarray(flat, np.float64)


def _runs(scores: npt.NDArray[np.float64], query: Integers, column: Integers) -> Integers:
    """Numbers of runs of equal scores; scores that contradict the order are refused."""
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        at = int(wrong[0])
        what = "NaN" if np.isnan(scores[at]) else str(scores[at])
        raise InputError(
            f"scores hold {what}, in place {column[at] + 1} of query {query[at]}; every item that "
            "was returned needs a finite score."
        )
    same = query[1:] == query[:-1]
    rises = np.flatnonzero(same & (scores[1:] > scores[:-1])) + 1
    falls = np.flatnonzero(same & (scores[1:] < scores[:-1])) + 1
    if len(rises) and len(falls):
        up, down = (f"place {column[at[0]] + 1} of query {query[at[0]]}" for at in (rises, falls))
        raise InputError(
            f"scores contradict the order of the lists: they rise in {up} and fall in {down}; sort "
            "each list by its scores, or leave the scores out."
        )
    fresh = np.ones(len(scores), bool)
    fresh[1:] = ~same | (scores[1:] != scores[:-1])
    return np.cumsum(fresh)
