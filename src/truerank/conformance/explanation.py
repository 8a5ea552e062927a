"""explain: which conventions of other tools give a number that another tool printed.

truerank's own value is computed first, then one convention at a time (variants.py), then pairs of
conventions. The printed digits decide what matches.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import combinations
from numbers import Real
from typing import Any, NamedTuple

from truerank._util.errors import InputError, check_choice, shortened
from truerank._util.progress import shown
from truerank._util.text import count, either, fill, screen_width
from truerank._util.types import Array
from truerank.conformance.model import FORMULAS, TOLERANCE
from truerank.conformance.variants import (
    Variants,
    Variation,
    Variations,
    our_answer,
    sentence,
)
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.distance import catalogue
from truerank.distance.probe import probe
from truerank.evaluation.task_input import (
    check_options,
    check_queries_in_gallery,
    check_task,
    prepare,
)
from truerank.io.vectors import chosen_distance
from truerank.task.task import TaskRules, depth

NEAREST = 3
"""Values that are shown where none matches."""


@dataclass(frozen=True)
class UsedConvention:
    """A convention that is part of a match, and what truerank does instead."""

    name: str
    """Such as "self=kept", as in the verdicts of `truerank.conformance`."""
    says: str
    instead: str
    is_choice: bool
    """Whether both are right, if a paper states which it takes."""


@dataclass(frozen=True)
class Match:
    """A metric, the conventions with which it was computed, and its value as a share."""

    metric: str
    conventions: tuple[UsedConvention, ...]
    value: float

    @property
    def name(self) -> str:
        """The names of the conventions, such as "ties=input, unmated=zero"."""
        return ", ".join(one.name for one in self.conventions) or "truerank's own conventions"


@dataclass(frozen=True)
class Explanation:
    """Which conventions give a number; it prints as an answer."""

    theirs: str
    own: dict[str, float]
    """truerank's own value of each metric that was tried, as a share."""
    matches: tuple[Match, ...]
    """All that give the number, with as few conventions as do: none, one or two."""
    nearest: tuple[Match, ...]
    """The nearest values, if there is no match."""
    tried: int
    """Conventions and pairs of conventions that were tried."""
    pairs: int
    """How many of these were pairs."""
    separating: tuple[str, tuple[float, ...]] | None = None
    """Of several matches: another metric, and its value under the conventions of each match."""

    def __str__(self) -> str:
        return "\n".join(fill(self._lines(), screen_width()))

    def _lines(self) -> list[str]:
        metrics = either(list(self.own))
        own = ", ".join(f"{name} {self._percent(value)}" for name, value in self.own.items())
        lines = [f"truerank's own value: {own}.", self._tried(), ""]
        if not self.matches:
            lines += [f"None gives {self.theirs} for {metrics}. The nearest values:"]
            for one in self.nearest:
                lines += ["", *self._described(one)]
            advice = "Check first that embeddings, labels and split are those of the other tool."
            return [*lines, "", advice]
        if not self.matches[0].conventions:
            names = either([one.metric for one in self.matches])
            return [*lines, f"{self.theirs} is truerank's own {names}: nothing differs."]
        lines.append(f"{count(len(self.matches), 'explanation')} of {self.theirs}:")
        for one in self.matches:
            lines += ["", *self._described(one)]
        if len(self.matches) > 1:
            lines += ["", self._apart()]
        return lines

    def _tried(self) -> str:
        text = f"Tried {count(self.tried - self.pairs, 'convention')}"
        if self.pairs:
            text += f" and {count(self.pairs, 'pair')} of conventions"
        return f"{text}."

    def _described(self, match: Match) -> list[str]:
        lines = [f"{match.metric} {self._percent(match.value)}: {match.name}"]
        for one in match.conventions:
            lines.append(f"    The other tool {one.says}.")
            also = "Both are in use: state which." if one.is_choice else "That is right."
            lines.append(f"    truerank {one.instead}. {also}")
        return lines

    def _apart(self) -> str:
        text = f"{self.theirs} alone cannot tell these {len(self.matches)} matches apart."
        if self.separating is None:
            return f"{text} Neither does any other headline metric on these data."
        metric, values = self.separating
        named = (
            f"{self._percent(value)} with {one.name}"
            for one, value in zip(self.matches, values, strict=True)
        )
        return f"{text} Compare {metric} as well: " + ", ".join(dict.fromkeys(named)) + "."

    def _percent(self, value: float) -> str:
        """A share in percent, with more digits than the number that was given."""
        return f"{100 * value:.{min(8, max(2, Printed.of(self.theirs).decimals + 1))}f} %"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""

        def plain(match: Match) -> dict[str, Any]:
            used = [dict(vars(one)) for one in match.conventions]
            return {"metric": match.metric, "value": match.value, "conventions": used}

        separating = None
        if self.separating is not None:
            separating = {"metric": self.separating[0], "values": list(self.separating[1])}
        return {
            "theirs": self.theirs,
            "own": dict(self.own),
            "tried": self.tried,
            "pairs": self.pairs,
            "matches": [plain(one) for one in self.matches],
            "nearest": [plain(one) for one in self.nearest],
            "separating": separating,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)


