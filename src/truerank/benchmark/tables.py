"""Table of a benchmark as JSON, text, Markdown, LaTeX and CSV, and its figures as SVG and PNG.

Its JSON holds no time and no path: the same trainings give the same bytes. Without matplotlib
no figure is drawn, and a warning says so.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from truerank._util.errors import InputError, TruerankWarning
from truerank._util.files import atomic_path, to_json, write_text
from truerank._util.text import count as count_of
from truerank._util.text import separated, visible
from truerank.benchmark import papers
from truerank.benchmark.config import RESERVED, SPLITS, BenchmarkConfig, read
from truerank.benchmark.holdout import Openings, read_reruns
from truerank.benchmark.layout import DEFAULT, Layout
from truerank.benchmark.methods import (
    CLAIMED,
    SOURCE,
    Method,
    at_border,
    deviations,
    known_parameters,
    methods_of,
    shown_name,
    year_of,
)
from truerank.benchmark.plan import Plan
from truerank.benchmark.search import BEHIND
from truerank.benchmark.statistics import (
    PARTS,
    compare_methods,
    numbers,
    over_classes,
    read_runs,
    spread,
    trend,
    verdict,
)
from truerank.benchmark.tasks import TITLE
from truerank.io.reading import read_json
from truerank.losses.registry import SearchRange
from truerank.result.result import Result

# The table of a benchmark: numbers from reruns.csv, with what is needed to believe them.
#
# Its JSON holds no time and no path: the same trainings give the same bytes.


@dataclass(frozen=True)
class Table:
    """The finished table; `content` is what table.json holds."""

    content: dict[str, Any]

    def __str__(self) -> str:
        return as_text(self.content)

    def _repr_markdown_(self) -> str:
        return as_markdown(self.content)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A mapping for each row, in the order of the table."""
        rows: list[dict[str, Any]] = self.content["rows"]
        return rows

    def row(self, method: str) -> dict[str, Any]:
        """The row of a method."""
        return next(row for row in self.rows if row["method"] == method)

    def write(self, layout: Layout) -> None:
        """Write it as JSON, CSV, Markdown and LaTeX."""
        to_json(self.content, layout.table("json"))
        write_text(layout.table("csv"), as_csv(self.content))
        write_text(layout.table("md"), as_markdown(self.content))
        write_text(layout.table("tex"), as_latex(self.content))


def make_table(
    config: BenchmarkConfig,
    layout: Layout,
    methods: Sequence[Method],
    plan: Plan,
    openings: Openings,
) -> Table:
    """Put the table together from the folder's files."""
    found = numbers(read_reruns(layout.reruns))
    metric = config.protocol.metric
    trained = [method for method in methods if method.is_trained]
    runs = read_runs(layout, [one.name for one in trained], plan.reruns, plan.folds)
    compared = {part: compare_methods(runs[part], metric) for part in PARTS}
    linear = config.shared.model.trunk == "frozen"
    rows = [_baseline_row(name, found[name]) for name in RESERVED]
    for method in methods:
        if not method.is_trained:
            rows.append(_finished_row(method, found[method.name]))
            continue
        row = _row(method, found[method.name], plan)
        row["ranks"] = {part: compared[part]["ranks"][method.name] for part in PARTS}
        row["second_looks"] = openings.second_looks(method.name)
        rows.append(row)
    brought = [method.name for method in methods if not method.is_trained]
    beside = read_runs(layout, RESERVED, ["0"], plan.folds), read_runs(layout, brought, ["0"], 0)
    every = {part: runs[part] | beside[0][part] | beside[1][part] for part in PARTS}
    for row in rows:
        _put_classes(row, every)
    protocol = config.protocol
    protocol_rows = [row for row in rows if "parameters" in row]
    content = {
        "title": TITLE if linear else f"{config.data.name}, {config.shared.model.trunk}",
        "lane": "linear" if linear else "end to end",
        "data": config.data.name,
        "split": config.data.split if config.data.split in SPLITS else "file",
        "preset": protocol.preset,
        "folds": protocol.folds,
        "trials": protocol.trials,
        "startup": protocol.startup,
        "reruns": protocol.reruns,
        "seed": protocol.seed,
        "metric": metric,
        "metrics": config.metrics,
        "dimensions": config.shared.model.dimensions,
        "deviations": deviations(config),
        "rows": rows,
        "comparison": {part: {k: compared[part][k] for k in ("pairs", "method")} for part in PARTS},
        "verdict": None if linear else {part: verdict(runs[part], metric) for part in PARTS},
        "spread": {part: spread(protocol_rows, part, metric) for part in PARTS},
        "trend": {part: trend(protocol_rows, part, metric) for part in PARTS},
        "openings": {
            "count": openings.count,
            "second_looks": openings.second_looks(),
            "head": openings.head,
        },
    }
    return Table(content)


