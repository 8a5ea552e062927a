"""open-metric-learning's map@k on the cases of cases.py; prints JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oml.functional.metrics import calc_map
from rows import Measure, score_rows, write
from torch import BoolTensor

FOUND_ONLY = "It divides by the mates found among the first k, as its documentation says."
WORSE_LIST = f"{FOUND_ONLY} Finding the second mate too, at rank 4, then lowers the value."

WHY = {"cut-list": FOUND_ONLY, "one-mate-found": WORSE_LIST, "two-mates-found": FOUND_ONLY}


def call(k: int, scores: Sequence[float], relevance: Sequence[int]) -> float:
    """calc_map takes the retrieved items in order: the k of the greatest scores, without ties."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    retrieved = BoolTensor([relevance[i] for i in order[:k]])
    [values] = calc_map([retrieved], [sum(relevance)], top_k=(k,))
    return float(values[0])


MEASURES = tuple(Measure(f"map@{k}", f"calc_map, top_k={k}", partial(call, k)) for k in (2, 4))

if __name__ == "__main__":
    write("open-metric-learning", score_rows(MEASURES, WHY))
