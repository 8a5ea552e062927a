"""Diagnosis of a function: call it, find the hypotheses that explain its answers, report.

A hypothesis answers every question. Topic by topic the remaining ones are extended by all
answers to the topic's questions, and those that the topic's cases contradict are dropped. Cases
without an explanation are kept apart and made as small as possible. The order of the two
arguments is read from the names of the function's parameters, where these are known; an error
of the function is an answer too.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.installed import install
from truerank._util.text import count, either, fill, screen_width
from truerank.conformance.battery import TOPICS, battery
from truerank.conformance.cases import CALLS, Case
from truerank.conformance.conventions import Question, questions_of
from truerank.conformance.model import (
    FORMULAS,
    RAISED,
    Number,
    agrees,
    neutral,
    right_answer,
    truth,
)
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Metric

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
        names = [
            f"{name}@{cut}" for name in FORMULAS if definitions.entry(name).cut != "none"
        ] + names
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
    if likeliest["unmated"] not in ("left out", "undefined"):
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


# A user's function, called with a case: found by its name, given its arguments, its answer read.


ARRAYS = ("numpy", "torch", "lists")
"""What a function may be given."""
_TRUTH = {
    *("actual", "gold", "golds", "ground_truth", "ground_truths", "gt", "judgements", "judgments"),
    *("labels", "qrel", "qrels", "references", "rel", "relevance", "relevances", "relevant"),
    *("relevant_docs", "relevant_ids", "target", "targets", "true", "truth", "y", "y_true"),
}
_FOUND = {
    *("embeddings", "features", "lists", "neighbors", "neighbours", "pred", "predicted"),
    *("predictions", "preds", "ranked", "ranking", "recommended", "results", "retrieved"),
    *("retrieved_docs", "retrieved_ids", "returned", "run", "runs", "scores", "similarities"),
    *("x", "y_pred", "y_score"),
}
_FIRST = {"embeddings": "found", "scores": "found", "lists": "found", "qrels": "truth"}
"""Which argument comes first where the names do not tell."""


@dataclass(frozen=True)
class Observation:
    """What the function gave for a case."""

    value: float | str
    """RAISED if it gave no number."""
    error: str | None = None


class Caller:
    """A function and how it is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        call: str,
        arrays: str = "numpy",
        one_query: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function):
            raise InputError(f"conformance takes a function. Got {shortened(function)}.")
        for name, given, known in (("call", call, CALLS), ("arrays", arrays, ARRAYS)):
            if not isinstance(given, str) or given not in known:
                raise InputError(
                    f"The '{name}' parameter must be {either(known)}. Got {shortened(given)}."
                )
        if not isinstance(one_query, bool):
            raise InputError(
                f"The 'one_query' parameter must be True or False. Got {shortened(one_query)}."
            )
        if one_query and call == "embeddings":
            raise InputError("embeddings are searched among each other; leave one_query out.")
        if arrays == "torch" and importlib.util.find_spec("torch") is None:
            raise InputError(f"arrays='torch' needs torch: {install('torch')}.")
        more = {} if arguments is None else arguments
        if not isinstance(more, Mapping) or not all(isinstance(name, str) for name in more):
            raise InputError(
                f"The 'arguments' parameter must map names to values. Got {shortened(arguments)}."
            )
        self.function, self.call, self.arrays = function, call, arrays
        self.one_query, self.arguments = one_query, dict(more)
        self.swapped = _is_swapped(function, call)

    def __call__(self, case: Case) -> Observation:
        """Call it, with arguments of its own; what it prints goes to stderr."""
        first, second = self._arguments(case)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
                warnings.simplefilter("ignore")
                found = self.function(first, second, **self.arguments)
                return Observation(_number_of(found))
        except Exception as error:  # whatever a user's function raises is its answer
            text = " ".join(str(error).split())[:200]
            return Observation(
                RAISED, f"{type(error).__name__}: {text}" if text else type(error).__name__
            )

    def _arguments(self, case: Case) -> tuple[Any, Any]:
        first, second = case.arguments()
        if case.call in ("scores", "lists") and self.one_query:
            first, second = first[0], second[0]
        if case.call == "embeddings":
            whole = all(label == int(label) for label in second)
            second = [int(label) for label in second] if whole else second
            first, second = self._array(first, np.float32), self._array(second, None)
        elif case.call == "scores":
            first, second = self._array(first, np.float64), self._array(second, np.int64)
        return (second, first) if self.swapped else (first, second)

    def _array(self, values: Any, dtype: Any) -> Any:
        if self.arrays == "lists":
            return values
        array = np.array(values, dtype=dtype)
        if self.arrays == "numpy":
            return array
        import torch

        return torch.from_numpy(array)


def _number_of(found: Any) -> float:
    """The answer as a number; None is no number, as nan is."""
    if found is None:
        return math.nan
    if isinstance(found, (str, bytes, Mapping)) or np.size(_plain(found)) != 1:
        raise TypeError(f"it returned {shortened(found)}, not a number")
    return float(_plain(found).reshape(()))


def _plain(found: Any) -> Any:
    return np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)


def _is_swapped(function: Callable[..., Any], call: str) -> bool:
    """Whether the names of the first two parameters say that they stand the other way round."""
    try:
        names = list(inspect.signature(function).parameters)[:2]
    except (TypeError, ValueError):  # built in: it does not say what it takes
        return False
    kinds = ["truth" if n in _TRUTH else "found" if n in _FOUND else "" for n in names]
    return sorted(kinds) == ["found", "truth"] and kinds[0] != _FIRST[call]


def load(text: str) -> Callable[..., Any]:
    """Load the function that 'package.module:function' or 'file.py:function' names."""
    module_name, _, name = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not module_name or not name:
        raise InputError(
            "name a function as package.module:function or file.py:function. "
            f"Got {shortened(text)}."
        )
    found: Any = _module(module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except Exception as error:  # a module may have a __getattr__ of its own
            raise InputError(f"{module_name} has no {name!r}.") from error
    if not callable(found):
        raise InputError(f"{text} is no function but {shortened(found)}.")
    return found  # type: ignore[no-any-return]


def _module(name: str) -> Any:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if not name.endswith(".py"):
                return importlib.import_module(name)
            path = Path(name)
            if not path.is_file():
                raise InputError(f"there is no file {name}.")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise InputError(f"{name} is no Python file.")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {text}.") from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)


# What the kit says about a function: text for people, JSON for programs, a sentence for a test.


@dataclass(frozen=True)
class Conformance:
    """The conventions of a metric function, its findings and the cases that show them."""

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
            parts.append(f"{count(len(self._different), 'other convention')}")
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
        lines.append(f"    right is {_right_or_reason(self.metric, shown[0])}")
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
            what = "no relevant item" if answer is None else _numbers(*_triple(answer))
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


def _right_or_reason(metric: Metric, one: Observed) -> str:
    answer = right_answer(metric, one.case)
    if not answer.defined:
        return "undefined: no query has a relevant item"
    ends = _triple(answer)
    return _numbers(*ends) + (" (lower / expected / upper)" if len(ends) > 1 else "")


def _numbers(*values: Number) -> str:
    """'7/12 = 0.583333', 'lower / expected / upper' of the same."""
    return " / ".join(_shown_number(value) for value in values)


def _shown_number(value: Number) -> str:
    short = f"{float(value):.6g}"
    if not isinstance(value, Fraction) or value.denominator in (1, 2, 4, 5, 10):
        return short
    return f"{value} = {short}" if value.denominator < 10_000 else short
