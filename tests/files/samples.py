"""One small data set that every kind of file and array can hold without rounding.

The numbers are small multiples of 1/4, so that float64, float32, float16 and bfloat16 hold the
same embeddings; equal rows and equal cosines occur, so that ties are part of what is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import truerank

ROWS, DIMENSIONS = 36, 5

_random = np.random.default_rng(20)
_centres = _random.integers(-12, 13, (9, DIMENSIONS))
_noise = _random.integers(-7, 8, (ROWS, DIMENSIONS))

CLASSES: npt.NDArray[np.int64] = np.repeat(np.arange(9), 4)
"""Nine classes of four rows."""
EMBEDDINGS: npt.NDArray[np.float64] = (_centres[CLASSES] + _noise) / 4
EMBEDDINGS[7] = EMBEDDINGS[2]
GROUPS: npt.NDArray[np.int64] = np.arange(ROWS) % 3
LABELS: list[str] = [f"{number:04d}" for number in CLASSES]
FAMILIES: list[str] = [f"family {number // 3}" for number in CLASSES]
IDS: list[str] = [f"item-{row // 2}" for row in range(ROWS)]
"""Two crops of each item."""


def scores(result: truerank.Result) -> dict[str, Any]:
    """Every number of a result, those of each query included; NaN as None, so that == works."""
    found = {name: score.to_dict() for name, score in result.items()}
    assert found
    return found


def expected(**options: Any) -> dict[str, Any]:
    """What plain float64 arrays give."""
    return scores(truerank.evaluate(EMBEDDINGS, LABELS, **options))
