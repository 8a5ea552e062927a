"""Draw docs/img/ties.svg: what mAP does a model that says nothing deserve?

All-zero embeddings of 10 classes x 100, leave-one-out. A plain mAP by stable argsort depends on
the order of the rows; truerank's lower, expected and upper do not.

    python scripts/draw_ties_picture.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import truerank

TARGET = Path(__file__).parents[1] / "docs" / "img" / "ties.svg"
WIDTH, LEFT, RIGHT = 860, 250, 830
INK, QUIET, WARM, COOL = "#1f2430", "#6b7280", "#c2410c", "#1d4ed8"


def naive_map(labels: np.ndarray) -> float:
    """mAP of all-zero embeddings as most code computes it: sort, drop oneself, average."""
    values = []
    for query, label in enumerate(labels):
        order = np.argsort(np.zeros(len(labels)), kind="stable")
        matches = labels[order[order != query]] == label
        precision = np.cumsum(matches) / np.arange(1, len(labels))
        values.append((precision * matches).sum() / matches.sum())
    return float(np.mean(values))


def place(value: float) -> float:
    """mAP 0 to 1 on a square-root axis, so that small values can be told apart."""
    return LEFT + (RIGHT - LEFT) * value**0.5


def picture() -> str:
    """Compute both sides and draw them."""
    by_class = np.repeat(np.arange(10), 100)
    orders = {
        "rows class by class": by_class,
        "rows shuffled": np.random.default_rng(0).permutation(by_class),
        "classes in turn": by_class.reshape(10, 100).T.ravel(),
    }
    score = truerank.evaluate(np.zeros((1000, 8)), by_class, metrics="map")["map"]
    rows = []
    y = 92
    for name, labels in orders.items():
        value = naive_map(labels)
        rows.append(text(LEFT - 16, y + 5, f"argsort, {name}", anchor="end"))
        rows.append(f'<circle cx="{place(value):.1f}" cy="{y}" r="6" fill="{WARM}"/>')
        rows.append(text(place(value) + 12, y + 5, f"{100 * value:.1f} %", fill=WARM))
        y += 34
    y += 8
    low, middle, high = (place(v) for v in (score.lower, score.expected, score.upper))
    rows.append(text(LEFT - 16, y + 5, "truerank, any row order", anchor="end", weight="bold"))
    rows.append(
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{COOL}" stroke-width="3"/>'
    )
    for x, name, value in (
        (low, "lower: the score", score.lower),
        (middle, "expected: chance", score.expected),
        (high, "upper", score.upper),
    ):
        rows.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 8}" y2="{y + 8}" stroke="{COOL}" '
            f'stroke-width="3"/>'
        )
        anchor = {"upper": "end", "lower: the score": "end"}.get(name, "start")
        rows.append(text(x, y + 26, f"{100 * value:.1f} %", anchor=anchor, fill=COOL))
        rows.append(text(x, y + 43, name, anchor=anchor, fill=COOL, size=12))
    height = y + 62
    title = "Which mAP does a model deserve whose embeddings are all zero?"
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(24, 34, title, size=19, weight="bold"),
        text(
            24, 56, "10 classes of 100 rows, leave-one-out; square-root axis", fill=QUIET, size=13
        ),
        *rows,
        "</svg>",
    ]
    return "\n".join(svg) + "\n"


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    fill: str = INK,
    size: int = 14,
    weight: str = "normal",
) -> str:
    """One line of SVG text."""
    return (
        f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{words}</text>'
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(TARGET)
