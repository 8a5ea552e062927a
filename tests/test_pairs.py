"""Masks of pairs: junk and relevance, dense and sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from tests.refusals import assert_refused
from tests.task.small import GALLERY, GALLERY_LABELS, LABELS, NAN, ROWS, evaluate, with_gallery
from truerank import Task
from truerank.task.relevance import count_matches


@pytest.mark.parametrize("shape", [(6, 3), (6, 9), (3, 6), (9, 6)])
def test_relevance_of_another_shape(shape: tuple[int, int]) -> None:
    """The message speaks of what was passed, the relevance, and not of labels that were not."""
    for sides in ({}, {"gallery": GALLERY}):
        assert_refused(
            lambda sides=sides: evaluate(ROWS, relevance=np.ones(shape), **sides),
            ["relevance", f"{shape}"],
        )


def test_relevance_says_it_all() -> None:
    """Labels of the gallery alone would be read by nobody: they are refused, not ignored."""
    assert_refused(
        lambda: evaluate(
            ROWS, gallery=GALLERY, gallery_labels=GALLERY_LABELS, relevance=np.ones((6, 4))
        ),
        ["relevance", "gallery_labels"],
    )


# --- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["junk", "relevance"])
@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.zeros((6, 3)), ["(queries, gallery)", "(6, 4)", "(6, 3)"]),
        (np.zeros((4, 6)), ["(queries, gallery)", "(4, 6)"]),
        (np.zeros(6), ["(queries, gallery)", "(6,)"]),
        (np.zeros((6, 4, 1)), ["(queries, gallery)", "(6, 4, 1)"]),
        (np.zeros((6, 4), object), ["bool or numbers", "object"]),
        (np.full((6, 4), "x"), ["bool or numbers", "<U1"]),
        (np.full((6, 4), 1j), ["bool or numbers", "complex128"]),
        (np.full((6, 4), NAN), ["NaN or infinity", "use 0"]),
        (np.full((6, 4), np.inf), ["NaN or infinity", "use 0"]),
        (np.full((6, 4), -1), ["negative", "use 0"]),
        (np.full((6, 4), -0.5), ["negative", "use 0"]),
        (scipy.sparse.csr_matrix((6, 3)), ["(queries, gallery)", "(6, 3)"]),
        (scipy.sparse.csr_matrix(([-1.0], ([0], [0])), (6, 4)), ["negative", "use 0"]),
        (scipy.sparse.csr_matrix(([NAN], ([0], [0])), (6, 4)), ["NaN or infinity", "use 0"]),
    ],
)
def test_masks_that_are_none(name: str, mask: Any, words: list[str]) -> None:
    if name == "junk":
        assert_refused(lambda: with_gallery(junk=mask), [name, *words])
    else:
        words = [word for word in words if not word.startswith("(")]
        assert_refused(lambda: evaluate(ROWS, gallery=GALLERY, relevance=mask), [name, *words])


JUNK = np.zeros((6, 4), bool)
JUNK[0, 0] = JUNK[2, [0, 1, 3]] = JUNK[5, 3] = True


def repeated_entries(mask: np.ndarray) -> Any:
    rows, columns = np.nonzero(mask)
    twice = np.concatenate([columns, columns])
    ones = np.ones(len(twice), int)
    return scipy.sparse.coo_matrix((ones, (np.concatenate([rows, rows]), twice)), mask.shape)


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.asfortranarray,
        lambda mask: mask.astype(float) * 0.5,
        lambda mask: mask.astype(np.uint8) * 255,
        lambda mask: mask.tolist(),
        torch.tensor,
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_array,
        scipy.sparse.coo_array,
        scipy.sparse.lil_matrix,
        lambda mask: scipy.sparse.csr_matrix(mask.astype(float)),
        repeated_entries,
    ],
)
def test_masks_of_any_kind(kind: Callable[[np.ndarray], Any]) -> None:
    expected = with_gallery(junk=JUNK)
    assert expected["map"].value != with_gallery()["map"].value
    result = with_gallery(junk=kind(JUNK))
    np.testing.assert_array_equal(result["map"].per_query.lower, expected["map"].per_query.lower)
    relevant = np.equal.outer(LABELS, GALLERY_LABELS)
    judged = evaluate(ROWS, gallery=GALLERY, relevance=kind(relevant), junk=kind(JUNK))
    np.testing.assert_array_equal(judged["map"].per_query.lower, expected["map"].per_query.lower)


def test_stored_zeros_of_a_sparse_mask_are_no_pairs() -> None:
    mask = scipy.sparse.csr_matrix((np.zeros(2), ([0, 1], [0, 1])), (6, 4))
    assert mask.nnz == 2
    assert (
        Task(LABELS, gallery_labels=GALLERY_LABELS, junk=mask).mates.tolist() == [1] * 4 + [2] * 2
    )


def test_a_mask_is_not_changed_by_its_evaluation() -> None:
    mask = scipy.sparse.csr_matrix((np.zeros(2), ([0, 1], [0, 1])), (6, 4))
    with_gallery(junk=mask)
    assert mask.nnz == 2


@pytest.mark.parametrize("ids", ["own", "shared", "missing", "far apart"])
def test_matches_in_every_column_are_counted(ids: str) -> None:
    """Where each row has an id of its own, no sort is needed; the counts are the same."""
    rng = np.random.default_rng(4)
    labels = rng.integers(-1, 4, size=30), rng.integers(-1, 4, size=40)
    marks = rng.permutation(50)[:30], rng.permutation(50)[:40]
    if ids == "shared":
        marks = marks[0] // 3, marks[1] // 3
    elif ids == "missing":
        marks[1][5] = marks[0][7] = -1
    elif ids == "far apart":
        marks = marks[0] << 30, marks[1] << 30
    found = count_matches([labels[0], marks[0]], [labels[1], marks[1]])
    wanted = [
        sum((a, b) == (c, d) for c, d in zip(labels[1], marks[1], strict=True))
        for a, b in zip(labels[0], marks[0], strict=True)
    ]
    assert found.tolist() == wanted
