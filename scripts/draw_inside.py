"""Draw docs/img/inside.svg: the rooms of src/truerank, their sizes, and which room imports which.

    python -m scripts.draw_inside

Rooms stand in the order of tests/architecture/test_rooms.py, lowest first, down and across. A
square says how many modules of its row's room import its column's room; imports inside functions
and for types count. Below the diagonal a room imports a lower one.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.architecture.budget import measured
from tests.architecture.test_rooms import INSIDE, MODULES, ROOMS, imports, room

TARGET = Path(__file__).parents[1] / "docs" / "img" / "inside.svg"
INK, QUIET, LINE, BAND, BAR, UP = "#1f2430", "#6b7280", "#d1d5db", "#f3f4f6", "#c7d2fe", "#f59e0b"
CELL, LEFT, TOP, BAR_LENGTH = 26, 270, 104, 90


def importers() -> dict[tuple[str, str], int]:
    """The number of modules of a room that import another room, by both names."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in INSIDE:
        for one in imports(MODULES[module].body):
            name = f"{one.module}.{one.name}" if one.module == "truerank" else one.module
            if name.startswith("truerank.") and room(name) != room(module):
                found[room(module), room(name)].add(module)
    return {rooms: len(modules) for rooms, modules in found.items()}


def picture() -> str:
    """The table of rooms as an SVG."""
    names = [name for line in ROOMS for name in line]
    place = {name: number for number, name in enumerate(names)}
    lines, counts = measured(), importers()
    side = CELL * len(names)
    width, height = LEFT + side + 16, TOP + side + 40
    title = "The rooms of truerank, their lines of code, and which imports which"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(LEFT - 12, TOP - 10, "lines of code", 11, QUIET, "end"),
    ]
    for line in ROOMS:  # rooms of one line stand on one band: they do not import one another
        if len(line) > 1:
            first, extent = TOP + CELL * place[line[0]], CELL * len(line)
            parts.append(rectangle(4, first + 1, LEFT + side - 4, extent - 2, BAND))
    most = max(lines[name] for name in names)
    for name in names:
        x, y = LEFT + CELL * place[name], TOP + CELL * place[name]
        length = round(BAR_LENGTH * lines[name] / most, 1)
        parts += [
            text(10, y + 18, f"{name}/", 13, INK, "start"),
            rectangle(LEFT - 60 - length, y + 7, length, 12, BAR),
            text(LEFT - 12, y + 18, f"{lines[name]:,}", 12, INK, "end"),
            f'<g transform="translate({x + 17} {TOP - 8}) rotate(-60)">'
            f"{text(0, 0, f'{name}/', 12, INK, 'start')}</g>",
            rectangle(x + 2, y + 2, CELL - 4, CELL - 4, LINE),
        ]
    for (importer, imported), count in sorted(counts.items()):
        x, y = LEFT + CELL * place[imported], TOP + CELL * place[importer]
        files = sum(room(module) == importer for module in INSIDE)
        shade = round(0.15 + 0.6 * count / files, 3)
        fill = "#4f46e5" if place[imported] < place[importer] else UP
        parts.append(rectangle(x + 2, y + 2, CELL - 4, CELL - 4, fill, shade))
        parts.append(text(x + CELL / 2, y + 17, str(count), 11, INK))
    notes = (
        "A number: modules of the room at the left that import the room above.",
        "Yellow: the few that reach up, or sideways, on purpose.",
    )
    for number, note in enumerate(notes, 1):
        parts.append(text(10, TOP + side + 16 * number, note, 12, QUIET, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, opacity: float = 1
) -> str:
    """A filled rectangle of SVG."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}"'
        + (f' fill-opacity="{opacity:g}"' if opacity < 1 else "")
        + "/>"
    )


def text(x: float, y: float, words: str, size: int, fill: str = INK, anchor: str = "middle") -> str:
    """One line of SVG text."""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{words}</text>"
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(TARGET)
