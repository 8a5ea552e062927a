"""Tables of a result, whole or by parts of its queries: text, Markdown, LaTeX, CSV, HTML.

Metrics have the names of the field and scores are in percent; CSV has the names to ask for and
fractions. The text begins with the headline metrics and ends with at most two notes. A column
says what ties could add, where that shows in a printed digit; an arrow marks metrics for which
lower is better. `verbose` shows every column and every note. Parts (`Result.by`) have one row
per value, the worst first.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from truerank._util import text
from truerank._util.errors import InputError
from truerank._util.text import LOWER, TextTable, count
from truerank.core import registry
from truerank.core.registry import display_name, field_names
from truerank.core.score import Score
from truerank.distance import catalogue

if TYPE_CHECKING:
    from truerank.result.result import Result


HEADLINE = ("precision@1", "hit@1", "map@r", "map")
"""The metrics that papers compare, which stand first: of metric learning and of re-ID."""
FEW = 3
"""Other metrics than those of the headline that need no blank line between."""
NOTES = 2
"""Notes below a table that is not verbose."""
MISSING = "-"
"""What every table shows for a number that is not defined or was not computed."""


class Scored(Protocol):
    """A Result, as far as tables need it."""

    skipped: dict[str, str]
    provenance: dict[str, Any]

    def items(self) -> ItemsView[str, Score]:
        """Metric strings and their scores."""

    def values(self) -> ValuesView[Score]:
        """The scores, without their metric strings."""

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


def percent(value: float | None) -> str:
    """A share in percent, such as '12.34', or '-' for what is not defined."""
    return MISSING if value is None or value != value else f"{100 * value:.2f}"


def number(metric: str) -> Callable[[float | None], str]:
    """How a metric's values are written: in percent, but thresholds in the distance's unit."""
    known = registry.find(metric)

    def written(value: float | None) -> str:
        if value is None or value != value:
            return MISSING
        return f"{100 * value:.{known.decimals}f}" if known.unit == "share" else f"{value:.6g}"

    return written


def marked(metric: str, name: str | None = None) -> str:
    """The metric's name for people, or another one, with an arrow if lower is better."""
    name = display_name(metric) if name is None else name
    return name if registry.find(metric).higher_is_better else f"{name} {LOWER}"


def is_lower_better(metrics: Iterable[str]) -> bool:
    """Whether any of the metrics has an arrow, which needs an explanation."""
    return any(not registry.find(name).higher_is_better for name in metrics)


def headline_first(metrics: Iterable[str]) -> list[str]:
    """The metrics in the order in which they are shown."""
    names = list(metrics)
    first = [name for name in HEADLINE if name in names]
    return first + [name for name in names if name not in first]


