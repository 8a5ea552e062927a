"""pytorch-metric-learning's AccuracyCalculator on the cases of cases.py; prints JSON."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from cases import EmbeddingCase
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from rows import Value, embedding_rows, number, write

NAMES = {
    "precision@1": "precision_at_1",
    "map@r": "mean_average_precision_at_r",
    "map": "mean_average_precision",
    "mrr": "mean_reciprocal_rank",
}

WHY = {
    "large-labels": "Labels are converted to float32, in which 2^24 and 2^24 + 1 are equal: the "
    "first two rows become mates.",
    "reciprocal-rank": "The metric is missing from the list of those that need neighbours, so it "
    "works only beside another that asks for them.",
    "constant-embeddings": "Equal distances are taken in the order of the rows.",
    "duplicate-rows": "",
}


def measure(case: EmbeddingCase, labels: Sequence[int], name: str) -> Value | None:
    """Every neighbour is asked for (k=None), with the library's own nearest-neighbour search."""
    calculator = AccuracyCalculator(include=(name,), k=None, device=torch.device("cpu"))
    embeddings = np.array(case.embeddings, dtype=np.float32)
    try:
        return number(calculator.get_accuracy(embeddings, np.array(labels))[name])
    except TypeError as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    write("pytorch-metric-learning", embedding_rows(NAMES, measure, WHY))
