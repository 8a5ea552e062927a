"""Who is measured. Each takes embeddings and labels and does its whole work; imports come first.

The bare products compute every score and keep nothing: no evaluation can be faster than the
product its scores need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CONTENDERS", "prepare"]

Run = Callable[[Any, Any], Any]
BLOCK = 2048


def truerank_ranking(confidence: float | None = None, method: str = "auto") -> Run:
    """truerank: all default ranking metrics, exact, without intervals or with them."""
    import truerank

    def run(x: Any, y: Any, method: str = method) -> float:
        with truerank.engine.settings(method=method):
            return truerank.evaluate(x, y, confidence=confidence)["map@r"].value

    for known in truerank.engine.METHODS:  # loads the kernels
        run(np.eye(40, dtype=np.float32), np.arange(40) // 2, known)
    return run


def gemm(dtype: type) -> Run:
    """The bare matrix product of all rows with all rows."""

    def run(x: Any, y: Any) -> None:
        x = np.ascontiguousarray(x, dtype=dtype)
        out = np.empty((BLOCK, len(x)), dtype)
        for start in range(0, len(x), BLOCK):
            some = x[start : start + BLOCK]
            np.matmul(some, x.T, out=out[: len(some)])

    return run


def argsort_map() -> Run:
    """mAP by sorting every row of the distance matrix, a block of queries at a time."""

    def run(x: Any, y: Any) -> float:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        total = 0.0
        for start in range(0, len(x), BLOCK):
            scores = x[start : start + BLOCK] @ x.T
            scores[np.arange(len(scores)), np.arange(start, start + len(scores))] = -np.inf
            order = np.argsort(-scores, axis=1)[:, :-1]
            matches = y[order] == y[start : start + len(scores), None]
            found = np.cumsum(matches, axis=1)
            ranks = np.arange(1, len(x))
            total += ((found / ranks * matches).sum(1) / matches.sum(1)).sum()
        return float(total / len(x))

    return run


def topk() -> Run:
    """MAP@R by torch.topk of every row, as many as the largest class needs."""
    import torch

    def run(x: Any, y: Any) -> float:
        x = torch.nn.functional.normalize(torch.from_numpy(x))
        y = torch.from_numpy(y)
        mates = torch.bincount(y)[y] - 1
        most = int(mates.max())
        ranks = torch.arange(1, most + 1)
        total = 0.0
        for start in range(0, len(x), BLOCK):
            scores = x[start : start + BLOCK] @ x.T
            own = torch.arange(len(scores))
            scores[own, own + start] = -2
            nearest = scores.topk(most, dim=1).indices
            some = mates[start : start + len(scores), None]
            matches = (y[nearest] == y[start : start + len(scores), None]) & (ranks <= some)
            precisions = matches.cumsum(1) / ranks * matches
            total += float((precisions.sum(1) / some[:, 0]).sum())
        return total / len(x)

    return run


TREES = {3: (10, 250), 7: (2, 10, 50, 250, 1000, 2000)}
"""Nodes at each level above the finest; each number divides the next and 4,000 classes."""


def paths(y: Any, levels: int) -> Any:
    """Label paths, coarse to fine, over contiguous ranges of classes."""
    classes = int(y.max()) + 1
    return np.column_stack([*(y * size // classes for size in TREES[levels]), y])


def truerank_tree(levels: int) -> Run:
    """truerank: the metrics of the default, which are the ranking ones and H-AP, ASI and NDCG."""
    import truerank

    truerank.evaluate(np.eye(8, dtype=np.float32), [(0, i // 4, i // 2) for i in range(8)])
    return lambda x, y: truerank.evaluate(x, paths(y, levels), confidence=None)["h_ap"].value


def happier_way(levels: int) -> Run:
    """H-AP as its authors' code goes about it: unique and a full sort for every query."""
    import torch

    def run(x: Any, y: Any) -> float:
        x = torch.nn.functional.normalize(torch.from_numpy(x))
        tree = torch.from_numpy(paths(y, levels))
        ranks = torch.arange(1, len(x))
        total = 0.0
        for query in range(len(x)):
            scores = x @ x[query]
            scores[query] = -2
            order = scores.argsort(descending=True)[:-1]
            level = (tree[order] == tree[query]).sum(1)
            values, count = torch.unique(level, return_counts=True)
            relevance = torch.zeros(levels + 1)
            relevance[values] = values / levels / count
            own = relevance[level]
            hierarchical = torch.zeros(len(own))
            below = 0.0
            for value in relevance[relevance > 0].unique():
                reached = own >= value
                hierarchical += (value - below) * reached.cumsum(0) * reached
                below = value
            total += float((hierarchical / ranks).sum() / own.sum())
        return total / len(x)

    return run


def metric_learning(k: Any) -> Run:
    """pytorch-metric-learning's AccuracyCalculator, its retrieval metrics."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    if k is None:
        names = (*names, "mean_average_precision")
    calculator = AccuracyCalculator(include=names, k=k, device=torch.device("cpu"))
    return lambda x, y: calculator.get_accuracy(torch.from_numpy(x), torch.from_numpy(y))


CONTENDERS: dict[str, Callable[[], Run]] = {
    "float64 GEMM": lambda: gemm(np.float64),
    "float32 GEMM": lambda: gemm(np.float32),
    "truerank": truerank_ranking,
    "truerank, with intervals": lambda: truerank_ranking(0.95),
    "pytorch-metric-learning, top R": lambda: metric_learning("max_bin_count"),
    "pytorch-metric-learning, k=None": lambda: metric_learning(None),
    "torch.topk, top R": topk,
    "argsort of every row": argsort_map,
    "truerank, one level, float64": lambda: truerank_ranking(method="float64"),
    "truerank, tree of 3 levels": lambda: truerank_tree(3),
    "truerank, tree of 7 levels": lambda: truerank_tree(7),
    "HAPPIER's way, 3 levels, H-AP alone": lambda: happier_way(3),
}


def prepare(name: str) -> Run:
    """Import and warm up one contender."""
    return CONTENDERS[name]()
