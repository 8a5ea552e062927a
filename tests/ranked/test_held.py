"""A result looks at its rows again while they are there, and never keeps them alive."""

from __future__ import annotations

import copy
import pickle
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import truerank
from tests.refusals import refused
from truerank.result.result import Result


def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


LABELS = [f"class {number % 6}" for number in range(30)]


def test_the_same_lists_as_from_the_arrays() -> None:
    x = rows()
    ids = [f"image {number}" for number in range(30)]
    result = truerank.evaluate(x, LABELS, query_ids=ids)
    expected = truerank.neighbors(x, LABELS, query_ids=ids, queries=[3, 7], k=4)
    assert result.neighbors([3, "image 7"], 4).to_json() == expected.to_json()
    assert len(result.neighbors(3)[0].nearest) == 10


def test_a_gallery_of_its_own() -> None:
    x, gallery = rows(), rows()[::-1] + 1
    sides = {"gallery": gallery, "gallery_labels": LABELS}
    result = truerank.evaluate(x, LABELS, **sides)
    expected = truerank.neighbors(x, LABELS, **sides, queries=0)
    assert result.neighbors(0).to_json() == expected.to_json()
    del sides, gallery
    with refused("the rows are gone"):
        result.neighbors(0)


def test_no_array_is_kept_alive() -> None:
    x = rows()
    watched = weakref.ref(x)
    result = truerank.evaluate(x, LABELS)
    assert result.neighbors(0) is not None
    del x
    assert watched() is None
    with refused("the rows are gone: a result does not keep arrays alive"):
        result.neighbors(0)


def test_tensors_lists_and_files(tmp_path: Path) -> None:
    x = rows()
    expected = truerank.neighbors(x, LABELS, queries=5).to_json()
    tensor, path = torch.from_numpy(x), tmp_path / "rows.npy"
    np.save(path, x)
    for source in (tensor, x.tolist(), path):
        assert truerank.evaluate(source, LABELS).neighbors(5).to_json() == expected
    result = truerank.evaluate(path, LABELS)
    np.save(path, x + 1)
    with refused("the rows have changed since they were evaluated"):
        result.neighbors(5)


@pytest.mark.parametrize("distance", ["cosine", "precomputed"])
def test_rows_that_have_changed(distance: str) -> None:
    x = rows() if distance == "cosine" else np.abs(rows() @ rows().T)
    result = truerank.evaluate(x, LABELS, distance=distance)
    x[[0, 1]] = x[[1, 0]]
    with refused("the rows have changed since they were evaluated"):
        result.neighbors(0)


def test_dense_masks_are_not_kept() -> None:
    x, junk = rows(), np.zeros((30, 30), bool)
    result = truerank.evaluate(x, LABELS, junk=junk)
    with refused("a result keeps no dense junk or relevance matrix"):
        result.neighbors(0)


def test_results_of_files_and_of_other_processes_have_no_rows() -> None:
    x = rows()
    result = truerank.evaluate(x, LABELS)
    for other in (
        Result.from_dict(result.to_dict()),
        pickle.loads(pickle.dumps(result)),
        copy.deepcopy(result),
    ):
        with refused("this result came without its rows; call truerank.neighbors"):
            other.neighbors(0)
    assert pickle.loads(pickle.dumps(result)).to_json() == result.to_json()
