"""Draw docs/img/toy_spaces.svg: embedding spaces that some metrics tell apart and others do not.

The first three are in the manner of Figure 1 of "A Metric Learning Reality Check" (Musgrave,
Belongie & Lim, ECCV 2020): classes that touch, stand a little apart, and stand well apart. In the
fourth every list is perfect, and still no threshold fits all classes.

    python scripts/draw_toy_spaces.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

from studies.reality_check import SPACES as OF_THE_PAPER
from studies.reality_check import Disc, space

import truerank

TARGET = Path(__file__).parents[1] / "docs" / "img" / "toy_spaces.svg"
METRICS = {
    "hit@1": "hit@1 (Recall@1)",
    "nmi": "NMI",
    "pairwise_f1": "pairwise F1",
    "r_precision": "R-precision",
    "map@r": "MAP@R",
    "tar@far=0.01": "TAR at FAR 1 %",
}
SPACES: dict[str, list[Disc]] = {
    **{
        f"{letter}  {name}": discs
        for letter, (name, discs) in zip("abc", OF_THE_PAPER.items(), strict=False)
    },
    "d  of unequal width": [(-1.7, 0.0, 1.7), *((3.0, y, 0.12) for y in (-1.3, 0.0, 1.3))],
}
WIDTH, HEIGHT, LEFT, PANEL, TOP, SIDE = 860, 430, 150, 176, 70, 156
SHOWN = {"c  well apart": 4.3, "d  of unequal width": 3.6}
"""How far each picture reaches from its centre, 2.6 unless said here."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
INK, QUIET = "#1f2430", "#6b7280"


def scores(name: str) -> dict[str, float]:
    """What each metric says of a space, by Euclidean distance."""
    x, y = space(SPACES[name])
    with warnings.catch_warnings():  # that clustering metrics say little is what is shown here
        warnings.simplefilter("ignore")
        found = truerank.evaluate(
            x, y, metrics=list(METRICS), distance="euclidean", confidence=None
        )
    return {metric: found[metric].value for metric in METRICS}


def picture() -> str:
    """The spaces side by side, with their scores below."""
    title = "Four embedding spaces and what metrics say of them"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(20, 30, title, size=19, weight="bold"),
        text(20, 50, "four classes of 40 points each; scores in percent", fill=QUIET, size=13),
    ]
    for row, words in enumerate(METRICS.values()):
        parts.append(text(20, TOP + SIDE + 50 + 24 * row, words))
    for column, name in enumerate(SPACES):
        left = LEFT + column * PANEL
        parts += panel(name, left)
        for row, value in enumerate(scores(name).values()):
            weight = "bold" if value < 0.995 else "normal"
            middle, line = left + SIDE / 2, TOP + SIDE + 50 + 24 * row
            parts.append(text(middle, line, f"{100 * value:.1f}", "middle", weight=weight))
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(name: str, left: float) -> list[str]:
    """One space: its points, a colour for each class."""
    x, y = space(SPACES[name])
    reach = SHOWN.get(name, 2.6)
    parts = [
        f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#d1d5db"/>',
        text(left + SIDE / 2, TOP + SIDE + 20, name, "middle", fill=QUIET, size=13),
    ]
    for (across, up), label in zip(x.tolist(), y.tolist(), strict=True):
        at = left + SIDE / 2 * (1 + across / reach), TOP + SIDE / 2 * (1 - up / reach)
        parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="1.8" fill="{COLOURS[label]}"/>')
    return parts


def text(x: float, y: float, words: str, anchor: str = "start", fill: str = INK, size: int = 14,
         weight: str = "normal") -> str:  # fmt: skip
    """One line of SVG text."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{words}</text>'
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(TARGET)
