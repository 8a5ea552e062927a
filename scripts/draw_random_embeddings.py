"""Draw docs/img/random_embeddings.svg: what each metric says of embeddings that mean nothing.

Figure 2 of "A Metric Learning Reality Check" (Musgrave, Belongie & Lim, ECCV 2020): 10,000 random
embeddings of 64 dimensions with random labels, and the number of classes varies.

    python scripts/draw_random_embeddings.py
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np

import truerank

ROWS, DIMENSIONS = 10_000, 64
CLASSES = (10, 30, 100, 300, 1000, 2500, 5000)
METRICS = {
    "nmi": ("NMI", "#c2410c"),
    "pairwise_f1": ("pairwise F1", "#b45309"),
    "ami": ("AMI", "#6b7280"),
    "precision@1": ("precision@1", "#1d4ed8"),
    "map@r": ("MAP@R", "#047857"),
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 430, 80, 690, 90, 370
INK, QUIET = "#1f2430", "#6b7280"


def across(classes: float) -> float:
    """The number of classes on a logarithmic axis."""
    low, high = math.log(CLASSES[0]), math.log(CLASSES[-1])
    return LEFT + (RIGHT - LEFT) * (math.log(classes) - low) / (high - low)


def down(value: float) -> float:
    """A score from 0 to 1."""
    return BOTTOM - (BOTTOM - TOP) * value


def measure() -> dict[str, list[float]]:
    """Every metric at every number of classes."""
    rng = np.random.default_rng(2020)
    x = rng.standard_normal((ROWS, DIMENSIONS))
    found: dict[str, list[float]] = {name: [] for name in METRICS}
    for classes in CLASSES:
        labels = rng.permutation(np.arange(ROWS) % classes)
        result = truerank.evaluate(x, labels, metrics=list(METRICS), confidence=None)
        print(f"{classes} classes of {ROWS // classes}\n{result}", flush=True)
        for name in METRICS:
            found[name].append(result[name].value)
    return found


def text(x: float, y: float, words: str, anchor: str = "start", fill: str = INK, size: int = 14,
         weight: str = "normal") -> str:  # fmt: skip
    """One line of SVG text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{words}</text>'
    )


def main() -> None:
    """Measure and write the picture."""
    warnings.simplefilter("ignore", truerank.TruerankWarning)
    found = measure()
    title = "What metrics say of random embeddings"
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(24, 34, title, size=19, weight="bold"),
        text(
            24,
            56,
            f"{ROWS:,} random embeddings of {DIMENSIONS} dimensions, random labels",
            fill=QUIET,
            size=13,
        ),
    ]
    for value in (0, 0.25, 0.5, 0.75, 1):
        y = down(value)
        svg.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        svg.append(text(LEFT - 10, y + 5, f"{100 * value:g} %", "end", QUIET, 13))
    for classes in CLASSES:
        svg.append(text(across(classes), BOTTOM + 22, f"{classes:,}", "middle", QUIET, 13))
    svg.append(text((LEFT + RIGHT) / 2, BOTTOM + 44, "number of classes", "middle", QUIET, 13))
    taken: list[float] = []
    for name, (label, colour) in sorted(METRICS.items(), key=lambda item: -found[item[0]][-1]):
        points = [(across(c), down(v)) for c, v in zip(CLASSES, found[name], strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        svg.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        y = points[-1][1] + 5
        while any(abs(y - other) < 17 for other in taken):  # names must not cover each other
            y -= 1
        taken.append(y)
        svg.append(text(RIGHT + 12, y, f"{label} {100 * found[name][-1]:.1f} %", fill=colour))
    target = Path(__file__).parents[1] / "docs" / "img" / "random_embeddings.svg"
    target.write_text("\n".join([*svg, "</svg>", ""]), encoding="utf-8")
    print(target)


main()
