"""The kit's verdicts about one tool, as JSON on stdout: python judged.py TOOL.

Each tool has a few functions, called as its documentation says; what it takes is what the kit
passes, so that conventions are the tool's and not those of a wrapper.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from cases import EMBEDDING_CASES, SCORE_CASES, ScoreCase

from truerank import conformance
from truerank.conformance.cases import Case, ListedItem, Query
from truerank.conformance.diagnosis import Caller


class Function(NamedTuple):
    """One function of a tool, and what it is meant to compute."""

    name: str  # as the tool spells it
    compute: Callable[..., Any]
    like: str
    call: str
    options: dict[str, Any]
    judged: bool = True
    """Whether the kit judges it; otherwise it is only put to the cases of cases.py."""


def pytorch_metric_learning() -> Iterator[Function]:
    """All neighbours are asked for (k=None) where a metric needs them."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {
        "precision@1": ("precision_at_1", None),
        "map@r": ("mean_average_precision_at_r", "max_bin_count"),
        "map": ("mean_average_precision", None),
        "mrr": ("mean_reciprocal_rank", None),
    }
    for like, (name, k) in names.items():
        calculator = AccuracyCalculator(include=(name,), k=k, device=torch.device("cpu"))

        def compute(rows: Any, labels: Any, name: str = name, of: Any = calculator) -> float:
            return float(of.get_accuracy(rows, labels)[name])

        yield Function(name, compute, like, "embeddings", {"arrays": "torch"})


def torchmetrics() -> Iterator[Function]:
    from torchmetrics.functional import retrieval

    for name, like, top_k in (
        ("average_precision", "map", None),
        ("average_precision", "map@2", 2),
        ("average_precision", "map@4", 4),
        ("recall", "recall@2", 2),
        ("hit_rate", "hit@2", 2),
        ("reciprocal_rank", "mrr", None),
        ("normalized_dcg", "ndcg", None),
    ):
        options = {"arguments": {"top_k": top_k}} if top_k else {}
        yield Function(
            f"retrieval_{name}" + (f", top_k={top_k}" if top_k else ""),
            getattr(retrieval, f"retrieval_{name}"),
            like,
            "scores",
            {"one_query": True, "arrays": "torch", **options},
            judged=top_k != 4,
        )


def ranx() -> Iterator[Function]:
    from ranx import Qrels, Run, evaluate

    def compute(qrels: Any, run: Any, metric: str) -> float:
        return float(evaluate(Qrels(qrels), Run(run), metric))

    names = {"map": "map", "map@2": "map@2", "recall@2": "recall@2", "hit@2": "hit_rate@2",
             "ndcg": "ndcg"}  # fmt: skip
    for like, name in names.items():
        yield Function(name, partial(compute, metric=name), like, "qrels", {})


def pytrec_eval() -> Iterator[Function]:
    from pytrec_eval import RelevanceEvaluator

    def compute(qrels: Any, run: Any, measure: str) -> float:
        found = RelevanceEvaluator(qrels, {measure}).evaluate(run)
        return float(np.mean([one[measure.replace(".", "_")] for one in found.values()]))

    names = {"map": "map", "map@2": "map_cut.2", "recall@2": "recall.2", "hit@2": "success.2",
             "ndcg": "ndcg"}  # fmt: skip
    for like, name in names.items():
        yield Function(name, partial(compute, measure=name), like, "qrels", {})


def scikit_learn() -> Iterator[Function]:
    from sklearn import metrics

    one = {"one_query": True}
    yield Function("average_precision_score", metrics.average_precision_score, "map", "scores", one)
    name = "label_ranking_average_precision_score"
    yield Function(name, getattr(metrics, name), "map", "scores", {})
    yield Function("ndcg_score", metrics.ndcg_score, "ndcg", "scores", {})

    def best(scores: Any, relevance: Any) -> float:
        """The one mate is the right class of a one-sample classification."""
        classes = np.arange(len(scores))
        return float(
            metrics.top_k_accuracy_score([relevance.argmax()], [scores], k=1, labels=classes)
        )

    yield Function("top_k_accuracy_score, k=1", best, "hit@1", "scores", one, judged=False)