def _put_classes(row: dict[str, Any], runs: dict[str, dict[str, list[Result]]]) -> None:
    """Put the interval over test classes beside each score's interval over the reruns."""
    for part in PARTS:
        for metric, score in row[part].items():
            score["classes"] = over_classes(runs[part][row["method"]], metric)


def _baseline_row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": name,
        "name": {"untrained": "Untrained", "untrained+pca": "Untrained + PCA"}[name],
        "kind": "untrained",
        **{part: found.get(part, {}) for part in PARTS},
        "notes": [],
    }


def _finished_row(method: Method, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": method.name,
        "name": method.name,
        "kind": "finished",
        **{part: found.get(part, {}) for part in PARTS},
        "notes": ["outside the protocol"],
    }


def _row(method: Method, found: dict[str, Any], plan: Plan) -> dict[str, Any]:
    best = plan.studies.best(method.name)
    trials = plan.studies.finished(method.name)
    borders = {
        name: border
        for name, value in best.parameters.items()
        if (border := at_border(method.space[name], value)) is not None
    }
    again = [
        outcome
        for rerun in plan.reruns
        if rerun != DEFAULT
        for outcome in plan.outcomes(method.name, rerun)
    ]
    notes = []
    if method.objective is not None:
        goal = method.objective
        notes.append(
            f"searched for the smallest {goal.minimise} that keeps up with {goal.of} less "
            f"{100 * goal.less:g} points"
        )
        if best.score is not None and best.score <= BEHIND:
            notes.append("no trial kept up")
    for name, border in borders.items():
        notes.append(f"{name} at the {border} end of its range")
    diverged = sum(trial.state == "diverged" for trial in trials)
    if diverged:
        notes.append(f"{diverged} of {len(trials)} trials diverged")
    lost = sum(outcome.state == "diverged" for outcome in again)
    if lost:
        notes.append(f"{lost} of {len(again)} trainings of the reruns diverged")
    idle = sum(outcome.best_epoch == 0 for outcome in again)
    if idle:
        notes.append(f"{idle} of {len(again)} trainings were best before they began")
    return {
        "method": method.name,
        "name": shown_name(method),
        "year": year_of(method),
        "kind": method.kind,
        **{part: found.get(part, {}) for part in PARTS},
        "default": {part: found.get(f"default {part}", {}) for part in PARTS},
        "validation": {
            "score": best.score,
            "default": trials[0].score,
            "best_trial": best.number,
        },
        "parameters": best.parameters,
        "default_parameters": dict(method.defaults),
        "borders": borders,
        "diverged_trials": diverged,
        "notes": notes,
    }


# The table as people read it: on a terminal, in Markdown, LaTeX and CSV, as the paper's 3 to 5.
#
# The content of table.json comes in, text goes out; percent, with the half width of the interval.


SHORT = {"precision@1": "P@1", "r_precision": "RP", "map@r": "MAP@R"}
HEADINGS = {"concatenated": "Concatenated", "separated": "Separated"}
Content = dict[str, Any]


def _columns(content: Content) -> list[tuple[str, str]]:
    return [(part, metric) for part in PARTS for metric in content["metrics"]]


def _heading(content: Content, part: str) -> str:
    size = content["dimensions"] * (content["folds"] if part == "concatenated" else 1)
    return f"{HEADINGS[part]} ({size}-dim)"


