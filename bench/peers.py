"""What a GPU's figures stand beside: bare products, sorts, and other tools where installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = [
    "ASKED",
    "BLOCK",
    "argsort",
    "height",
    "metric_learning",
    "products",
    "top",
    "torchmetrics_precision",
]

BLOCK = 4096
ASKED = 100
"""Queries that torchmetrics, which takes them one by one, is measured on."""


def products(x: Any, queries: int) -> None:
    """The bare product of some rows with all rows, thrown away."""
    wide = 2 * BLOCK
    for start in range(0, queries, 4 * BLOCK):
        some = x[start : min(start + 4 * BLOCK, queries)]
        for first in range(0, len(x), wide):
            torch.mm(some, x[first : first + wide].T)


def metric_learning(labels: Any) -> Callable[[Any], Any] | None:
    """MAP@R, R-precision and precision@1 of pytorch-metric-learning, if it is installed."""
    try:
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
        from pytorch_metric_learning.utils.inference import CustomKNN
    except ImportError:
        return None
    include = ("mean_average_precision_at_r", "r_precision", "precision_at_1")
    search = CustomKNN(CosineSimilarity(), batch_size=BLOCK)
    judge = AccuracyCalculator(include, k="max_bin_count", knn_func=search)
    return lambda x: judge.get_accuracy(x, labels)


def torchmetrics_precision(x: Any, labels: Any) -> Callable[[], Any] | None:
    """Average precision of some queries by torchmetrics, if it is installed."""
    try:
        from torchmetrics.functional.retrieval import retrieval_average_precision
    except ImportError:
        return None
    unit = torch.nn.functional.normalize(x)

    def work() -> None:
        for query in range(ASKED):
            scores, same = unit @ unit[query], labels == labels[query]
            others = torch.arange(len(x), device=x.device) != query
            retrieval_average_precision(scores[others], same[others])

    return work


def height(x: Any) -> int:
    """Rows of scores to sort at a time."""
    return min(BLOCK, (1 << 28) // len(x))


def _scores(x: Any, start: int, stop: int) -> Any:
    scores = x[start:stop] @ x.T
    own = torch.arange(len(scores), device=x.device)
    scores[own, own + start] = -torch.inf
    return scores


def argsort(x: Any, labels: Any, queries: int) -> float:
    """mAP of some queries, by sorting whole rows of scores."""
    x = torch.nn.functional.normalize(x)
    ranks = torch.arange(1, len(x), device=x.device)
    total = 0.0
    for start in range(0, queries, height(x)):
        scores = _scores(x, start, min(start + height(x), queries))
        order = torch.argsort(scores, dim=1, descending=True)[:, :-1]
        matches = labels[order] == labels[start : start + len(order), None]
        found = torch.cumsum(matches, 1)
        total += float(((found / ranks * matches).sum(1) / matches.sum(1)).sum())
    return total / queries


def top(x: Any, queries: int) -> None:
    """The 20 nearest of some queries."""
    x = torch.nn.functional.normalize(x)
    for start in range(0, queries, height(x)):
        torch.topk(_scores(x, start, min(start + height(x), queries)), 20, dim=1)
