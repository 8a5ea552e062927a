"""Queries, what they are searched among, and who is a mate of whom, for AccuracyCalculator.

Labels match by value (1 is 1.0), rows of a label matrix as a whole, or as a function of two
tensors of labels says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array, as_matrix
from truerank.cached import cached_property
from truerank.errors import InputError
from truerank.labels import encode
from truerank.pairs import count_matches

__all__ = ["Sides"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
EXACT_IN_FLOAT32 = 2**24
NAMES = ("query_labels", "reference_labels")


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a search, checked."""

    query: Array
    reference: Array
    labels: tuple[Array, Array]
    """Labels of the queries and of the reference, of one kind."""
    includes_query: bool
    """Whether the first rows of the reference are the queries, each of which skips its own."""
    compare: Callable[[Any, Any], Any] | None

    @staticmethod
    def of(
        query: Any,
        query_labels: Any,
        reference: Any,
        reference_labels: Any,
        includes_query: bool,
        compare: Callable[[Any, Any], Any] | None,
    ) -> Sides:
        """Both sides from what a user passes; without a reference the queries are their own."""
        if (reference is None) != (reference_labels is None):
            raise InputError("reference and reference_labels come together; pass both or neither.")
        rows = as_matrix(query, "query")
        own = as_array(query_labels, NAMES[0])
        _check_length(rows, own, "query")
        if reference is None:
            items, others, includes_query = rows, own, True
        else:
            items = as_matrix(reference, "reference")
            others = as_array(reference_labels, NAMES[1])
            _check_length(items, others, "reference")
        labels = _of_one_kind(own, others)
        if rows.shape[1] != items.shape[1]:
            raise InputError(
                "query and reference must have the same number of dimensions. "
                f"Got {rows.shape} and {items.shape}."
            )
        if includes_query and not _begins_with(items, rows, labels):
            raise InputError(
                "with ref_includes_query the first rows of reference and reference_labels must "
                "be the queries and their labels."
            )
        if compare is not None and labels[0].dtype.kind not in "biuf":
            raise InputError(
                "label_comparison_fn is given labels as tensors, as in the original, so they must "
                f"be numbers. Got {labels[0].dtype} instead."
            )
        return Sides(rows, items, labels, bool(includes_query), compare)

    @cached_property
    def codes(self) -> tuple[Integers, Integers]:
        """A number for each label, equal for equal labels, ascending with them."""
        own, others = self.labels
        if own.ndim == 2:
            joined = np.concatenate([own, others])
            codes = np.unique(joined, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
            return codes[: len(own)], codes[len(own) :]
        found = encode((own, others), NAMES).codes
        return found[0], found[1]

    @cached_property
    def classes(self) -> Integers:
        """The place of each query's label among the distinct ones."""
        return np.unique(self.codes[0], return_inverse=True)[1].astype(np.int64)

    @cached_property
    def distinct(self) -> Integers:
        """A query of each distinct label, in the labels' order."""
        return np.unique(self.codes[0], return_index=True)[1].astype(np.int64)

    @cached_property
    def counts(self) -> Integers:
        """How many rows of the reference match each distinct label, the query's own included."""
        if self.compare is not None:
            return np.asarray(self._table.sum(axis=1), np.int64)
        own, others = self.codes
        return count_matches([own[self.distinct]], [others])

    @cached_property
    def mates(self) -> Integers:
        """How many rows of the reference each query should find; not itself."""
        found = self.counts[self.classes]
        if not self.includes_query:
            return found
        rows = np.arange(len(found))
        itself = 1 if self.compare is None else self._table[self.classes, rows].astype(np.int64)
        return np.asarray(found - itself, np.int64)

    def relevant(self, rows: Integers) -> npt.NDArray[np.bool_]:
        """(rows, reference): which rows of the reference match each of these queries."""
        if self.compare is not None:
            return np.asarray(self._table[self.classes[rows]])
        own, others = self.codes
        return np.asarray(own[rows, None] == others)

    @cached_property
    def _table(self) -> npt.NDArray[np.bool_]:
        """(distinct labels, reference): what the user's function says, a label at a time."""
        if self.compare is None:
            raise TypeError("labels that match by value need no table")
        own, others = self.label_tensors("cpu")
        table = np.empty((len(self.distinct), len(others)), bool)
        for place, row in enumerate(self.distinct.tolist()):
            same = as_array(self.compare(own[row : row + 1], others), "label_comparison_fn")
            if same.shape != (len(others),):
                raise InputError(
                    "label_comparison_fn must say of each label whether it matches: of "
                    f"{len(others)} labels it made an array of shape {same.shape}."
                )
            table[place] = same
        return table

    def tensors(self, device: Any) -> tuple[Any, Any]:
        """Both sides' rows as the original hands them to functions: float32 tensors."""
        query = _tensor(self.query, device)
        return query, query if self.reference is self.query else _tensor(self.reference, device)

    def label_tensors(self, device: Any) -> tuple[Any, Any]:
        """Both sides' labels as tensors of floats that hold them exactly; text by its number."""
        labels = self.codes if self.labels[0].dtype.kind not in "biuf" else self.labels
        wide = any(not _fits_float32(side) for side in labels)
        own, others = (_tensor(side, device, wide) for side in labels)
        return own, others


def _check_length(rows: Array, labels: Array, name: str) -> None:
    if labels.shape[:1] != rows.shape[:1]:
        raise InputError(
            f"{name} has {len(rows)} rows but {name}_labels has shape {labels.shape}; pass one "
            "label for each row."
        )


def _of_one_kind(own: Array, others: Array) -> tuple[Array, Array]:
    """Integers and floats as numbers; a column of labels as a row of them."""
    sides = [
        side[:, 0] if side.ndim == 2 and side.shape[1] == 1 else side for side in (own, others)
    ]
    if sides[0].shape[1:] != sides[1].shape[1:] or sides[0].ndim > 2:
        raise InputError(
            "query_labels and reference_labels must have the same number of columns. "
            f"Got shapes {own.shape} and {others.shape}."
        )
    kinds = {side.dtype.kind for side in sides}
    if kinds & set("f") and kinds <= set("biuf"):
        sides = [side.astype(np.float64) for side in sides]
    return sides[0], sides[1]


def _begins_with(items: Array, rows: Array, labels: tuple[Array, Array]) -> bool:
    """Whether the queries stand first in the reference, but for last bits, with their labels."""
    count = len(rows)
    return (
        len(items) >= count
        and (items is rows or np.allclose(rows, items[:count]))
        and np.array_equal(labels[0], labels[1][:count])
    )


def _fits_float32(labels: Array) -> bool:
    if labels.dtype.kind == "f":
        return bool(np.array_equal(labels, labels.astype(np.float32)))
    return bool(np.abs(labels.astype(np.float64)).max(initial=0.0) <= EXACT_IN_FLOAT32)


def _tensor(values: Array, device: Any, wide: bool = False) -> Any:
    import torch

    return torch.tensor(values.astype(np.float64 if wide else np.float32), device=device)
