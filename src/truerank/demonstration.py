"""The demo: two models and one that says nothing, on the embedded emoji data, with explanations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank import datasets
from truerank.evaluation import evaluate
from truerank.metrics import registry
from truerank.result import Result

__all__ = ["run"]

TITLES = {
    "pixels": "Model 1 of 2: raw pixels",
    "efficientnet": "Model 2 of 2: EfficientNet-lite0, trained on ImageNet photographs",
}


def run() -> Iterator[tuple[str, Result, list[str]]]:
    """Yield a title, a result, and sentences about it."""
    data = datasets.emoji()
    results: dict[str, Result] = {}
    for model in data.models:
        results[model] = evaluate(**data.task(model))
        yield TITLES.get(model, model), results[model], []
    silent = data.task(next(iter(data.models)))
    for side in ("embeddings", "gallery"):
        silent[side] = np.zeros_like(silent[side])
    result = evaluate(**silent)
    yield "No model at all: every embedding is zero", result, [*_explain(results, result), ""]


def _explain(results: dict[str, Result], silent: Result) -> list[str]:
    lines = ["", "What the numbers mean, each a mean over queries:"]
    for metric in silent:
        entry = registry.definition(registry.parse(metric))
        lines.append(f"  {metric:<12} {entry.definition}")
    zero = silent["map"]
    best = max(results, key=lambda name: results[name]["map@r"].value)
    lines += [
        "  chance       what a scorer that ignores its input gets on average, computed exactly",
        "",
        f"{best} is ahead by "
        f"{100 * _lead(results, best):.1f} points of map@r. The zero model ties everything with "
        f"everything: depending on the order of rows, other tools give it any mAP from "
        f"{100 * zero.lower:.1f} to {100 * zero.upper:.1f}; its expected value is chance, and its "
        "score here is the lower bound.",
    ]
    return lines


def _lead(results: dict[str, Result], best: str) -> float:
    others = [result["map@r"].value for name, result in results.items() if name != best]
    return results[best]["map@r"].value - max(others)
