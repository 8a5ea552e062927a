"""Tiny random tasks in which what goes wrong elsewhere is common, and the calls that score them.

Ties, duplicates, zero vectors, repeated ids, junk, queries without a mate.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

import truerank
from tests.oracles import scores, task

VECTOR_DISTANCES = ["cosine", "euclidean", "dot", "cityblock", "hamming"]
MATRIX_DISTANCES = ["precomputed", "similarity"]


@dataclass
class Case:
    """One call of evaluate(); prints as that call."""

    embeddings: np.ndarray
    labels: list[Any] | None
    leave_one_out: bool
    options: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, **more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", truerank.TruerankWarning)
            return truerank.evaluate(self.embeddings, self.labels, **self.options, **more)

    def distances(self) -> scores.Matrix:
        gallery = self.options.get("gallery")
        return scores.distances(
            self.options["distance"],
            self.embeddings.tolist(),
            None if gallery is None else gallery.tolist(),
        )

    def queries(self) -> list[task.Query]:
        described = {
            name: self.options[name]
            for name in (
                "query_ids",
                "gallery_ids",
                "query_groups",
                "gallery_groups",
                "junk_labels",
            )
            if name in self.options
        }
        masks = {
            name: self.options[name].tolist()
            for name in ("junk", "relevance")
            if name in self.options
        }
        return task.queries(
            self.labels,
            self.options.get("gallery_labels"),
            **described,
            **masks,
            leave_one_out=self.leave_one_out,
        )

    def __repr__(self) -> str:
        return call_of_evaluate(self.embeddings, self.labels, self.options)


def call_of_evaluate(embeddings: np.ndarray, labels: Any, options: dict[str, Any]) -> str:
    """The call as code, to be run again."""

    def code(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"np.array({value.tolist()}, dtype={value.dtype.name!r})"
        return repr(value)

    arguments = [code(embeddings), code(labels)]
    arguments += [f"{name}={code(value)}" for name, value in options.items()]
    return f"truerank.evaluate({', '.join(arguments)})"


# --- drawing tasks --------------------------------------------------------------------------------
small_integers = st.integers(-2, 2).map(float)
awkward_numbers = st.sampled_from(
    [0.1, 1 / 3, -0.7, 1e-3, 1e5, 1 + 2.0**-24, 2.0**-25, 3 * 2.0**-27]
) | st.floats(-4, 4, width=32, allow_subnormal=False)


@st.composite
def rows_of_vectors(draw: st.DrawFn, counts: Sequence[int], distance: str) -> list[np.ndarray]:
    """One array per count, its rows from a pool of few vectors, so that ties are common."""
    width = draw(st.integers(1, 4))
    if distance == "hamming":
        component, dtype = st.integers(0, 1), draw(st.sampled_from(["int64", "uint8", "bool"]))
    else:
        component = draw(st.sampled_from([small_integers, small_integers | awkward_numbers]))
        dtype = draw(st.sampled_from(["float64", "float32"]))
    vector = st.just([0] * width) | st.lists(component, min_size=width, max_size=width)
    pool = draw(st.lists(vector, min_size=1, max_size=4))
    return [
        np.array(draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count)), dtype=dtype)
        for count in counts
    ]


def masks(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(st.booleans(), min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows).map(lambda mask: np.array(mask, dtype=bool))


def contains(gallery: np.ndarray, queries: np.ndarray) -> bool:
    """Whether half of the queries have a row, or its direction, in common with the gallery."""
    there = {_direction(row) for row in gallery.tolist()}
    return 2 * sum(_direction(row) in there for row in queries.tolist()) >= len(queries)


def _direction(row: list[float]) -> tuple[Fraction, ...]:
    largest = max(abs(Fraction(number)) for number in row) or Fraction(1)
    return tuple(Fraction(number) / largest for number in row)


@st.composite
def descriptions(
    draw: st.DrawFn, name: str, value: st.SearchStrategy[Any], rows: int, columns: int | None
) -> dict[str, list[Any]]:
    """One value for each query and, where there is one, for each item of the gallery."""
    found = {f"query_{name}": draw(st.lists(value, min_size=rows, max_size=rows))}
    if columns is not None:
        found[f"gallery_{name}"] = draw(st.lists(value, min_size=columns, max_size=columns))
    return found


@st.composite
def cases(draw: st.DrawFn, distance: str) -> Case:
    by_labels = draw(st.integers(0, 3)) < 3
    # Only labels can say that the rows and the columns of a matrix are the same items.
    leave_one_out = draw(st.booleans()) and (by_labels or distance not in MATRIX_DISTANCES)
    rows = draw(st.integers(3, 7))
    columns = rows if leave_one_out else draw(st.integers(3, 7))
    options: dict[str, Any] = {"distance": distance}

    if distance in MATRIX_DISTANCES:
        level = st.sampled_from([0.25, 0.5, 0.1, 0.0, -0.0, -1.0])
        row = st.lists(level, min_size=columns, max_size=columns)
        embeddings = np.array(draw(st.lists(row, min_size=rows, max_size=rows)))
    elif leave_one_out:
        [embeddings] = draw(rows_of_vectors([rows], distance))
    else:
        embeddings, options["gallery"] = draw(rows_of_vectors([rows, columns], distance))

    def one_per_item(name: str, value: st.SearchStrategy[Any]) -> None:
        options.update(draw(descriptions(name, value, rows, None if leave_one_out else columns)))

    labels = None
    if by_labels:
        label = st.sampled_from(
            draw(st.sampled_from([[0, 1, 2], [-1, 2**53, 2**53 + 1], ["a", "b", "c"]]))
        )
        one_per_item("labels", label)
        labels = options.pop("query_labels")
        if draw(st.booleans()):
            one_per_item("groups", st.integers(0, 1))
        # Something has to be left: labels that would make the whole gallery junk are refused.
        listed = set(options.get("gallery_labels", labels))
        options["junk_labels"] = draw(st.lists(label.filter(lambda x: listed != {x}), max_size=1))
        options["average"] = draw(st.sampled_from(["query", "class"]))
    else:
        options["relevance"] = draw(masks(rows, columns))
    if draw(st.booleans()):
        one_per_item("ids", st.integers(0, 4))
    elif "gallery" in options and contains(options["gallery"], embeddings):
        # Refused without ids: see test_gallery_that_contains_the_queries.
        options["query_ids"] = list(range(rows))
        options["gallery_ids"] = list(range(rows, rows + columns))
    if draw(st.booleans()):
        options["junk"] = draw(masks(rows, columns))
    options["unmated"] = draw(st.sampled_from(["report", "zero"]))
    return Case(embeddings, labels, leave_one_out, options)
