"""evaluate_lists on tiny random tasks, against every order of the gallery that a list allows."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import truerank
from tests import registered
from tests.oracles import lists as oracle
from tests.rounding import ulps

SCHEMA = json.loads((Path(truerank.__file__).parent / "result/result.schema.json").read_text())
FLAT = [*registered.ranking(), "precision@2", "recall@3", "hit@2", "map@3", "map@3,divisor=min"]
DEEP = ["map", "hit@1", "map@level=1", "h_ap", "h_ap@alpha=3", "sum_wap", "asi", "ndcg", "ndcg@2"]
EXAMPLES = 1_000 if settings().max_examples >= 10_000 else 50
GRADED = ["map", "hit@2", "ndcg", "ndcg@gain=linear", "ndcg@3", "asi", "minp"]


@dataclass
class Case:
    """One call of evaluate_lists, and what its arguments mean."""

    lists: list[list[int]]
    options: dict[str, Any]
    metrics: list[str]
    depth: int = 1

    def evaluate(self, **more: Any) -> truerank.Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", truerank.TruerankWarning)
            return truerank.evaluate_lists(self.lists, metrics=self.metrics, **self.options, **more)

    def judged(self) -> list[oracle.Judged]:
        given = self.options
        alone = given.get("gallery_labels") is None and given.get("relevance") is None
        labels = given.get("labels")
        others = labels if alone else given.get("gallery_labels")
        relevance = given.get("relevance")
        items = range(len(others) if relevance is None else relevance.shape[1])
        names = given.get("query_ids" if alone else "gallery_ids") or list(items)
        ids = given.get("query_ids"), names
        groups = given.get("query_groups"), given.get("gallery_groups", given.get("query_groups"))

        def level(query: int, item: int) -> int:
            if relevance is not None:
                return int(relevance[query, item])
            if isinstance(labels[0], tuple):
                return _common(labels[query], others[item])
            return int(labels[query] == others[item])

        def never(query: int, item: int) -> bool:
            same_id = query == item if alone and ids[0] is None else False
            if ids[0] is not None:
                same_id = ids[0][query] == ids[1][item]
            if groups[0] is None:
                return same_id
            mate = level(query, item) == self.depth if relevance is None else level(query, item)
            return same_id or bool(mate and groups[0][query] == groups[1][item])

        scores = given.get("scores")
        return [
            oracle.judge(
                row,
                None if scores is None else scores[query],
                names,
                lambda item, query=query: never(query, item),
                lambda item, query=query: level(query, item),
            )
            for query, row in enumerate(self.lists)
        ]


def _common(one: tuple[Any, ...], two: tuple[Any, ...]) -> int:
    return [*(a == b for a, b in zip(one, two, strict=True)), False].index(False)


@st.composite
def returned(draw: st.DrawFn, queries: int, names: list[int]) -> list[list[int]]:
    """Lists with repetitions, holes (-1) and strangers (77)."""
    cell = st.sampled_from([*names, *names, *names, -1, 77])
    return draw(st.lists(st.lists(cell, max_size=5), min_size=queries, max_size=queries))


@st.composite
def with_scores(draw: st.DrawFn, lists: list[list[int]]) -> list[list[float]] | None:
    if draw(st.booleans()):
        return None
    sign = draw(st.sampled_from([1.0, -1.0]))
    return [
        [
            sign * value
            for value in sorted(draw(st.lists(st.sampled_from([0, 1, 2]), min_size=n, max_size=n)))
        ]
        for n in map(len, lists)
    ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["flat", "flat", "alone", "deep", "graded"]))
    queries, items = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    label = (
        st.sampled_from("ab")
        if kind != "deep"
        else st.sampled_from([*zip("aab", "xyz", strict=True)])
    )
    options: dict[str, Any] = {}
    if kind == "graded":
        cells = draw(
            st.lists(
                st.sampled_from([0, 0, 1, 2]), min_size=queries * items, max_size=queries * items
            )
        )
        options["relevance"] = np.array(cells).reshape(queries, items)
    else:
        options["labels"] = draw(st.lists(label, min_size=queries, max_size=queries))
        if kind != "alone":
            options["gallery_labels"] = draw(st.lists(label, min_size=items, max_size=items))
        else:
            items = queries
    names = list(range(items))
    if draw(st.booleans()):
        names = [10 + item for item in range(items)]
        if kind == "alone":
            options["query_ids"] = names
        else:
            options["query_ids"] = draw(
                st.lists(st.sampled_from([*names, 50]), min_size=queries, max_size=queries)
            )
            options["gallery_ids"] = names
    if draw(st.booleans()):
        camera = st.sampled_from([0, 1])
        options["query_groups"] = draw(st.lists(camera, min_size=queries, max_size=queries))
        if kind != "alone":
            options["gallery_groups"] = draw(st.lists(camera, min_size=items, max_size=items))
    lists = draw(returned(queries, names))
    options["scores"] = draw(with_scores(lists))
    metrics = {"deep": DEEP, "graded": GRADED}.get(kind, FLAT)
    return Case(lists, options, metrics, 2 if kind == "deep" else 0 if kind == "graded" else 1)


def _truth(case: Case, judged: oracle.Judged, metric: str) -> Any:
    if case.depth == 2 and "level=1" in metric:
        plain = metric.replace("@level=1", "")
        return judged.triple(plain, 1), judged.chance(plain, 1)
    if case.depth == 2 and metric in ("map", "hit@1"):
        fine = [int(value == 2) for value in judged.levels]
        able = [int(value == 2) for value in judged.eligible]
        judged = oracle.Judged(judged.distances, fine, able)
        return judged.triple(metric, 1), judged.chance(metric, 1)
    return judged.triple(metric, case.depth), judged.chance(metric, case.depth)


def check(case: Case) -> None:
    result = case.evaluate()
    judged = case.judged()
    facts = result.provenance["lists"]
    assert facts["repeated"] == sum(one.repeated for one in judged)
    assert facts["unknown"] == sum(one.unknown for one in judged)
    for metric in case.metrics:
        rows = result[metric].per_query
        assert rows is not None
        chances: list[Fraction] = []
        for query, one in enumerate(judged):
            exact, chance = _truth(case, one, metric)
            actual = [float(end[query]) for end in (rows.lower, rows.expected, rows.upper)]
            if exact is None:
                assert all(math.isnan(value) for value in actual), (metric, query, actual)
                continue
            chances.append(chance)
            said = f"{metric}, query {query}: {actual} is not {[float(value) for value in exact]}"
            assert all(ulps(a, e) <= 2 for a, e in zip(actual, exact, strict=True)), said
        if chances:
            expected = sum(chances, Fraction(0)) / len(chances)
            assert result[metric].chance == pytest.approx(float(expected), rel=1e-12), metric
            assert result[metric].value == result[metric].lower
    jsonschema.validate(json.loads(result.to_json()), SCHEMA)
    assert str(truerank.Result.from_dict(result.to_dict())) == str(result)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES)
@given(cases())
def test_every_completion_of_a_list(case: Case) -> None:
    check(case)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES)
@example(
    Case(
        [[0, 0, 0, 0, 1], [0]],  # item 1 is junk, and ties with what is before it
        {
            "labels": ["a", "a"],
            "gallery_labels": ["b", "a", "a"],
            "query_groups": [1, 0],
            "gallery_groups": [0, 1, 0],
            "scores": [[0.0] * 5, [0.0]],
        },
        FLAT,
    ),
    3,
)
@given(cases(), st.integers(0, 10))
def test_the_smallest_k_is_where_the_bounds_meet(case: Case, tenths: int) -> None:
    """Against lists that are cut, one k after another, by the oracle's own hand."""
    width = tenths / 10.1
    case.metrics = case.metrics[:3]
    found = case.evaluate(settle=width).provenance["lists"]["settle"]["k"]
    asked = max(map(len, case.lists))
    for metric in case.metrics:
        gaps = {k: _gap(case, metric, k) for k in range(1, asked + 1)}
        if metric not in found:
            assert all(gap is None for gap in gaps.values())
            continue
        near = [
            k for k in range(1, asked + 1) if all(gaps[j] <= width for j in range(k, asked + 1))
        ]
        if asked:
            assert found[metric] == (near[0] if near else None), (metric, gaps)


