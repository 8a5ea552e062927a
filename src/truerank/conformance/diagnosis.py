"""Which conventions a function follows: the hypotheses that explain all that it gave.

A hypothesis answers every question. Topic by topic, those that are left are extended by all answers
to the topic's questions, and those that the topic's cases contradict fall away. Cases that nothing
explains are kept apart, and made as small as they get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from truerank.conformance.battery import TOPICS, battery
from truerank.conformance.calling import Caller, Observation
from truerank.conformance.cases import Case
from truerank.conformance.conventions import Question, questions_of
from truerank.conformance.formulas import FORMULAS
from truerank.conformance.model import RAISED, agrees, neutral
from truerank.core import registry
from truerank.core.metric import Metric

__all__ = ["Diagnosis", "Observed", "Settled", "diagnose"]

SHRINKING = 300
"""Calls that making a case smaller may cost."""


@dataclass(frozen=True)
class Observed:
    """A case and what the function gave for it."""

    case: Case
    given: Observation


@dataclass(frozen=True)
class Settled:
    """A question, the answers that explain all cases, and what shows that they are not ours."""

    question: Question
    keys: tuple[str, ...]
    ours: bool
    shown: tuple[Observed, ...] = ()
    """The smallest case that differs from truerank, in all its arrangements."""


@dataclass
class Diagnosis:
    """All that was found."""

    settled: list[Settled] = field(default_factory=list)
    unexplained: list[Observed] = field(default_factory=list)
    """The smallest of each topic first."""
    another: str | None = None
    """A metric that explains the plain cases, where the one asked for does not."""
    fails: bool = False
    """Whether it gave no number for any plain case."""
    unsteady: Observed | None = None
    """A case for which two calls gave different values."""
    cases: int = 0


def diagnose(metric: Metric, caller: Caller, allowed: Sequence[str] = ()) -> Diagnosis:
    """Put all cases to the function, and find the conventions that explain what it gives."""
    cases = battery(metric, caller.call, caller.one_query)
    observed = [Observed(case, caller(case)) for case in cases]
    found = Diagnosis(cases=len(observed))
    found.unsteady = _unsteady(observed, caller)
    asked = {question.name: question for question in questions_of(metric, caller.call)}
    if caller.one_query:
        asked.pop("nothing", None)  # the same question as that of queries without a mate
    left = [neutral(metric)]
    for topic, names in TOPICS.items():
        mine = [one for one in observed if one.case.topic == topic]
        if not mine:
            for name in names:
                asked.pop(name, None)
            continue
        questions = [asked[name] for name in names if name in asked]
        tried = [
            hypothesis | dict(zip((q.name for q in questions), keys, strict=True))
            for hypothesis in left
            for keys in product(*([a.key for a in q.answers] for q in questions))
        ]
        explained = [
            hypothesis
            for hypothesis in tried
            if all(agrees(metric, hypothesis, one.case, one.given.value) for one in mine)
        ]
        if explained:
            left = explained
            continue
        for question in questions:
            asked.pop(question.name)
        strange = _strange(metric, tried, mine)
        if topic == "plain":
            found.fails = all(one.given.value == RAISED for one in mine)
            found.another = _another(metric, mine)
            found.unexplained += strange
            return found
        found.unexplained += [_smallest(metric, caller, tried, strange[0])]
    found.settled = _settle(metric, asked, left, observed, allowed)
    return found


def _unsteady(observed: list[Observed], caller: Caller) -> Observed | None:
    """The smallest tied or plain case to which a second call answers otherwise."""
    looked_at = [one for one in observed if one.case.topic in ("plain", "ties")]
    for one in sorted(looked_at, key=lambda one: one.case.size):
        if str(caller(one.case).value) != str(one.given.value):  # nan equals nan
            return one
    return None


def _strange(metric: Metric, tried: list[dict[str, str]], mine: list[Observed]) -> list[Observed]:
    """The cases that speak against the hypothesis that explains the most, the smallest first."""

    def against(hypothesis: dict[str, str]) -> list[Observed]:
        return [one for one in mine if not agrees(metric, hypothesis, one.case, one.given.value)]

    fewest = min((against(hypothesis) for hypothesis in tried), key=len)
    return sorted(fewest, key=lambda one: one.case.size)


def _another(metric: Metric, mine: list[Observed]) -> str | None:
    """A metric whose own definition explains every plain case."""
    cut = metric.cut if isinstance(metric.cut, int) else None
    names = ["map@r", "map", "r_precision", "mrr", "minp", "ndcg"]
    if cut is not None:
        names = [f"{name}@{cut}" for name in FORMULAS if registry.entry(name).cut != "none"] + names
    for other in map(registry.parse, names):
        if other != metric and all(
            agrees(other, neutral(other), one.case, one.given.value) for one in mine
        ):
            return str(other)
    return None


def _smallest(
    metric: Metric, caller: Caller, tried: list[dict[str, str]], found: Observed
) -> Observed:
    """Take rows, queries and items away as long as no hypothesis explains what is left."""
    calls = 0
    shrinking = True
    while shrinking and calls < SHRINKING:
        shrinking = False
        for case in found.case.smaller():
            calls += 1
            given = caller(case)
            if calls <= SHRINKING and not any(
                agrees(metric, hypothesis, case, given.value) for hypothesis in tried
            ):
                found, shrinking = Observed(case, given), True
                break
    return found


def _settle(
    metric: Metric,
    asked: dict[str, Question],
    left: list[dict[str, str]],
    observed: list[Observed],
    allowed: Sequence[str],
) -> list[Settled]:
    """For each question the answers that are left: ours alone, if they are among them."""

    def fits(hypothesis: dict[str, str]) -> int:
        return sum(
            hypothesis[name] in question.ours(metric) or f"{name}={hypothesis[name]}" in allowed
            for name, question in asked.items()
        )

    def rank(hypothesis: dict[str, str]) -> tuple[int, int]:
        vague = sum(q.answer(hypothesis[name]).vague for name, q in asked.items())
        return vague, -fits(hypothesis)  # what allows any order explains too much

    likeliest = min(left, key=rank)
    if likeliest["no-mates"] not in ("left out", "undefined"):
        asked = {name: question for name, question in asked.items() if name != "nothing"}
    settled = []
    for name, question in asked.items():
        others = likeliest.items() - {(name, likeliest[name])}
        alike = [one for one in left if rank(one) == rank(likeliest) and others <= one.items()]
        keys = tuple(dict.fromkeys([likeliest[name], *(one[name] for one in alike)]))
        ours = likeliest[name] in question.ours(metric)
        shown = () if ours else _shown(metric, name, observed)
        settled.append(Settled(question, keys[:1] if ours else keys, ours, shown))
    return settled


def _shown(metric: Metric, question: str, observed: list[Observed]) -> tuple[Observed, ...]:
    """The smallest case of the question's topic for which the right answer was not given."""
    topic = next(topic for topic, names in TOPICS.items() if question in names)
    topics = (topic, "duplicates") if question == "self" else (topic,)
    wrong = [
        one for one in observed if one.case.topic in topics and not _right(metric, one, question)
    ]
    if not wrong:
        return ()
    least = min(wrong, key=lambda one: one.case.size)
    alike = [one for one in observed if one.case.name == least.case.name]
    return tuple(alike) if question == "ties" else (least,)


def _right(metric: Metric, one: Observed, question: str) -> bool:
    """Whether the value is the right one; where ties leave it open, its lower or mean value."""
    own = neutral(metric)
    ways = ("lower", "expected") if question == "ties" else ("any",)
    return any(agrees(metric, own | {"ties": ties}, one.case, one.given.value) for ties in ways)