def first_column_dropped() -> Iterator[Function]:
    """A protocol, not a tool: these lines are ours, and stand for released code that does so."""

    def precision(rows: Any, labels: Any) -> float:
        apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        nearest = np.argsort(apart, axis=1, kind="stable")[:, 1]
        return float((labels[nearest] == labels).mean())

    yield Function("precision at 1", precision, "precision@1", "embeddings", {})


def open_metric_learning() -> Iterator[Function]:
    from oml.functional.metrics import calc_map
    from torch import BoolTensor

    def compute(retrieved: list[str], relevant: list[str], k: int) -> float:
        """calc_map takes which of the retrieved items are mates, and how many mates there are."""
        first = [place for place, one in enumerate(retrieved) if one not in retrieved[:place]]
        hits = [one in relevant and place in first for place, one in enumerate(retrieved[:k])]
        [values] = calc_map([BoolTensor(hits)], [len(relevant)], top_k=(k,))
        return float(values[0])

    for k in (2, 4):
        options = {"one_query": True, "arguments": {"k": k}}
        yield Function(f"calc_map, top_k={k}", compute, f"map@{k}", "lists", options, judged=k == 2)


TOOLS: dict[str, Callable[[], Iterator[Function]]] = {
    "pytorch-metric-learning": pytorch_metric_learning,
    "torchmetrics": torchmetrics,
    "ranx": ranx,
    "pytrec_eval-terrier": pytrec_eval,
    "scikit-learn": scikit_learn,
    "first column dropped": first_column_dropped,
    "open-metric-learning": open_metric_learning,
}


def verdict(one: Function) -> dict[str, Any]:
    """What the kit says about a function, for people and as data."""
    found = conformance.check(one.compute, one.like, one.call, name=one.name, **one.options)
    return found.to_dict() | {
        "text": found.to_text(),
        "own": found.findings,
        "headline": found.headline(),
    }


def in_large(one: Function) -> Iterator[dict[str, Any]]:
    """What a function gives for the cases of cases.py."""
    cases = EMBEDDING_CASES if one.call == "embeddings" else SCORE_CASES
    for case in cases:
        tied = isinstance(case, ScoreCase) and len(set(case.scores)) < len(case.scores)
        if one.like not in [a.metric for a in case.answers] or (tied and one.call == "lists"):
            continue
        arranged = case.relevance if isinstance(case, ScoreCase) else case.labels
        values = {name: number(one, case, order) for name, order in arranged.items()}
        yield {"function": one.name, "case": case.name, "metric": one.like, "values": values}


def number(one: Function, case: Any, order: tuple[int, ...]) -> float:
    """The value of a function for a case in one arrangement of its items."""
    more = one.options.get("arguments", {})
    if one.call == "embeddings":
        return float(one.compute(np.array(case.embeddings, np.float32), np.array(order), **more))
    names = [f"d{place:03d}" for place in range(len(order))]
    mates = [name for name, grade in zip(names, order, strict=True) if grade]
    if one.call == "lists":  # their scores fall from place to place
        return float(one.compute(names, mates, **more))
    if one.call == "qrels":
        run = dict(zip(names, case.scores, strict=True))
        return float(one.compute({"query": dict.fromkeys(mates, 1)}, {"query": run}, **more))
    entries = zip(names, case.scores, order, strict=True)
    query = Query(tuple(ListedItem(*entry) for entry in entries))
    called = Caller(one.compute, "scores", **one.options)
    return float(called(Case(case.name, "", "scores", (query,))).value)


def main() -> None:
    """Print the verdicts about a tool, its version and its answers to the larger cases."""
    tool = sys.argv[1]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    functions = list(TOOLS[tool]())
    found = {
        "tool": tool,
        "version": "none" if tool == "first column dropped" else version(tool),
        "verdicts": [verdict(one) for one in functions if one.judged],
        "large": [row for one in functions for row in in_large(one)],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
