"""compare: results of several models on one task in; differences, tests and paper tables out.

Models are paired over the same classes: the jackknife or bootstrap that gives a score its
interval gives the difference its own, and a test. Holm's correction covers every pair and
metric; models without a significant difference share their ranks. This file has the verb, its
finding in words, and its tables for the screen, papers, CSV, data frames and JSON; the numbers
are in differences.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import combinations
from typing import Any, TypeVar

from truerank._util import text
from truerank._util.errors import InputError, check_choice
from truerank._util.text import LOWER, TextTable, count
from truerank.analysis.differences import (
    ONLY_RUNS,
    Difference,
    Standing,
    check_same_task,
    choose_metrics,
    correct,
    difference,
    method,
    name_models,
    read_model,
    stand,
)
from truerank.core import registry
from truerank.core.registry import display_name, field_names, meanings
from truerank.intervals.interval import IntervalRequest
from truerank.result import tables


def compare(
    *results: Any,
    names: Iterable[str] | None = None,
    metrics: Iterable[str] | str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare models on one task by paired tests.

    Parameters
    ----------
    *results : Result, path of a result's JSON file, or list of these
        One for each model; a list holds runs of one model that differ in their seed.
    names : iterable of str, optional
        Names of the models; by default the differing parts of their files' names, or model 1,
        model 2, ...
    metrics : strings, optional
        By default all that every result has. Fewer metrics, fewer tests to correct for.
    confidence : float
        Of the intervals; 1 - confidence is the level of the tests.
    seed : int
        Of the bootstrap, for results with a gallery of their own.

    Returns
    -------
    Comparison
        Standings with the ranks left open, and all differences; it prints as the finding and a
        table.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(40), 5)
    >>> centres, noise = rng.standard_normal((40, 16)), rng.standard_normal((200, 16))
    >>> good, poor = (truerank.evaluate(centres[y] + s * noise, y) for s in (1.0, 2.0))
    >>> found = truerank.compare(good, poor, names=["good", "poor"], metrics="map@r")
    >>> [(row.model, row.ranks) for row in found.standings]
    [('good', (1, 1)), ('poor', (2, 2))]
    """
    request = IntervalRequest.of(confidence, seed)
    if request is None:
        raise InputError("The 'confidence' parameter of compare must be a number. Got None.")
    models = [read_model(result) for result in results]
    if len(models) < 2:
        raise InputError(f"compare takes at least two results. Got {len(models)}.")
    labels = name_models(results, names)
    check_same_task(models, labels)
    chosen, skipped = choose_metrics(models, labels, metrics)
    differences = correct(
        [
            difference(metric, models, labels, a, b, request)
            for metric in chosen
            for a, b in combinations(range(len(models)), 2)
        ]
    )
    standings = [
        standing
        for metric in chosen
        for standing in stand(metric, models, labels, differences, request)
    ]
    return Comparison(standings, differences, request.confidence, method(models), skipped)


# How a comparison is shown: tables for the screen and for a paper, CSV, a frame, JSON.


PRIMARY = "map@r"
"""The metric by which the finding goes, if it was compared."""
STARRED, FEWEST = "***", 0.001
"""What stands for p values below the second one."""
_STARS = f", {STARRED} is p < {FEWEST:g}"
_TESTS = {False: ["p"], True: ["p", "p (Holm)"]}
"""Headers of the columns of p, by whether all are shown."""
Row = TypeVar("Row", Standing, Difference)


