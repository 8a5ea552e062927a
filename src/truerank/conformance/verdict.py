"""What the kit says about a function: text for people, JSON for programs, a sentence for a test."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from truerank.conformance.diagnosis import Diagnosis, Observed, Settled
from truerank.conformance.formulas import Number
from truerank.conformance.model import RAISED, right_answer, truth
from truerank.core.metric import Metric
from truerank.typesetting import fill, screen_width
from truerank.wording import count

__all__ = ["Conformance"]


@dataclass(frozen=True)
class Conformance:
    """Whether a function computes what it is said to, by which conventions, and what shows it."""

    function: str
    metric: Metric
    call: str
    diagnosis: Diagnosis
    allowed: tuple[str, ...] = ()

    @property
    def like(self) -> str:
        """The metric that the function was compared with."""
        return str(self.metric)

    @property
    def cases(self) -> int:
        """How many cases the function was called with."""
        return self.diagnosis.cases

    @property
    def conventions(self) -> dict[str, str]:
        """The answer to every question that came up: several that fit are joined by 'or'."""
        return {one.question.name: " or ".join(one.keys) for one in self.diagnosis.settled}

    @property
    def findings(self) -> list[str]:
        """A sentence for each convention that is not truerank's, allowed or not."""
        return [_says(one) for one in self.diagnosis.settled if not one.ours]

    @property
    def conforms(self) -> bool:
        """Whether every case is explained by truerank's conventions and those allowed."""
        found = self.diagnosis
        return not (found.unexplained or found.another or found.unsteady) and not self._different

    @property
    def _different(self) -> list[Settled]:
        return [one for one in self.diagnosis.settled if not one.ours and not self._is_allowed(one)]

    def _is_allowed(self, one: Settled) -> bool:
        return any(f"{one.question.name}={key}" in self.allowed for key in one.keys)

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def headline(self) -> str:
        """The verdict in one line."""
        found = self.diagnosis
        what = f"{self.function} as {self.like}, called with {self.call}"
        if self.conforms:
            allowed = [one for one in found.settled if not one.ours]
            but = f", but for {count(len(allowed), 'convention')} allowed" if allowed else ""
            return f"{what}: conforms{but} ({count(self.cases, 'case')})."
        parts = []
        if found.another is not None:
            parts.append(f"it computes {found.another}")
        if found.unsteady is not None:
            parts.append("it gives different values for the same input")
        if self._different:
            parts.append(f"{count(len(self._different), 'convention')} of its own")
        if found.fails:
            parts.append("it fails on every plain case")
        elif found.unexplained and found.another is None:
            parts.append(
                f"{count(len(found.unexplained), 'case')} that no known convention explains"
            )
        return f"{what}: does not conform: {', '.join(parts)} ({count(self.cases, 'case')})."

    def to_text(self) -> str:
        """Findings, each with a case to check by hand, then what is as in truerank."""
        found = self.diagnosis
        lines = [self.headline()]
        for one in found.settled:
            if not one.ours:
                also = ", which is allowed" if self._is_allowed(one) else ""
                lines += ["", f"- It {_says(one)}{also} ({one.question.name}={one.keys[0]})."]
                lines += self._worked(one.shown)
        if found.unsteady is not None:
            lines += ["", "- It gives different values for the same input, such as this one."]
            lines += self._worked((found.unsteady,))
        for place, strange in enumerate(found.unexplained):
            if found.another is not None or place >= (1 if found.fails else _MOST):
                break
            lines += ["", "- No known convention explains what it gives here."]
            lines += self._worked((strange,))
        if found.another is not None:
            lines += ["", f"- On all plain cases it gives {found.another}, as here."]
            lines += self._worked(tuple(found.unexplained[:1]))
        same = [one for one in found.settled if one.ours]
        if same:
            lines += ["", "As truerank:"]
            lines += [f"- It {_says(one)}." for one in same]
        return "\n".join(fill(lines, screen_width()))

    def _worked(self, shown: tuple[Observed, ...]) -> list[str]:
        """A case, what was given, and how to get at the right answer by hand."""
        if not shown:
            return []
        lines = []
        by_value: dict[Any, Observed] = {}
        for one in shown:
            by_value.setdefault(one.given.value, one)
        for one in by_value.values():
            lines += [f"    {line}" for line in one.case.described()]
            lines.append(f"    it gives {_given(one)}")
        lines.append(f"    right is {_right(self.metric, shown[0])}")
        return lines + [f"    {line}" for line in self._by_hand(shown[0])]

    def _by_hand(self, one: Observed) -> list[str]:
        """Each query's ranked list and its value; brackets hold what ties."""
        lines = []
        for number, query in enumerate(one.case.queries):
            kept = [e for place, e in enumerate(query.entries) if place != query.own]
            shown: dict[float, list[str]] = {}
            names: set[str] = set()
            for entry in sorted(kept, key=lambda entry: -entry.score):
                grade = entry.grade if query.label is None else int(entry.label == query.label)
                repeated = entry.name in names
                names.add(entry.name)
                shown.setdefault(entry.score, []).append("0" if repeated else str(grade))
            groups = [g[0] if len(g) == 1 else f"[{' '.join(g)}]" for g in shown.values()]
            answer = truth(self.metric, query)
            what = "no mate" if answer is None else _numbers(*_triple(answer))
            name = f"row {number}" if query.own is not None else f"query {number + 1}"
            lines.append(f"{name}: ranked {' '.join(groups) or 'nothing'}: {what}")
        return lines if len(lines) <= _MOST_QUERIES else []

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        found = self.diagnosis
        return {
            "function": self.function,
            "like": self.like,
            "call": self.call,
            "conforms": self.conforms,
            "cases": self.cases,
            "computes": found.another,
            "fails": found.fails,
            "deterministic": found.unsteady is None,
            "conventions": [
                {
                    "question": one.question.name,
                    "answers": list(one.keys),
                    "says": _says(one),
                    "as_truerank": one.ours,
                    "allowed": not one.ours and self._is_allowed(one),
                    "shown_by": [self._record(case) for case in one.shown],
                }
                for one in found.settled
            ],
            "unexplained": [self._record(case) for case in found.unexplained],
        }

    def _record(self, one: Observed) -> dict[str, Any]:
        answer = right_answer(self.metric, one.case)
        first, second = one.case.arguments()
        names = {
            "embeddings": ("embeddings", "labels"),
            "scores": ("scores", "relevance"),
            "lists": ("lists", "relevant"),
            "qrels": ("qrels", "run"),
        }[self.call]
        value = one.given.value
        ends = (answer.lower, answer.expected, answer.upper)
        return {
            "case": one.case.name,
            "arrangement": one.case.arrangement,
            names[0]: first,
            names[1]: second,
            "given": None if isinstance(value, str) or math.isnan(value) else value,
            "error": one.given.error,
            **{
                end: None if math.isnan(number) else float(number)
                for end, number in zip(("lower", "expected", "upper"), ends, strict=True)
            },
        }

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2)


