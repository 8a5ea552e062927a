"""Tables of a result, whole or by parts of its queries: text, Markdown, LaTeX, CSV, HTML.

Percent for people, fractions in CSV. Expected and upper bound are shown only where ties leave
more than a single number. The last column says what was counted; an arrow marks metrics for
which lower is better. Parts (`Result.by`) have one row per value, the worst first.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from truerank._util import text
from truerank._util.errors import InputError
from truerank._util.text import LOWER, TextTable, count, plural
from truerank.core import registry
from truerank.core.score import Score
from truerank.distance import catalogue

if TYPE_CHECKING:
    from truerank.result.result import Result


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
    return "-" if value is None or value != value else f"{100 * value:.2f}"


def number(metric: str) -> Callable[[float | None], str]:
    """How a metric's values are written: in percent, but thresholds in the distance's unit."""
    from truerank.core import registry

    known = registry.find(metric)

    def written(value: float | None) -> str:
        if value is None or value != value:
            return "-"
        return f"{100 * value:.{known.decimals}f}" if known.unit == "share" else f"{value:.6g}"

    return written


def marked(metric: str, name: str | None = None) -> str:
    """The metric, or another name of it, with an arrow if lower is better."""
    from truerank.core import registry

    higher = registry.find(metric).higher_is_better
    return (name or metric) if higher else f"{name or metric} {LOWER}"


def explained(metrics: Iterable[str]) -> list[str]:
    """A line that explains the arrow, if any of the metrics has it."""
    return [f"{LOWER} lower is better."] if any(LOWER in marked(name) for name in metrics) else []


def cells(result: Scored, adjusted: bool = False) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table people see; `adjusted` adds the chance-adjusted score."""
    scores = list(result.values())
    tied = any(score.tied for score in scores)
    intervals = any(score.interval is not None for score in scores)
    chance = any(score.chance is not None for score in scores)
    header = ["metric", "score"]
    header += ["expected", "upper"] if tied else []
    header += ["interval"] if intervals else []
    header += ["chance"] if chance else []
    header += ["adjusted"] if adjusted else []
    units = {score.counted for score in scores if score.n} or {"query"}
    header += [plural(*units) if len(units) == 1 else "n"]
    rows = []
    for score in scores:
        shown = number(score.metric)
        row = [marked(score.metric), shown(score.value)]
        if tied:
            row += [shown(score.expected), shown(score.upper)] if score.tied else ["", ""]
        if intervals:
            row.append(interval(score))
        if chance:
            row.append(percent(score.chance))
        if adjusted:
            row.append(percent(score.adjusted))
        in_header = len(units) == 1 or not score.n
        rows.append([*row, f"{score.n:,}" if in_header else count(score.n, score.counted)])
    return header, rows


def interval(score: Score) -> str:
    """The ends of a score's interval as people read them; empty without one."""
    if score.interval is None:
        return ""
    shown = number(score.metric)
    return f"{shown(score.interval[0])} to {shown(score.interval[1])}"


