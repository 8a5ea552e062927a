"""torchmetrics' retrieval functions on the cases of cases.py; prints JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from rows import Measure, score_rows, write
from torchmetrics.functional.retrieval import (
    retrieval_average_precision,
    retrieval_hit_rate,
    retrieval_normalized_dcg,
    retrieval_recall,
)

FOUND_ONLY = "It divides by the mates found among the first k, not by all mates."
WORSE_LIST = f"{FOUND_ONLY} Finding the second mate too, at rank 4, then lowers the value."

WHY = {
    "negative-scores": "A mate counts as found only if its score is above 0: the documentation "
    "asks for probabilities, which cosine similarities are not.",
    "cut-list": FOUND_ONLY,
    "one-mate-found": WORSE_LIST,
    "two-mates-found": FOUND_ONLY,
    "all-tied": "Equal scores are taken in whatever order the sort returns them.",
    "equal-best": "Equal scores are taken in whatever order the sort returns them.",
    "close-scores": "Scores are converted to float32, in which the three are equal.",
}


def call(
    function: Callable[..., Any], scores: Sequence[float], relevance: Sequence[int], **options: int
) -> float:
    return float(
        function(torch.tensor(scores, dtype=torch.float64), torch.tensor(relevance), **options)
    )


MEASURES = (
    Measure("map", "retrieval_average_precision", partial(call, retrieval_average_precision)),
    Measure(
        "map@2",
        "retrieval_average_precision, top_k=2",
        partial(call, retrieval_average_precision, top_k=2),
    ),
    Measure(
        "map@4",
        "retrieval_average_precision, top_k=4",
        partial(call, retrieval_average_precision, top_k=4),
    ),
    Measure("recall@4", "retrieval_recall, top_k=4", partial(call, retrieval_recall, top_k=4)),
    Measure("hit@1", "retrieval_hit_rate, top_k=1", partial(call, retrieval_hit_rate, top_k=1)),
    Measure("ndcg", "retrieval_normalized_dcg", partial(call, retrieval_normalized_dcg)),
)

if __name__ == "__main__":
    write("torchmetrics", score_rows(MEASURES, WHY))