def _best(content: Content) -> dict[tuple[str, str], float]:
    """The best mean of each column among the methods of the protocol."""
    from truerank.core import registry

    best = {}
    for part, metric in _columns(content):
        known = [
            row[part][metric]["mean"]
            for row in content["rows"]
            if row["kind"] not in ("untrained", "finished") and metric in row[part]
        ]
        higher = registry.find(metric).higher_is_better
        if known:
            best[part, metric] = max(known) if higher else min(known)
    return best


def _cell(score: dict[str, Any] | None, metric: str, plus_minus: str, classes: bool = False) -> str:
    """The mean with the half width of its interval, and in brackets of that over test classes."""
    if score is None:
        return ""
    text = f"{_scale(metric) * score['mean']:.2f}"
    if score["interval"] is not None:
        text += f" {plus_minus} {_half(score['interval'], metric)}"
    if classes and score.get("classes") is not None:
        text += f" ({plus_minus} {_half(score['classes'], metric)})"
    return text


def _half(interval: Sequence[float], metric: str) -> str:
    return f"{_scale(metric) * (interval[1] - interval[0]) / 2:.2f}"


def _scale(metric: str) -> int:
    """Scores are shown in percent; OPIS, which is far smaller, in thousandths as in its paper."""
    return 1000 if _is_opis(metric) else 100


def _is_opis(metric: str) -> bool:
    return metric.partition("@")[0] == "opis"


def _ranks(row: dict[str, Any], part: str) -> str:
    if "ranks" not in row:
        return ""
    low, high = row["ranks"][part]
    return str(low) if low == high else f"{low}-{high}"


def _grid(content: Content, plus_minus: str, bold: tuple[str, str]) -> list[list[str]]:
    """A line for each row: its name and, for each part, the metrics and the ranks."""
    best = _best(content)
    lines = []
    for row in content["rows"]:
        cells = [row["name"]]
        for part in PARTS:
            for metric in content["metrics"]:
                score = row[part].get(metric)
                text = _cell(score, metric, plus_minus, metric == content["metric"])
                takes_part = score is not None and row["kind"] not in ("untrained", "finished")
                if takes_part and score["mean"] == best.get((part, metric)):
                    text = f"{bold[0]}{text}{bold[1]}"
                cells.append(text)
            cells.append(_ranks(row, part))
        lines.append(cells)
    return lines


def _headings(content: Content) -> list[str]:
    """Above the cells of one part."""
    return [*map(_short, content["metrics"]), "ranks"]


def _short(metric: str) -> str:
    return f"1000 x {metric}" if _is_opis(metric) else SHORT.get(metric, metric)


def legend(content: Content) -> list[str]:
    """Sentences below a table: what it is, what it deviates in, what to be careful about."""
    count = content["reruns"]
    lines = [
        f"{content['title']}: {content['trials']} trials per method, {content['folds']} folds, "
        f"{count} rerun{'s' if count != 1 else ''}; percent{_thousandths(content)}, with 95 % "
        f"intervals over the reruns{_over_classes(content)}.",
        "Ranks are ranges: significant differences over runs and test classes (Holm over all "
        "pairs) set their ends. No interval includes the variation of the search itself.",
    ]
    if any(row["kind"] == "untrained" for row in content["rows"]):
        lines.append(
            "Untrained: all features of the trunk, without a head; + PCA: in the dimensions "
            "of the heading."
        )
    if content["lane"] == "linear":
        lines.append(
            "A head on fixed features compresses differences between losses: this table decides no "
            "verdict about them."
        )
    if content["deviations"]:
        lines.append(f"Deviates from the paper: {'; '.join(content['deviations'])}.")
    for part, found in (content["verdict"] or {}).items():
        if found is not None and found["gain"] is not None:
            ends = found["interval"]
            where = " (no interval)"
            if ends is not None:
                where = (
                    f", {100 * ends[0]:+.1f} % to {100 * ends[1]:+.1f} % "
                    "(simultaneous 95 % interval)"
                )
            against = " against contrastive"
            if found["gain"] < 0:
                against = ", the best beside contrastive, against it"
            lines.append(
                f"{HEADINGS[part]}: {found['best']}{against} {100 * found['gain']:+.1f} "
                f"%{where}: {found['verdict']}."
            )
    for part in PARTS:
        lines += _apart(content, part)
    for row in content["rows"]:
        if row["notes"]:
            lines.append(f"{row['name']}: {'; '.join(row['notes'])}.")
    looks = content["openings"]
    again = looks["second_looks"]
    lines.append(
        f"{count_of(looks['count'], 'test evaluation')}; {again} of them "
        f"{'was a repetition' if again == 1 else 'were repetitions'}."
    )
    return lines