def summary(result: Scored) -> list[str]:
    """Sentences below the table: how to read it, what was ranked, left out and tied."""
    facts = result.provenance
    lines = [*_undefined(result), *explained(result)]
    if facts.get("part"):
        lines.append(f"Part of a result: {count(facts['queries'], 'query')}.")
    elif "trials" in facts:
        lines += _trials(facts)
    elif "queries" in facts:
        gallery = (
            "leave-one-out"
            if facts["leave_one_out"]
            else f"against {count(facts['gallery'], 'gallery item')}"
        )
        lines.append(
            f"{count(facts['queries'], 'query')} {gallery}, "
            f"{_distance(facts['distance'])}, "
            f"mean over {'classes' if facts['average'] == 'class' else 'queries'}; "
            f"score is the lower bound over ties{_and_lists(facts)}, in percent{_but_for(result)}."
        )
        if "lists" in facts:
            lines += _lists(facts["lists"])
        if "gallery_size" in facts:
            lines.append(
                f"On average over galleries of {facts['gallery_size']:,} of the "
                f"{count(facts['gallery'], 'item')}; each query's relevant items stay."
            )
        if facts["excluded"] not in ([], ["each row itself"]):
            lines.append(f"Never ranked: {', '.join(map(text.reworded, facts['excluded']))}.")
        dropped = facts["no_mate"]
        if dropped:
            parts = ", ".join(_why(reason, number) for reason, number in dropped.items())
            fate = "counted as 0" if facts["no_mate_option"] == "zero" else "left out"
            lines.append(f"{count(sum(dropped.values()), 'unmated query')} {fate}: {parts}.")
        ties = facts.get("ties")
        if ties is not None and ties["queries"]:
            lines.append(
                f"Ties between relevant and irrelevant items in {count(ties['queries'], 'query')} "
                f"({count(ties['groups'], 'tie group')})."
            )
        if facts.get("severity") is not None:
            lines.append(_severity(facts["severity"]))
        if facts.get("consistency") is not None:
            lines.append(_consistency(facts["consistency"]))
        lines += _zero_vectors(facts["distance"])
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
                f"In {100 * tree['non_monotone_share']:.1f} % of the queries h_ap's relevance puts "
                "a coarser match above a finer one (few coarse relevant items share much): read "
                "sum_wap."
            )
    lines += [
        f"{score.metric}: bounded by {100 * score.bracket[0]:.4f} and {100 * score.bracket[1]:.4f}."
        for score in result.values()
        if score.bracket is not None
    ]
    lines += _about_intervals(result)
    return lines + _grouped("Skipped ", result.skipped)


def _distance(facts: dict[str, Any]) -> str:
    """'cosine distance', or what a matrix or a list of scores holds."""
    given = {
        "precomputed": "given distances",
        "similarity": "given similarities",
        "lists": "lists as returned",
    }
    return given.get(facts["distance"], f"{facts['distance']} distance")


def _and_lists(facts: dict[str, Any]) -> str:
    return " and over what was not returned" if "lists" in facts else ""


def _lists(facts: dict[str, Any]) -> list[str]:
    """Sentences about lists: how long, what was wrong in them, what is missing, what settles."""
    few, many = facts["shortest"], facts["longest"]
    places = f"{few:,} to {count(many, 'place')}" if few < many else count(many, "place")
    lines = [f"Lists of {places}."]
    if facts["taken_out"]:
        lines[0] = (
            f"Lists of {places}, without {facts['taken_out']:,} that the query itself or junk had."
        )
    if facts["repeated"] or facts["unknown"]:
        lines.append(
            f"Wrong in their places: {count(facts['repeated'], 'repeated item')}, "
            f"{count(facts['unknown'], 'unknown item')}."
        )
    missing = facts["missing"]
    if missing["mates"]:
        known = facts.get("gallery_size", 0) is not None
        where = "last in the score, next in upper, anywhere behind the list in expected"
        where = where if known else "worth nothing in score and expected, next in upper"
        lines.append(
            f"{count(missing['mates'], 'relevant item')} of "
            f"{count(missing['queries'], 'query')} not returned: {where}."
        )
    if (recall := facts.get("neighbour_recall")) is not None:
        shown = percent(recall["value"])
        if recall["interval"] is not None:
            shown += f" ({' to '.join(map(percent, recall['interval']))})"
        lines.append(f"neighbour_recall@{recall['k']} against exact search: {shown}.")
    if "settle" in facts:
        found = facts["settle"]["k"]
        ks = ", ".join(f"{name} {k:,}" for name, k in found.items() if k is not None)
        none = ", ".join(name for name, k in found.items() if k is None)
        width = f"{100 * facts['settle']['width']:g} % between score and upper"
        lines += [f"Smallest k for at most {width}: {ks}."] if ks else []
        lines += [f"No k up to {facts['asked']:,} leaves at most {width}: {none}."] if none else []
    return lines