@dataclass(frozen=True)
class Printed:
    """A number as another tool printed it, as a share, and how far off its digits may be."""

    value: float
    margin: float
    decimals: int
    """Digits behind the point, in percent."""

    @staticmethod
    def of(theirs: float | str) -> Printed:
        """Read 71.3 and "71.3 %" as percent, and 0.713 as a share."""
        number, is_percent = Decimal("nan"), False
        if isinstance(theirs, (str, Real)) and not isinstance(theirs, bool):
            with contextlib.suppress(InvalidOperation, ValueError):  # an int may be too long
                text = str(theirs).strip()
                number, is_percent = Decimal(text.rstrip("% ")), text.endswith("%")
        if not number.is_finite() or not 0 <= number <= 100:
            raise InputError(
                "The 'theirs' parameter must be a score as it was printed, such as 71.3 or 0.713. "
                f"Got {shortened(theirs)} instead."
            )
        exponent = number.as_tuple().exponent
        digits = max(0, -exponent) if isinstance(exponent, int) else 0
        if is_percent or number > 1:
            return Printed(float(number) / 100, _margin(digits + 2), digits)
        digits = max(digits, 2) if number in (0, 1) else digits
        return Printed(float(number), _margin(digits), max(0, digits - 2))

    def matches(self, value: float) -> bool:
        """Whether a value is rounded to these digits."""
        return abs(value - self.value) <= self.margin


def _margin(digits: int) -> float:
    """Half of the last digit; other tools may compute in float32."""
    return max(0.5 * 10.0**-digits * (1 + 1e-9), TOLERANCE)


