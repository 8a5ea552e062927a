"""Results of every make: with and without ties, undefined, of a gallery, of a matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from truerank import Result
from truerank.core import registry

SCHEMA = json.loads(
    (Path(truerank.__file__).parent / "result/result.schema.json").read_text(encoding="utf-8")
)
TIED = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0.25, 1], [3, 1], [1, 3], [-1, 0]])
FREE = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)
LABELS = ["a", "a", "b", "b", "b", "c", "c", "alone"]
GROUPS = [1, 2, 1, 2, 2, 1, 1, 2]


def evaluate(rows: Any = TIED, labels: Any = LABELS, **options: Any) -> Result:
    options = {"metrics": registry.DEFAULT} | options
    return truerank.evaluate(rows, labels, **options)


def undefined() -> Result:
    return evaluate(labels=list("abcdefgh"), metrics=["map", "hit@1"])


RESULTS = {
    "tied": evaluate,
    "without ties": lambda: evaluate(FREE),
    "all metrics": lambda: evaluate(metrics="all"),
    "undefined": undefined,
    "skipped": lambda: evaluate(labels=list("abcdefgh"), metrics=None),
    "zero": lambda: evaluate(unmated="zero"),
    "groups": lambda: evaluate(query_groups=GROUPS, average="class"),
    "gallery": lambda: evaluate(
        gallery=FREE[:, :2], gallery_labels=LABELS, junk_labels=["c"], distance="euclidean"
    ),
    "matrix": lambda: truerank.evaluate(
        np.arange(12.0).reshape(3, 4), relevance=np.eye(3, 4), distance="similarity"
    ),
    "float64": lambda: noted(),
}


def noted() -> Result:
    with pytest.warns(truerank.TruerankWarning):
        return evaluate(np.random.default_rng(2).random((8, 3)), distance="euclidean")
