"""Draw docs/img/inside.svg: the way from arrays to a result, and what each station hands on.

python scripts/draw_inside.py
"""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "img" / "inside.svg"
WIDTH, HEIGHT = 860, 560
INK, QUIET, LINE, FILL = "#1f2430", "#6b7280", "#6b7280", "#eef2ff"
BOXES: dict[str, tuple[float, float, float, str]] = {
    "task": (60, 70, 330, "who is relevant to whom, who is junk"),
    "space": (470, 70, 330, "exact vectors: every distance is one number"),
    "engine": (185, 190, 490, "one pass over queries x gallery, which counts"),
    "metrics": (60, 310, 330, "pure functions of a query's tie groups"),
    "families": (470, 310, 330, "verification, openset, gom, opis"),
    "stats": (185, 410, 490, "the same without each fold of the classes: intervals"),
    "result": (185, 490, 490, "table | JSON | curves | notebook"),
}
"""Left, top and width of each station, and what it is."""
TALL = 54
ARROWS: tuple[tuple[float, float, float, float, str], ...] = (
    (225, 40, 225, 70, "labels, ids, cameras, judgements"),
    (635, 40, 635, 70, "embeddings"),
    (225, 124, 300, 190, ""),
    (635, 124, 560, 190, ""),
    (300, 244, 225, 310, "tie groups (integers)"),
    (560, 244, 635, 310, "blocks of exact distances"),
    (225, 364, 300, 410, ""),
    (635, 364, 560, 410, ""),
    (430, 464, 430, 490, ""),
)
"""From, to, and what is handed on."""


def picture() -> str:
    """The stations from top to bottom."""
    title = "From arrays to a result"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for x1, y1, x2, y2, words in ARROWS:
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5" '
            'marker-end="url(#head)"/>'
        )
        if words and y1 < 60:
            parts.append(text(x1, y1 - 8, words, 13, QUIET))
        elif words:
            at, anchor = (250, "end") if x2 < x1 else (610, "start")
            parts.append(text(at, (y1 + y2) / 2 - 2, words, 13, QUIET, anchor))
    for name, (left, top, width, words) in BOXES.items():
        parts.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{TALL}" rx="8" fill="{FILL}" '
            f'stroke="{LINE}"/>'
        )
        parts.append(text(left + width / 2, top + 23, name, 16, INK, weight="bold"))
        parts.append(text(left + width / 2, top + 43, words, 13))
    return "\n".join([*parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, size: int, fill: str = INK, anchor: str = "middle",
         weight: str = "normal") -> str:  # fmt: skip
    """One line of SVG text."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{words}</text>'
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(TARGET)
