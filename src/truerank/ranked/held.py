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
from hashlib import blake2b
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.errors import InputError, TruerankWarning
from truerank.files import read_side
from truerank.ranked.lists import Neighbours
from truerank.ranked.search import check_k, find_queries, rank
from truerank.space import Space, build, probe
from truerank.task import TaskRules

__all__ = ["HeldRows"]

INSTEAD = "call truerank.neighbours with the embeddings"


class HeldRows:
    """The task of an evaluation, and where its rows are."""

    def __init__(
        self, task: TaskRules, embeddings: Any, gallery: Any, *, distance: str, threads: int | None
    ) -> None:
        dense = any(mask.dense for mask in task.masks.values())
        self._task = None if dense else task
        self._rows, self._items = _reference(embeddings), _reference(gallery)
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
        if self._task is None:
            raise InputError(
                "a result keeps no dense junk or relevance matrix, which is as large as all "
                f"distances; {INSTEAD} and the matrix, or pass it sparse."
            )
        names = self._task.id_names
        ids = None if names is None else [names.values[code] for code in names.codes[0].tolist()]
        chosen = find_queries(queries, ids, self._task.queries)
        return rank(self._task, self._space(), chosen, k)

    def _space(self) -> Space:
        assert self._task is not None
        source, other = self._rows(), self._items()
        if source is None or (self._separate and other is None):
            raise InputError(
                "the rows are gone: a result does not keep arrays alive; keep them in a variable "
                f"while you look at it, or {INSTEAD}."
            )
        rows = as_matrix(read_side(source).embeddings, "embeddings")
        items = as_matrix(read_side(other).embeddings, "gallery") if self._separate else None
        with warnings.catch_warnings():  # the evaluation has told them
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(self._distance, rows, items, self._task.columns, threads=self._threads)
        if _content(space) != self._content:
            raise InputError(f"the rows have changed since they were evaluated; {INSTEAD}.")
        probe(space)
        return space

    def __reduce__(self) -> tuple[Any, ...]:
        """A result that goes to a file or to another process leaves its rows behind."""
        return type(None), ()


def _reference(value: Any) -> Callable[[], Any]:
    """A function that gives the value as long as it is there."""
    if value is None or isinstance(value, (str, os.PathLike, list, tuple)):
        return lambda: value
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def _content(space: Space) -> bytes:
    """A digest of all rows in their order."""
    digest = blake2b(space.facts.input_digest.encode(), digest_size=16)
    for side in (space.query_digests, space.gallery_digests):
        digest.update(np.ascontiguousarray(side.astype("<u8")).data)
    return digest.digest()
