"""Smaller copies, against the same worked out number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from truerank.analysis import compression
from truerank.analysis.compression import Copy, chosen_copies, make_copy

ROWS = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)


def quantile(values: list[float], share: float) -> float:
    """Linear between the two nearest of the sorted values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def test_bytes_of_every_copy() -> None:
    original, copies = chosen_copies(ROWS, [2, 3], ("float16", "int8", "binary"))
    assert original == Copy(6, "float32", 24)
    assert {(copy.dims, copy.dtype): copy.bytes for copy in copies} == {
        (2, "float32"): 8, (2, "float16"): 4, (2, "int8"): 2, (2, "binary"): 1,
        (3, "float32"): 12, (3, "float16"): 6, (3, "int8"): 3, (3, "binary"): 1,
        (6, "float16"): 12, (6, "int8"): 6, (6, "binary"): 1,
    }  # fmt: skip
    assert [copy.bytes for copy in copies] == sorted(copy.bytes for copy in copies)
    assert chosen_copies(ROWS.astype(np.float64), None, "int8")[1] == [Copy(6, "int8", 6)]
    assert Copy(9, "binary", 2) in chosen_copies(np.zeros((1, 9)), None, "binary")[1]


def test_int8_by_hand() -> None:
    found, none, distance = make_copy(Copy(6, "int8", 6), ROWS, None, "euclidean")
    assert none is None
    assert distance == "euclidean"
    for column in range(6):
        scale = quantile([abs(float(x)) for x in ROWS[:, column]], 0.999) / 127
        for row in range(50):
            step = max(-127, min(127, round(float(ROWS[row, column]) / scale)))
            assert found[row, column] == pytest.approx(step * scale, rel=1e-6)
    cut = np.abs(found).max(axis=0) < np.abs(ROWS).max(axis=0)
    assert cut.any(), "what lies beyond the quantile is cut off"


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {d: make_copy(Copy(6, d, 6), ROWS, ROWS[:9], "cosine") for d in ("int8", "float16")}
    monkeypatch.setattr(compression, "ROWS", 7)
    monkeypatch.setattr(compression, "COLUMNS", 4)
    for dtype, (rows, items, _) in usual.items():
        found = make_copy(Copy(6, dtype, 6), ROWS, ROWS[:9], "cosine")
        assert (found[0] == rows).all()
        assert (found[1] == items).all()


def test_the_scales_come_from_the_gallery() -> None:
    queries = ROWS[:10] * 1000
    made, gallery, _ = make_copy(Copy(6, "int8", 6), queries, ROWS[10:], "dot")
    _, alone, _ = make_copy(Copy(6, "int8", 6), ROWS[:1], ROWS[10:], "dot")
    assert (gallery == alone).all(), "what queries are changes nothing there"
    assert np.abs(made).max(axis=0) == pytest.approx(np.abs(gallery).max(axis=0))


def test_cosine_copies_are_of_rows_of_length_one() -> None:
    longer = ROWS * np.logspace(-30, 30, 50)[:, None]
    for dtype in ("int8", "float16", "binary"):
        usual, scaled = (make_copy(Copy(4, dtype, 4), x, None, "cosine")[0] for x in (ROWS, longer))
        assert usual.shape == (50, 4)
        assert np.allclose(usual, scaled, rtol=0.01, atol=0.01)
    zeros = make_copy(Copy(4, "int8", 4), ROWS * 0, None, "cosine")[0]
    assert (zeros == 0).all()


@given(st.lists(st.lists(st.integers(-3, 3), min_size=5, max_size=5), min_size=2, max_size=6))
def test_signs_and_their_distance(rows: list[list[int]]) -> None:
    codes, _, distance = make_copy(Copy(5, "binary", 1), np.array(rows, float), None, "cosine")
    assert distance == "hamming"
    assert codes.tolist() == [[part > 0 for part in row] for row in rows]


def test_float16_that_does_not_hold_the_numbers() -> None:
    with pytest.raises(truerank.InputError, match="float16 holds numbers up to 65504"):
        make_copy(Copy(6, "float16", 12), ROWS * 1e6, None, "euclidean")


@pytest.mark.parametrize(
    ("dims", "dtypes", "sentence"),
    [
        ([7], "int8", "from 1 to 6"),
        ([0], "int8", "from 1 to 6"),
        ([2.5], "int8", "from 1 to 6"),
        ([True], "int8", "from 1 to 6"),
        (3.5, "int8", "must hold several"),
        ([2], ["int4"], "float16, int8 or binary"),
        (None, [], "nothing here is smaller"),
    ],
)
def test_bad_choices(dims: object, dtypes: object, sentence: str) -> None:
    with pytest.raises(truerank.InputError, match=sentence):
        chosen_copies(ROWS, dims, dtypes)
