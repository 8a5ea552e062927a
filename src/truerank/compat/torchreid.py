"""evaluate_rank of torchreid: a distance matrix, persons and cameras in, CMC and mAP out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array
from truerank._util.errors import InputError, shortened
from truerank._util.text import reworded
from truerank.evaluation.evaluate import evaluate
from truerank.io.reading import as_matrix


def evaluate_rank(
    distmat: Any,
    q_pids: Any,
    g_pids: Any,
    q_camids: Any,
    g_camids: Any,
    max_rank: int = 50,
    use_metric_cuhk03: bool = False,
    use_cython: bool = True,
) -> tuple[npt.NDArray[np.float64], float]:
    """Replace torchreid's evaluate_rank: return the CMC curve up to max_rank, and mAP.

    Gallery items with the query's identity and camera are junk; queries without another relevant
    item do not count. `use_cython` chooses between two speeds in the original and changes no value
    there or here. The cuhk03 protocol draws random galleries and is refused.

    Examples
    --------
    >>> from truerank.compat import evaluate_rank
    >>> cmc, mean_ap = evaluate_rank([[0.1, 0.4], [0.7, 0.2]], [0, 1], [0, 1], [0, 0], [1, 1], 2)
    >>> cmc.tolist(), mean_ap
    ([1.0, 1.0], 1.0)
    """
    if use_metric_cuhk03:
        raise InputError(
            "use_metric_cuhk03 samples random galleries, so its numbers change from run to run; "
            "evaluate the fixed new cuhk03 split instead."
        )
    if not isinstance(max_rank, (int, np.integer)) or max_rank < 1:
        raise InputError(f"max_rank must be an int >= 1. Got {shortened(max_rank)} instead.")
    matrix = as_matrix(distmat, "distmat")
    for name, values, expected in (
        ("q_pids", q_pids, matrix.shape[0]),
        ("q_camids", q_camids, matrix.shape[0]),
        ("g_pids", g_pids, matrix.shape[1]),
        ("g_camids", g_camids, matrix.shape[1]),
    ):
        given = as_array(values, name)
        if given.shape != (expected,):
            raise InputError(
                f"distmat of shape {matrix.shape} needs {expected} {name}, one each. "
                f"Got shape {given.shape}."
            )
    ranks = min(int(max_rank), matrix.shape[1])
    result = evaluate(
        matrix,
        q_pids,
        gallery_labels=g_pids,
        query_groups=q_camids,
        gallery_groups=g_camids,
        distance="precomputed",
        metrics=["map", *(f"hit@{rank}" for rank in range(1, ranks + 1))],
        confidence=None,
    )
    if result["map"].reason is not None:
        reasons = result.provenance["no_mate"].items()
        counts = ", ".join(f"{n} {reworded(why)}" for why, n in reasons)
        raise InputError(
            f"no query has a relevant item in the gallery ({counts}); relevant items of the "
            "query's camera are junk, so check q_camids and g_camids."
        )
    cmc = np.array([result[f"hit@{rank}"].value for rank in range(1, ranks + 1)])
    return cmc, result["map"].value