def _thousandths(content: Content) -> str:
    return " (OPIS: thousandths)" if any(map(_is_opis, content.get("metrics", ()))) else ""


def _over_classes(content: Content) -> str:
    """What stands in brackets, if anything does: tables of earlier versions have none."""
    metric = content["metric"]
    known = (row[part].get(metric, {}) for row in content["rows"] for part in PARTS)
    if not any(score.get("classes") for score in known):
        return ""
    return f", in brackets of {_short(metric)} over test classes"


def _apart(content: Content, part: str) -> list[str]:
    """How far the methods are apart, and whether later ones are better."""
    metric, lines = content["metric"], []
    shares = {name: one["relative"] for name, one in content["spread"][part].items()}
    if None not in shares.values() and len(content["rows"]) > 3:
        lines.append(
            f"{HEADINGS[part]}: the best {metric} is {100 * shares['searched']:.1f} % above the "
            f"worst, with default parameters {100 * shares['default']:.1f} %."
        )
    years = content["trend"][part]
    if years is not None and years["per_year"] is not None:
        lines.append(
            f"{HEADINGS[part]}: {metric} changes by {100 * years['per_year']:+.2f} % of its mean "
            f"per year over {years['methods']} methods; no verdict is based on this."
        )
    return lines


def as_markdown(content: Content) -> str:
    """A Markdown table for each part, the parameters found, and the legend."""
    top = _headings(content)
    grid = _grid(content, "±", ("**", "**"))
    lines = []
    for place, part in enumerate(PARTS):
        first = 1 + place * len(top)
        lines += [_pipe([_heading(content, part), *top]), _pipe(["---", *["---:"] * len(top)])]
        lines += [_pipe([cells[0], *cells[first : first + len(top)]]) for cells in grid]
        lines.append("")
    lines.append("| method | parameters found | default, separated | searched, separated |")
    lines.append("|---|---|---:|---:|")
    for row in content["rows"]:
        if "parameters" in row:
            lines.append(
                _pipe([row["name"], _parameters(row), *_default_and_searched(content, row)])
            )
    return "\n".join([*lines, "", *(f"- {line}" for line in legend(content)), ""])


def _default_and_searched(content: Content, row: dict[str, Any]) -> list[str]:
    metric = content["metric"]
    default = row["default"]["separated"].get(metric)
    return [_cell(default, metric, "±"), _cell(row["separated"].get(metric), metric, "±")]


def _parameters(row: dict[str, Any]) -> str:
    shown = []
    for name, value in row["parameters"].items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        shown.append(f"{name} {text}{' (!)' if name in row['borders'] else ''}")
    return ", ".join(shown)


def _pipe(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def as_latex(content: Content) -> str:
    """LaTeX for the package booktabs: the table, and the parameters that were found."""
    top = _headings(content)
    width = len(top)
    groups = " & ".join(
        rf"\multicolumn{{{width}}}{{c}}{{{_escape(_heading(content, part))}}}" for part in PARTS
    )
    names = " & ".join(_escape(name) for _ in PARTS for name in top)
    body = [
        " & ".join([_escape(name), *cells]) + r" \\"
        for name, *cells in _grid(content, r"$\pm$", (r"\textbf{", "}"))
    ]
    found = [
        f"{_escape(row['name'])} & {_escape(_parameters(row))} " + r"\\"
        for row in content["rows"]
        if "parameters" in row
    ]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'c' * (len(PARTS) * width)}}}",
            r"\toprule",
            rf" & {groups} \\",
            rf" & {names} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
            r"\begin{tabular}{ll}",
            r"\toprule",
            r" & parameters found, (!) at an end of the range \\",
            r"\midrule",
            *found,
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {line}" for line in legend(content)),
            "",
        ]
    )


