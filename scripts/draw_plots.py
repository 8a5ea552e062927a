"""Draw the pictures of docs/guides/gallery.md, by the code on that page, and docs/img/overview.png.

    python scripts/draw_plots.py

docs/img/plots.json keeps the numbers of each picture, and the digest of this script, of the code on
the page and of the picture: tests/docs/test_pictures.py compares them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import truerank

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guides" / "gallery.md"
IMAGES = ROOT / "docs" / "img"
NUMBERS = IMAGES / "plots.json"
COLOURS = {"map.png": 64, "overview.png": 160, "strips.png": 160}
"""Colours of a picture's palette, where it needs more than LINES."""
LINES = 32
DOTS = 150
"""Per inch."""


def blocks() -> list[tuple[str, str | None]]:
    """The code blocks of the page, each with the name of the picture that follows it."""
    found = re.findall(
        r"```python\n(.*?)```\n+(?:!\[[^]]*\]\(\.\./img/plots/([a-z0-9-]+\.png)\))?",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    return [(code, picture or None) for code, picture in found if ">>>" not in code]


def digest() -> str:
    """The digest of this script and of the code that draws."""
    code = "\n".join(code for code, _ in blocks())
    return hashlib.sha256(Path(__file__).read_bytes() + code.encode()).hexdigest()


def figures() -> Iterator[tuple[str, Any]]:
    """The figures by the paths of their pictures below docs/img."""
    held: dict[str, Any] = {}
    mpl.use("agg")
    with mpl.rc_context(mpl.rcParamsDefault | {"backend": "agg"}):
        for code, picture in blocks():
            exec(code, held)
            if picture is not None:
                yield f"plots/{picture}", plt.gcf()
            plt.close("all")
        yield "overview.png", overview(held)
        plt.close("all")


def overview(held: dict[str, Any]) -> Any:
    """README's figure: failing queries of one model, and the scores and differences of both."""
    data, result, other = held["data"], held["result"], held["other"]
    metrics = ["precision@1", "map@r", "hit@10", "tar@far=0.01", "eer", "dir@far=0.1"]
    figure = plt.figure(figsize=(11.0, 4.81), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    left.suptitle("Queries that fail, and where their first relevant item ranks", fontsize=9)
    strips = left.subplots()
    result.plot("strips", ax=strips, queries=failing(held, 5), k=5, **data.pictures())
    right.suptitle("Two models", fontsize=9)
    upper, lower = right.subplots(2, 1)
    names = ["efficientnet", "pixels"]
    truerank.plot([result, other], "forest", names=names, metric=metrics, ax=upper)
    truerank.compare(result, other, names=names, metrics=metrics).plot(ax=lower)
    for axes in (upper, lower):
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_size(8)
    return figure


def failing(held: dict[str, Any], most: int) -> list[int]:
    """Queries without a relevant item among the nearest, of each subcategory one, those with the
    most relevant items; of strips with all pictures and without people, whom a wrong neighbour
    may insult."""
    data, result, task = held["data"], held["result"], held["task"]
    people = task["gallery_labels"][:, 0] == "People & Body"
    pictures = data.pictures()["gallery_images"]
    shown_well = [one is not None for one in pictures] & ~people
    score = result["map@r"].per_query.lower
    found: dict[str, int] = {}
    subcategories = task["labels"][:, 1]
    rows = np.flatnonzero(score == 0)
    listed = list(result.neighbors(rows.tolist(), 5))
    for one in sorted(listed, key=lambda one: (-len(one.relevant), one.query)):
        shown = [*one.nearest.row, *one.relevant.row[:1]]
        if not one.nearest.right.any() and all(shown_well[shown]):
            found.setdefault(str(subcategories[one.query]), one.query)
    return list(found.values())[:most]


def numbers(figure: Any) -> list[Any]:
    """What the axes of a figure show: lines, bars and texts, rounded."""
    found = []
    for axes in figure.get_axes():
        lines = [np.asarray(line.get_xydata(), float) for line in axes.get_lines()]
        places = [some.get_offsets() for some in axes.collections if len(some.get_offsets()) > 1]
        bars = [patch.get_height() for patch in axes.patches if hasattr(patch, "get_height")]
        bars += [patch.get_width() for patch in axes.patches if hasattr(patch, "get_width")]
        shares = [np.nansum(patch.get_data()[0]) for patch in axes.patches
                  if hasattr(patch, "get_data")]  # fmt: skip
        texts = [text.get_text() for text in axes.texts]
        texts += [text.get_text() for text in axes.get_yticklabels()]
        legend = axes.get_legend()
        texts += [text.get_text() for text in legend.get_texts()] if legend else []
        means = [np.nanmean(some, axis=0).tolist() for some in [*lines, *places] if len(some)]
        found.append(
            {
                "means": np.round(means, 4).tolist(),
                "bars": np.round([*bars, *shares], 4).tolist(),
                "texts": texts,
            }
        )
    return found


def encoded(figure: Any, name: str) -> bytes:
    """The picture as a PNG with a palette, which is smaller than an SVG for each of these."""
    plain, small = BytesIO(), BytesIO()
    figure.savefig(plain, format="png", dpi=DOTS if name != "overview.png" else 1600 / 11.0)
    colours = COLOURS.get(Path(name).name, LINES)
    image = Image.open(plain).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    image.save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    """Draw all pictures, and keep their numbers."""
    pictures = {}
    (IMAGES / "plots").mkdir(exist_ok=True)
    for name, figure in figures():
        content = encoded(figure, name)
        (IMAGES / name).write_bytes(content)
        picture = hashlib.sha256(content).hexdigest()
        pictures[name] = {"picture": picture, "numbers": numbers(figure)}
        print(f"{name}: {len(content):,} bytes")
    text = json.dumps({"script": digest(), "pictures": pictures}, indent=1, ensure_ascii=False)
    NUMBERS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
