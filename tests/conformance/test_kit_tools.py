"""The kit finds the conventions of other libraries by itself, in the versions installed here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import truerank
from truerank import conformance

Conventions = dict[str, str]


def assert_found(wanted: Conventions, function: Any, like: str, call: str, **options: Any) -> None:
    verdict = conformance.check(function, like, call, **options)
    assert verdict.diagnosis.unexplained == [], str(verdict)
    assert verdict.conventions.items() >= wanted.items(), str(verdict)
    different = {one.question.name for one in verdict.diagnosis.settled if not one.ours}
    named = {name for name, key in wanted.items() if key not in OURS.get(name, ())}
    assert different == named, str(verdict)


OURS = {"ties": ("lower", "expected"), "divisor": ("r",), "unmated": ("left out",),
        "nothing": ("undefined",), "self": ("row",), "labels": ("exact",), "sign": ("ranked",),
        "resolution": ("exact",), "gain": ("exponential",), "beyond": ("taken",),
        "absent": ("zero",), "unjudged": ("left out",)}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "like", "k"),
    [
        ("precision_at_1", "precision@1", None),
        ("mean_average_precision_at_r", "map@r", "max_bin_count"),
        ("mean_average_precision", "map", None),
        ("r_precision", "r_precision", "max_bin_count"),
    ],
)
def test_pytorch_metric_learning(metric: str, like: str, k: Any) -> None:
    calculator_module = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    calculator = calculator_module.AccuracyCalculator(include=(metric,), k=k)
    assert_found(
        {"ties": "input", "labels": "float32", "self": "row", "unmated": "left out"},
        lambda rows, labels: calculator.get_accuracy(rows, labels)[metric],
        like,
        "embeddings",
        arrays="torch",
    )


def test_pytorch_metric_learning_cannot_compute_the_reciprocal_rank_alone() -> None:
    calculator_module = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    name = "mean_reciprocal_rank"
    calculator = calculator_module.AccuracyCalculator(include=(name,))
    found = conformance.check(
        lambda rows, labels: calculator.get_accuracy(rows, labels)[name], "mrr", arrays="torch"
    )
    assert found.diagnosis.fails
    assert "TypeError" in str(found)


TORCHMETRICS = {"unmated": "zero", "resolution": "float32"}


@pytest.mark.parametrize(
    ("name", "like", "options", "wanted"),
    [
        ("average_precision", "map", {}, {"ties": "any", "sign": "irrelevant"}),
        (
            "average_precision",
            "map@2",
            {"top_k": 2},
            {"ties": "any", "sign": "unfound or irrelevant", "divisor": "found"},
        ),
        ("recall", "recall@2", {"top_k": 2}, {"ties": "any", "sign": "unfound"}),
        ("hit_rate", "hit@2", {"top_k": 2}, {"ties": "any"}),
        ("normalized_dcg", "ndcg", {}, {"ties": "expected", "gain": "linear"}),
    ],
)
def test_torchmetrics(name: str, like: str, options: Any, wanted: Conventions) -> None:
    retrieval = pytest.importorskip("torchmetrics.functional.retrieval")
    function = getattr(retrieval, f"retrieval_{name}")
    call: dict[str, Any] = {"one_query": True, "arrays": "torch", "arguments": options}
    assert_found(TORCHMETRICS | wanted, function, like, "scores", **call)


@pytest.mark.parametrize(
    ("name", "like", "one_query", "wanted"),
    [
        ("label_ranking_average_precision_score", "map", False,
         {"ties": "whole", "unmated": "one"}),
        ("average_precision_score", "map", True, {"ties": "whole", "unmated": "zero"}),
        ("ndcg_score", "ndcg", False,
         {"ties": "expected", "gain": "linear", "unmated": "zero", "single": "raises"}),
    ],
)  # fmt: skip
def test_scikit_learn(name: str, like: str, one_query: bool, wanted: Conventions) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    assert_found(wanted, getattr(metrics, name), like, "scores", one_query=one_query)


def evaluator(measure: str) -> Callable[..., float]:
    pytrec_eval = pytest.importorskip("pytrec_eval")

    def mean(qrels: Any, run: Any) -> float:
        found = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
        values = [value[measure.replace(".", "_")] for value in found.values()]
        return sum(values) / len(values)

    return mean


@pytest.mark.parametrize(
    ("measure", "like", "wanted"),
    [
        ("map", "map", {}),
        ("map_cut.2", "map@2", {}),
        ("recall.2", "recall@2", {}),
        ("success.2", "hit@2", {}),
        ("P.2", "precision@2", {}),
        ("recip_rank", "mrr", {}),
        ("Rprec", "r_precision", {}),
        ("ndcg", "ndcg", {"gain": "linear"}),
    ],
)
def test_pytrec_eval(measure: str, like: str, wanted: Conventions) -> None:
    known = {"ties": "id-reversed", "resolution": "float32", "unmated": "zero"}
    known["absent"] = "left out"  # trec_eval, too, unless told -c
    assert_found(known | wanted, evaluator(measure), like, "qrels")


@pytest.mark.slow  # ranx compiles for most of a minute
@pytest.mark.parametrize(
    ("measure", "like", "wanted"),
    [
        ("map", "map", {}),
        ("map@2", "map@2", {"divisor": "r"}),
        ("recall@2", "recall@2", {}),
        ("hit_rate@2", "hit@2", {}),
        ("mrr", "mrr", {}),
        ("ndcg", "ndcg", {"gain": "linear"}),
        ("ndcg_burges", "ndcg", {"gain": "exponential"}),
    ],
)
def test_ranx(measure: str, like: str, wanted: Conventions) -> None:
    ranx = pytest.importorskip("ranx")

    def mean(qrels: Any, run: Any) -> float:
        return float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), measure))

    known = {"ties": "any", "unmated": "zero", "absent": "raises", "unjudged": "raises"}
    assert_found(known | wanted, mean, like, "qrels")


@pytest.mark.slow  # ranx compiles for most of a minute
def test_ranx_made_comparable_sorts_another_way() -> None:
    ranx = pytest.importorskip("ranx")

    def mean(qrels: Any, run: Any) -> float:
        return float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "map", make_comparable=True))

    assert_found({"ties": "input", "unmated": "zero"}, mean, "map", "qrels")


@cache
def own(metric: str, end: str, call: str) -> conformance.Conformance:
    def of_rows(embeddings: Any, labels: Any) -> float:
        found = truerank.evaluate(embeddings, labels, metrics=[metric], **FAST)
        return float(getattr(found[metric], end))

    def of_scores(scores: Any, relevance: Any) -> float:
        found = truerank.evaluate(
            scores, relevance=relevance, distance="similarity", metrics=[metric], **FAST
        )
        return float(getattr(found[metric], end))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return conformance.check(of_rows if call == "embeddings" else of_scores, metric, call)


def of_lists(metric: str) -> Callable[..., float]:
    """truerank's answer to lists, of a gallery so large that missing mates come far behind."""

    def judged(lists: list[list[str]], relevant: list[list[str]]) -> float:
        names = sorted({one for some in (*lists, *relevant) for one in some})
        ids = [*names, *(f"other {n}" for n in range(1000))]
        mates = np.array([[one in some for one in ids] for some in relevant])
        found = truerank.evaluate_lists(
            [[ids.index(one) for one in some] for some in lists],
            relevance=mates,
            metrics=[metric],
            confidence=None,
        )
        return float(found[metric].value)

    return judged


@pytest.mark.parametrize("metric", ["precision@2", "hit@3", "recall@2", "map@3"])
def test_truerank_conforms_on_lists(metric: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        found = conformance.check(of_lists(metric), metric, "lists")
    assert found.conforms, str(found)


FAST: dict[str, Any] = {"confidence": None, "device": "reference", "threads": 1}
METRICS = ["precision@1", "map@r", "map", "hit@2", "recall@2", "mrr", "map@3,divisor=min", "ndcg@2"]


@pytest.mark.parametrize("call", ["embeddings", "scores"])
@pytest.mark.parametrize("metric", METRICS)
def test_truerank_conforms(metric: str, call: str) -> None:
    if call == "embeddings" and metric.startswith("ndcg"):
        return
    assert own(metric, "value", call).conforms, str(own(metric, "value", call))
    assert own(metric, "value", call).conventions["ties"] == "lower"


@pytest.mark.parametrize("end", ["expected", "upper"])
def test_the_other_bounds_of_truerank_are_known_for_what_they_are(end: str) -> None:
    found = own("map@r", end, "scores")
    assert found.conventions["ties"] == end
    assert found.conforms == (end == "expected")
