"""The figures of the Reality Check: toy spaces, random embeddings, default against tuned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truerank.reproduce.drawing import COLOURS, INK, QUIET, panels
from truerank.reproduce.page import Drawing
from truerank.reproduce.reality_check import toys

__all__ = ["draw"]

Scores = Mapping[str, float]


def draw(
    table: Mapping[str, Any], spaces: Mapping[str, Scores], chance: Mapping[int, Scores]
) -> list[Drawing]:
    """All figures of the page."""
    return [
        Drawing(
            "toy-spaces",
            "Three embedding spaces in the manner of the paper's Figure 1, and what metrics say of "
            "them in percent.",
            _spaces(spaces),
        ),
        Drawing(
            "random-embeddings",
            "What metrics say of random embeddings with random labels, by the number of classes, "
            "as the paper's Figure 2.",
            _chance(chance),
        ),
        Drawing(
            "default-and-tuned",
            "Each method with its default parameters (cross) and with searched ones (dot, with its "
            "interval over reruns), separated scores.",
            _tuned(table),
        ),
    ]


def _spaces(scores: Mapping[str, Scores]) -> Any:
    figure, axes = panels(1, len(scores), width=3.2, height=3.8)
    for place, (name, found) in zip(axes[0], scores.items(), strict=True):
        points, labels = toys.space(toys.SPACES[name])
        for label in range(labels.max() + 1):
            mine = points[labels == label]
            place.plot(mine[:, 0], mine[:, 1], ".", color=COLOURS[label], markersize=3)
        place.set_aspect("equal")
        place.set_xticks([])
        place.set_yticks([])
        words = [f"{toys.TOY_METRICS[m]} {100 * found[m]:.1f}" for m in toys.TOY_METRICS]
        place.set_title(name, fontsize=9)
        place.set_xlabel("\n".join(words), fontsize=8)
    return figure


def _chance(found: Mapping[int, Scores]) -> Any:
    figure, axes = panels(1, 1, width=6, height=3.4)
    place = axes[0, 0]
    classes = sorted(found)
    for metric, colour in zip(toys.RANDOM_METRICS, COLOURS, strict=False):
        values = [100 * found[count][metric] for count in classes]
        place.plot(classes, values, "o-", color=colour, markersize=3, lw=1.2, label=metric)
    place.set_xscale("log")
    place.set_xlabel("number of classes", fontsize=8)
    place.set_ylabel("score of random embeddings [%]", fontsize=8)
    place.legend(fontsize=7)
    return figure


def _tuned(table: Mapping[str, Any]) -> Any:
    metric = table["metric"]
    rows = [row for row in table["rows"] if "parameters" in row]
    figure, axes = panels(1, 1, width=6.4, height=0.8 + 0.28 * len(rows))
    place = axes[0, 0]
    for number, row in enumerate(rows):
        score, default = row["separated"][metric], row["default"]["separated"].get(metric)
        if score["interval"] is not None:
            place.hlines(number, *(100 * end for end in score["interval"]), color=INK, lw=1)
        place.plot([100 * score["mean"]], [number], "o", color=COLOURS[0], markersize=4)
        if default is not None:
            place.plot([100 * default["mean"]], [number], "x", color=QUIET)
    place.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    place.invert_yaxis()
    place.set_xlabel(f"{metric} [%]", fontsize=8)
    return figure
