"""Scores of a metric under the conventions of other tools, on a user's own embeddings.

A variation is one convention that differs from truerank's. What it changes is its stage:

    SEARCH    distance, resolution                     the space
    TASK      self, groups, labels                     the view
    ORDER     ties: input, reversed, by id; sign       tie groups, put into one order
    FORMULA   metric, cut, gain, divisor, formula      what is computed of the tie groups
    MEAN      ties: expected, upper; unmated, mean    which bound, and what it is averaged over

Sets of variations with the same SEARCH, TASK and ORDER share one pass of the engine. The formulas
are those of the registered metrics; `_EXTRA` holds the few that no metric has. model.py computes
the same conventions by brute force, and the tests compare the two.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank._util.errors import TruerankWarning
from truerank._util.types import Array, Flags, Integers, Reals
from truerank.conformance.conventions import QUESTIONS, Convention, Question
from truerank.core import registry
from truerank.core.average import class_mean, mean
from truerank.core.metric import Metric, Scale
from truerank.core.tie_groups import NOWHERE, TieGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.catalogue import build
from truerank.distance.digests import Fingerprints
from truerank.engine import runner
from truerank.evaluation.passes import plan_passes
from truerank.task.relevance import View
from truerank.task.task import TaskRules

SEARCH, TASK, ORDER, FORMULA, MEAN = "search", "task", "order", "formula", "mean"
_PASS = (SEARCH, TASK, ORDER)
"""Stages that need a pass of their own."""
_SCORED = ("cosine", "dot", "similarity")
"""Distances that come from a score, which has a sign."""
_PAIRS = 1 << 22
"""Distances that are put into order at once."""


@dataclass(frozen=True)
class Variation:
    """One convention that is not truerank's here."""

    question: str
    key: str
    says: str
    stage: str

    def __str__(self) -> str:
        return f"{self.question}={self.key}"

    @property
    def is_choice(self) -> bool:
        """Whether it is as right as truerank's own answer, if a paper states it."""
        return self.question in _CHOICES and str(self) not in _WRONG


Variations = frozenset[Variation]
Target = tuple[Metric, str | None]
"""A metric, and the formula of _EXTRA in place of its own."""

# Questions that only a number from whole data raises; the others are conform's.

_MORE = (
    Question(
        "distance",
        "distance",
        (
            Convention("cosine", "ranks by cosine similarity: rows are scaled to length 1"),
            Convention("euclidean", "ranks by the euclidean distance of rows as they are"),
            Convention("dot", "ranks by the inner product of rows as they are"),
        ),
        lambda metric: (),
    ),
    Question(
        "resolution",
        "resolution",
        (
            Convention("exact", "ranks by exact distances"),
            Convention("float32", "casts rows and scores to float32, in which close scores tie"),
            Convention("float16", "casts rows and scores to float16, in which close scores tie"),
        ),
        lambda metric: ("exact",),
    ),
    Question(
        "self",
        "the query itself",
        (Convention("counted", "leaves the query itself out of the list, but counts it in R"),),
        lambda metric: ("row",),
    ),
    Question(
        "ties",
        "ties",
        (
            Convention(
                "lower", "takes the worst order of equal scores, and gives the mean and the best"
            ),
            Convention("input", "leaves equal scores in the order of the rows"),
            Convention("reversed", "leaves equal scores in the order of the rows, the last first"),
        ),
        lambda metric: ("lower",),
    ),
    Question(
        "groups",
        "groups (cameras)",
        (
            Convention("used", "leaves out relevant items of the query's group (camera)"),
            Convention("ignored", "ignores groups (cameras): all relevant items stay in the list"),
        ),
        lambda metric: ("used",),
    ),
    Question(
        "metric",
        "metric",
        (
            Convention("precision", "gives precision@k: relevant items among the first k, over k"),
            Convention("recall", "gives recall@k: relevant items among the first k, over R"),
            Convention("hit", "gives hit@k: whether any relevant item is among the first k"),
        ),
        lambda metric: (metric.name,),
    ),
    Question(
        "cut",
        "cut",
        (
            Convention("none", "looks at the whole list"),
            Convention("r", "looks at the first R items alone"),
            *(Convention(str(k), f"looks at the first {k:,} items alone") for k in (10, 100, 1000)),
            Convention("k-1", "searches k items, drops the query among them, and keeps k - 1"),
            Convention("k", "looks at the first k items besides the query"),
        ),
        lambda metric: ("k" if isinstance(metric.cut, int) else metric.cut or "none",),
    ),
)
_TRIED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (SEARCH, "distance", ("cosine", "euclidean", "dot")),
    (SEARCH, "resolution", ("float32", "float16")),
    (TASK, "self", ("kept", "first", "counted")),
    (TASK, "groups", ("ignored",)),
    (TASK, "labels", ("float32",)),
    (ORDER, "ties", ("input", "reversed", "id-reversed")),
    (ORDER, "sign", ("unfound", "irrelevant")),
    (MEAN, "ties", ("expected", "upper")),
    (FORMULA, "ties", ("whole",)),
    (FORMULA, "metric", ("precision", "recall", "hit")),
    (FORMULA, "cut", ("none", "r", "10", "100", "1000", "k-1")),
    (FORMULA, "gain", ("exponential", "linear")),
    (FORMULA, "divisor", ("r", "min", "found", "k")),
    (FORMULA, "formula", ("trapezoid", "interpolated")),
    (MEAN, "unmated", ("left out", "zero", "one")),
    (MEAN, "mean", ("queries", "classes")),
)
_CHOICES = ("distance", "metric", "cut", "gain", "divisor", "mean", "unmated")
"""Questions on which truerank offers several answers, all right if they are stated."""
_WRONG = ("cut=k-1", "divisor=found", "divisor=k", "unmated=one")
"""Answers to them that it does not offer."""


