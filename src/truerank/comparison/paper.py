"""A comparison as a table to paste: models as rows, metrics as columns, marks and a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from truerank import tables, typesetting
from truerank.comparison.differences import Difference
from truerank.comparison.standings import Standing
from truerank.core import registry
from truerank.core.field_names import field_names, meanings
from truerank.errors import InputError, check_choice
from truerank.typesetting import LOWER, Table
from truerank.wording import count

__all__ = ["CELLS", "Judged", "as_latex", "as_markdown", "judge", "levels"]

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
    """Worse, but the test cannot tell it from the best."""
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
    typesetting.escape_markdown,
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
    typesetting.escape_latex,
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
    return f"{typesetting.pipes(table)}\n{' '.join(caption)}\n"


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
        *typesetting.fill(_enclosed(caption), typesetting.SOURCE_WIDTH),
        typesetting.tabular(table) + r"\end{table}",
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
        raise InputError("no score here has an interval; evaluate the models with intervals.")
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
) -> Table:
    """The cells, the models in the order in which they were given."""
    metrics = list(dict.fromkeys(metric for _, metric in judged))
    models = dict.fromkeys(name for row in differences for name in (row.first, row.second))
    names = field_names(metrics)
    header = ["model", *(language.escape(tables.marked(m, names[m])) for m in metrics)]
    rows = [
        [language.escape(model), *(cell(judged[model, metric], metric) for metric in metrics)]
        for model in models
    ]
    return Table(header, rows)


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
    if tables.explained(metrics):
        scale += f"; {language.lower} lower is better"
    lines = [f"{scale}.", *_about_cells(cells, standings, language), *meanings(metrics)]
    if any(one.best for one in judged.values()):
        lines.append("Best in bold.")
    level = levels(confidence)
    if any(one.tied for one in judged.values()):
        tied = language.above.format(level[0])
        lines.append(f"{language.tie_named}: not told apart from the best ({tied}).")
    if any(one.stars for one in judged.values()):
        stars = ", ".join(_raised(language.star * n, language) for n in range(1, STARS + 1))
        at = [language.below.format(level[0]), *(f"{one:.3g}" for one in level[1:])]
        lines.append(f"{stars}: worse than the best ({', '.join(at)}).")
    if any(one.untested for one in judged.values()):
        lines.append(f"{_raised(language.dagger, language)}: no test against the best.")
    tests = sum(row.p is not None for row in differences)
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
