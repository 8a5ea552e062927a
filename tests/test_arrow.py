"""Arrow arrays as embeddings and labels, from pyarrow and by Arrow's C interface."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow
import pytest

import truerank
from tests.refusals import assert_refused
from tests.task.small import LABELS, ROWS, evaluate


class Exported:
    """An array of another library, of which nothing is known but that it exports itself."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_array__(requested_schema)


class Streamed:
    """The same in chunks."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._array.__arrow_c_stream__(requested_schema)


def fixed(rows: np.ndarray, kind: Any = None) -> Any:
    values = pyarrow.array(rows.ravel(), kind or pyarrow.float64())
    return pyarrow.FixedSizeListArray.from_arrays(values, rows.shape[1])


def test_lists_are_rows() -> None:
    expected = evaluate(ROWS, LABELS)["map"]
    column = fixed(ROWS)
    longer = fixed(np.concatenate([ROWS, ROWS]))
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(ROWS))
    for rows in (
        column,
        longer.slice(6),  # from the middle of a buffer
        pyarrow.chunked_array([column.slice(0, 2), column.slice(2)]),
        pyarrow.array(ROWS.tolist()),  # lists of any length that are all as long
        fixed(ROWS.astype(np.float16), pyarrow.float16()),
        fixed(ROWS.astype(np.int8), pyarrow.int8()),
        tensors,
        Exported(column),
        Streamed(pyarrow.chunked_array([column.slice(0, 2), column.slice(2)])),
    ):
        assert evaluate(rows, LABELS)["map"] == expected


@pytest.mark.parametrize("wrap", [lambda array: array, Exported])
def test_labels(wrap: Any) -> None:
    """Numbers, text, categories; a null is a missing label."""
    expected = evaluate(ROWS, LABELS)["map"]
    text = pyarrow.array([f"c{label}" for label in LABELS])
    for labels in (
        pyarrow.array(LABELS),
        text,
        text.dictionary_encode(),
        text.cast("large_string"),
    ):
        assert evaluate(ROWS, wrap(labels))["map"] == expected
    rows, queries = np.concatenate([ROWS, [[9.0, 9]]]), [ROWS, LABELS]
    with_null = wrap(pyarrow.array([*LABELS, None]))
    options: dict[str, Any] = {"gallery": rows, "query_ids": range(6), "gallery_ids": range(7)}
    found = evaluate(*queries, gallery_labels=with_null, unlabelled="distractor", **options)
    wanted = evaluate(*queries, gallery_labels=[*LABELS, None], unlabelled="distractor", **options)
    assert found["map"] == wanted["map"]
    trials = [(0, 1, True), (0, 2, False), (2, 3, True)]
    scores = wrap(pyarrow.array([0.9, 0.2, 0.1]))
    assert truerank.verify(scores, trials, "auc")["auc"].value == 0.5


def test_what_is_refused() -> None:
    holes = pyarrow.array([[1.0, 2.0], None, [1.0, 1.0]], pyarrow.list_(pyarrow.float32(), 2))
    some = pyarrow.array([[1.0, None], [1.0, 2.0]], pyarrow.list_(pyarrow.float32(), 2))
    table = pyarrow.record_batch({"vector": fixed(ROWS), "who": pyarrow.array(LABELS)})
    for rows, words in (
        (holes, ["embeddings holds missing values"]),
        (some, ["embeddings holds missing values"]),
        (pyarrow.array([[1.0], [1.0, 2.0]]), ["lists of one length", "1, 2"]),
        (pyarrow.array([[[1.0]], [[2.0]]]), ["lists of numbers, not of lists"]),
        (table, ["embeddings is an Arrow table; pass one of its columns"]),
    ):
        assert_refused(lambda rows=rows: evaluate(rows, LABELS), words)


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Exported(fixed(ROWS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = [
        "embeddings is an Arrow array (Exported)",
        "needs pyarrow: pip install",
        "pyarrow safetensors",
    ]
    assert_refused(lambda: evaluate(rows, LABELS), words)