_MOST = 3
"""Unexplained cases that are printed; JSON holds all."""
_MOST_QUERIES = 16


def _says(one: Settled) -> str:
    sentences = [one.question.answer(key).says for key in one.keys]
    return ", or ".join(sentences)


def _given(one: Observed) -> str:
    value = one.given.value
    if isinstance(value, str):
        return f"{value}: {one.given.error}" if one.given.error else RAISED
    return f"{value:.6g}"


def _triple(answer: Any) -> tuple[Number, ...]:
    ends = (answer.lower, answer.expected, answer.upper)
    return ends[:1] if ends[0] == ends[2] else ends


def _right(metric: Metric, one: Observed) -> str:
    answer = right_answer(metric, one.case)
    if not answer.defined:
        return "undefined: no query has a mate"
    ends = _triple(answer)
    return _numbers(*ends) + (" (lower / expected / upper)" if len(ends) > 1 else "")


def _numbers(*values: Number) -> str:
    """'7/12 = 0.583333', 'lower / expected / upper' of the same."""
    return " / ".join(_number(value) for value in values)


def _number(value: Number) -> str:
    short = f"{float(value):.6g}"
    if not isinstance(value, Fraction) or value.denominator in (1, 2, 4, 5, 10):
        return short
    return f"{value} = {short}" if value.denominator < 10_000 else short
