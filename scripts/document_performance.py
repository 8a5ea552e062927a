"""Put recorded runs of the benchmark into docs/results/speed.md: tables, and how cost grows.

make performance                      # bench/cpu.json, trees.json, thresholds.json, and this
python -m bench --gpu --out bench     # on a machine with a GPU: bench/gpu.json
python scripts/document_performance.py
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench import gpu_record, openset, table  # noqa: E402

BENCH = ROOT / "bench"
PAGE = ROOT / "docs" / "results" / "speed.md"
PICTURE = ROOT / "docs" / "img" / "growth.svg"
ANSWER = {"rows": 20_000, "dimensions": 512, "mates": 5, "data": "trained"}
"""The case that the page opens with."""

WIDTH, HEIGHT, TOP, BOTTOM = 860, 360, 96, 60
PANELS = (
    ("rows", "rows N", {"dimensions": 512, "mates": 5}),
    ("dimensions", "dimensions d", {"rows": 20_000, "mates": 5}),
    ("mates", "rows of each class", {"rows": 20_000, "dimensions": 512}),
)
LINES = {
    "truerank": ("#1d4ed8", 3),
    "float32 GEMM": ("#6b7280", 1.5),
    "float64 GEMM": ("#9ca3af", 1.5),
    "pytorch-metric-learning, top R": ("#c2410c", 1.5),
}
INK, QUIET = "#1f2430", "#6b7280"


def page(text: str, record: dict[str, Any]) -> str:
    """The page with the tables of this record: one case, and all of them."""
    first = [entry for entry in record["measured"] if entry["case"] == ANSWER]
    answer = ["|" + line.split("|", 2)[2] for line in table.lines({"measured": first})]
    text = _put(text, "answer", [f"{table.describe(ANSWER)}:", "", *answer])
    return _put(text, "table", [_about(record), "", *table.lines(record)])


def trees(text: str, record: dict[str, Any]) -> str:
    """The page with the table of trees."""
    return _put(text, "trees", [_about(record), "", *table.lines(record)])


def thresholds(text: str, record: dict[str, Any]) -> str:
    """The page with the table of metrics over thresholds."""
    return _put(text, "thresholds", [_about(record), "", *openset.lines(record)])


def gpu_table(text: str, record: dict[str, Any]) -> str:
    """The page with the tables of a GPU."""
    about = [
        _about(record),
        'Medians, milliseconds. "~": measured on some of the queries and scaled up.',
    ]
    text = _put(text, "gpu", [*about, "", *gpu_record.lines(record)])
    if "thresholds" in record:
        text = _put(text, "gpu thresholds", [gpu_record.threshold_lines(record["thresholds"])])
    return text


def _about(record: dict[str, Any]) -> str:
    return f"Measured on {record['date']}: {record['machine']}."


def _put(text: str, name: str, lines: list[str]) -> str:
    """The text with these lines between the marks of this name."""
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(start)
    return "\n".join([before + start, *lines, end + rest.split(end)[1]])


def picture(record: dict[str, Any]) -> str:
    """CPU seconds against N, d and R, each on logarithmic axes, the rest held fixed."""
    title = "How cost grows"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(24, 30, title, size=19, weight="bold"),
        _text(24, 50, "CPU seconds, both axes logarithmic; trained-like data", fill=QUIET, size=13),
    ]
    x = 24.0
    for name, (colour, width) in LINES.items():
        parts.append(
            f'<line x1="{x}" x2="{x + 22}" y1="70" y2="70" stroke="{colour}" '
            f'stroke-width="{width}"/>'
        )
        parts.append(_text(x + 28, 74, name, size=12))
        x += 60 + 6.6 * len(name)
    trained = [e for e in record["measured"] if e["case"]["data"] == "trained"]
    shown = [e for e in trained if e["contender"] in LINES]
    seconds = [table.median(e["rounds"], "processor") for e in shown]
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    for number, (field, axis, fixed) in enumerate(PANELS):
        held = [e for e in shown if all(e["case"][key] == value for key, value in fixed.items())]
        left = 60 + number * 270
        parts += _panel(held, field, axis, left, left + 215, low, high)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    entries: list[dict[str, Any]],
    field: str,
    axis: str,
    left: float,
    right: float,
    low: int,
    high: int,
) -> list[str]:
    values = sorted({e["case"][field] for e in entries})
    first, last = math.log(values[0]), math.log(values[-1])

    def across(value: float) -> float:
        return left + (right - left) * (math.log(value) - first) / ((last - first) or 1)

    def up(seconds: float) -> float:
        share = (math.log10(seconds) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    parts = []
    for power in range(low, high + 1):
        y = up(10.0**power)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(_text(left - 6, y + 4, f"{10.0**power:g}", anchor="end", size=11, fill=QUIET))
    for value in values:
        label = f"{value // 1000}k" if value >= 5000 else f"{value:,}"
        parts.append(
            _text(across(value), HEIGHT - BOTTOM + 18, label, anchor="middle", size=11, fill=QUIET)
        )
    parts.append(_text((left + right) / 2, HEIGHT - BOTTOM + 40, axis, anchor="middle", size=13))
    for name, (colour, width) in LINES.items():
        points = sorted(
            (across(e["case"][field]), up(table.median(e["rounds"], "processor")))
            for e in entries
            if e["contender"] == name
        )
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return parts


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: int = 14,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{words}</text>'
    )


PARTS = {"cpu": page, "trees": trees, "thresholds": thresholds, "gpu": gpu_table}
"""Who puts each record of bench/ into the page."""


def main() -> None:
    """Write the tables and the picture of what was recorded."""
    text, shown = PAGE.read_text(encoding="utf-8"), []
    for name, put in PARTS.items():
        path = BENCH / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            text = put(text, record)
            shown.append(f"{name} of {record['date']}")
            if name == "cpu":
                PICTURE.write_text(picture(record), encoding="utf-8")
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE} and {PICTURE} show {', '.join(shown)}")


if __name__ == "__main__":
    main()
