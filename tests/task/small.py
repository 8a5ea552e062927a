"""Six rows with labels, a gallery of four, and their evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

import truerank
from truerank import Task

ROWS = np.array([[1.0, 2], [2, 1], [3, 5], [5, 3], [1, 7], [7, 2]])
LABELS = [0, 0, 1, 1, 2, 2]
GALLERY = ROWS[:4] + 0.5
GALLERY_LABELS = [0, 1, 2, 2]
NAN = float("nan")
PATHS = [("bird", "owl"), ("bird", "owl"), ("bird", "tit"), ("fish", "cod"), ("fish", "cod")]


def evaluate(*arguments: Any, **options: Any) -> truerank.Result:
    return truerank.evaluate(*arguments, **{"metrics": ["map", "hit@1"]} | options)


def with_gallery(**options: Any) -> truerank.Result:
    return evaluate(ROWS, LABELS, gallery=GALLERY, gallery_labels=GALLERY_LABELS, **options)


def pairs_of(task: Task) -> list[tuple[int, int]]:
    pairs = task.view.block(np.arange(task.queries)).relevant
    return list(zip(pairs.query.tolist(), pairs.item.tolist(), strict=True))