def _escape(text: str) -> str:
    text = visible(text)
    for character in "&%#_":
        text = text.replace(character, f"\\{character}")
    return text


def as_csv(content: Content) -> str:
    """A line for each method, part and metric, fractions with all digits; parameters as JSON."""
    header = [
        *("method", "part", "metric", "mean", "low", "high", "n", "best_rank", "worst_rank"),
        *("parameters", "at_border", "low_over_classes", "high_over_classes"),
    ]
    lines: list[list[Any]] = []
    for row in content["rows"]:
        found = json.dumps(row["parameters"]) if "parameters" in row else ""
        borders = " ".join(row.get("borders", {}))
        for part, metric in _columns(content):
            score = row[part].get(metric)
            if score is None:
                continue
            low, high = score["interval"] or ("", "")
            classes = score.get("classes") or ("", "")
            ranks = (
                row["ranks"][part] if "ranks" in row and metric == content["metric"] else ("", "")
            )
            lines.append(
                [row["method"], part, metric, repr(score["mean"]), low, high, score["n"], *ranks,
                 found, borders, *classes]
            )  # fmt: skip
    return separated(header, lines)


def as_text(content: Content) -> str:
    """The table for a terminal."""
    top = _headings(content)
    lines = [["", *(name for _ in PARTS for name in top)], *_grid(content, "±", ("", "*"))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    left = sum(widths[1 : 1 + len(top)]) + 2 * len(top)
    over = " " * (widths[0] + 2) + _heading(content, PARTS[0]).ljust(left)
    over += _heading(content, PARTS[1])
    found = [
        f"  {row['name']}: {_parameters(row)}" for row in content["rows"] if row.get("parameters")
    ]
    if found:
        found = ["", "Parameters found, (!) at an end of the range:", *found]
    return "\n".join([over, *shown, "* the best of its column", *found, "", *legend(content)])


# Figures of a benchmark as SVG and PNG: gains, history, sensitivity, learning curves, reruns.
#
# Without matplotlib nothing is drawn, and a warning says so; a later --resume draws what is
# missing.


COLOURS = {"concatenated": "#d55e00", "separated": "#0072b2"}  # told apart by colour-blind eyes
KINDS = ("svg", "png")


def can_draw() -> bool:
    """Whether there is matplotlib; without it, a warning says that no figures were drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        warnings.warn(
            "no figures were drawn: they need matplotlib (pip install matplotlib).",
            TruerankWarning,
            stacklevel=4,
        )
        return False
    return True


def draw_figures(
    config: BenchmarkConfig,
    layout: Layout,
    methods: Sequence[Method],
    plan: Plan,
    table: Table,
) -> None:
    """Draw all figures into the folder `figures`."""
    if not can_draw():
        return
    from matplotlib.figure import Figure

    trained = [method for method in methods if method.is_trained]
    metric = config.protocol.metric
    layout.figures.mkdir(exist_ok=True)
    drawn: dict[str, Any] = {}
    for baseline in ("contrastive", "triplet"):
        if any(method.name == baseline for method in trained) and len(trained) > 1:
            drawn[f"gain_over_{baseline}"] = _gains(Figure, table, baseline, metric)
    drawn["reruns"] = _reruns(Figure, table, metric)
    drawn["curves"] = _curves(Figure, trained, plan, metric)
    drawn |= search_figures(Figure, plan)
    points = _points(config, table.content)
    for name, spec in papers.reference(config.paper, config.data.name).figures.items():
        if (found := _paper_figure(Figure, spec, [points])) is not None:
            drawn[name] = found
    for name, figure in drawn.items():
        for kind in KINDS:
            with atomic_path(layout.figures / f"{name}.{kind}") as partial:
                figure.savefig(partial, format=kind, dpi=150, bbox_inches="tight")


def search_figures(figure_class: Any, plan: Plan) -> dict[str, Any]:
    """Figures that need the searches alone, by name: their history, and what parameters do."""
    metric = plan.config.protocol.metric
    drawn = {"search": _history(figure_class, plan.methods, plan, metric)}
    for method in plan.methods:
        if method.space:
            name = f"sensitivity-{method.name}"
            drawn[name] = _sensitivity(figure_class, method, plan, metric)
    return drawn


def _rows(table: Table) -> list[dict[str, Any]]:
    return [row for row in table.rows if "parameters" in row]


def _gains(figure_class: Any, table: Table, baseline: str, metric: str) -> Any:
    """Relative improvement over a baseline, as the paper's Figure 5."""
    rows = [row for row in _rows(table) if row["method"] != baseline]
    base = table.row(baseline)
    figure = figure_class(figsize=(max(5.0, 0.6 * len(rows)), 3.6))
    axes = figure.subplots()
    for place, part in enumerate(PARTS):
        below = base[part][metric]["mean"]
        values = [
            100 * (row[part][metric]["mean"] / below - 1) if below else math.nan for row in rows
        ]
        at = [number + 0.4 * (place - 0.5) for number in range(len(rows))]
        axes.bar(at, values, 0.38, color=COLOURS[part], label=part)
    axes.axhline(0, color="black", linewidth=0.8)
    claimed = 100 * CLAIMED[baseline]
    source = f"{SOURCE.partition(',')[0]} et al. 2020"
    axes.axhline(
        claimed, color="grey", linestyle="--", linewidth=1,
        label=f"many papers claim more than this ({source})",
    )  # fmt: skip
    axes.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=45, ha="right")
    axes.set_ylabel(f"{metric} over {baseline} [%]")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return figure


