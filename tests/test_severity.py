"""How far from home the errors of hit@1 are in the tree."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.trees import SLOW, TREE, as_tree, cases
from tests.oracles import hierarchy
from tests.quiet import evaluate


@pytest.mark.thorough
@settings(max_examples=500 if SLOW else 60)
@given(data=st.data())
def test_severity_against_a_loop(data: st.DataObject) -> None:
    """The errors are those that hit@1 counts, of the queries that have a mate to find."""
    depth = data.draw(st.integers(2, 3))
    case = as_tree(data.draw(cases(depth, "precomputed")))
    case.options["unmated"] = "report"
    assert case.labels is not None
    result = case.evaluate(metrics=["h_ap", "hit@1"])
    severity = result.severity()
    by_level: Counter[str] = Counter()
    by_class: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    for label, distances, levels in zip(case.labels, case.distances, case.levels, strict=True):
        if depth not in levels:
            continue
        shared = hierarchy.worst_first_level(distances, levels)
        if shared < depth:
            name = str(shared) if shared else "none"
            by_level[name] += 1
            by_class[label[-1]][name] += 1
    assert severity.errors == sum(by_level.values())
    assert without_zeros(severity.by_level) == by_level
    found = {label: without_zeros(counts) for label, counts in severity.by_class.items()}
    assert {label: counts for label, counts in found.items() if counts} == by_class
    assert severity.errors == np.sum(result["hit@1"].per_query.lower == 0)


def without_zeros(counts: Any) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def test_severity_by_column_name() -> None:
    """The nearest of each bird is a bird of the other genus, that of each bat is a bird."""
    distances = np.full((8, 8), 0.9)
    distances[:4, :4] = [[0, 5, 0.1, 5], [5, 0, 5, 0.1], [0.1, 5, 0, 5], [5, 0.1, 5, 0]]
    distances[4:, :4] = 0.5
    severity = evaluate(distances, TREE, distance="precomputed", metrics=["h_ap"]).severity()
    assert severity.errors == 8
    assert without_zeros(severity.by_level) == {"order": 4, "none": 4}