def _why(reason: str, queries: int) -> str:
    """How many queries have no relevant item for this reason, such as '2 singletons'."""
    return (
        count(queries, reason) if reason == "singleton" else f"{queries:,} {text.reworded(reason)}"
    )


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
        metrics.setdefault(reason, []).append(name)
    return [f"{start}{', '.join(names)}: {reason}." for reason, names in metrics.items()]


def _trials(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"{count(facts['trials']['positive'], 'positive trial')} and "
        f"{facts['trials']['negative']:,} negative, {_distance(facts['distance'])}."
    ]
    if facts["folds"] is not None:
        folds = facts["folds"]["per_fold"]
        spread = (
            sum((x - facts["folds"]["accuracy"]) ** 2 for x in folds) / (len(folds) - 1)
        ) ** 0.5
        lines.append(
            f"Accuracy over {len(folds)} folds, each at the best threshold of the other folds: "
            f"{percent(facts['folds']['accuracy'])} (standard error "
            f"{percent(spread / len(folds) ** 0.5)})."
        )
    return lines


def _about_intervals(result: Scored) -> list[str]:
    """Sentences that say how the intervals came about, and why scores have none."""
    facts = result.provenance.get("intervals")
    lines = []
    if facts is not None and any(score.interval is not None for score in result.values()):
        lines.append(
            f"Intervals of {100 * facts['confidence']:g} % by {facts['method']}; {facts['truth']}."
        )
        held = {score.metric for score in result.values() if score.interval is not None}
        by_level: dict[str, list[str]] = {}
        for name, level in facts.get("units", {}).items():
            if name in held:
                by_level.setdefault(level, []).append(name)
        lines += [f"Classes of {level} for {', '.join(of)}." for level, of in by_level.items()]
    without: dict[str, list[str]] = {}
    for score in result.values():
        if score.interval_reason is not None:
            without.setdefault(score.interval_reason, []).append(score.metric)
    for reason, names in without.items():
        which = "" if len(names) == len(result) else f" for {', '.join(names)}"
        lines.append(f"No interval{which}: {reason}.")
    return lines


def _but_for(result: Scored) -> str:
    """An exception to 'in percent', where some metrics are thresholds."""
    from truerank.core import registry

    units = {registry.find(metric).unit for metric in result}
    return ", but for thresholds" if units - {"share"} else ""


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


def as_text(result: Scored, adjusted: bool = False, *, rule: bool = False) -> str:
    """A result as plain text, as wide as the screen."""
    return laid_out(TextTable(*cells(result, adjusted)), summary(result), rule=rule)


def laid_out(table: TextTable, sentences: Iterable[str] = (), *, rule: bool = False) -> str:
    """A table and the sentences below it as plain text, as wide as the screen."""
    width = text.screen_width()
    lines = [text.text(table, width, rule=rule), *text.fill(sentences, width)]
    return text.printable("\n".join(lines))


def as_markdown(result: Scored, adjusted: bool = False) -> str:
    """A result as a Markdown table, and below it why scores are not defined."""
    lines = map(text.escape_markdown, _undefined(result))
    reasons = "".join(f"- {line}\n" for line in lines)
    table = text.markdown(TextTable(*cells(result, adjusted)))
    return table + (f"\n{reasons}" if reasons else "")


def as_html(result: Scored) -> str:
    """A result as a notebook shows it: the table, and the sentences below it."""
    table = text.table(TextTable(*cells(result)))
    return text.block(table, text.paragraphs(summary(result)))


def as_latex(result: Scored, adjusted: bool = False) -> str:
    """A result as a booktabs tabular, and in comments why scores are not defined."""
    table = text.latex(TextTable(*cells(result, adjusted)))
    reasons = (text.visible(" ".join(line.split())) for line in _undefined(result))
    return table + "".join(f"% {line}\n" for line in reasons)


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
        header = [self.attribute, *map(marked, self.metrics), "queries"]
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
            f"{count(self.of, 'part')} by {self.attribute}, the worst in {self.metrics[0]} first"
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
