"""The questions on which metric functions differ, and the known answers to each.

A convention is one answer, with a sentence that states it. One answer to every question that a
call and a metric raise is a hypothesis; model.py computes what a function that follows it would
return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truerank.core.metric import Metric


@dataclass(frozen=True)
class Convention:
    """One known answer."""

    key: str
    says: str
    vague: bool = False
    """Whether it allows several values, so that any other answer that fits says more."""


@dataclass(frozen=True)
class Question:
    """What functions do differently."""

    name: str
    title: str
    answers: tuple[Convention, ...]
    ours: Callable[[Metric], tuple[str, ...]]
    """The keys of the answers that truerank gives."""
    asked: Callable[[Metric, str], bool] = lambda metric, call: True
    """Whether it comes up, given the metric and the call."""
    possible: Callable[[Metric, str, str], bool] = lambda metric, call, key: True
    """Whether an answer makes sense there."""

    def answer(self, key: str) -> Convention:
        """The convention of this key."""
        return next(answer for answer in self.answers if answer.key == key)


def _always(*keys: str) -> Callable[[Metric], tuple[str, ...]]:
    return lambda metric: keys


def _numbered(metric: Metric) -> bool:
    return isinstance(metric.cut, int)


def _divisor_asked(metric: Metric, call: str) -> bool:
    if metric.name == "recall":
        return True
    return metric.name == "map" and (metric.cut is not None or call in ("lists", "qrels"))


def _divisor_possible(metric: Metric, call: str, key: str) -> bool:
    if metric.name == "recall":
        return key in ("r", "min")
    return key in ("r", "found") or _numbered(metric)


def _ties_possible(metric: Metric, call: str, key: str) -> bool:
    if key in ("id", "id-reversed"):
        return call == "qrels"
    return key != "whole" or (metric.name == "map" and metric.cut is None)


_SCORED = ("scores", "qrels")

QUESTIONS = (
    Question(
        "formula",
        "average precision",
        (
            Convention("precisions", "adds up the precisions at the relevant items"),
            Convention(
                "trapezoid", "takes the area under the precision-recall curve by trapezoids"
            ),
            Convention(
                "interpolated", "takes at each relevant item the best precision from there on"
            ),
        ),
        _always("precisions"),
        lambda metric, call: metric.name == "map" and metric.cut != 1,
        lambda metric, call, key: key != "interpolated" or metric.cut != 2,
    ),
    Question(
        "discount",
        "discount",
        (
            Convention("log2", "divides the gain at rank i by log2(1 + i)"),
            Convention("from the second", "divides the gain at rank i by max(1, log2 i)"),
        ),
        _always("log2"),
        lambda metric, call: metric.name == "ndcg",
    ),
    Question(
        "mean",
        "mean",
        (
            Convention("queries", "averages over queries"),
            Convention("classes", "averages over classes of the mean over their queries"),
        ),
        _always("queries"),
        lambda metric, call: call == "embeddings",
    ),
    Question(
        "self",
        "the query itself",
        (
            Convention("row", "leaves the query itself out, by its row"),
            Convention("first", "takes the first column for self, whatever item it holds"),
            Convention("kept", "counts the query itself as relevant"),
        ),
        _always("row"),
        lambda metric, call: call == "embeddings",
        # the query in its duplicate's place leaves the rank of the last mate as it is
        lambda metric, call, key: key != "first" or metric.name != "minp",
    ),
    Question(
        "divisor",
        "divisor",
        (
            Convention("r", "divides by R, the number of relevant items"),
            Convention("min", "divides by min(R, k)"),
            Convention("found", "divides by hits found"),
            Convention("k", "divides by k"),
        ),
        lambda metric: (metric.get("divisor") or "r",),
        _divisor_asked,
        _divisor_possible,
    ),
    Question(
        "ideal",
        "best order",
        (
            Convention("all", "takes the ideal from all relevant items"),
            Convention("retrieved", "takes the ideal from the retrieved items alone"),
        ),
        _always("all"),
        lambda metric, call: (
            metric.name == "ndcg" and (metric.cut is not None or call in ("lists", "qrels"))
        ),
    ),
    Question(
        "gain",
        "gain",
        (
            Convention("exponential", "gives a grade the gain 2^grade - 1"),
            Convention("linear", "gives a grade itself as the gain"),
        ),
        lambda metric: (metric.get("gain") or "exponential",),
        lambda metric, call: metric.name == "ndcg" and call in _SCORED,
    ),
    Question(
        "single",
        "one item",
        (
            Convention("taken", "accepts a list of one item"),
            Convention("raises", "fails on a list of one item"),
        ),
        _always("taken"),
        lambda metric, call: call != "embeddings",
    ),
    Question(
        "beyond",
        "k beyond the list",
        (
            Convention("taken", "takes a list shorter than k as it is"),
            Convention("listed", "divides by the number of items where there are fewer than k"),
            Convention("raises", "fails on a list shorter than k"),
        ),
        _always("taken"),
        lambda metric, call: _numbered(metric) and metric.cut != 1,
        lambda metric, call, key: key != "listed" or metric.name == "precision",
    ),
    Question(
        "ties",
        "ties",
        (
            Convention("lower", "takes the worst order of equal scores, truerank's headline"),
            Convention("expected", "takes the mean over all orders of equal scores"),
            Convention("upper", "gives the upper bound: relevant items first among equal scores"),
            Convention(
                "input",
                "changes with row order under ties: equal scores stay in the order of the input",
            ),
            Convention(
                "reversed",
                "changes with row order under ties: of equal scores the last of the input is first",
            ),
            Convention("id", "breaks ties by id, the smaller first"),
            Convention("id-reversed", "breaks ties by id, the greater first, as trec_eval does"),
            Convention(
                "whole",
                "takes a tie group whole: each relevant item gets the precision at the end, "
                "which is the average precision of no order",
            ),
            Convention(
                "any",
                "changes with row order under ties: equal scores stay as the sort leaves them",
                vague=True,
            ),
        ),
        _always("lower", "expected"),
        lambda metric, call: call != "lists",
        _ties_possible,
    ),
    Question(
        "labels",
        "labels",
        (
            Convention("exact", "compares labels as they are"),
            Convention("float32", "casts labels to float32, in which 2^24 and 2^24 + 1 are equal"),
            Convention("integer", "casts labels to integers: 0.25 and 0.75 become equal"),
        ),
        _always("exact"),
        lambda metric, call: call == "embeddings",
    ),
    Question(
        "unmated",
        "unmated queries",
        (
            Convention("left out", "drops unmated queries from the mean"),
            Convention("zero", "counts unmated queries as zero"),
            Convention("one", "counts unmated queries as one"),
            Convention("undefined", "is undefined as soon as one query is unmated"),
        ),
        _always("left out"),
    ),
    Question(
        "nothing",
        "no mated query",
        (
            Convention("undefined", "is undefined (nan, None or an error) without a mated query"),
            Convention("zero", "gives 0 without a mated query"),
            Convention("one", "gives 1 without a mated query"),
        ),
        _always("undefined"),
    ),
    Question(
        "resolution",
        "close scores",
        (
            Convention("exact", "distinguishes scores that differ in the tenth digit"),
            Convention("float32", "casts scores to float32, in which close ones become equal"),
        ),
        _always("exact"),
        lambda metric, call: call in _SCORED,
    ),
    Question(
        "sign",
        "scores <= 0",
        (
            Convention("ranked", "ranks scores below zero like other scores"),
            Convention("unfound", "throws scores <= 0 away: relevant items there are not found"),
            Convention("irrelevant", "throws scores <= 0 away: they count as irrelevant"),
        ),
        _always("ranked"),
        lambda metric, call: call in _SCORED,
    ),
    Question(
        "absent",
        "queries without a list",
        (
            Convention("zero", "counts a query for which nothing was returned as zero"),
            Convention("left out", "leaves a query out for which nothing was returned"),
            Convention("raises", "fails where nothing was returned for a query"),
        ),
        _always("zero"),
        lambda metric, call: call in ("lists", "qrels"),
    ),
    Question(
        "unjudged",
        "queries without judgements",
        (
            Convention("left out", "leaves a query out of which there are no judgements"),
            Convention("zero", "counts a query without judgements as zero"),
            Convention("raises", "fails on a query without judgements"),
        ),
        _always("left out"),
        lambda metric, call: call == "qrels",
    ),
    Question(
        "repeats",
        "repeated items",
        (
            Convention(
                "wrong", "counts an item once: repeats keep their place and are wrong there"
            ),
            Convention("counted", "counts duplicates: the same item is a hit every time"),
            Convention("removed", "removes duplicates, and later items move up"),
        ),
        _always("wrong"),
        lambda metric, call: call == "lists" and metric.cut != 1,
        lambda metric, call, key: key != "counted" or metric.name not in ("hit", "mrr"),
    ),
    Question(
        "junk",
        "grades below 0",
        (
            Convention("irrelevant", "takes a grade below 0 for irrelevant"),
            Convention("removed", "takes items of a grade below 0 out of the list"),
            Convention("relevant", "takes a grade below 0 for relevant"),
        ),
        _always("irrelevant"),
        lambda metric, call: call == "qrels" and metric.name != "ndcg",
    ),
)
"""In the order in which they are asked: later ones may need the answers to earlier ones."""


def questions_of(metric: Metric, call: str) -> list[Question]:
    """Those that come up, each with the answers that make sense there."""
    return [
        Question(
            question.name,
            question.title,
            tuple(
                answer for answer in question.answers if question.possible(metric, call, answer.key)
            ),
            question.ours,
        )
        for question in QUESTIONS
        if question.asked(metric, call)
    ]
