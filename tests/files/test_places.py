"""Which row an id of a list of trials names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.refusals import assert_refused
from truerank.io.trials import RowsById


@pytest.mark.parametrize(
    ("ids", "wanted", "found"),
    [
        (None, [2, "0", 1], [2, 0, 1]),
        (["a", "b"], ["b", "a"], [1, 0]),
        (np.array([7, 9]), ["9", 7], [1, 0]),  # files of trials hold text
        (["lfw/Ann/Ann_0001.jpg", "lfw/Bob/Bob_0012.png"], ["Bob_0012", "Ann_0001"], [1, 0]),
        (["Ann\\Ann_0001.jpg", "Bob\\Bob_0001.jpg"], ["Bob_0001"], [1]),
        (["J.R._Ewing/J.R._Ewing_0001.jpg", "b"], ["J.R._Ewing_0001", "b"], [0, 1]),
        (["x/a.jpg", "a"], ["a", "x/a.jpg"], [1, 0]),  # the id itself goes before a file's name
    ],
)
def test_rows(ids: object, wanted: list[object], found: list[int]) -> None:
    assert RowsById.of(ids, 3 if ids is None else 2).find(wanted).tolist() == found


@pytest.mark.parametrize(
    ("ids", "wanted", "words"),
    [
        (None, "5", ["trial 0 names '5'", "row numbers; pass the ids of the rows"]),
        (["a", "b"], "c", ["trial 0 names 'c'", "not among the ids"]),
        (["x/a.jpg", "y/a.jpg"], "a", ["'a' may be 'x/a.jpg' and 'y/a.jpg'", "whole ids"]),
        (["a", "a"], "a", ["a row twice"]),
        (["a"], "a", ["one value per row (2)", "Got 1"]),
    ],
)
def test_ids_that_name_no_row_or_two(ids: object, wanted: object, words: list[str]) -> None:
    assert_refused(lambda: RowsById.of(ids, 2).find([wanted]), words)
