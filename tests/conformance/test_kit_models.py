"""The kit's models against other brute force, and the kit on functions that follow its models."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import ranking
from truerank.conformance.battery import TOPICS, battery
from truerank.conformance.cases import CALLS, Case, ListedItem, Query
from truerank.conformance.conventions import QUESTIONS, questions_of
from truerank.conformance.diagnosis import Caller, Conformance, Observation, diagnose
from truerank.conformance.model import FORMULAS, answer, neutral, right_answer
from truerank.core import metric as definitions
from truerank.core import registry

METRICS = [
    *("precision@1", "precision@3", "r_precision", "map", "map@r", "map@2", "map@4,divisor=min"),
    *("recall@2", "hit@1", "hit@3", "mrr", "mrr@2", "minp", "ndcg", "ndcg@2", "map@5"),
]
ITEMS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


class Following(Caller):
    """A function that follows given conventions to the letter."""

    def __init__(self, metric: Any, call: str, chosen: dict[str, str]) -> None:
        super().__init__(lambda first, second: 0.0, call)
        self.metric, self.chosen = metric, chosen

    def __call__(self, case: Case) -> Observation:
        found = answer(self.metric, self.chosen, case)
        return Observation(found if isinstance(found, str) else float(found))


def verdict(text: str, call: str, **chosen: str) -> Conformance:
    metric = registry.parse(text)
    caller = Following(metric, call, neutral(metric) | chosen)
    return Conformance("it", metric, call, diagnose(metric, caller))


@given(items=ITEMS, text=st.sampled_from([one for one in METRICS if "ndcg" not in one]))
def test_the_right_answer_is_that_of_the_oracle(items: list[tuple[int, bool]], text: str) -> None:
    entries = tuple(ListedItem(f"d{n}", float(s), int(r)) for n, (s, r) in enumerate(items))
    found = right_answer(registry.parse(text), Case("", "", "scores", (Query(entries),)))
    if not any(relevant for _, relevant in items):
        assert not found.defined
        return
    wanted = ranking.triple(text, [-score for score, _ in items], [r for _, r in items])
    assert (found.lower, found.expected, found.upper) == wanted


def test_a_discounted_gain_by_hand() -> None:
    # Grades 1 and 2 at ranks 1 and 2, a 3 missing: (1 + 3/log2 3)/(7 + 3/log2 3 + 1/2).
    query = Query((ListedItem("a", 0.9, 1), ListedItem("b", 0.8, 2)), (ListedItem("c", 0.0, 3),))
    found = right_answer(registry.parse("ndcg"), Case("", "", "qrels", (query,)))
    assert found.lower == pytest.approx((1 + 3 / math.log2(3)) / (7 + 3 / math.log2(3) + 0.5))


def _conventions(texts: list[str]) -> list[tuple[str, str, str, str]]:
    return [
        (text, call, question.name, one.key)
        for text in texts
        for call in CALLS
        if call != "embeddings" or "ndcg" not in text
        for question in questions_of(registry.parse(text), call)
        for one in question.answers
        if not one.vague
    ]


def _assert_found(text: str, call: str, question: str, key: str) -> None:
    metric = registry.parse(text)
    ours = {q.name: q.ours(metric) for q in QUESTIONS}
    if question == "self" and key == "first":  # it shows where ties go by the order of rows
        found = verdict(text, call, ties="input", **{question: key})
        assert found.conventions["self"] == "first"
        return
    found = verdict(text, call, **{question: key})
    if question == "beyond" and key == "raises" and metric.cut == 2 and call != "embeddings":
        question = "single"  # the only list that is shorter than 2
    assert found.conventions[question] == key
    assert found.diagnosis.unexplained == []
    others = {name: one for name, one in found.conventions.items() if name != question}
    assert {name: one for name, one in others.items() if one not in ours[name]} == {}
    assert found.conforms == (key in ours[question])
    if not found.conforms:
        [settled] = [one for one in found.diagnosis.settled if not one.ours]
        assert settled.shown, "a finding without a case"


@pytest.mark.parametrize(("text", "call", "question", "key"), _conventions(["map@3"]))
def test_every_convention_is_found_by_name(text: str, call: str, question: str, key: str) -> None:
    _assert_found(text, call, question, key)


@pytest.mark.slow
@pytest.mark.parametrize("text", METRICS)
def test_every_convention_of_every_metric(text: str) -> None:
    for one in _conventions([text]):
        _assert_found(*one)


@pytest.mark.parametrize("call", CALLS)
def test_two_conventions_at_once(call: str) -> None:
    changed = {"divisor": "found", "unmated": "zero"}
    if call != "lists":
        changed["ties"] = "input"
    found = verdict("map@3", call, **changed)
    assert found.conventions.items() >= changed.items()
    assert len(found.findings) == len(changed)


def test_topics_ask_every_question_once() -> None:
    asked = [name for names in TOPICS.values() for name in names]
    assert sorted(asked) == sorted(question.name for question in QUESTIONS)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("text", ["map@r", "hit@2"])
def test_cases_are_small_and_named_by_what_they_are(text: str, call: str) -> None:
    cases = battery(registry.parse(text), call, False)
    assert {case.topic for case in cases} <= set(TOPICS)
    shown = [(case.name, case.arrangement, str(case.arguments())) for case in cases]
    assert len({(name, where) for name, where, _ in shown}) == len(shown)
    assert max(case.size[0] for case in cases) <= 26
    assert sum(case.size[0] <= 6 for case in cases) > len(cases) / 3


@pytest.mark.parametrize("text", ["map@3", "hit@5"])
def test_embeddings_are_of_length_one_and_exact_in_float32(text: str) -> None:
    for case in battery(registry.parse(text), "embeddings", False):
        for row in case.rows:
            assert sum(part * part for part in row) == case.denominator**2
        assert Fraction(1, case.denominator**2).denominator <= 2**16


def test_metrics_are_those_of_the_registry() -> None:
    assert set(FORMULAS) <= set(definitions.names())
