"""The figures about ties: tie maps as in the paper's Figures 2 to 4, and what orders do to mAP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.reproduce.drawing import COLOURS, INK, QUIET, new_figure, panels
from truerank.reproduce.inputs import Embeddings
from truerank.reproduce.page import Drawing
from truerank.reproduce.ties import collisions
from truerank.reproduce.ties.measure import EPSILONS, random_rows
from truerank.reproduce.ties.naive import PRECISIONS

__all__ = ["draw"]

SHOWN_FROM = 650
"""The paper leaves the first rows out of its pictures."""
BINS = 240


def draw(
    paper: Embeddings, sets: Sequence[Embeddings], entries: Mapping[str, Any]
) -> list[Drawing]:
    """All figures of the page."""
    random = Embeddings("random", random_rows(paper.rows.shape, 0), paper.labels)
    return [
        Drawing(
            "tie-map-trained",
            "Tie maps in the manner of the paper's Figure 2: the paper's embeddings, a line for "
            f"each query, ranks from left to right; dark where neighbours lie within "
            f"{EPSILONS['trained']:g} of each other (above) or are equal in float32 (below).",
            _maps(paper, EPSILONS["trained"]),
        ),
        Drawing(
            "tie-map-random",
            "The same for random embeddings, with the epsilon of the paper's Figure 3, "
            f"{EPSILONS['random']:g}.",
            _maps(random, EPSILONS["random"]),
        ),
        Drawing(
            "distances-and-relevance",
            "As the paper's Figure 4: cosine distances D of a part of the rows, in the order of "
            "their labels, and E, which is added to those that are not relevant.",
            _matrices(paper),
        ),
        Drawing(
            "orders",
            "mAP by naive code over row orders and batch sizes, a dot each; the line is the exact "
            "mAP, which no order moves.",
            _orders(sets, entries),
        ),
        Drawing(
            "all-zero",
            "mAP of embeddings that are all zero, 10 classes of 100, by the order of the rows.",
            _zero(entries["zero"]),
        ),
    ]


def _part(some: Embeddings) -> npt.NDArray[np.int64]:
    """The rows that are shown, in the order of their labels."""
    rows = np.arange(len(some.rows))
    if len(rows) >= 2 * BINS + SHOWN_FROM:
        rows = rows[SHOWN_FROM:]
    return rows[np.argsort(some.labels[rows], kind="stable")]


def _binned(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """The share of flags in each of at most BINS x BINS parts."""
    lines, columns = (np.arange(n) * min(n, BINS) // n for n in flags.shape)
    total = np.zeros((lines.max() + 1, columns.max() + 1))
    met = np.zeros_like(total)
    np.add.at(total, (lines[:, None], columns[None, :]), flags)
    np.add.at(met, (lines[:, None], columns[None, :]), 1)
    return total / met


def _maps(some: Embeddings, epsilon: float) -> Any:
    figure, axes = panels(2, 3, width=3.4, height=2.9)
    rows = _part(some)
    for column, distance in enumerate(collisions.DISTANCES):
        ranked = collisions.distance_rows(some.rows, distance)[rows]
        for line, found in enumerate(
            (
                collisions.collision_map(ranked, epsilon),
                collisions.collision_map(ranked, places=0),
            )
        ):
            place = axes[line, column]
            shares = _binned(found)
            place.imshow(
                np.sqrt(shares), cmap="Greys", vmin=0, vmax=1, aspect="auto",
                interpolation="nearest", extent=(1, ranked.shape[1], len(rows), 0),
            )  # fmt: skip
            what = f"epsilon {epsilon:g}" if line == 0 else "equal in float32"
            place.set_title(f"{distance}, {what}: {100 * found.mean():.2g} %", fontsize=9)
            place.set_xlabel("rank", fontsize=8)
            place.set_ylabel("query", fontsize=8)
            place.tick_params(labelsize=7)
    return figure


def _matrices(some: Embeddings) -> Any:
    rows = _part(some)
    points = some.rows[rows].astype(np.float64)
    lengths = np.sqrt((points**2).sum(axis=1, keepdims=True))
    units = points / np.where(lengths > 0, lengths, 1)
    figure, axes = panels(1, 2, width=4.2, height=3.6)
    shown = axes[0, 0].imshow(1 - units @ units.T, cmap="viridis", interpolation="nearest")
    figure.colorbar(shown, ax=axes[0, 0], shrink=0.8)
    axes[0, 0].set_title("D: cosine distance", fontsize=9)
    relevant = some.labels[rows][:, None] == some.labels[rows][None, :]
    axes[0, 1].imshow(~relevant, cmap="Greys_r", interpolation="nearest")
    axes[0, 1].set_title("E: 0 where relevant (black), else epsilon", fontsize=9)
    for place in axes[0]:
        place.set_xlabel("sample", fontsize=8)
        place.set_ylabel("query", fontsize=8)
        place.tick_params(labelsize=7)
    return figure


def _orders(sets: Sequence[Embeddings], entries: Mapping[str, Any]) -> Any:
    figure, axes = panels(1, len(sets), width=3.6, height=3.4)
    for place, some in zip(axes[0], sets, strict=True):
        devices = [d for d in ("cpu", "cuda") if f"orders/{some.name}/float32/{d}" in entries]
        for number, precision in enumerate(PRECISIONS):
            for shift, device in enumerate(devices):
                runs = entries[f"orders/{some.name}/{precision}/{device}"]
                values = [100 * value for batch in runs.values() for value in batch]
                at = number + (shift - (len(devices) - 1) / 2) * 0.3
                spread = np.linspace(-0.1, 0.1, len(values))
                place.plot(at + spread, values, ".", color=COLOURS[shift], markersize=3,
                           label=device if number == 0 else None)  # fmt: skip
        exact = entries[f"exact/{some.name}/{devices[0]}"]
        place.axhspan(100 * exact["lower"], 100 * exact["upper"], color=INK, alpha=0.6, lw=1)
        place.set_xticks(range(len(PRECISIONS)), PRECISIONS, fontsize=8)
        place.set_title(f"{some.name} (line: exact)", fontsize=9)
        place.set_ylabel("mAP [%]", fontsize=8)
        place.tick_params(labelsize=7)
        place.ticklabel_format(axis="y", useOffset=False)
        if len(devices) > 1:
            place.legend(fontsize=7)
    return figure


def _zero(found: Mapping[str, Any]) -> Any:
    figure = new_figure(7.2, 2.6)
    axes = figure.subplots()
    for number, (_way, values) in enumerate(found["naive"].items()):
        for name, value in values.items():
            named = not name.startswith("at random")
            axes.plot([100 * value], [number], "o" if named else ".", color=COLOURS[number])
            if named:
                axes.annotate(name, (100 * value, number), textcoords="offset points",
                              xytext=(0, 8), ha="center", fontsize=7, color=QUIET)  # fmt: skip
    lower, expected, _ = found["ours"]
    top = len(found["naive"])
    axes.plot([100 * lower], [top], "D", color=INK)
    axes.plot([100 * expected], [top], "|", color=INK, markersize=12)
    axes.annotate("lower (the headline), expected; upper is 100", (100 * expected, top),
                  textcoords="offset points", xytext=(8, -3), fontsize=7, color=QUIET)  # fmt: skip
    names = [f"naive, {way}" for way in found["naive"]]
    axes.set_yticks(range(top + 1), [*names, "ours, any order"], fontsize=8)
    axes.set_ylim(-0.6, top + 0.6)
    axes.set_xlim(0, 25)
    axes.set_xlabel("mAP [%]", fontsize=8)
    return figure