def sentence(question: str, key: str) -> str:
    """What a convention does, in the words of the verdicts of conform."""
    found = [
        answer.says
        for known in (*_MORE, *QUESTIONS)
        if known.name == question
        for answer in known.answers
        if answer.key == key
    ]
    return found[0]


def our_answer(question: str, metric: Metric) -> str | None:
    """truerank's own answer to a question, where it follows from the metric alone."""
    known = next(one for one in (*_MORE, *QUESTIONS) if one.name == question)
    return next(iter(known.ours(metric)), None)


class Variants:
    """Values of some metrics under sets of variations: `values[set][metric]`, None where a
    variation does not apply to the metric."""

    def __init__(
        self,
        task: TaskRules,
        rows: Array,
        items: Array | None,
        space: Space,
        metrics: Iterable[Metric],
        *,
        distance: str,
        average: str,
        threads: int | None,
    ) -> None:
        self._task, self._rows, self._items, self._space = task, rows, items, space
        self._distance, self._average, self._threads = distance, average, threads
        self.metrics = list(metrics)
        self._merged = _float32_labels(task)
        self.ours = {
            "distance": distance,
            "mean": "classes" if average == "class" else "queries",
            "unmated": "zero" if task.unmated == "zero" else "left out",
        }
        """truerank's answers that the options of the evaluation decide."""
        self.values: dict[Variations, dict[Metric, float | None]] = {}

    def offered(self) -> list[Variation]:
        """All variations that make sense for this task, in the order of the table."""
        return [
            Variation(question, key, sentence(question, key), stage)
            for stage, question, keys in _TRIED
            for key in keys
            if key != self.ours.get(question) and self._possible(question, key)
        ]

    def _possible(self, question: str, key: str) -> bool:
        task = self._task
        if question == "distance":
            return self._distance in ("cosine", "euclidean", "dot")
        if question == "resolution":
            sides = [side for side in (self._rows, self._items) if side is not None]
            largest = max(float(np.abs(side).max(initial=0)) for side in sides)
            return self._distance != "hamming" and largest < float(np.finfo(key).max)
        if question == "self" and key == "kept":
            return task.leave_one_out or task.id_names is not None
        if question == "self" or key == "k-1":
            return task.leave_one_out
        if key.isdecimal():
            return int(key) < task.items
        return {
            "groups": task.group_names is not None,
            "labels": self._merged is not None,
            "sign": self._distance in _SCORED,
            "mean": task.levels is not None,
        }.get(question, True)

    def compute(
        self, sets: Iterable[Variations], tick: Callable[[int, int], None] | None = None
    ) -> None:
        """Fill `values` with these sets."""
        together: dict[Variations, list[Variations]] = defaultdict(list)
        for chosen in sets:
            together[frozenset(one for one in chosen if one.stage in _PASS)].append(chosen)
        for number, (shared, mine) in enumerate(together.items(), start=1):
            targets = {
                (chosen, metric): self._target(metric, chosen)
                for chosen in mine
                for metric in self.metrics
            }
            arrays = self._passed(shared, {one for one in targets.values() if one is not None})
            for (chosen, metric), target in targets.items():
                value = None if target is None else self._mean(arrays[target], chosen)
                self.values.setdefault(chosen, {})[metric] = value
            if tick is not None:
                tick(number, len(together))

    # -- the metric -----------------------------------------------------------------------------

    def _target(self, metric: Metric, chosen: Variations) -> Target | None:
        """The metric that these variations make of a metric; None if one does not apply to it."""
        keys = {one.question: one.key for one in chosen}
        extra: str | None = None
        if keys.get("self") == "counted" and metric.name not in ("map", "recall", "r_precision"):
            return None
        if "sign" in keys and keys.get("distance", self._distance) not in _SCORED:
            return None
        for one in _in_order(chosen):
            if one.question == "ties" or extra is not None:
                if metric.name != "map" or metric.cut is not None or extra is not None:
                    return None
                extra = "whole"
                continue
            found = _varied(metric, one.question, one.key)
            if found is None:
                return None
            metric, extra = found
        if keys.get("self") == "first" and keys.get("ties") in ("input", *_OPEN):
            return None  # the items of a first column are in one order, that of the input
        if extra in _BOTH_ENDS and keys.get("ties") == "expected":
            return None
        return metric, extra

    def _mean(self, values: Reals, chosen: Variations) -> float | None:
        keys = self.ours | {one.question: one.key for one in chosen}
        own = values[{"expected": 1, "upper": 2}.get(keys.get("ties", "lower"), 0)]
        held = ~np.isnan(own)
        if keys["unmated"] != "left out":
            own = np.where(held, own, float(keys["unmated"] == "one"))
            held = np.ones(len(own), bool)
        if not held.any():
            return None
        if keys["mean"] == "classes":
            return class_mean(own[held], self._task.query_codes[held])
        return mean(own[held])

    # -- passes ---------------------------------------------------------------------------------

    def _passed(self, shared: Variations, targets: Collection[Target]) -> dict[Target, Reals]:
        """(3, queries) for each target: the bounds of every query, NaN where it is unmated."""
        keys = {one.question: one.key for one in shared}
        task, first = self._task, keys.get("self") == "first"
        if "groups" in keys or "labels" in keys:
            merged = self._merged if "labels" in keys else None
            task = task.relaxed(groups="groups" in keys, merged=merged)
        sought = task.n_relevant
        if first or keys.get("self") == "kept":
            task = task.relaxed(ids=True)
        space = self._searched(keys)
        ties = keys.get("ties", "input" if first else "lower")
        found = {target: np.full((3, task.queries), np.nan) for target in targets}
        metrics = sorted({metric for metric, _ in targets}, key=str)
        for current in plan_passes(task, metrics) if metrics else ():
            for rows, groups in self._groups(current.view, space, ties):
                if "sign" in keys:
                    above = _above_zero(current.view, space, rows)
                    groups = _thrown_away(groups, above, keys["sign"] == "unfound")
                if first:
                    mated = np.flatnonzero(sought[rows])
                    rows, groups = rows[mated], _without_first(groups.some(mated))
                elif keys.get("self") == "counted":
                    groups = _with_one_missing(groups)
                for column in current.columns:
                    chosen, some = groups.at_least(column.grade or 1)
                    if not column.grade:
                        some = groups.some(chosen)
                    if first and len(some):  # the query itself may be found, but is not sought
                        vars(some)["mates"] = sought[rows[chosen]]
                    for metric, extra in targets if len(some) else ():
                        if metric == column.metric:
                            values = _valued(some, metric, extra, column.scale)
                            found[metric, extra][:, rows[chosen]] = values
        return found

    def _searched(self, keys: dict[str, str]) -> Space:
        """The space of these variations."""
        if not {"distance", "resolution"} & keys.keys():
            return self._space
        distance = keys.get("distance", self._distance)
        rows, items, kind = self._rows, self._items, keys.get("resolution")
        if kind is not None:
            rows = _cast(rows, kind, distance)
            items = None if items is None else _cast(items, kind, distance)
            distance = "dot" if distance == "cosine" else distance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(distance, rows, items, self._task.columns, threads=self._threads)
        return space if kind is None else _RoundedSpace(space, kind)

    def _groups(self, view: View, space: Space, ties: str) -> Iterator[tuple[Rows, TieGroups]]:
        """Queries and their tie groups; in another order than "lower", none of several items."""
        blocks = runner.tie_groups(view, space, device="cpu", threads=self._threads, keep=False)
        with closing(blocks):
            for block in blocks:
                groups: TieGroups = block.groups
                tied = groups.per_query((groups.size > 1).astype(np.int64)) > 0
                if ties == "lower" or not tied.any():
                    yield block.rows, groups
                    continue
                others = np.flatnonzero(~tied)
                if len(others):
                    yield block.rows[others], groups.some(others)
                rows, step = block.rows[tied], max(1, _PAIRS // space.gallery)
                for start in range(0, len(rows), step):
                    some = rows[start : start + step]
                    yield some, _ordered(view, space, some, self._priority(ties))

    def _priority(self, ties: str) -> Integers:
        """Gallery items, the one first that comes first among equally near ones."""
        task = self._task
        order = np.arange(task.items)
        if ties == "input":
            return order
        if ties == "reversed":
            return order[::-1]
        names = [str(row) for row in (order if task.columns is None else task.columns).tolist()]
        if task.id_names is not None:
            codes = task.id_names.codes[-1]
            codes = codes if task.columns is None else codes[task.columns]
            names = [str(task.id_names.values[code]) for code in codes.tolist()]
        return np.array(sorted(order.tolist(), key=lambda item: names[item], reverse=True))


def _in_order(chosen: Variations) -> list[Variation]:
    """The variations of the formula, as they are applied: what is computed first."""
    order = ("metric", "cut", "gain", "divisor", "formula", "ties")
    found = [one for one in chosen if one.stage == FORMULA]
    return sorted(found, key=lambda one: order.index(one.question))


def _varied(metric: Metric, question: str, key: str) -> Target | None:
    """A metric with another answer to a question of its formula; None if that changes nothing."""
    name, cut, options = metric.name, metric.cut, dict(metric.options)
    numbered = isinstance(cut, int)
    if question == "metric":
        known = ("precision", "recall", "hit")
        return (Metric(key, cut), None) if name in known and key != name and not options else None
    if question == "cut":
        if key == "k-1":
            less = int(cut) - 1 if isinstance(cut, int) else 0
            return (Metric(name, less, metric.options), None) if less else None
        new = {"none": None, "r": "r"}.get(key, key)
        cuts = ("map", "mrr", "ndcg") if key != "r" else ("map",)
        same = str(new) == str(cut) or (numbered and key.isdecimal())
        if name not in cuts or same or (new is None and "divisor" in options):
            return None
        return Metric(name, int(key) if key.isdecimal() else new, metric.options), None
    if question == "gain":
        if name != "ndcg" or metric["gain"] == key:
            return None
        return registry.parse(_spelled(name, cut, options | {"gain": key})), None
    if question == "divisor" and name == "recall":
        return (metric, "min") if key == "min" and numbered else None
    if name != "map" or key == (metric.get("divisor") or "r"):
        return None
    if question == "formula":
        return (metric, key) if metric["divisor"] == "r" else None
    if cut is None or (key != "found" and not numbered):
        return None
    plain = {name: text for name, text in options.items() if name != "divisor"}
    if key in ("r", "min"):
        return registry.parse(_spelled(name, cut, plain | {"divisor": key})), None
    return registry.parse(_spelled(name, cut, plain)), key


def _spelled(name: str, cut: int | str | None, options: dict[str, str]) -> str:
    """The string of a metric, its options in whatever order."""
    parts = [] if cut is None else [str(cut)]
    return name + "@" + ",".join(parts + [f"{key}={text}" for key, text in options.items()])


def _float32_labels(task: TaskRules) -> Integers | None:
    """A code for each finest label, equal where float32 makes two labels one; None if it never
    does."""
    if task.levels is None or len(task.levels) > 1:
        return None
    try:
        cast = np.array([float(value) for value in task.levels.finest.values]).astype(np.float32)
    except (TypeError, ValueError, OverflowError):
        return None
    distinct, merged = np.unique(cast, return_inverse=True)
    return merged.astype(np.int64) if len(distinct) < len(cast) else None


# Resolution: rows and scores as a narrower type holds them.


def _cast(rows: Array, kind: str, distance: str) -> Array:
    rows = np.asarray(rows, np.float64)
    if distance == "cosine":
        largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
        rows = rows / np.where(largest > 0, largest, 1.0)  # squares may be out of range
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1.0)
    return rows.astype(kind).astype(np.float64)


