"""The table as people read it: on a terminal, in Markdown, LaTeX and CSV, as the paper's 3 to 5.

The content of table.json comes in, text goes out; percent, with the half width of the interval.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from truerank.benchmark.statistics import PARTS
from truerank.typesetting import separated, visible

__all__ = ["as_csv", "as_latex", "as_markdown", "as_text", "legend"]

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


def _cell(score: dict[str, Any] | None, plus_minus: str, classes: bool = False) -> str:
    """The mean with the half width of its interval, and in brackets of that over test classes."""
    if score is None:
        return ""
    text = f"{100 * score['mean']:.2f}"
    if score["interval"] is not None:
        text += f" {plus_minus} {_half(score['interval'])}"
    if classes and score.get("classes") is not None:
        text += f" ({plus_minus} {_half(score['classes'])})"
    return text


def _half(interval: Sequence[float]) -> str:
    return f"{100 * (interval[1] - interval[0]) / 2:.2f}"


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
                text = _cell(score, plus_minus, metric == content["metric"])
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
    return SHORT.get(metric, metric)


def legend(content: Content) -> list[str]:
    """Sentences below a table: what it is, what it deviates in, what to be careful about."""
    count = content["reruns"]
    lines = [
        f"{content['title']}: {content['trials']} trials a method, {content['folds']} folds, "
        f"{count} rerun{'s' if count != 1 else ''}; percent, with 95 % intervals over the "
        f"reruns{_over_classes(content)}.",
        "Ranks are those that differences over runs and test classes leave open (Holm over all "
        "pairs). The luck of the search itself is in no interval.",
    ]
    if any(row["kind"] == "untrained" for row in content["rows"]):
        lines.append(
            "Untrained: the trunk's own features, as many as it has, without a head; + PCA: in the "
            "dimensions of the heading."
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
        f"The test half was opened {looks['count']} times; "
        f"{again} of them {'was a second look' if again == 1 else 'were second looks'}."
    )
    return lines


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
            f"{HEADINGS[part]}: {metric} changes by {100 * years['per_year']:+.2f} % of its mean a "
            f"year over {years['methods']} methods, which decides nothing."
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
    return [_cell(default, "±"), _cell(row["separated"].get(metric), "±")]


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
