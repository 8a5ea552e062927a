"""The table as people read it: on a terminal, in Markdown, LaTeX and CSV, as the paper's 3 to 5.

The content of table.json comes in, text goes out; percent, with the half width of the interval.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from truerank.benchmark.statistics import PARTS

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
        higher = registry.definition(registry.parse(metric)).higher_is_better
        if known:
            best[part, metric] = max(known) if higher else min(known)
    return best


def _cell(score: dict[str, Any] | None, plus_minus: str) -> str:
    if score is None:
        return ""
    text = f"{100 * score['mean']:.2f}"
    if score["interval"] is not None:
        half = (score["interval"][1] - score["interval"][0]) / 2
        text += f" {plus_minus} {100 * half:.2f}"
    return text


def _ranks(row: dict[str, Any], part: str) -> str:
    if "ranks" not in row:
        return ""
    low, high = row["ranks"][part]
    return str(low) if low == high else f"{low}-{high}"


def _grid(content: Content, plus_minus: str, bold: tuple[str, str]) -> list[list[str]]:
    best = _best(content)
    lines = []
    for row in content["rows"]:
        cells = [row["name"]]
        for part, metric in _columns(content):
            score = row[part].get(metric)
            text = _cell(score, plus_minus)
            takes_part = score is not None and row["kind"] not in ("untrained", "finished")
            if takes_part and score["mean"] == best.get((part, metric)):
                text = f"{bold[0]}{text}{bold[1]}"
            cells.append(text)
        cells += [_ranks(row, part) for part in PARTS]
        lines.append(cells)
    return lines


def _short(metric: str) -> str:
    return SHORT.get(metric, metric)


def legend(content: Content) -> list[str]:
    """Sentences below a table: what it is, what it deviates in, what to be careful about."""
    count = content["reruns"]
    lines = [
        f"{content['title']}: {content['trials']} trials a method, {content['folds']} folds, "
        f"{count} rerun{'s' if count != 1 else ''}; percent, with 95 % intervals over the reruns.",
        "Ranks are those that differences over runs and test classes leave open (Holm over all "
        "pairs). The luck of the search itself is in no interval.",
    ]
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
            where = "" if ends is None else f", {100 * ends[0]:+.1f} % to {100 * ends[1]:+.1f} %"
            lines.append(
                f"{HEADINGS[part]}: {found['best']} against contrastive {100 * found['gain']:+.1f} "
                f"%{where} (simultaneous 95 % interval): {found['verdict']}."
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
    count = len(content["metrics"])
    grid = _grid(content, "±", ("**", "**"))
    lines = []
    for place, part in enumerate(PARTS):
        top = [_heading(content, part), *map(_short, content["metrics"]), "ranks"]
        lines += [_pipe(top), _pipe(["---", *["---:"] * (count + 1)])]
        first = 1 + place * count
        for cells in grid:
            ranks = cells[1 + len(PARTS) * count + place]
            lines.append(_pipe([cells[0], *cells[first : first + count], ranks]))
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
    """A LaTeX table for the package booktabs."""
    metrics = content["metrics"]
    count = len(metrics)
    groups = " & ".join(
        rf"\multicolumn{{{count}}}{{c}}{{{_escape(_heading(content, part))}}}" for part in PARTS
    )
    names = " & ".join(_escape(_short(metric)) for _ in PARTS for metric in metrics)
    body = []
    for cells in _grid(content, r"$\pm$", (r"\textbf{", "}")):
        shown = [
            _escape(cells[0]),
            *(cell.replace("%", r"\%") for cell in cells[1 : 1 + 2 * count]),
        ]
        body.append(" & ".join(shown) + r" \\")
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'c' * (2 * count)}}}",
            r"\toprule",
            rf" & {groups} \\",
            rf" & {names} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {line}" for line in legend(content)),
            "",
        ]
    )


def _escape(text: str) -> str:
    for character in "&%#_":
        text = text.replace(character, f"\\{character}")
    return text


def as_csv(content: Content) -> str:
    """A line for each method, part and metric, fractions with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["method", "part", "metric", "mean", "low", "high", "n", "best_rank", "worst_rank"]
    )
    for row in content["rows"]:
        for part, metric in _columns(content):
            score = row[part].get(metric)
            if score is None:
                continue
            low, high = score["interval"] or ("", "")
            ranks = (
                row["ranks"][part] if "ranks" in row and metric == content["metric"] else ("", "")
            )
            writer.writerow(
                [row["method"], part, metric, repr(score["mean"]), low, high, score["n"], *ranks]
            )
    return text.getvalue()


def as_text(content: Content) -> str:
    """The table for a terminal."""
    metrics = content["metrics"]
    top = ["", *(_short(metric) for _ in PARTS for metric in metrics), "ranks", "ranks"]
    lines = [top, *_grid(content, "±", ("", "*"))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(top))]
    shown = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    start = widths[0] + 2
    left = sum(widths[1 : 1 + len(metrics)]) + 2 * len(metrics)
    over = (
        " " * start + _heading(content, "concatenated").ljust(left) + _heading(content, "separated")
    )
    return "\n".join([over, *shown, "", *legend(content)])
