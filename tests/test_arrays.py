"""Embeddings, right and wrong, in any container."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch

import truerank
from tests.refusals import assert_refused
from tests.task.small import GALLERY, GALLERY_LABELS, LABELS, NAN, ROWS, evaluate
from truerank._util.arrays import distinct, numbered, stable_order


@pytest.mark.parametrize(
    ("embeddings", "words"),
    [
        (np.ones(6), ["embeddings", "(6,)", "(rows, dimensions)", "reshape(-1, 1)"]),
        (np.ones((6, 2, 1)), ["embeddings", "(6, 2, 1)", "(rows, dimensions)"]),
        (np.float64(3), ["embeddings", "()", "(rows, dimensions)"]),
        (np.empty((0, 2)), ["embeddings is empty", "(0, 2)"]),
        (np.empty((6, 0)), ["embeddings is empty", "(6, 0)"]),
        ([], ["embeddings", "(0,)"]),
        (ROWS.astype(complex), ["real numbers", "complex128", "astype"]),
        (ROWS.astype(np.longdouble), ["at most 64 bits", "float128", "astype"]),
        (ROWS.astype(str), ["real numbers", "<U", "astype"]),
        (ROWS.astype(object), ["real numbers", "object", "astype"]),
        (np.full((6, 1), 2**53 + 1), ["2^53", "subtract an offset"]),
        (np.full((6, 1), -(2**53) - 1), ["2^53", "subtract an offset"]),
        (scipy.sparse.csr_matrix(ROWS), ["embeddings is a sparse matrix", "toarray()"]),
        ([[1.0, 2], [3]], ["embeddings", "equally long lists"]),
        ("no/such/file.npy", ["cannot read no/such/file.npy"]),
    ],
)
def test_embeddings_that_are_no_matrix_of_numbers(embeddings: Any, words: list[str]) -> None:
    assert_refused(lambda: evaluate(embeddings, LABELS), words)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock"])
@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_named(distance: str, bad: float) -> None:
    rows = ROWS.copy()
    rows[3, 1] = bad
    words = ["embeddings row 3 of 6", "NaN or infinity", "drop those rows"]
    assert_refused(lambda: evaluate(rows, LABELS, distance=distance), words)
    rows[1, 0] = bad
    words = ["embeddings rows 1 and 3 of 6"]
    assert_refused(lambda: evaluate(rows, LABELS, distance=distance), words)
    items = GALLERY.copy()
    items[2] = bad
    assert_refused(
        lambda: evaluate(
            ROWS, LABELS, gallery=items, gallery_labels=GALLERY_LABELS, distance=distance
        ),
        ["gallery row 2 of 4", "NaN or infinity"],
    )


@pytest.mark.parametrize("distance", ["precomputed", "similarity"])
def test_matrices_that_are_not_finite_are_named(distance: str) -> None:
    matrix = np.ones((6, 6))
    matrix[4, 1] = np.inf
    words = [f"the {distance} matrix row 4 of 6", "NaN or infinity"]
    assert_refused(lambda: evaluate(matrix, LABELS, distance=distance), words)


def test_many_bad_rows_are_counted() -> None:
    rows = np.full((40, 2), NAN)
    words = ["rows 0, 1, 2, 3, 4 and 35 more of 40"]
    assert_refused(lambda: evaluate(rows, [0] * 40), words)


def test_bad_rows_far_down_are_found_among_many() -> None:
    """Rows are read a chunk at a time; a bad one in a later chunk is named by its own number."""
    rows = np.ones((40, 2**17), np.float32)
    rows[[2, 38], 5] = np.nan
    assert_refused(lambda: evaluate(rows, [0] * 40), ["rows 2 and 38 of 40"])


def test_tensors_lists_and_small_types_are_as_good_as_arrays() -> None:
    expected = evaluate(ROWS, LABELS)["map"].value
    for rows in (
        ROWS.tolist(),
        ROWS.astype(np.float16),
        ROWS.astype(np.uint8),
        ROWS.astype(np.int64),
        np.asfortranarray(ROWS),
        ROWS[::-1][::-1],
        torch.tensor(ROWS, requires_grad=True),
        torch.tensor(ROWS, dtype=torch.bfloat16),
        pandas.DataFrame(ROWS),
    ):
        assert evaluate(rows, LABELS)["map"].value == expected


class Exported:
    """An array of another library, of which nothing is known but that it exports itself."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_whatever_exports_itself_by_dlpack() -> None:
    """numpy's and torch's; bfloat16 too, which numpy lacks; rows, labels, ids and scores."""
    expected = evaluate(ROWS, LABELS)["map"]
    labels = np.array(LABELS)
    for rows in (ROWS, ROWS.astype(np.float16), torch.tensor(ROWS, dtype=torch.bfloat16)):
        for codes in (labels, torch.tensor(LABELS)):
            assert evaluate(Exported(rows), Exported(codes))["map"] == expected
    ids = Exported(np.arange(6))
    found = evaluate(ROWS, LABELS, gallery=Exported(ROWS), gallery_labels=Exported(labels),
                     query_ids=ids, gallery_ids=ids)  # fmt: skip
    assert found["map"].value == expected.value
    trials = [(0, 1, True), (0, 2, False), (2, 3, True)]
    assert truerank.verify(Exported(np.array([0.9, 0.2, 0.1])), trials, "auc")["auc"].value == 0.5


class Broken(Exported):
    """Memory that nobody here can reach."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("this memory is elsewhere")


def test_dlpack_that_cannot_be_read() -> None:
    words = ["embeddings cannot be read as an array", "Broken", "memory is elsewhere"]
    assert_refused(lambda: evaluate(Broken(ROWS), LABELS), words)


def test_hamming_refuses_fractions() -> None:
    words = ["hamming", "embeddings", "float64", "binarise"]
    assert_refused(lambda: evaluate(ROWS, LABELS, distance="hamming"), words)


SPANS = [1, 2, 50, 1 << 16, 1 << 20, 1 << 40, 1 << 62]
"""From codes that lie close together to numbers that fill 64 bits."""


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("count", [0, 1, 2, 700])
def test_distinct_integers_and_their_order_are_those_of_a_sort(span: int, count: int) -> None:
    rng = np.random.default_rng(span % 1009)
    values = rng.integers(-span, span, size=count)
    found, number = numbered(values)
    wanted, places = np.unique(values, return_inverse=True)
    np.testing.assert_array_equal(found, wanted)
    assert distinct(values) == len(wanted)
    np.testing.assert_array_equal(number, places)
    np.testing.assert_array_equal(stable_order(values), np.argsort(values, kind="stable"))
