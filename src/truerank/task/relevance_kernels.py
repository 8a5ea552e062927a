"""Kernel of the common path lengths between the labels of queries and gallery items."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


@kernel
def common_paths(query: Any, item: Any, lowest: int, out: Any) -> None:
    """Lengths of the common paths, from `lowest` up, added to zeros; item[level] is contiguous.

    Paths are nested, so the levels that agree can be counted, without a branch for each item.
    """
    for q in range(query.shape[0]):
        row = out[q]
        for level in range(query.shape[1]):
            code = query[q, level]
            column = item[level]
            step = np.int8(lowest if level == 0 else 1)
            for g in range(column.size):
                row[g] += step if column[g] == code else np.int8(0)
