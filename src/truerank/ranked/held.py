"""The rows behind a result, as long as somebody else still has them.

A result may outlive many gigabytes of embeddings: it refers to arrays and tensors weakly, so that
it never keeps one alive, remembers paths by their names, and keeps the labels and lists it was
given. Rows that have changed since are refused.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_matrix
from truerank.errors import InputError, TruerankWarning
from truerank.files import read_side
from truerank.ranked.lists import Neighbours
from truerank.ranked.search import check_k, find_queries, rank
from truerank.space import Space, build, probe
from truerank.task import TaskRules

__all__ = ["AtHand", "HeldRows"]

INSTEAD = "call truerank.neighbours with the embeddings"
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AtHand:
    """The rows of an evaluation, found again as they were."""

    task: TaskRules
    space: Space
    rows: Array
    items: Array | None
    """Rows of a gallery of its own."""
    threads: int | None


class HeldRows:
    """The task of an evaluation, and where its rows are.

    With `keep` they are kept alive: for whoever has no other use for the result than to look.
    """

    def __init__(
        self,
        task: TaskRules,
        embeddings: Any,
        gallery: Any,
        *,
        distance: str,
        threads: int | None,
        keep: bool = False,
    ) -> None:
        dense = any(mask.dense for mask in task.masks.values())
        self._task = None if dense and not keep else task
        refer = _kept if keep else _reference
        self._rows, self._items = refer(embeddings), refer(gallery)
        self._separate = gallery is not None
        self._distance, self._threads = distance, threads
        self._content = b""

    def seen(self, space: Space) -> HeldRows:
        """Remember what the rows held when they were evaluated."""
        self._content = _content(space)
        return self

    def neighbours(self, queries: Any, k: int) -> Neighbours:
        """The neighbours of these queries: row numbers, or ids as text."""
        check_k(k)
        found = self.at_hand()
        names = found.task.id_names
        ids = None if names is None else [names.values[code] for code in names.codes[0].tolist()]
        return rank(found.task, found.space, find_queries(queries, ids, found.task.queries), k)

    def missing(self) -> str | None:
        """Why the rows are not at hand; None if they are."""
        if self._task is None:
            return (
                "a result keeps no dense junk or relevance matrix, which is as large as all "
                f"distances; {INSTEAD} and the matrix, or pass it sparse"
            )
        if self._rows() is None or (self._separate and self._items() is None):
            return (
                "the rows are gone: a result does not keep arrays alive; keep them in a variable "
                f"while you look at it, or {INSTEAD}"
            )
        return None

    def at_hand(self) -> AtHand:
        """The rows; refused if they are gone, or have changed since."""
        reason, source, other = self.missing(), self._rows(), self._items()
        if reason is not None or self._task is None:
            raise InputError(f"{reason}.")
        rows = as_matrix(read_side(source).embeddings, "embeddings")
        items = as_matrix(read_side(other).embeddings, "gallery") if self._separate else None
        with warnings.catch_warnings():  # the evaluation has told them
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(self._distance, rows, items, self._task.columns, threads=self._threads)
        if _content(space) != self._content:
            raise InputError(f"the rows have changed since they were evaluated; {INSTEAD}.")
        probe(space)
        return AtHand(self._task, space, rows, items, self._threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """A result that goes to a file or to another process leaves its rows behind."""
        return type(None), ()


def _kept(value: Any) -> Callable[[], Any]:
    """A function that gives the value."""
    return lambda: value


def _reference(value: Any) -> Callable[[], Any]:
    """A function that gives the value as long as it is there."""
    if value is None or isinstance(value, (str, os.PathLike, list, tuple)):
        return _kept(value)
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def _content(space: Space) -> bytes:
    """A digest of all rows in their order."""
    digest = blake2b(space.facts.input_digest.encode(), digest_size=16)
    sides = (space.query_digests, space.gallery_digests)
    for side in sides[: 1 if sides[0] is sides[1] else 2]:
        digest.update(np.ascontiguousarray(side.astype("<u8", copy=False)).data)
    return digest.digest()
