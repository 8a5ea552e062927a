"""The validation score: MAP@R on the device is that of `evaluate`, ties included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import truerank
from truerank.datasets.base import Dataset
from truerank.training import loop
from truerank.training.loop import map_at_r, validation_score

CPU = torch.device("cpu")


@given(st.integers(0, 2**32 - 1), st.integers(4, 30), st.integers(1, 4), st.booleans())
def test_it_is_that_of_evaluate(seed: int, rows: int, copies: int, grouped: bool) -> None:
    """Rows that are repeated tie with one another, over the borders of classes."""
    rng = np.random.default_rng(seed)
    different = rng.normal(size=(-(-rows // copies), 5)).astype(np.float32)
    embeddings = different[rng.integers(0, len(different), rows)]
    labels = rng.integers(0, max(2, rows // 3), rows)
    groups = rng.integers(0, 3, rows) if grouped else None
    found = map_at_r(embeddings, labels, CPU, groups)
    try:
        score = truerank.evaluate(
            embeddings, labels, query_groups=groups, metrics=["map@r"], confidence=None,
            device="reference",
        )["map@r"]  # fmt: skip
    except truerank.InputError:  # no query has a mate
        assert found is None
        return
    if found is None:
        assert score.reason is not None
    else:
        assert found == pytest.approx(score.value, rel=1e-14, abs=1e-15)


def test_queries_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(50, 8)), rng.integers(0, 9, 50)
    whole = map_at_r(embeddings, labels, CPU)
    monkeypatch.setattr(loop, "ROWS", 7)
    assert map_at_r(embeddings, labels, CPU) == whole


def test_what_has_rules_of_its_own_is_left_to_evaluate() -> None:
    labels = ["a", "a", "b", "b"]
    right_angles = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 2.0]]
    assert map_at_r(right_angles, labels, CPU) is None
    assert map_at_r([[0.0, 0.0], [0.5, 1.0], [1.0, 1.0], [1.0, 2.0]], labels, CPU) is None
    assert map_at_r([[0.5, 1.0], [1.0, 1.0]], ["a", "b"], CPU) is None


def test_cameras_are_heeded() -> None:
    """A mate of one's own camera is junk: it is found first, and does not help."""
    rows = np.array([[1.0, 0.1], [1.0, 0.11], [0.05, 1.0], [0.1, 1.0], [0.2, 1.0]], np.float32)
    pixels = np.zeros((5, 4, 4), np.uint8)
    labels = np.array(["a", "a", "a", "b", "b"])
    plain = Dataset("plain", pixels, labels, ("class",))
    cameras = Dataset("cameras", pixels, labels, ("class",), groups=np.array([0, 0, 1, 0, 1]))
    wanted = truerank.evaluate(rows, **cameras.task_arguments(), metrics=["map@r"])["map@r"]
    assert validation_score(rows, cameras, "map@r", CPU) == wanted.value
    assert validation_score(rows, plain, "map@r", CPU) > wanted.value
    groups = cameras.groups
    tree = Dataset("tree", pixels, np.stack([labels, labels], 1), ("coarse", "fine"), groups=groups)
    assert validation_score(rows, tree, "map@r", CPU) == wanted.value


def test_junk_labels_are_left_to_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([[1.0, 0.1], [1.0, 0.11], [1.0, 0.5], [0.1, 1.0], [0.2, 1.0]], np.float32)
    labels, pixels = np.array(["a", "a", "a", "b", "b"]), np.zeros((5, 4, 4), np.uint8)
    data = Dataset("junk", pixels, labels, ("class",), junk_labels=("b",))
    monkeypatch.setattr(loop, "map_at_r", pytest.fail)
    assert validation_score(rows, data, "map@r", CPU) == 1.0