class _RoundedSpace(Space):
    """Distances of another space, in the user's unit, as a narrower type holds them."""

    def __init__(self, exact: Space, kind: str) -> None:
        self._exact, self._kind = exact, kind
        self.queries, self.gallery, self.facts = exact.queries, exact.gallery, exact.facts
        self.query_digests, self.gallery_digests = exact.query_digests, exact.gallery_digests

    def _rounded(self, distances: Distances) -> Distances:
        with np.errstate(over="ignore"):
            found = self._exact.linear(distances).astype(self._kind)
        rounded: Distances = found.astype(np.float64) + 0.0  # no -0.0
        return rounded

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        tile = self._exact.block(rows)
        return lambda start, stop: self._rounded(tile(start, stop))

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        return self._rounded(self._exact.pairs(query, item))

    def in_unit(self, distances: Distances) -> Distances:
        """See Space."""
        return distances

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return self._exact.fingerprints()


# Order: equally near items one after the other, and what other tools do with the first of them.


def _ordered(view: View, space: Space, rows: Rows, priority: Integers) -> TieGroups:
    """Groups of one item each: of equally near items, that of the lowest place in `priority`
    comes first."""
    pairs = view.block(rows)
    place = np.empty_like(priority)
    place[priority] = np.arange(len(priority))
    distances = space.block(rows)(0, space.gallery)[:, priority]
    distances[pairs.excluded.query, place[pairs.excluded.item]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(priority))[None, :], axis=1)
    query = pairs.relevant.query
    before = rank[query, place[pairs.relevant.item]]
    sorted_ = np.lexsort((before, query))
    graded = np.zeros((len(query), view.grades), np.int32)
    graded[np.arange(len(query)), pairs.grade[sorted_] - 1] = 1
    return TieGroups(
        _offsets(np.bincount(query, minlength=len(rows))),
        before[sorted_],
        np.ones(len(query), np.int64),
        graded,
        space.gallery - np.bincount(pairs.excluded.query, minlength=len(rows)),
    )


