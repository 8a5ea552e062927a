"""What explain computes on embeddings against the models of conform, which enumerate orders."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from truerank.conformance.battery import battery
from truerank.conformance.cases import Case
from truerank.conformance.model import RAISED, answer, neutral
from truerank.conformance.variants import Variants, Variation
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.distance.catalogue import build
from truerank.evaluation.task_input import prepare

METRICS = ["precision@1", "precision@2", "hit@2", "recall@2", "r_precision", "map", "map@2",
           "map@r", "mrr", "minp"]  # fmt: skip
QUESTIONS = ("formula", "mean", "self", "divisor", "ties", "labels", "unmated")
TOPICS = ("plain", "ties", "duplicates", "labels", "unmated", "mixed")


def variants(case: Case, metric: Metric) -> Variants:
    rows, labels = case.arguments()
    task, queries, items = prepare(np.array(rows), labels)
    space = build("cosine", queries, items)
    return Variants(
        task, queries, items, space, [metric], distance="cosine", average="query", threads=1
    )


def known(one: Variation) -> bool:
    """Whether conform has a model of it."""
    return one.question in QUESTIONS and one.key != "counted" and one.key != "id-reversed"


def modelled(metric: Metric, chosen: tuple[Variation, ...], case: Case) -> float:
    """The value by brute force, where the query itself stays out and nothing else is chosen."""
    keys = neutral(metric) | {"ties": "lower"} | {one.question: one.key for one in chosen}
    if keys["self"] == "first" and keys["ties"] == "lower":
        keys["ties"] = "input"
    value = answer(metric, keys, case)
    return math.nan if value == RAISED else float(value)


def least_of_no_order(chosen: tuple[Variation, ...]) -> bool:
    """Whether the worst order of ties need not give the least value: it may find fewer items."""
    keys = {str(one) for one in chosen}
    return "divisor=found" in keys and keys.isdisjoint({"ties=input", "ties=reversed"})


@pytest.mark.parametrize("text", METRICS)
def test_values_are_those_of_the_models(text: str) -> None:
    metric = registry.parse(text)
    compared = set()
    for case in battery(metric, "embeddings", False):
        if case.topic not in TOPICS or len(case.rows) > 9:
            continue
        computed = variants(case, metric)
        offered = [one for one in computed.offered() if known(one)]
        sets = [some for size in (0, 1, 2) for some in combinations(offered, size)
                if len({one.question for one in some}) == size]  # fmt: skip
        computed.compute(map(frozenset, sets))
        for chosen in sets:
            value = computed.values[frozenset(chosen)][metric]
            if value is None or (case.topic != "plain" and least_of_no_order(chosen)):
                continue
            wanted = modelled(metric, chosen, case)
            assert value == pytest.approx(wanted, abs=1e-12, nan_ok=True), (case, chosen)
            compared |= {str(one) for one in chosen}
    assert {"self=kept", "ties=input", "ties=upper", "ties=expected", "mean=classes"} <= compared
    assert {"unmated=zero", "unmated=one", "self=first"} <= compared
