"""Figures of rows and classes: strips of neighbours with pictures, scores per class, and a map."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, shortened
from truerank._util.text import level_name
from truerank._util.types import Reals
from truerank.analysis.principal import principal_axes
from truerank.core import registry
from truerank.core.registry import display_name
from truerank.distance import catalogue as distances
from truerank.io.pictures import Images, Pictures, check_images, find_pictures
from truerank.io.reading import as_matrix
from truerank.plots.display import (
    COLOURS,
    GREY,
    SIZE,
    PlotDisplay,
    add_legend,
    check_matplotlib,
    colours,
    new_axes,
    percent_axis,
    plain_text,
    tidy,
)
from truerank.result import tables
from truerank.result.ranked_rows import AtHand, NeighborList, Neighbors
from truerank.result.result import Result

PREFERRED = ("map@r", "map", "precision@1", "hit@1")
"""Metrics that queries and classes are ordered by, where the result has them."""


# Strips: a query, its nearest items, and the first relevant item where it is none of these.


TILE = 0.78
"""Inches of a picture, with the space around it."""
SIDE = 0.84
"""Of a picture, in tiles."""
GAP = 0.35
"""Between the query, its neighbours and the first relevant item, in tiles."""
PITCH = 1.22
"""From one strip to the next, in tiles."""
VERDICTS = {
    "right": (COLOURS[2], "relevant"),
    "near miss": (COLOURS[1], "irrelevant, shares a coarser level"),
    "wrong": (COLOURS[4], "irrelevant"),
}
"""Colours and names of what an item is to its query."""
CREDITS = 17
"""Letters of the credits below a tile."""
LETTERS = 13
"""Of a label under a picture."""
PIXELS = 160
"""Longest side of a picture that is drawn."""


def strips(
    result: Result,
    images: Images,
    gallery_images: Images | None = None,
    *,
    queries: Any = None,
    worst: int = 5,
    metric: str | None = None,
    k: int = 6,
    credits: str | None = None,
    ax: Any = None,
) -> PlotDisplay:
    """Draw queries with their nearest items, ending with the first relevant item.

    Parameters
    ----------
    result : Result
        Evaluated here, while its embeddings are still in memory.
    images : folder, or sequence of pictures or paths
        The pictures of the queries: files named by the rows' ids, or one for each row.
    gallery_images : the same, optional
        The pictures of a separate gallery; by default they are in the folder of the queries'.
    queries : as in Result.neighbors, optional
        The queries; by default the worst ones.
    worst : int
        How many of the worst queries, each of another class.
    metric : str, optional
        The metric by which they are the worst; by default MAP@R, mAP or Precision@1.
    k : int
        How many of the nearest items.
    credits : str, optional
        Who made the pictures, to be written below.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    """
    check_matplotlib(ax)
    check_images()
    if result.held is None:
        raise InputError("this result came without its rows; evaluate in this session.")
    at_hand = result.held.at_hand()
    chosen = queries
    if queries is None:
        metric = preferred_metric(result) if metric is None else str(registry.parse(metric))
        chosen = _worst(result, metric, at_hand, worst)
    found = result.neighbors(chosen, k)
    items = at_hand.rows if at_hand.items is None else at_hand.items
    others = images if gallery_images is None else gallery_images
    drawn = _draw_strips(
        found,
        find_pictures(images, len(at_hand.rows), "queries"),
        find_pictures(others, len(items), "gallery"),
        ax,
    )
    if credits:
        wide = int(CREDITS * np.diff(drawn.ax_.get_xlim()).item())
        where = {"transform": drawn.ax_.transAxes, "fontsize": 5.5, "va": "top"}
        plain_text(drawn.ax_.text(0.0, -0.005, fill(credits, wide), **where))
    return drawn


def _draw_strips(found: Neighbors, queries: Pictures, items: Pictures, ax: Any) -> PlotDisplay:
    """Draw the strips of some queries, whose pictures are known."""
    from matplotlib.patches import Patch

    shown = [_listed(one, found.levels) for one in found]
    behind = 1 + 2 * GAP + max(len(near) for near, _ in shown)
    width = behind + (1.0 if any(first for _, first in shown) else -GAP)
    axes = new_axes((TILE * width + 0.1, TILE * PITCH * len(shown) + 0.35)) if ax is None else ax
    used: dict[str, Any] = {}
    for number, (one, (near, first)) in enumerate(zip(found, shown, strict=True)):
        at = PITCH * number
        about = {"row": one.query, "id": one.id, "label": one.label, "group": one.group}
        _tile(axes, queries.picture(about), (0.0, at), _short(one.label))
        strip = [(1 + GAP + place, item) for place, item in enumerate(near)]
        if first is not None:
            strip.append((behind, first))
            axes.text(behind - GAP / 2 - 0.5, at, "…", ha="center", va="center", fontsize=8)
        for place, item in strip:
            verdict = item["verdict"]
            used[verdict] = Patch(facecolor="none", edgecolor=VERDICTS[verdict][0], linewidth=2)
            text = f"rank {item['rank']:,}" if item is first else _short(item.get("label"))
            _tile(axes, items.picture(item), (place, at), text, VERDICTS[verdict][0])
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(PITCH * len(shown) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.text(0.0, -0.58, "query", ha="center", va="bottom", fontsize=7.5)
    named = {name: used[verdict] for verdict, (_, name) in VERDICTS.items() if verdict in used}
    add_legend(axes, named)
    drawn = [
        {"query": one.query, "items": [item["row"] for item in near], "first relevant": first}
        for one, (near, first) in zip(found, shown, strict=True)
    ]
    return _display(axes, {"strips": drawn})


def _listed(one: NeighborList, levels: list[str]) -> tuple[list[Any], Any]:
    """The nearest items, and the first relevant one if none of them is relevant."""
    near = list(one.nearest.plain(levels))
    relevant = any(item["verdict"] == "right" for item in near)
    return near, None if relevant else next(one.relevant.plain(levels), None)


def _tile(
    axes: Any, picture: Any, at: tuple[float, float], text: str, border: str | None = None
) -> None:
    """A picture with a border in its colour, and a text below; or its absence."""
    from matplotlib.patches import Rectangle

    (x, y), half = at, SIDE / 2
    axes.add_patch(
        Rectangle(
            (x - half, y - half), SIDE, SIDE, edgecolor=border or GREY,
            linewidth=2.0 if border else 0.8, facecolor=GREY if picture is None else "#ffffff",
        )
    )  # fmt: skip
    if picture is None:
        axes.text(x, y, "no picture", ha="center", va="center", fontsize=5.5, color="#000000")
    else:
        picture.thumbnail((PIXELS, PIXELS))
        wide, high = (half * 0.94 * side / max(picture.size) for side in picture.size)
        axes.imshow(
            np.asarray(picture), extent=(x - wide, x + wide, y + high, y - high), aspect="auto",
            interpolation="antialiased", zorder=2,
        )  # fmt: skip
    plain_text(axes.text(x, y + half + 0.03, text, ha="center", va="top", fontsize=6.5))


def _short(label: Any) -> str:
    text = "" if label is None else str(label)
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"


def preferred_metric(result: Result) -> str:
    """The metric by which single queries and classes are ordered."""
    held = [name for name, score in result.items() if score.per_query is not None]
    ranking = [name for name in held if registry.find(name).with_mate]
    for name in (*PREFERRED, *ranking):
        if name in held:
            return name
    raise InputError("this result has no metric with a value for each query; ask for map@r.")


def _worst(result: Result, metric: str, at_hand: AtHand, most: int) -> list[int]:
    """The mated queries with the lowest value, of each class one; of equal ones those with the
    most relevant items."""
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"The 'worst' parameter must be an int >= 1. Got {shortened(most)}.")
    per_query = result[metric].per_query
    if per_query is None:
        raise InputError(f"{metric} has no value for each query; try map@r.")
    sign = 1 if registry.find(metric).higher_is_better else -1
    values, task = sign * per_query.lower, at_hand.task
    rows = np.flatnonzero(~np.isnan(values) & (task.n_relevant > 0))
    order = rows[np.lexsort((rows, -task.n_relevant[rows], values[rows]))]
    if task.levels is not None:
        first = np.unique(task.query_codes[order], return_index=True)[1]
        order = order[np.sort(first)]
    return [int(row) for row in order[:most]]


# Scores per class, from the worst to the best.


FEW_CLASSES = 30
"""So many classes are all named."""
WORST = 8
"""Classes that are named where there are more."""


def classes(
    result: Result, *, metric: str | None = None, by: Any = "label", ax: Any = None
) -> PlotDisplay:
    """Draw the score of every class, sorted, with the worst ones named.

    Parameters
    ----------
    result : Result
    metric : str, optional
        A metric with a value for each query; by default MAP@R, mAP or Precision@1.
    by : as in Result.by
        What the classes are: "label", "group", a level of the labels, or one value per query.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    """
    check_matplotlib(ax)
    metric = preferred_metric(result) if metric is None else str(registry.parse(metric))
    scores = {
        str(name): part[metric]
        for name, part in result.by(by, metrics=[metric]).items()
        if part[metric].reason is None
    }
    sign = 1 if registry.find(metric).higher_is_better else -1
    names = sorted(scores, key=lambda one: (sign * scores[one].value, -scores[one].n, one))
    values = np.array([scores[name].value for name in names])
    mean, name = result[metric].value, display_name(metric)
    few = len(names) <= FEW_CLASSES
    axes = ax or new_axes((SIZE[0], 1.0 + 0.17 * len(names)) if few else SIZE)
    shown, share = tables.number(metric), registry.find(metric).unit == "share"
    labels = [f"{one} ({scores[one].n:,})" for one in names]
    what = by if isinstance(by, str) and by not in ("label", "group") else "class"
    if few:
        axes.barh(range(len(names)), values, height=0.75, color=colours(axes)[0])
        line = axes.axvline(mean, color=COLOURS[4], linewidth=1.3, linestyle="--")
        for text in axes.set_yticks(range(len(names)), labels, fontsize=7):
            plain_text(text.label1)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(name)
        axes.set_ylabel(f"{level_name(what)} (queries)")
    else:
        axes.fill_between(
            np.arange(len(names) + 1), np.append(values, values[-1:]), step="post", linewidth=0,
            color=colours(axes)[0], alpha=0.75,
        )  # fmt: skip
        line = axes.axhline(mean, color=COLOURS[4], linewidth=1.3, linestyle="--")
        axes.set_xlim(0, len(names))
        of = "classes" if what == "class" else f"classes of {level_name(what)}"
        axes.set_xlabel(f"{len(names):,} {of}, from worst to best")
        axes.set_ylim(bottom=0.0)
        axes.set_ylabel(name)
        unit = " %" if share else ""
        worst = [
            f"{shown(scores[one].value)}{unit}  {label}"
            for one, label in zip(names[:WORST], labels, strict=False)
        ]
        text = "\n".join(["Worst classes (queries):", *worst])
        plain_text(axes.text(0.03, 0.97, text, transform=axes.transAxes, fontsize=7, va="top"))
    if share:
        percent_axis(axes.xaxis if few else axes.yaxis)
    tidy(axes)
    add_legend(axes, {f"mean over queries, {shown(mean)}{' %' if share else ''}": line})
    held = dict(zip(names, values.tolist(), strict=True))
    return _display(axes, {"metric": metric, "classes": held})


# A map of rows: their first two principal axes, or places that were computed elsewhere.


MOST_ROWS = 20_000
"""Rows that are drawn; of more, equally spaced ones."""


def map_of_rows(
    result: Result, *, coordinates: Any = None, by: str | None = None, ax: Any = None
) -> PlotDisplay:
    """Draw all rows in two dimensions, coloured by their labels.

    Parameters
    ----------
    result : Result
        Evaluated here, while its embeddings are still in memory.
    coordinates : (rows, 2) array, optional
        Where to draw each row, by UMAP for example: the queries, then a separate gallery. By
        default their first two principal axes (PCA), of rows of length 1 where the distance is
        cosine.
    by : str, optional
        The level of the labels that gives colours; by default the coarsest.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    """
    check_matplotlib(ax)
    if result.held is None:
        raise InputError("this result came without its rows; evaluate in this session.")
    found = result.held.at_hand()
    sides = [found.rows] if found.items is None else [found.rows, found.items]
    labels, level = _labels(found, by)
    total = sum(len(side) for side in sides)
    if coordinates is None:
        points = np.concatenate([np.asarray(side, np.float64) for side in sides])
        if distances.find(found.space.facts.distance).points == "directions":
            length = np.linalg.norm(points, axis=1, keepdims=True)
            points = points / np.where(length > 0, length, 1.0)
        places, share = principal_axes(points)
        titles = [
            f"principal axis {number} ({100 * part:.0f} % of the variance)"
            for number, part in enumerate(share, 1)
        ]
    else:
        places = np.asarray(as_matrix(coordinates, "coordinates"), np.float64)
        if places.shape != (total, 2):
            raise InputError(
                f"coordinates must be of shape ({total}, 2), one place per row. Got {places.shape}."
            )
        titles = ["", ""]
    axes = new_axes((SIZE[0], SIZE[0])) if ax is None else ax
    some = np.linspace(0, total - 1, min(total, MOST_ROWS)).astype(np.int64)
    named = _scatter(axes, places[some], labels[some], total)
    axes.set_xlabel(titles[0])
    axes.set_ylabel(titles[1])
    tidy(axes)
    if coordinates is not None:
        axes.set_xticks([])
        axes.set_yticks([])
    add_legend(axes, named, markerscale=2.5)
    return _display(axes, {"level": level, "places": places, "labels": labels})


def _labels(found: AtHand, by: str | None) -> tuple[npt.NDArray[Any], str | None]:
    """The label of every row at a level, those of the queries first."""
    levels = found.task.levels
    if levels is None:
        return np.full(len(found.rows) + (0 if found.items is None else len(found.items)), ""), None
    known = [str(name) for name in levels.names]
    if by is not None and not (isinstance(by, str) and by in known):
        raise InputError(f"there is no level {shortened(by)}; there are {', '.join(known)}.")
    place = 0 if by is None else known.index(by)
    column = levels.columns[place]
    codes = column.codes if found.items is not None else column.codes[:1]
    values = np.array([*map(str, column.values), "unlabelled"])
    return values[np.concatenate(codes)], known[place]


def _scatter(axes: Any, places: Reals, labels: npt.NDArray[Any], total: int) -> dict[str, Any]:
    """Draw the rows of the most frequent labels in colours, all others in grey, and name them."""
    values, number, size = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((values, -size))
    coloured = order[: len(COLOURS) if len(values) > 1 else 1]
    rest = ~np.isin(number, coloured)
    style = {"s": max(2.0, min(18.0, 12_000 / total)), "linewidths": 0, "rasterized": True}
    named = {}
    if rest.any():
        grey = axes.scatter(*places[rest].T, color=GREY, alpha=0.35, **style)
    for colour, code in zip(colours(axes), coloured, strict=False):
        drawn = axes.scatter(*places[number == code].T, color=colour, alpha=0.75, **style)
        named[f"{values[code] or 'rows'} ({size[code]:,})"] = drawn
    if rest.any():
        named[f"{len(values) - len(coloured):,} others ({rest.sum():,})"] = grey
    return named


def _display(axes: Any, drawn: dict[str, Any]) -> PlotDisplay:
    return PlotDisplay(ax_=axes, figure_=axes.figure, drawn_=drawn)
