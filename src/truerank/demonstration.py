"""The demo: two models and one that says nothing, on the embedded emoji data, with explanations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank import datasets
from truerank.evaluation import evaluate
from truerank.result import Result

__all__ = ["run"]

TITLES = {
    "pixels": "Model 1 of 2: raw pixels",
    "efficientnet": "Model 2 of 2: EfficientNet-lite0, trained on ImageNet photographs",
}

MEANINGS = {
    "precision@1": "the nearest item is a mate (also called Recall@1, rank-1)",
    "hit@5": "a mate is among the 5 nearest items",
    "hit@10": "a mate is among the 10 nearest items",
    "r_precision": "share of mates among the R nearest items",
    "map@r": "the same, and mates count more the nearer they are to the top",
    "map": "average precision over the whole ranking",
    "mrr": "1 / rank of the first mate",
    "minp": "R / rank of the last mate: how far down one must look to see them all",
    "h_ap": "average precision in which a near miss (same subcategory, category) counts in part",
    "asi": "overlap with the best possible list, level by level, at every depth",
    "ndcg": "gain 2^level - 1, discounted by rank, against the best possible order",
    "dir@far=0.01": "mate found first and accepted, where 1 % of queries without a mate accept any",
    "mrep": "retrieval and verification precision together, over all thresholds",
    "mfr": "false accepts of queries without a mate over all thresholds; lower is better",
}


def run() -> Iterator[tuple[str, Result, list[str]]]:
    """Yield a title, a result, and sentences about it."""
    data = datasets.emoji()
    results: dict[str, Result] = {}
    for model, title in TITLES.items():
        results[model] = evaluate(**data.task(model, hierarchy=True))
        yield title, results[model], []
    silent = data.task("pixels", hierarchy=True)
    for side in ("embeddings", "gallery"):
        silent[side] = np.zeros_like(silent[side])
    result = evaluate(**silent)
    yield "No model at all: every embedding is zero", result, [*_explain(results, result), ""]


def _explain(results: dict[str, Result], silent: Result) -> list[str]:
    lines = ["", "What the numbers mean, each a mean over queries (R: a query's number of mates):"]
    lines += [f"  {metric:<12} {MEANINGS[metric]}" for metric in silent]
    zero = silent["map"]
    best = max(results, key=lambda name: results[name]["map@r"].value)
    lines += [
        "  chance       what a scorer that ignores its input gets on average, computed exactly",
        "",
        f"{best} is ahead by "
        f"{100 * _lead(results, best):.1f} points of map@r. The zero model ties everything with "
        f"everything, so that any mAP from {100 * zero.lower:.1f} to {100 * zero.upper:.1f} agrees "
        "with its scores; its expected value is chance, and what it is given is the lower bound.",
    ]
    return lines


def _lead(results: dict[str, Result], best: str) -> float:
    others = [result["map@r"].value for name, result in results.items() if name != best]
    return results[best]["map@r"].value - max(others)
