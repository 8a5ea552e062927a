"""Columns: values put into place, and counts that columns of one grade share."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core import registry
from truerank.core.metric import Scale
from truerank.core.score import Column, as_run, put, share_counts


@pytest.mark.parametrize("rows", [[3, 4, 5], [5, 1, 8], [7], []])
def test_values_are_put_into_place(rows: list[int]) -> None:
    found, wanted = np.zeros((2, 3, 10))
    values = np.arange(3.0 * len(rows)).reshape(3, len(rows)) + 1
    at = np.array(rows, np.int64)
    wanted[:, at] = values
    put(found, as_run(at), values)
    np.testing.assert_array_equal(found, wanted)
    put(found, as_run(at), np.broadcast_to(values[0], values.shape))
    wanted[:, at] = values[0]
    np.testing.assert_array_equal(found, wanted)


def test_only_rows_that_follow_one_another_are_a_run() -> None:
    assert as_run(np.array([4, 5, 6])) == slice(4, 7)
    assert isinstance(as_run(np.array([4, 6])), np.ndarray)
    assert isinstance(as_run(np.array([5, 4])), np.ndarray)


def test_columns_of_one_grade_share_their_counts() -> None:
    scale = Scale(np.arange(1.0, 3.0))
    grades = {"map": 1, "mrr": 1, "map@level=2": 2, "ndcg": 0}
    columns = [
        Column.of(registry.parse_all([name])[0], grade, scale, 5) for name, grade in grades.items()
    ]
    share_counts(columns)
    plain, same, finer, graded = columns
    assert plain.totals is same.totals
    assert plain.candidates is same.candidates
    assert plain.values is not same.values
    assert len({id(column.candidates) for column in (plain, finer, graded)}) == 3
    assert graded.totals.shape == (5, 2)