def _reruns(figure_class: Any, table: Table, metric: str) -> Any:
    """A dot for each rerun, with its mean and interval; default parameters as a cross."""
    rows = _rows(table)
    figure = figure_class(figsize=(9, 0.6 + 0.32 * len(rows)))
    for axes, part in zip(figure.subplots(1, 2, sharey=True), PARTS, strict=True):
        for number, row in enumerate(rows):
            score = row[part][metric]
            values = [100 * value for value in score["values"]]
            axes.plot(values, [number] * len(values), "o", color=COLOURS[part], alpha=0.5)
            axes.plot([100 * score["mean"]], [number], "|", color="black", markersize=12)
            if score["interval"] is not None:
                axes.hlines(number, *(100 * end for end in score["interval"]), color="black")
            default = row["default"][part].get(metric)
            if default is not None:
                axes.plot([100 * default["mean"]], [number], "x", color="grey")
        for row in (one for one in table.rows if one["kind"] == "untrained"):
            if metric in row[part]:
                axes.axvline(100 * row[part][metric]["mean"], color="grey", linestyle=":")
        axes.set_title(f"{part} (cross: default parameters; dots: reruns)", fontsize=8)
        axes.set_xlabel(f"{metric} [%]")
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
    return figure


def _panels(figure_class: Any, count: int) -> tuple[Any, list[Any]]:
    columns = min(4, count)
    lines = -(-count // columns)
    figure = figure_class(figsize=(3 * columns, 2.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for extra in panels[count:]:
        extra.axis("off")
    return figure, panels[:count]


def _history(figure_class: Any, methods: Sequence[Method], plan: Plan, metric: str) -> Any:
    """Every trial's score, and the best so far."""
    figure, panels = _panels(figure_class, len(methods))
    for axes, method in zip(panels, methods, strict=True):
        scores = [100 * (trial.score or 0.0) for trial in plan.studies.finished(method.name)]
        best = [max(scores[: number + 1]) for number in range(len(scores))]
        axes.plot(scores, "o", markersize=3, color=COLOURS["separated"])
        axes.step(range(len(best)), best, where="post", color="black", linewidth=1)
        axes.set_title(shown_name(method), fontsize=9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("trial", fontsize=8)
        axes.set_ylabel(_searched(method, metric), fontsize=7)
    return figure


def _searched(method: Method, metric: str) -> str:
    """What a search raises, as an axis has it."""
    if method.objective is None:
        return f"validation {metric} [%]"
    return f"- 100 x validation {method.objective.minimise}"


def _curves(figure_class: Any, methods: Sequence[Method], plan: Plan, metric: str) -> Any:
    """The validation metric of the reruns' trainings over the epochs."""
    figure, panels = _panels(figure_class, len(methods))
    for axes, method in zip(panels, methods, strict=True):
        for rerun in plan.reruns:
            if rerun == DEFAULT:
                continue
            for outcome in plan.outcomes(method.name, rerun):
                points = [(point[0], point[2]) for point in outcome.curve if point[2] is not None]
                axes.plot(
                    [epoch for epoch, _ in points],
                    [100 * value for _, value in points],
                    color=COLOURS["separated"], alpha=0.5, linewidth=0.8,
                )  # fmt: skip
        axes.set_title(shown_name(method), fontsize=9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch", fontsize=8)
        axes.set_ylabel(f"validation {metric} [%]", fontsize=7)
    return figure


def _sensitivity(figure_class: Any, method: Method, plan: Plan, metric: str) -> Any:
    """A trial's score over each parameter."""
    figure, panels = _panels(figure_class, len(method.space))
    trials = plan.studies.finished(method.name)
    best = plan.studies.best(method.name)
    for axes, (name, space) in zip(panels, method.space.items(), strict=True):
        is_range = isinstance(space, SearchRange)
        values = [trial.parameters[name] for trial in trials]
        shown = values if is_range else [str(value) for value in values]
        axes.plot(shown, [100 * (trial.score or 0.0) for trial in trials], "o", markersize=3,
                  color=COLOURS["separated"])  # fmt: skip
        here = best.parameters[name]
        axes.plot(
            [here if is_range else str(here)], [100 * (best.score or 0.0)], "*", color="black"
        )
        if isinstance(space, SearchRange):
            if space.log:
                axes.set_xscale("log")
            axes.set_xlim(space.low, space.high)
        axes.set_xlabel(name, fontsize=8)
        axes.set_ylabel(_searched(method, metric), fontsize=7)
    figure.suptitle(shown_name(method), fontsize=9)
    return figure


# Figures of the papers, from the finished tables of one benchmark or of several.


Point = dict[str, Any]
"""What is known of a row: its method, year, loss, parameters, and scores as they are shown."""
CONCATENATED = ", concatenated"
"""What follows the metric in the name of a score of all folds' models together."""
IN_ORDER = "metric"
"""As x: the metrics of y, side by side."""
FEW_LINES = 6
"""More names than this stand beside a figure."""
MARK_SIZE = 5.0
"""Points of a mark at a batch of 32; its side grows with the batch's fourth root."""


def paper_figure(name: str, folders: Iterable[str | os.PathLike[str]]) -> Any:
    """Draw a paper's figure from the tables of several benchmarks.

    Rows with something added to their loss are stars, others circles; larger marks are larger
    batches. Scores are those of single models, as in the tables' part "separated", or of all folds'
    models together.

    Parameters
    ----------
    name : str
        Such as "tcm/figure-3".
    folders : sequence of path
        Finished benchmarks.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from truerank import benchmark
    >>> figure = benchmark.paper_figure("tcm/figure-3", ["runs/2", "runs/3"])  # doctest: +SKIP
    >>> figure.savefig("figure-3.svg")  # doctest: +SKIP
    """
    from matplotlib.figure import Figure

    spec = papers.find_figure(name)
    layouts = [Layout(folder) for folder in folders]
    for layout in layouts:
        if not layout.table("json").is_file():
            raise InputError(f"{layout.folder} holds no table: its benchmark is not finished.")
    series = [_points(read(one.config), read_json(one.table("json"))) for one in layouts]
    found = _paper_figure(Figure, spec, series)
    if found is None:
        raise InputError(
            f"{name} shows {', '.join(spec['y'])} over {spec['x']}, which no row of the tables has."
        )
    return found


def _points(config: BenchmarkConfig, content: Content) -> list[Point]:
    rows = {row["method"]: row for row in content["rows"]}
    found = []
    for method in methods_of(config):
        if not method.is_trained:
            continue
        row = rows[method.name]
        scores = {
            name + ending: _scale(name) * one["mean"]
            for part, ending in (("separated", ""), ("concatenated", CONCATENATED))
            for name, one in row.get(part, {}).items()
        }
        errors = {f"100 - {name}": 100 - value for name, value in scores.items()}
        loss = method.loss if isinstance(method.loss, dict) else {}
        about = {
            "method": method.name,
            "year": row.get("year"),
            "loss": loss.get("name", method.name),
            "is added to": bool(loss.get("plus")),
            "batch": config.shared.batch,
            "trunk": config.shared.model.trunk,
        }
        found.append({**known_parameters(method), **row["parameters"], **scores, **errors, **about})
    return found


def _paper_figure(figure_class: Any, spec: dict[str, Any], series: list[list[Point]]) -> Any:
    """Draw it; None if no row has what it shows."""
    columns = [one for one in spec["y"] if any(one in point for some in series for point in some)]
    if not columns or not any(_places(spec, columns, point) for some in series for point in some):
        return None
    panels = [columns] if spec["x"] == IN_ORDER else [[column] for column in columns]
    figure = figure_class(figsize=(4.6 * len(panels), 3.8), layout="constrained")
    for axes, shown in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for points in series:
            _draw_series(axes, spec, shown, points, several=len(series) > 1)
        if spec["x"] == IN_ORDER:
            axes.set_xticks(range(len(shown)), shown, fontsize=7)
            axes.set_ylabel(_with_unit(shown[0].partition("@")[0]), fontsize=8)
        else:
            axes.set_xlabel(_with_unit(spec["x"]), fontsize=8)
            axes.set_ylabel(_with_unit(shown[0]), fontsize=8)
        axes.tick_params(labelsize=7)
    few = len(axes.get_legend_handles_labels()[0]) <= FEW_LINES
    place = {} if few else {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axes.legend(fontsize=7, **place)
    return figure


def _places(spec: dict[str, Any], columns: list[str], point: Point) -> list[tuple[float, float]]:
    """Where a row is drawn, which may be nowhere."""
    if spec["x"] == IN_ORDER:
        return [(at, point[one]) for at, one in enumerate(columns) if one in point]
    if point.get(spec["x"]) is None:
        return []
    return [(point[spec["x"]], point[one]) for one in columns if one in point]


def _draw_series(
    axes: Any, spec: dict[str, Any], columns: list[str], points: list[Point], *, several: bool
) -> None:
    """The rows of one benchmark: those of a line in the order of x, and the others as levels."""
    lines: dict[Any, list[Point]] = {}
    for point in points:
        if _places(spec, columns, point):
            lines.setdefault(point.get(spec["lines"]), []).append(point)
        elif columns[0] in point:
            axes.axhline(
                point[columns[0]], linestyle="--", linewidth=1, color="grey", label=point["method"]
            )
    if len(lines) > FEW_LINES:
        from matplotlib import colormaps

        axes.set_prop_cycle(color=colormaps["tab20"](range(20)))
    for value, some in lines.items():
        label = str(value) if spec["lines"] in ("method", "loss") else f"{spec['lines']} {value}"
        if several:
            label += f", {some[0]['trunk'].partition(':')[2] or some[0]['trunk']}"
        marks = [(*place, one) for one in some for place in _places(spec, columns, one)]
        marks.sort(key=lambda mark: mark[0])
        (line,) = axes.plot(*zip(*[mark[:2] for mark in marks], strict=True), linewidth=1)
        line.set_label(label)
        for x, y, one in marks:
            size = MARK_SIZE * (one["batch"] / 32) ** 0.25
            mark = "*" if one["is added to"] else "o"
            axes.plot([x], [y], mark, color=line.get_color(), markersize=size)


def _with_unit(column: str) -> str:
    if _is_opis(column):
        return _short(column)
    return f"{column} [%]" if "@" in column else column