def cells(
    result: Scored, adjusted: bool = False, *, verbose: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table people see; `adjusted` adds the chance-adjusted score."""
    scores = list(result.values())
    columns: list[tuple[str, Callable[[Score], str]]] = [
        ("metric", lambda score: marked(score.metric)),
        ("score", lambda score: number(score.metric)(score.value)),
    ]
    if verbose:
        columns.insert(1, ("name", lambda score: score.metric))
    if any(score.interval is not None for score in scores):
        columns.append((interval_header(result.provenance), interval))
    if "lists" in result.provenance and _shows_ties(result) and not verbose:
        columns.append(("upper", lambda score: number(score.metric)(score.upper)))
    elif _shows_ties(result) and not verbose:
        columns.append(("ties", _ties))
    elif verbose and any(score.tied for score in scores):
        columns.append(("expected", lambda score: number(score.metric)(score.expected)))
        columns.append(("upper", lambda score: number(score.metric)(score.upper)))
    if any(score.chance is not None for score in scores):
        columns.append(("chance", lambda score: percent(score.chance)))
    if adjusted:
        columns.append(("adjusted", lambda score: percent(score.adjusted)))
    if verbose:
        columns.append(("n", lambda score: count(score.n, score.counted)))
    header = [name for name, _ in columns]
    return header, [[shown(score) for _, shown in columns] for score in scores]


def interval(score: Score) -> str:
    """The ends of a score's interval as people read them."""
    return ends(score.interval, number(score.metric))


def ends(pair: tuple[float, float] | None, shown: Callable[[float | None], str]) -> str:
    """An interval as people read it: '12.00 to 14.50', or '-' without one."""
    return MISSING if pair is None else f"{shown(pair[0])} to {shown(pair[1])}"


def interval_header(facts: Mapping[str, Any]) -> str:
    """'95 % interval', as far as a result's provenance has the level of its intervals."""
    level = (facts.get("intervals") or {}).get("confidence")
    return f"{100 * level:g} % interval" if isinstance(level, float) else "interval"


def _ties(score: Score) -> str:
    """What a score could gain if ties counted for the model: '+0.07'."""
    if score.reason is not None:
        return MISSING
    best = score.upper if score.value == score.lower else score.lower
    gain = number(score.metric)(abs(best - score.value))
    return f"{'-+'[best > score.value]}{gain}" if set(gain) & set("123456789") else gain


def _shows_ties(result: Scored) -> bool:
    """Whether ties show in any printed digit."""
    return any(score.tied and _ties(score)[0] in "+-" for score in result.values())


def summary(result: Scored) -> list[str]:
    """All notes on a result: what was scored, what is missing and why, and how it came about."""
    facts = result.provenance
    if "lists" in facts and not len(result):  # nothing says what is relevant
        scored = f"{count(facts['queries'], 'query')}, {_distance(facts['distance'])}."
        return [scored, *_lists(facts["lists"]), *_answers(facts)]
    is_whole = "queries" in facts and not facts.get("part") and "trials" not in facts
    lines = [*_answers(facts), _reading(result), *_undefined(result)]
    lines += _problems(facts) if is_whole else []
    lines += [*_without_intervals(result), *_about_intervals(result)]
    lines += _about_task(facts) if is_whole else []
    lines += [
        f"{display_name(score.metric)}: bounded by {100 * score.bracket[0]:.4f} and "
        f"{100 * score.bracket[1]:.4f}."
        for score in result.values()
        if score.bracket is not None
    ]
    return [line for line in lines + _grouped("Skipped ", result.skipped) if line]


def _reading(result: Scored) -> str:
    """What was scored, and how to read the numbers."""
    facts = result.provenance
    units = {registry.find(metric).unit for metric in result}
    scale = "In percent" if units != {"distance"} else "Distances"
    scale += ", thresholds as distances" if len(units) > 1 else ""
    scale += f"; {LOWER} lower is better" if is_lower_better(result) else ""
    lines = [f"{what}." for what in [_scored(facts)] if what] + [f"{scale}."]
    if "lists" in facts:
        where = "last in score, next in upper"
        if facts["lists"].get("gallery_size", 0) is None:
            where = "worth nothing in score, next in upper"
        lines.append(f"What was not returned is {where}; ties count against the model in score.")
    elif _shows_ties(result):
        lines.append("Ties count against the model; column ties: the gain if they counted for it.")
    return " ".join(lines)


def _scored(facts: dict[str, Any]) -> str:
    """How many queries, among how many items, by which distance."""
    if facts.get("part"):
        return f"Part of a result: {count(facts['queries'], 'query')}"
    if "trials" in facts:
        return (
            f"{count(facts['trials']['positive'], 'positive trial')} and "
            f"{facts['trials']['negative']:,} negative, {_distance(facts['distance'])}"
        )
    if "queries" not in facts:
        return ""
    dropped, queries = facts["no_mate"], facts["queries"]
    why = ", ".join(_why(reason, number) for reason, number in dropped.items())
    scored = f"{count(queries, 'query')} scored"
    if dropped and facts["no_mate_option"] == "zero":
        scored += f", {sum(dropped.values()):,} of them as 0 ({why}),"
    elif dropped:
        scored = f"{queries - sum(dropped.values()):,} of {scored} ({why})"
    gallery = f"against {count(facts['gallery'], 'gallery item')}"
    gallery = "leave-one-out" if facts["leave_one_out"] else gallery
    if "gallery_size" in facts:
        gallery = (
            f"on average against galleries of {facts['gallery_size']:,} of the "
            f"{count(facts['gallery'], 'item')} that keep the query's relevant items"
        )
    average = ", mean over classes" if facts["average"] == "class" else ""
    return f"{scored} {gallery}, {_distance(facts['distance'])}{average}"


def _about_task(facts: dict[str, Any]) -> list[str]:
    """Sentences about the vectors, the lists and the rules of the task."""
    lines = []
    merged = facts["distance"].get("merged_rows")
    if merged:
        lines.append(
            f"{count(merged, 'distinct row')} became equal to another on the grid "
            f"({facts['distance']['grid']})."
        )
    alike = facts["distance"].get("rounded_alike")
    if alike:
        lines.append(
            f"{count(alike, 'distinct cosine')} tied with another by rounding, among those "
            "that were checked."
        )
    tree = facts.get("hierarchy")
    if tree is not None and tree["non_monotone_share"] > 0:
        lines.append(
            f"In {100 * tree['non_monotone_share']:.1f} % of the queries the relevance of H-AP "
            "puts a coarser match above a finer one (few coarse relevant items share much): use "
            "sum_wap."
        )
    if "lists" in facts:
        lines += _lists(facts["lists"])
    ties = facts.get("ties")
    if ties is not None and ties["queries"]:
        lines.append(
            f"Ties between relevant and irrelevant items in {count(ties['queries'], 'query')} "
            f"({count(ties['groups'], 'tie group')})."
        )
    if facts["excluded"] not in ([], ["each row itself"]):
        lines.append(f"Never ranked: {', '.join(map(text.reworded, facts['excluded']))}.")
    if facts.get("severity") is not None:
        lines.append(_severity(facts["severity"]))
    if facts.get("consistency") is not None:
        lines.append(_consistency(facts["consistency"]))
    return lines


def _distance(facts: dict[str, Any]) -> str:
    """'cosine distance', or what a matrix or a list of scores holds."""
    given = {
        "precomputed": "given distances",
        "similarity": "given similarities",
        "lists": "lists as returned",
    }
    return given.get(facts["distance"], f"{facts['distance']} distance")


def _lists(facts: dict[str, Any]) -> list[str]:
    """Sentences about lists: how long they are, and what is missing."""
    few, many = facts["shortest"], facts["longest"]
    places = f"{few:,} to {count(many, 'place')}" if few < many else count(many, "place")
    lines = [f"Lists of {places}."]
    if facts["taken_out"]:
        lines[0] = (
            f"Lists of {places}, without {facts['taken_out']:,} that the query itself or junk had."
        )
    missing = facts["missing"]
    if missing["mates"]:
        lines.append(
            f"{count(missing['mates'], 'relevant item')} of "
            f"{count(missing['queries'], 'query')} not returned."
        )
    return lines


def _answers(facts: dict[str, Any]) -> list[str]:
    """Numbers besides the scores that somebody asked for: they are always shown."""
    lines = []
    lists = facts.get("lists") or {}
    if (recall := lists.get("neighbour_recall")) is not None:
        shown = percent(recall["value"])
        if recall["interval"] is not None:
            shown += f" ({ends(tuple(recall['interval']), percent)})"
        lines.append(f"neighbour_recall@{recall['k']} against exact search: {shown}.")
    if "settle" in lists:
        found = lists["settle"]["k"]
        ks = ", ".join(f"{display_name(name)} {k:,}" for name, k in found.items() if k is not None)
        none = ", ".join(display_name(name) for name, k in found.items() if k is None)
        width = f"{100 * lists['settle']['width']:g} % between score and upper"
        lines += [f"Smallest k for at most {width}: {ks}."] if ks else []
        lines += [f"No k up to {lists['asked']:,} leaves at most {width}: {none}."] if none else []
    if facts.get("folds") is not None:
        folds = facts["folds"]["per_fold"]
        mean = facts["folds"]["accuracy"]
        spread = (sum((x - mean) ** 2 for x in folds) / (len(folds) - 1)) ** 0.5
        lines.append(
            f"Accuracy over {len(folds)} folds, each at the best threshold of the other folds: "
            f"{percent(mean)} (standard error {percent(spread / len(folds) ** 0.5)})."
        )
    return lines


def _problems(facts: dict[str, Any]) -> list[str]:
    """Sentences about rows and lists that somebody should look at."""
    lines = _zero_vectors(facts["distance"])
    lists = facts.get("lists") or {}
    if lists and (lists["repeated"] or lists["unknown"]):
        lines.append(
            f"Wrong in their places: {count(lists['repeated'], 'repeated item')}, "
            f"{count(lists['unknown'], 'unknown item')}."
        )
    return lines


_WHY = {
    "singleton": ("is alone in its class", "are alone in their class"),
    "all mates junk": ("has junk alone as relevant items",) * 2,
    "not in gallery": ("has no relevant item in the gallery",) * 2,
    "unjudged": ("is unjudged", "are unjudged"),
}
"""Reasons why queries are unmated, of one query and of several."""


def _why(reason: str, queries: int) -> str:
    """How many queries have no relevant item for this reason: '2 are alone in their class'."""
    one, several = _WHY.get(reason, (reason, reason))
    words = one if queries == 1 else several.replace("has ", "have ")
    return f"{queries:,} {words}"


def _zero_vectors(facts: dict[str, Any]) -> list[str]:
    zeros = facts.get("zero_rows")
    known = facts["distance"] in catalogue.names()
    where = catalogue.find(facts["distance"]).zeros if known else ""
    if not zeros or where is None:
        return []
    what = "is a zero vector" if zeros == 1 else "are zero vectors"
    return [f"{count(zeros, 'row')} {what}{where}."]


def _undefined(result: Scored) -> list[str]:
    """Sentences that say why scores are not defined, which are dashes in the table."""
    return _grouped("", {score.metric: score.reason for score in result.values() if score.reason})


def _grouped(start: str, reasons: Mapping[str, str]) -> list[str]:
    """A sentence for each reason, with all the metrics that it concerns."""
    metrics: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        metrics.setdefault(reason, []).append(display_name(name))
    return [f"{start}{', '.join(names)}: {reason}." for reason, names in metrics.items()]


def _without_intervals(result: Scored) -> list[str]:
    """Sentences that say why scores have no interval."""
    reasons = {
        score.metric: score.interval_reason
        for score in result.values()
        if score.interval_reason is not None
    }
    if len(reasons) == len(result) and len(set(reasons.values())) == 1:
        return [f"No interval: {next(iter(reasons.values()))}."]
    return _grouped("No interval for ", reasons)


def _about_intervals(result: Scored) -> list[str]:
    """Sentences that say how the intervals came about."""
    facts = result.provenance.get("intervals")
    held = {score.metric for score in result.values() if score.interval is not None}
    if facts is None or not held:
        return []
    method, target = reworded_method(facts["method"]), reworded_method(facts["truth"])
    by_level: dict[str, list[str]] = {}
    for name, level in facts.get("units", {}).items():
        if name in held:
            by_level.setdefault(level, []).append(display_name(name))
    lines = [f"{100 * facts['confidence']:g} % intervals by {method}; {target}."]
    return lines + [f"Classes of {level} for {', '.join(of)}." for level, of in by_level.items()]


def reworded_method(method: str) -> str:
    """A stored method of intervals as people read it."""
    for stored, shown in _METHODS.items():
        method = method.replace(stored, shown)
    return method


_METHODS = {
    ", ratio estimator": "",
    "; jackknife over": "; by delete-one jackknife over",
    "; delete-group": "; by delete-group",
    "jackknife over the classes, each left out": "jackknife over the classes",
    "jackknife over the queries, each left out": "jackknife over the queries",
    "where the data set a threshold": "for metrics whose threshold the data determine",
    "expectation over new data sets of the same design: new classes, same sizes": (
        "they cover the expected score on new classes of the same sizes"
    ),
    "expectation over new people, paired in the same way": (
        "they cover the expected score on new people, paired in the same way"
    ),
}
"""Parts of what results store about their intervals, and how people read them."""


def _consistency(facts: dict[str, Any]) -> str:
    worst = ", ".join(one["label"] for one in facts["worst"][:3])
    left_out = ""
    if facts["left_out"]:
        left_out = f" ({facts['left_out']:,} without a positive pair left out)"
    return (
        f"OPIS compares {facts['classes']:,} classes{left_out} at thresholds from "
        f"{facts['low']:.4g} to {facts['high']:.4g}; noise alone gives about "
        f"{number('opis')(facts['noise'])}; lowest utility: {worst}."
    )


def _severity(facts: dict[str, Any]) -> str:
    from truerank.result.curves import Severity

    return str(Severity(facts["queries"], facts["errors"], facts["by_level"], {}))


def as_text(
    result: Scored, adjusted: bool = False, *, rule: bool = False, verbose: bool = False
) -> str:
    """A result as plain text, as wide as the screen."""
    if not len(result):
        return text.printable("\n".join(text.fill(summary(result), text.prose_width())))
    header, rows = cells(result, adjusted, verbose=verbose)
    by_name = dict(zip(result, rows, strict=True))
    order = headline_first(result)
    headline = sum(name in HEADLINE for name in order)
    shown = [by_name[name] for name in order]
    if headline and len(order) > headline + FEW:
        shown.insert(headline, [""] * len(header))
    strong = {(row, column) for row in range(headline) for column in range(2 + verbose)}
    words = (0, 1) if verbose else (0,)
    table = TextTable(header, shown, words, frozenset(strong))
    answers = _answers(result.provenance)
    notes = summary(result)[len(answers) :]
    more = "" if verbose else "result.notes"
    return laid_out(table, notes, answers=answers, rule=rule, more=more)


def laid_out(
    table: TextTable,
    notes: Iterable[str] = (),
    *,
    answers: Iterable[str] = (),
    rule: bool = False,
    more: str = "",
) -> str:
    """A table and the notes below it as plain text, as wide as the screen.

    `rule` draws a line below the header and, on a terminal that has it, sets bold and faint type.
    `more` shows at most two notes and says where the others are; `answers` are shown in any case.
    """
    styled = rule and text.has_styles()
    width = text.prose_width()
    above, below = text.fill(answers, width), text.fill(shortlist(list(notes), more), width)
    below = [text.faint(line) for line in below] if styled else below
    shown = [text.text(table, text.screen_width(), rule=rule, styled=styled)]
    shown += ["\n".join(lines) for lines in (above, below) if lines]
    return text.printable("\n\n".join(shown))


def shortlist(notes: list[str], more: str = "") -> list[str]:
    """All notes as a list, or the first ones and where `more` are."""
    if not more:
        return notes if len(notes) <= NOTES else [f"- {note}" for note in notes]
    rest = len(notes) - NOTES
    if rest <= 0:
        return notes
    where = f" ({count(rest, 'more note')}: {more}, --verbose)"
    return [*notes[: NOTES - 1], notes[NOTES - 1] + where]


def as_markdown(result: Scored, adjusted: bool = False) -> str:
    """A result as a Markdown table, and below it why scores are not defined."""
    lines = map(text.escape_markdown, _undefined(result))
    reasons = "".join(f"- {line}\n" for line in lines)
    table = text.markdown(_ordered(result, adjusted))
    return table + (f"\n{reasons}" if reasons else "")


def as_html(result: Scored) -> str:
    """A result as a notebook shows it: the table, and the first notes below it."""
    answers = _answers(result.provenance)
    notes = [*answers, *shortlist(summary(result)[len(answers) :], "result.notes")]
    return text.block(text.table(_ordered(result)), text.paragraphs(notes))


def as_latex(result: Scored, adjusted: bool = False) -> str:
    """A result as a booktabs tabular, and in comments why scores are not defined."""
    table = text.latex(_ordered(result, adjusted, field_names(result)))
    reasons = (text.visible(" ".join(line.split())) for line in _undefined(result))
    return table + "".join(f"% {line}\n" for line in reasons)


def _ordered(
    result: Scored, adjusted: bool = False, names: Mapping[str, str] | None = None
) -> TextTable:
    """The table with the headline first, under other names if there are some."""
    header, rows = cells(result, adjusted)
    by_name = dict(zip(result, rows, strict=True))
    for name, other in (names or {}).items():
        by_name[name][0] = marked(name, other)
    return TextTable(header, [by_name[name] for name in headline_first(result)])


def as_csv(result: Scored) -> str:
    """A result as CSV: fractions at full precision, empty cells for what is not defined."""
    fields = ["value", "lower", "expected", "upper", "chance", "n", "reason"]
    fields += ["interval_low", "interval_high", "attainable", "adjusted", "counted"]
    rows = []
    for name, score in result.items():
        data = score.to_dict(per_query=False)
        data["interval_low"], data["interval_high"] = score.interval or (None, None)
        rows.append([name, *(data[key] for key in fields)])
    return text.separated(["metric", *fields], rows)


# Parts of a result (Result.by) beside each other, the worst first: one row for each value.


@dataclass(frozen=True)
class Parts:
    """The parts of a result by an attribute, the worst first in its first metric."""

    attribute: str
    rows: list[tuple[Any, Result]]
    """Values of the attribute and the results of their queries."""
    metrics: list[str]
    of: int
    """How many parts there are in all."""

    @staticmethod
    def of_result(result: Result, attribute: str, most: int | None = None) -> Parts:
        """Split a result, and keep so many of the worst parts.

        Examples
        --------
        >>> import truerank
        >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
        >>> [(label, part["map@r"].value) for label, part in Parts.of_result(r, "label").rows]
        [('b', 0.5), ('a', 1.0)]
        """
        metrics = [name for name, score in result.items() if score.per_query is not None]
        if not metrics:
            raise InputError("none of these metrics is a mean over queries, which could be split.")
        first = metrics[0]
        parts = result.by(attribute, metrics=[first])
        sign = 1 if registry.find(first).higher_is_better else -1

        def order(row: tuple[Any, Result]) -> tuple[bool, float, int]:
            value = row[1][first].value
            undefined = value != value
            return undefined, 0.0 if undefined else sign * value, -_queries(row[1])

        worst = [value for value, _ in sorted(parts.items(), key=order)[:most]]
        whole = result.by(attribute, values=set(worst))
        return Parts(attribute, [(value, whole[value]) for value in worst], metrics, len(parts))

    def forms(self) -> Mapping[str, Any]:
        """What gives the text in each format but plain text."""
        return {
            "json": self.to_json,
            "csv": self.to_csv,
            "markdown": lambda: text.markdown(self.table()),
            "latex": lambda: text.latex(self.table()),
        }

    def table(self) -> TextTable:
        """Cells for people, in percent."""
        names = field_names(self.metrics)
        header = [self.attribute, *(marked(m, names[m]) for m in self.metrics), "queries"]
        rows = [
            [
                str(value),
                *(number(metric)(part[metric].value) for metric in self.metrics),
                f"{_queries(part):,}",
            ]
            for value, part in self.rows
        ]
        return TextTable(header, rows)

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen."""
        sentence = (
            f"{count(self.of, 'part')} by {self.attribute}, the worst in "
            f"{field_names(self.metrics)[self.metrics[0]]} first"
        )
        if len(self.rows) < self.of:
            sentence += f"; {len(self.rows):,} are shown"
        return laid_out(self.table(), [f"{sentence}."], rule=rule)

    def to_csv(self) -> str:
        """Comma-separated values, in fractions, at full precision."""
        rows = [
            [value, *(_plain(part[metric].value) for metric in self.metrics), _queries(part)]
            for value, part in self.rows
        ]
        return text.separated([self.attribute, *self.metrics, "queries"], rows)

    def to_json(self) -> str:
        """JSON text."""
        from truerank._util.files import to_json

        parts = [
            {
                "value": str(value),
                "queries": _queries(part),
                "scores": {metric: _plain(part[metric].value) for metric in self.metrics},
            }
            for value, part in self.rows
        ]
        return to_json({"format": "truerank-parts", "by": self.attribute, "parts": parts})


def _queries(part: Result) -> int:
    return int(part.provenance["queries"])


def _plain(value: float) -> float | None:
    return None if value != value else value