@dataclass(frozen=True)
class Comparison:
    """Standings and differences, as tables, a frame or JSON."""

    standings: list[Standing]
    differences: list[Difference]
    confidence: float
    method: str
    skipped: dict[str, str] = field(default_factory=dict)
    """Metrics that some results have and that cannot be compared, with the reason."""

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        metrics = len({row.metric for row in self.standings})
        return f"Comparison({', '.join(self.models)}: {count(metrics, 'metric')})"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        parts = [text.table(shown) for shown in self._tables()]
        notes = tables.shortlist(self.notes, "comparison.notes")
        return text.block(text.heading(self.finding), *parts, text.paragraphs(notes))

    @property
    def models(self) -> list[str]:
        """The names of the models, in the order in which they were given."""
        names = (name for row in self.differences for name in (row.first, row.second))
        return list(dict.fromkeys(names))

    @property
    def finding(self) -> str:
        """The best model, by how much and how surely, and in how many metrics that holds.

        It goes by MAP@R, or by the first metric that was compared without it.
        """
        judged = [row.metric for row in self.standings if _is_judged(row.metric)]
        if not judged:
            return "Thresholds are neither good nor bad: no model is better."
        metric = PRIMARY if PRIMARY in judged else judged[0]
        sentences = [self._best(metric)]
        tested = [row for row in self.differences if _is_judged(row.metric)]
        if len(self.models) == 2 and len(tested) > 1:
            sentences.append(self._counts(tested))
        return " ".join(sentences)

    def _best(self, metric: str) -> str:
        """The best model of a metric against the second best, and which others are as good."""
        first, second, *others = [row for row in self.standings if row.metric == metric]
        row, sign = self._between(metric, first.model, second.model)
        name, shown = display_name(metric), tables.number(metric)
        if row.value == 0:
            line = f"{first.model} and {second.model} score {shown(first.value)} in {name}."
        else:
            sure = "not tested"
            if row.interval is not None:
                low, high = row.interval if sign > 0 else (-row.interval[1], -row.interval[0])
                sure = (
                    f"{100 * self.confidence:g} % interval {tables.ends((low, high), shown)}, "
                    f"{_in_words(row.adjusted_p)}"
                )
                if (low > 0 or high < 0) != self._is_significant(row):  # p is corrected
                    tests = sum(row.adjusted_p is not None for row in self.differences)
                    sure += f" corrected for {count(tests, 'test')}"
            start = f"{first.model} is better than {second.model} in {name}"
            if others:
                start = f"{first.model} is best in {name}, {second.model} is second"
            if not self._is_significant(row):
                start = f"{first.model} has the best {name}, {second.model} is second"
                if row.adjusted_p is not None:
                    models = f"{first.model} and {second.model}"
                    start = f"No significant difference between {models} in {name}"
            line = (
                f"{start}: {shown(first.value)} against {shown(second.value)}, difference "
                f"{_signed(sign * row.value, shown)} ({sure})."
            )
        rows = {other.model: self._between(metric, first.model, other.model)[0] for other in others}
        close = [
            model
            for model, row in rows.items()
            if row.adjusted_p is not None and not self._is_significant(row)
        ]
        if close:
            line += f" {first.model} is not significantly better than {_listed(close)}."
        return line

    def _between(self, metric: str, first: str, second: str) -> tuple[Difference, int]:
        """The difference of two models in a metric, and -1 if it is the second minus the first."""
        [row] = [
            row
            for row in self.differences
            if row.metric == metric and {row.first, row.second} == {first, second}
        ]
        return row, 1 if row.first == first else -1

    def _is_significant(self, row: Difference) -> bool:
        return row.adjusted_p is not None and row.adjusted_p < 1 - self.confidence

    def _better(self, row: Difference) -> str | None:
        """The model that is significantly better, if one is."""
        if not self._is_significant(row):
            return None
        is_first = (row.value > 0) == registry.find(row.metric).higher_is_better
        return row.first if is_first else row.second

    def _counts(self, rows: list[Difference]) -> str:
        """In how many metrics each of two models is better."""
        untested = sum(row.adjusted_p is None for row in rows)
        if untested == len(rows):
            return f"None of {count(len(rows), 'metric')} has a test."
        found = [self._better(row) for row in rows]
        one, other = sorted(self.models, key=lambda model: -found.count(model))
        won = f"{one} is significantly better in {found.count(one)} and {other} in "
        won += str(found.count(other) or "none")
        if not found.count(one):
            won = "none differs significantly"
        line = f"Of {count(len(rows), 'metric')}, {won} (p < {1 - self.confidence:.3g})"
        have = "has" if untested == 1 else "have"
        return f"{line}; {untested} {have} no test." if untested else f"{line}."

    def to_text(self, *, rule: bool = False, verbose: bool = False) -> str:
        """Plain text as wide as the screen: the finding, the scores and the differences.

        Two models stand side by side in a single table. `rule` draws a line below the header,
        `verbose` adds the uncorrected p values and all notes.
        """
        *others, last = self._tables(verbose)
        stated = [note.replace(_STARS, "") if verbose else note for note in self.notes]
        notes = tables.laid_out(last, stated, rule=rule, more="" if verbose else "comparison.notes")
        parts = [tables.laid_out(table, rule=rule) for table in others]
        return "\n\n".join([text.paragraph(self.finding, strong=rule), *parts, notes])

    def _tables(self, verbose: bool = False) -> list[TextTable]:
        if len(self.models) == 2 and all(row.runs == 1 for row in self.standings):
            return [self.side_by_side(verbose=verbose)]
        return [self._standing_table(), self._difference_table(verbose)]

    def side_by_side(
        self, metrics: Collection[str] | None = None, *, verbose: bool = False
    ) -> TextTable:
        """Two models: a row for each metric, with both scores and the test of their difference."""
        first, second = self.models
        values = {(row.metric, row.model): row.value for row in self.standings}
        found = {row.metric: row for row in self.differences}
        names = tables.headline_first(found)
        rows: list[list[str]] = []
        strong = set()
        for name in names if metrics is None else [name for name in names if name in metrics]:
            row, shown = found[name], tables.number(name)
            better = self._better(row)
            if better is not None:
                strong.add((len(rows), 1 if better == first else 2))
            rows.append(
                [
                    tables.marked(name),
                    *(shown(values[name, model]) for model in (first, second)),
                    _signed(row.value, shown),
                    tables.ends(row.interval, shown),
                    *self._tests(row, verbose),
                ]
            )
        header = ["metric", first, second, "difference", self._of_difference()]
        return TextTable([*header, *_TESTS[verbose]], rows, strong=frozenset(strong))

    def _of_difference(self) -> str:
        return f"its {100 * self.confidence:g} % interval"

    def _tests(self, row: Difference, verbose: bool) -> list[str]:
        """The columns of p."""
        if verbose:
            return [_probability(row.p), _probability(row.adjusted_p)]
        return [_short_probability(row.adjusted_p)]

    def _standing_table(self) -> TextTable:
        several = any(row.runs > 1 for row in self.standings)
        levels = {row.confidence for row in self.standings if row.interval is not None}
        level = levels.pop() if len(levels) == 1 else None
        interval = "interval" if level is None else f"{100 * level:g} % interval"
        header = ["metric", "model", "score", interval, "ranks"]
        header[4:4] = ["runs", "between runs"] if several else []
        rows = []
        for row in self._by_metric(self.standings):
            shown = tables.number(row.metric)
            cells = [tables.marked(row.metric), row.model, shown(row.value)]
            cells.append(tables.ends(row.interval, shown))
            cells += [str(row.runs), tables.ends(row.between_runs, shown)] if several else []
            best, worst = row.ranks
            rows.append([*cells, str(best) if best == worst else f"{best}-{worst}"])
        return TextTable(header, rows, words=(0, 1))

    def _difference_table(self, verbose: bool) -> TextTable:
        header = ["metric", "first", "second", "difference", self._of_difference()]
        rows = [
            [
                tables.marked(row.metric),
                row.first,
                row.second,
                _signed(row.value, tables.number(row.metric)),
                tables.ends(row.interval, tables.number(row.metric)),
                *self._tests(row, verbose),
            ]
            for row in self._by_metric(self.differences)
        ]
        return TextTable([*header, *_TESTS[verbose]], rows, words=(0, 1, 2))

    def _by_metric(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of the headline metrics first."""
        found = list(rows)
        order = tables.headline_first(dict.fromkeys(row.metric for row in found))
        return sorted(found, key=lambda row: order.index(row.metric))

    @property
    def notes(self) -> list[str]:
        """How to read it, what was not tested, and how the intervals came about."""
        names = [row.metric for row in self.standings]
        scale = "In percent"
        if tables.is_lower_better(names):
            scale += f"; {LOWER} lower is better"
        if len(self.models) == 2:
            scale += "; difference: {} minus {}".format(*self.models)
        shown = [_short_probability(row.adjusted_p) for row in self.differences]
        tests = _count_tests(self.differences)
        p = f"p by paired tests, corrected for {count(tests, 'test')} (Holm)"
        p += _STARS if STARRED in shown else ""
        lines = [f"{scale}; {p}." if tests else f"{scale}."]
        lines += self.untested()
        alone = dict.fromkeys(row.only_runs for row in self.differences if row.only_runs)
        lines += [f"Tests {ONLY_RUNS}: {reason}." for reason in alone]
        if len(self.models) > 2:
            lines.append(
                "A model ranks below those from which it differs with a corrected p below "
                f"{1 - self.confidence:.3g}; the other ranks are open."
            )
        if any(row.runs > 1 for row in self.standings):
            lines.append(
                "Between runs: over seeds on this very test set. The other intervals, the tests "
                "and the ranks are over test sets and seeds, for the mean of the runs."
            )
        lines.append(
            f"Differences with intervals of {100 * self.confidence:g} %, each by itself, by "
            f"{self.method}."
        )
        asked = [registry.of_result(row.metric) for row in self.standings]
        lines += registry.said_side_by_side(asked)
        for reason in dict.fromkeys(self.skipped.values()):
            skipped = [name for name, why in self.skipped.items() if why == reason]
            lines.append(f"Skipped {_listed(map(display_name, skipped))}: {reason}.")
        return lines

    def untested(self, among: Collection[str] | None = None) -> list[str]:
        """Sentences that say why differences of some or all metrics have no test."""
        lines = []
        rows = [row for row in self.differences if among is None or row.metric in among]
        for reason in dict.fromkeys(row.reason for row in rows if row.reason):
            names = [display_name(row.metric) for row in rows if row.reason == reason]
            which = "" if len(names) == len(rows) else f" of {_listed(names)}"
            lines.append(f"No test{which}: {reason}.")
        return lines

    def to_markdown(self, cells: str = "value") -> str:
        """Write a Markdown table: models as rows, metrics as columns, marks and a caption.

        `cells` are "value", "interval" (the score with its interval) or "runs" (the mean with the
        standard deviation over runs).
        """
        return as_markdown(self.standings, self.differences, self.confidence, self.method, cells)

    def to_latex(self, cells: str = "value") -> str:
        """Write a LaTeX table (booktabs) with the cells of to_markdown and a caption."""
        return as_latex(self.standings, self.differences, self.confidence, self.method, cells)

    def plot(self, metric: str | None = None, ax: Any = None) -> Any:
        """Draw the differences in all metrics by matplotlib, or the models in one `metric`.

        Differences have their intervals; a hollow marker is no significant difference. In one
        metric, a model has its mean, its interval and a dot for each run. `ax` are axes of yours.
        """
        forest = import_module("truerank.plots.forest")
        if metric is None:
            return forest.forest_of_differences(self, ax=ax)
        return forest.forest_of_models(self, metric, ax)

    def to_csv(self) -> str:
        """Comma-separated values, in fractions, at full precision; rows as in to_frame."""
        rows = self._records()
        return text.separated(list(rows[0]), [list(row.values()) for row in rows])

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each score, then one for each difference of two models.

        A difference is that of `model` minus `against`; a score has nothing in that column.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame.from_records(self._records())

    def _records(self) -> list[dict[str, Any]]:
        found = [
            _record(
                row.metric,
                row.model,
                row.value,
                row.interval,
                runs=row.runs,
                between=row.between_runs,
                ranks=row.ranks,
            )
            for row in self.standings
        ]
        found += [
            _record(
                row.metric,
                row.first,
                row.value,
                row.interval,
                against=row.second,
                p=row.p,
                adjusted_p=row.adjusted_p,
                reason=row.reason,
            )
            for row in self.differences
        ]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-comparison",
            "confidence": self.confidence,
            "method": self.method,
            "standings": [_plain(row) for row in self.standings],
            "differences": [_plain(row) for row in self.differences],
            "skipped": dict(self.skipped),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(), path)


def _record(
    metric: str,
    model: str,
    value: float,
    interval: tuple[float, float] | None,
    *,
    against: str | None = None,
    p: float | None = None,
    adjusted_p: float | None = None,
    runs: int | None = None,
    between: tuple[float, float] | None = None,
    ranks: tuple[int, int] | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """One row of a frame."""
    low, high = interval or (None, None)
    between_low, between_high = between or (None, None)
    best, worst = ranks or (None, None)
    return {
        "metric": metric,
        "model": model,
        "against": against,
        "value": value,
        "interval_low": low,
        "interval_high": high,
        "p": p,
        "adjusted_p": adjusted_p,
        "best_rank": best,
        "worst_rank": worst,
        "runs": runs,
        "between_runs_low": between_low,
        "between_runs_high": between_high,
        "reason": reason,
    }


def _signed(value: float, shown: Callable[[float | None], str]) -> str:
    return "-+"[value >= 0] + shown(abs(value))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _is_judged(metric: str) -> bool:
    """Whether scores of a metric are good or bad; a threshold is neither."""
    return registry.find(metric).unit != "distance"


def _count_tests(differences: Iterable[Difference]) -> int:
    return sum(row.p is not None for row in differences)


def _probability(p: float | None) -> str:
    return tables.MISSING if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _short_probability(p: float | None) -> str:
    """Three decimals, or stars for what is below them."""
    return tables.MISSING if p is None else STARRED if p < FEWEST else f"{p:.3f}"


def _in_words(p: float | None) -> str:
    """'p < 0.001' or 'p = 0.021'."""
    return f"p < {FEWEST:g}" if p is not None and p < FEWEST else f"p = {_short_probability(p)}"


def _plain(row: Standing | Difference) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(row).items()
    }


# A comparison as a table to paste: models as rows, metrics as columns, marks and a caption.


STARS = 3
CELLS = ("value", "interval", "runs")
"""What stands in a cell: the score, with its interval, or with its deviation over runs."""


@dataclass(frozen=True)
class Judged:
    """A model's score in a metric, and how it stands to the best one."""

    shown: str
    best: bool = False
    """No other score is better; several models may share it."""
    tied: bool = False
    """Worse, with no significant difference from the best."""
    stars: int = 0
    """Worse, and so surely: at the level of the tests, a fifth and a fiftieth of it."""
    untested: bool = False
    """Worse, with no test to say how surely."""
    interval: tuple[str, str] | None = None
    deviation: str | None = None
    """Over runs."""


def levels(confidence: float) -> list[float]:
    """The levels of one, two and three stars: 0.05, 0.01 and 0.001 for a confidence of 0.95."""
    level = 1 - confidence
    return [level, level / 5, level / 50]


def judge(
    standings: Iterable[Standing], differences: Iterable[Difference], confidence: float
) -> dict[tuple[str, str], Judged]:
    """Every model in every metric, by (model, metric)."""
    rows = list(standings)
    tested = {(row.metric, frozenset((row.first, row.second))): row for row in differences}
    found = {}
    for metric in dict.fromkeys(row.metric for row in rows):
        known = registry.find(metric)
        these = [row for row in rows if row.metric == metric]
        choose = max if known.higher_is_better else min
        top = choose(row.value for row in these)
        best = [row.model for row in these if row.value == top]
        for row in these:
            written = tables.number(metric)
            shown = written(row.value)
            if known.unit == "distance":  # a threshold is neither good nor bad
                judged = Judged(shown)
            elif row.model in best:
                judged = Judged(shown, best=True)
            else:
                tests = [tested[metric, frozenset((row.model, other))] for other in best]
                judged = _below(shown, tests, confidence)
            ends = row.interval and (written(row.interval[0]), written(row.interval[1]))
            over_runs = None if row.deviation is None else written(row.deviation)
            found[row.model, metric] = replace(judged, interval=ends, deviation=over_runs)
    return found


def _below(shown: str, tests: list[Difference], confidence: float) -> Judged:
    """A score below the best, by its tests against all that share the best score."""
    values = [test.adjusted_p for test in tests if test.adjusted_p is not None]
    if len(values) < len(tests):
        return Judged(shown, untested=True)
    stars = sum(max(values) < level for level in levels(confidence))
    return Judged(shown, tied=not stars, stars=stars)


@dataclass(frozen=True)
class _Language:
    """How a markup language says what a table and its caption must say."""

    escape: Callable[[str], str]
    bold: str
    tie: str
    """How the score of a tie is written,"""
    tie_named: str
    """and what that is called."""
    star: str
    dagger: str
    raised: str
    """How marks stand behind a number."""
    number: str
    interval: str
    """What stands behind a score,"""
    deviation: str
    """and what stands there in its place."""
    below: str
    above: str
    lower: str


_MARKDOWN = _Language(
    text.escape_markdown,
    bold="**{}**",
    tie="_{}_",
    tie_named="In italics",
    star=r"\*",
    dagger="\N{DAGGER}",
    raised="{}",
    number="{}",
    interval=" [{}, {}]",
    deviation=" \N{PLUS-MINUS SIGN} {}",
    below="p &lt; {:.3g}",
    above="p \N{GREATER-THAN OR EQUAL TO} {:.3g}",
    lower=LOWER,
)
_LATEX = _Language(
    text.escape_latex,
    bold=r"\mathbf{{{}}}",
    tie=r"\underline{{{}}}",
    tie_named="Underlined",
    star="*",
    dagger=r"\dagger",
    raised="^{{{}}}",
    number="${}$",
    interval=r"\;[{}, {}]",
    deviation=r" \pm {}",
    below="$p < {:.3g}$",
    above=r"$p \geq {:.3g}$",
    lower=r"$\downarrow$",
)


def as_markdown(
    standings: Sequence[Standing],
    differences: Sequence[Difference],
    confidence: float,
    method: str,
    cells: str = "value",
) -> str:
    """A Markdown table with its caption below."""
    _check_cells(cells, standings)
    judged = judge(standings, differences, confidence)

    def cell(one: Judged, metric: str) -> str:
        return _value(one, _MARKDOWN) + _marks(one, _MARKDOWN) + _beside(one, _MARKDOWN, cells)

    table = _table(judged, differences, _MARKDOWN, cell)
    caption = _caption(judged, standings, differences, confidence, method, cells, _MARKDOWN)
    return f"{text.pipes(table)}\n{' '.join(caption)}\n"


def as_latex(
    standings: Sequence[Standing],
    differences: Sequence[Difference],
    confidence: float,
    method: str,
    cells: str = "value",
) -> str:
    """A LaTeX table with its caption; it needs the package booktabs."""
    _check_cells(cells, standings)
    judged = judge(standings, differences, confidence)
    widest: dict[str, int] = {}
    for (_, metric), one in judged.items():
        widest[metric] = max(widest.get(metric, 0), one.stars, one.untested)

    def cell(one: Judged, metric: str) -> str:
        missing = "*" * (widest[metric] - max(one.stars, one.untested))
        # What is missing is set unseen, so that the digits of a column stay aligned.
        marks = _marks(one, _LATEX) + (rf"\phantom{{{missing}}}" if missing else "")
        value = _value(one, _LATEX) + (f"^{{{marks}}}" if marks else "")
        return f"${value}{_beside(one, _LATEX, cells)}$"

    table = _table(judged, differences, _LATEX, cell)
    caption = _caption(judged, standings, differences, confidence, method, cells, _LATEX)
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        *text.fill(_enclosed(caption), text.SOURCE_WIDTH),
        text.tabular(table) + r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _enclosed(caption: list[str]) -> list[str]:
    """The caption's sentences, each on a line, as its command."""
    *others, last = [caption[0], *(f"  {line}" for line in caption[1:])]
    lines = [*others, last + r"}\smallskip"]
    return [rf"\caption{{{lines[0]}", *lines[1:]]


def _value(one: Judged, language: _Language) -> str:
    frame = language.bold if one.best else language.tie if one.tied else "{}"
    return frame.format(one.shown)


def _beside(one: Judged, language: _Language, cells: str) -> str:
    """What a cell holds behind its score."""
    if cells == "interval" and one.interval is not None:
        return language.interval.format(*one.interval)
    if cells == "runs" and one.deviation is not None:
        return language.deviation.format(one.deviation)
    return ""


def _check_cells(cells: str, standings: Sequence[Standing]) -> None:
    check_choice("cells", cells, CELLS)
    if cells == "interval" and all(row.interval is None for row in standings):
        raise InputError("no score here has an interval; the notes of each result say why.")
    if cells == "runs" and all(row.deviation is None for row in standings):
        raise InputError(
            "cells of runs are the mean and the standard deviation over runs, and every model here "
            "has a single one; pass several runs of a model (compare --runs FILE,FILE,...)."
        )


def _marks(one: Judged, language: _Language) -> str:
    return language.dagger if one.untested else language.star * one.stars


def _table(
    judged: dict[tuple[str, str], Judged],
    differences: Sequence[Difference],
    language: _Language,
    cell: Callable[[Judged, str], str],
) -> TextTable:
    """The cells, the models in the order in which they were given."""
    metrics = list(dict.fromkeys(metric for _, metric in judged))
    models = dict.fromkeys(name for row in differences for name in (row.first, row.second))
    names = field_names(metrics)
    header = ["model", *(language.escape(tables.marked(m, names[m])) for m in metrics)]
    rows = [
        [language.escape(model), *(cell(judged[model, metric], metric) for metric in metrics)]
        for model in models
    ]
    return TextTable(header, rows)


def _caption(
    judged: dict[tuple[str, str], Judged],
    standings: Sequence[Standing],
    differences: Sequence[Difference],
    confidence: float,
    method: str,
    cells: str,
    language: _Language,
) -> list[str]:
    """Sentences: the scale, the cells, the marks that occur, and the tests behind them."""
    metrics = dict.fromkeys(row.metric for row in standings)
    units = {registry.find(metric).unit for metric in metrics}
    scale = "Scores in percent" if units != {"distance"} else "Distances"
    if len(units) > 1:
        scale += ", thresholds as distances"
    runs = {row.runs for row in standings}
    if max(runs) > 1:
        number = f"{min(runs)} to {max(runs)}" if len(runs) > 1 else str(*runs)
        scale += f", means of {number} runs"
    if tables.is_lower_better(metrics):
        scale += f"; {language.lower} lower is better"
    lines = [f"{scale}.", *_about_cells(cells, standings, language), *meanings(metrics)]
    if any(one.best for one in judged.values()):
        lines.append("Best in bold.")
    level = levels(confidence)
    if any(one.tied for one in judged.values()):
        tied = language.above.format(level[0])
        lines.append(f"{language.tie_named}: no significant difference from the best ({tied}).")
    if any(one.stars for one in judged.values()):
        stars = ", ".join(_raised(language.star * n, language) for n in range(1, STARS + 1))
        at = [language.below.format(level[0]), *(f"{one:.3g}" for one in level[1:])]
        lines.append(f"{stars}: worse than the best ({', '.join(at)}).")
    if any(one.untested for one in judged.values()):
        lines.append(f"{_raised(language.dagger, language)}: no test against the best.")
    tests = _count_tests(differences)
    if tests:
        corrected = f", corrected for {count(tests, 'test')} (Holm)" if tests > 1 else ""
        lines.append(f"Paired tests by {language.escape(method)}{corrected}.")
    return lines


def _about_cells(cells: str, standings: Sequence[Standing], language: _Language) -> list[str]:
    """What stands behind the scores."""
    if cells == "runs":
        sign = language.number.format(language.deviation.split("{")[0].strip())
        return [f"{sign}: standard deviation over runs."]
    if cells == "value":
        return []
    levels = sorted({row.confidence for row in standings if row.interval and row.confidence})
    of = " and ".join(f"{100 * level:g}" for level in levels)
    several = [row.runs > 1 for row in standings]
    over = "test sets" + (" and runs" if any(several) else "")
    over += ", of single runs over test sets alone" if any(several) and not all(several) else ""
    return [language.escape(f"In brackets: intervals of {of} % over {over}.")]


def _raised(marks: str, language: _Language) -> str:
    return language.number.format(language.raised.format(marks))