def _above_zero(view: View, space: Space, rows: Rows) -> Integers:
    """How many items of each list have a score above zero."""
    cosine = space.facts.distance == "cosine"
    counts = np.empty(len(rows), np.int64)
    step = max(1, _PAIRS // space.gallery)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        excluded = view.block(some).excluded
        distances = space.block(some)(0, space.gallery)
        above = space.in_unit(distances) < 1 if cosine else space.linear(distances) < 0
        above[excluded.query, excluded.item] = False
        counts[start : start + step] = above.sum(axis=1)
    return counts


def _thrown_away(groups: TieGroups, count: Integers, sought: bool) -> TieGroups:
    """Groups of which only the first `count` items of a list are left; relevant items behind them
    are still sought, or are not relevant."""
    own = np.diff(groups.offsets)
    left = groups.before < np.repeat(count, own)
    if sought:
        before = np.where(left, groups.before, NOWHERE)
        size = np.where(left, groups.size, groups.relevant)
        return TieGroups(groups.offsets, before, size, groups.graded, groups.candidates)
    return TieGroups(
        _offsets(groups.per_query(left.astype(np.int64))),
        groups.before[left],
        groups.size[left],
        groups.graded[left],
        groups.candidates,
    )


def _offsets(counts: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)])


def _without_first(groups: TieGroups) -> TieGroups:
    """Groups of one item each, after the first item of every list has been dropped."""
    dropped = np.zeros(len(groups.size), bool)
    own = np.diff(groups.offsets)
    first = groups.offsets[:-1][own > 0]
    dropped[first] = groups.before[first] == 0
    gone = groups.per_query(dropped.astype(np.int64))
    return TieGroups(
        _offsets(own - gone),
        groups.before[~dropped] - 1,
        groups.size[~dropped],
        groups.graded[~dropped],
        groups.candidates - 1,
    )