def explain(
    embeddings: Any,
    labels: Any,
    theirs: float | str,
    *,
    metric: str | None = None,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    distance: str | None = None,
    average: str = "query",
    unmated: str = "report",
    unlabelled: str = "error",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Explanation:
    """Find the conventions with which another tool's number comes out of these embeddings.

    Conventions are tried one at a time, and in pairs if no single one gives the number.

    Parameters
    ----------
    embeddings, labels, gallery, gallery_labels : as for `evaluate`
    theirs : float or str
        The number as it was printed: its digits decide what matches. 71.3 matches 71.25 to 71.35;
        numbers up to 1 are shares (0.713) unless they end with %.
    metric : str, optional
        What the number is called: a precision, recall, hit, R-precision, AP, MRR, mINP or NDCG,
        such as "recall@1". By default the headline metrics of `evaluate` are tried.
    query_ids, gallery_ids, query_groups, gallery_groups : optional
        As for `evaluate`. trec_eval orders ties by gallery_ids.
    junk, junk_labels, relevance, distance, average, unmated, unlabelled, threads : optional
        As for `evaluate`.
    progress : callable or bool, optional
        Called as progress(passes done, passes in all); True for a bar.

    Returns
    -------
    Explanation
        It prints as the answer; `matches`, `nearest`, `own`, `tried`, `to_dict()`, `to_json()`.

    Examples
    --------
    >>> import truerank
    >>> rows = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [1.0, 1.0]]
    >>> found = truerank.explain(rows, ["a", "a", "b", "b", "c"], 80.0, metric="precision@1")
    >>> found.own["precision@1"], [match.name for match in found.matches]
    (1.0, ['unmated=zero'])
    """
    Printed.of(theirs)
    distance = chosen_distance(distance, embeddings, gallery)
    task, rows, items = prepare(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        distance=distance,
        unmated=unmated,
        unlabelled=unlabelled,
    )
    return explain_task(
        task,
        rows,
        items,
        theirs,
        metric=metric,
        distance=distance,
        average=average,
        threads=threads,
        progress=progress,
    )


def explain_task(
    task: TaskRules,
    rows: Array,
    items: Array | None,
    theirs: float | str,
    *,
    metric: str | None = None,
    distance: str = "cosine",
    average: str = "query",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Explanation:
    """Explain a number by the rows (and gallery items) of a task."""
    printed = Printed.of(theirs)
    check_choice("distance", distance, catalogue.names())
    check_options(task, average, threads, progress)
    headline = [*registry.DEFAULT]
    if task.levels is None or depth(task) > 1:
        headline.append("ndcg")
    known = registry.parse_all(headline)
    asked = known if metric is None else [_asked(metric)]
    given = catalogue.find(distance).given
    check_task(task, rows, items, given=given)
    space = catalogue.build(distance, rows, items, task.columns, threads=threads)
    if not (task.leave_one_out or items is None or task.excludes_pairs):
        check_queries_in_gallery(task, space)
    probe(space)
    variants = Variants(
        task,
        rows,
        items,
        space,
        dict.fromkeys([*asked, *known]),
        distance=distance,
        average=average,
        threads=threads,
    )
    search = _Explainer(variants, asked, printed)
    with shown(progress, "trying", "passes") as report:
        return search.run(str(theirs).strip(), report)


def _asked(text: str) -> Metric:
    if not isinstance(text, str):
        raise InputError(f"The 'metric' parameter must be a text. Got {shortened(text)}.")
    metric = registry.parse(text)
    if metric.name not in FORMULAS:
        raise InputError(f"{metric} is not explained here; known are {either(list(FORMULAS))}.")
    return metric


class Valued(NamedTuple):
    """A metric's value under some conventions."""

    metric: Metric
    chosen: Variations
    value: float


class _Explainer:
    """The sets of conventions that give a number, the smallest first."""

    def __init__(self, variants: Variants, asked: Sequence[Metric], printed: Printed) -> None:
        self._variants, self._asked, self._printed = variants, asked, printed
        self._offered = variants.offered()

    def run(self, theirs: str, report: Callable[[int, int], None] | None) -> Explanation:
        """Try no convention, each one, and each pair, until some give the number."""
        valued: list[Valued] = []
        found: list[Valued] = []
        for size in (0, 1, 2):
            sets = [
                frozenset(some)
                for some in combinations(self._offered, size)
                if len({one.question for one in some}) == size
            ]
            self._variants.compute(sets, report)
            some = [
                Valued(metric, chosen, value)
                for chosen in sets
                for metric in self._asked
                if (value := self._variants.values[chosen][metric]) is not None
            ]
            if not some and not size:
                raise InputError(
                    "no query has a relevant item, so that there is no score to explain."
                )
            valued += some
            found = [one for one in some if self._printed.matches(one.value)]
            if found:
                break
        tried = dict.fromkeys(one.chosen for one in valued if one.chosen)
        return Explanation(
            theirs,
            {str(one.metric): one.value for one in valued if not one.chosen},
            tuple(map(self._match, found)),
            () if found else tuple(map(self._match, self._nearest(valued))),
            len(tried),
            sum(len(chosen) == 2 for chosen in tried),
            self._separating(found),
        )

    def _nearest(self, valued: Iterable[Valued]) -> list[Valued]:
        """The nearest values, each with as few conventions as give it."""
        found: dict[float, Valued] = {}
        for one in sorted(valued, key=lambda one: abs(one.value - self._printed.value)):
            found.setdefault(round(one.value, 12), one)
        return list(found.values())[:NEAREST]

    def _match(self, one: Valued) -> Match:
        used = [self._used(kept, one.metric) for kept in self._offered if kept in one.chosen]
        return Match(str(one.metric), tuple(used), one.value)

    def _used(self, one: Variation, metric: Metric) -> UsedConvention:
        ours = self._variants.ours.get(one.question) or our_answer(one.question, metric)
        instead = "" if ours is None else sentence(one.question, ours)
        return UsedConvention(str(one), one.says, instead, one.is_choice)

    def _separating(self, found: Sequence[Valued]) -> tuple[str, tuple[float, ...]] | None:
        """The headline metric that has the most distinct values under these conventions."""
        best: tuple[str, tuple[float, ...]] | None = None
        most = 1
        for metric in self._variants.metrics if len(found) > 1 else ():
            values = [self._value(metric, one.chosen) for one in found]
            distinct = len({None if value is None else round(value, 4) for value in values})
            if distinct > most and None not in values and metric not in self._asked[:1]:
                most = distinct
                best = str(metric), tuple(value for value in values if value is not None)
        return best

    def _value(self, metric: Metric, chosen: Variations) -> float | None:
        """A metric's value under those of the conventions that apply to it."""
        for size in range(len(chosen), -1, -1):
            for some in combinations(sorted(chosen, key=str), size):
                value = self._variants.values.get(frozenset(some), {}).get(metric)
                if value is not None:
                    return value
        return None