def _gap(case: Case, metric: str, k: int) -> float | None:
    """Upper less lower with k places; a tie that the cut divides is not listed."""
    scores = case.options["scores"]
    shorter, fewer = [], []
    for query, row in enumerate(case.lists):
        cut = min(k, len(row))
        if scores is not None and cut < len(row):
            kept = [at for at in range(cut) if row[at] != -1]
            rest = {scores[query][at] for at in range(cut, len(row)) if row[at] != -1}
            cut = next((at for at in kept if scores[query][at] in rest), cut)
        shorter.append(row[:cut])
        fewer.append(None if scores is None else scores[query][:cut])
    options = case.options | {"scores": None if scores is None else fewer}
    judged = Case(shorter, options, case.metrics, case.depth).judged()
    found = [triple for one in judged if (triple := _truth(case, one, metric)[0]) is not None]
    if not found:
        return None
    return float(sum((high - low for low, _, high in found), Fraction(0)) / len(found))


def test_random_completions_of_longer_lists() -> None:
    """Random orders behind the lists stay within the bounds, and are expected on average."""
    random = np.random.default_rng(11)
    items, queries, places, draws = 300, 40, 25, 500
    labels, others = random.integers(0, 12, queries), random.integers(0, 12, items)
    lists = np.stack([random.permutation(items)[:places] for _ in range(queries)])
    result = truerank.evaluate_lists(
        lists, labels, gallery_labels=others, metrics=["map", "mrr", "minp"], confidence=None
    )
    values = np.empty((3, queries, draws))
    for query in range(queries):
        rest = np.setdiff1d(np.arange(items), lists[query])
        for draw in range(draws):
            order = np.concatenate([lists[query], random.permutation(rest)])
            ranks = np.flatnonzero(others[order] == labels[query]) + 1
            precision = np.arange(1, len(ranks) + 1) / ranks
            values[:, query, draw] = precision.mean(), 1 / ranks[0], len(ranks) / ranks[-1]
    for metric, drawn in zip(("map", "mrr", "minp"), values, strict=True):
        rows = result[metric].per_query
        assert rows is not None
        assert (drawn >= rows.lower[:, None] - 1e-12).all()
        assert (drawn <= rows.upper[:, None] + 1e-12).all()
        error = drawn.std(axis=1) / math.sqrt(draws)
        assert (np.abs(drawn.mean(axis=1) - rows.expected) <= 5 * error + 1e-12).all()


def test_a_page_of_lists(tmp_path: Path) -> None:
    result = truerank.evaluate_lists([[0, 3], [2, 1]], ["a", "b"], gallery_labels=list("aabb"))
    result.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "truerank.evaluate_lists(" in page
    assert "What was not returned is last in score" in page