def _with_one_missing(groups: TieGroups) -> TieGroups:
    """Groups of queries that look for one more item, which stands in no list."""
    ends = groups.offsets[1:]
    one = np.zeros((1, groups.graded.shape[1]), np.int32)
    one[0, -1] = 1
    return TieGroups(
        groups.offsets + np.arange(len(groups.offsets)),
        np.insert(groups.before, ends, NOWHERE),
        np.insert(groups.size, ends, 1),
        np.insert(groups.graded, ends, one, axis=0),
        groups.candidates + 1,
    )


# Formulas that no registered metric has.


def _valued(groups: TieGroups, metric: Metric, extra: str | None, scale: Scale) -> Reals:
    if extra is not None:
        return _EXTRA[extra](groups, metric, scale)
    return groups.values(metric, scale, registry.ranking(metric))


def _over_found(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    """Average precision divided by the relevant items found, in the two orders at the ends."""
    hits = _valued(groups, Metric("recall", metric.cut), None, scale)
    values = _valued(groups, metric, None, scale)
    return np.divide(values, hits, out=np.zeros_like(hits), where=hits > 0)


def _over_k(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    return _valued(groups, metric, None, scale) * groups.mates / int(metric.cut or 1)


def _over_the_smaller(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    """Recall at k divided by min(R, k)."""
    smaller = np.minimum(groups.mates, int(metric.cut or 1))
    return _valued(groups, metric, None, scale) * groups.mates / smaller


def _whole(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
    """Average precision with each relevant item's precision taken at the end of its tie group."""
    seen = np.concatenate([[0], np.cumsum(groups.relevant)])
    found = seen[1:] - np.repeat(seen[groups.offsets[:-1]], np.diff(groups.offsets))
    terms = groups.relevant * found / (groups.before + groups.size)
    owner = np.repeat(np.arange(len(groups)), np.diff(groups.offsets))
    total = np.bincount(owner, terms, minlength=len(groups)) / groups.mates
    return np.stack([total] * 3)


def _of_ranks(term: Callable[[Integers, Integers, Integers, Flags], Reals]) -> Any:
    """Average precision with another term for each relevant item: of the query, the number of
    the item among the relevant ones, its rank, and whether that is within the cut."""

    def formula(groups: TieGroups, metric: Metric, scale: Scale) -> Reals:
        mates, relevant = groups.mates, groups.relevant
        held = groups.per_query(relevant)
        query = np.repeat(np.arange(len(groups)), held)
        group = np.repeat(np.arange(len(relevant)), relevant)
        inside = np.arange(len(group)) - np.repeat(np.cumsum(relevant) - relevant, relevant)
        found = np.arange(len(query)) - np.repeat(np.cumsum(held) - held, held) + 1
        cut = mates if metric.cut == "r" else np.full(len(mates), metric.cut or NOWHERE)
        values = []
        for start in (groups.before + groups.size - relevant, groups.before):
            rank = start[group] + inside + 1
            within = rank <= cut[query]
            terms = np.where(within, term(query, found, rank, within), 0.0)
            values.append(np.bincount(query, terms, minlength=len(groups)) / mates)
        return np.stack([values[0], np.full(len(groups), np.nan), values[1]])

    return formula


def _trapezoid(query: Integers, found: Integers, rank: Integers, within: Flags) -> Reals:
    earlier = np.where(rank > 1, (found - 1) / np.maximum(rank - 1, 1), 1.0)
    return (found / rank + earlier) / 2


def _interpolated(query: Integers, found: Integers, rank: Integers, within: Flags) -> Reals:
    """The best precision from each item on: a running maximum from the end of each query, whose
    precisions (at most 1) are lifted above those of all queries behind it."""
    lift = 2.0 * (query[-1] - query)
    precision = np.where(within, found / rank, 0.0)
    best: Reals = np.maximum.accumulate((precision + lift)[::-1])[::-1] - lift
    return best


_EXTRA: dict[str, Callable[[TieGroups, Metric, Scale], Reals]] = {
    "found": _over_found,
    "k": _over_k,
    "min": _over_the_smaller,
    "whole": _whole,
    "trapezoid": _of_ranks(_trapezoid),
    "interpolated": _of_ranks(_interpolated),
}
_OPEN = ("expected", "upper", "whole")
"""Answers about ties that put no items into an order."""
_BOTH_ENDS = ("found", "trapezoid", "interpolated", "whole")
"""Formulas without an expected value over the orders of ties."""
