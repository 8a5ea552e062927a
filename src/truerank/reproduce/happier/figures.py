"""The figures about HAPPIER: how bad errors are, a map of class centres, alpha and lambda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from truerank.reproduce.drawing import COLOURS, panels
from truerank.reproduce.happier.configuration import ALPHAS, LAMBDAS
from truerank.reproduce.learning import draw_learning
from truerank.reproduce.page import Drawing
from truerank.reproduce.trained import Finished

__all__ = ["draw"]


def draw(finished: Sequence[Finished], maps: Mapping[str, Any]) -> list[Drawing]:
    """All figures of the page; the first benchmark decides, `maps` are centres by method."""
    main = finished[0]
    found = [
        Drawing(
            "severity",
            "Top-1 errors by the level that query and found item share, mean over seeds and folds: "
            "dark is wrong down to the root.",
            _severity(main),
        ),
        Drawing(
            "trade-off",
            "H-AP against MAP@R of the finest level; a dot for each seed, a cross for the mean.",
            _trade_off(main),
        ),
    ]
    if maps:
        found.append(
            Drawing(
                "centres",
                "The centre of each fine class of the test half, coloured by its coarsest label, "
                "in the two widest directions; after the paper's Figure 5.",
                _centres(maps),
            )
        )
    for one in finished:
        if "alpha 5" in one.methods:
            found.append(
                Drawing(
                    "alpha-lambda",
                    "As the paper's Figure 4: H-AP and fine MAP@R over alpha (left) and over the "
                    "weight lambda of the clustering (right); mean and interval over seeds.",
                    _hyperparameters(one),
                )
            )
    return [*found, *(draw_learning(one) for one in finished)]


def _severity(one: Finished) -> Any:
    figure, axes = panels(1, 1, width=7, height=0.6 + 0.3 * len(one.methods))
    place = axes[0, 0]
    for number, method in enumerate(one.methods):
        first = one.saved(method, one.seeds[0], 0).provenance["severity"]["by_level"]
        left = 0.0
        for shade, level in enumerate(first):
            shares = one.facts(method, partial(_share, level))
            width = 100 * float(np.mean(shares))
            colour = ("#7f1d1d", "#dc2626", "#fca5a5", "#fee2e2")[min(shade, 3)]
            words = "nothing" if level == "none" else str(level)
            place.barh(number, width, left=left, color=colour, height=0.7,
                       label=f"shares {words}" if number == 0 else None)  # fmt: skip
            left += width
    place.set_yticks(range(len(one.methods)), one.methods, fontsize=8)
    place.invert_yaxis()
    place.set_xlabel("queries whose nearest item is wrong [%]", fontsize=8)
    place.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=3)
    return figure


def _share(level: str, facts: Mapping[str, Any]) -> float:
    """Of all queries, those whose error shares just this level."""
    severity = facts["severity"]
    return float(severity["by_level"].get(level, 0) / severity["queries"])


def _centres(maps: Mapping[str, Any]) -> Any:
    figure, axes = panels(1, len(maps), width=4, height=3.8)
    for place, (method, found) in zip(axes[0], maps.items(), strict=True):
        points, coarse = np.array(found["points"]), np.array(found["coarse"])
        for label, colour in zip(np.unique(coarse).tolist(), COLOURS, strict=False):
            mine = points[coarse == label]
            place.plot(mine[:, 0], mine[:, 1], ".", color=colour, markersize=4, label=label)
        place.set_title(method, fontsize=9)
        place.set_xticks([])
        place.set_yticks([])
    axes[0][-1].legend(fontsize=6)
    return figure


def _trade_off(one: Finished) -> Any:
    figure, axes = panels(1, 1, width=6, height=4)
    place = axes[0, 0]
    for method, colour in zip(one.methods, COLOURS, strict=False):
        x, y = one.summary(method, "map@r"), one.summary(method, "h_ap")
        place.plot([100 * v for v in x["values"]], [100 * v for v in y["values"]], ".",
                   color=colour, alpha=0.5)  # fmt: skip
        place.plot([100 * x["mean"]], [100 * y["mean"]], "+", color=colour, markersize=10)
        place.annotate(method, (100 * x["mean"], 100 * y["mean"]), fontsize=7, color=colour,
                       textcoords="offset points", xytext=(4, 4))  # fmt: skip
    place.margins(x=0.12)  # names stand to the right of their crosses
    place.set_xlabel("fine MAP@R [%]", fontsize=8)
    place.set_ylabel("H-AP [%]", fontsize=8)
    return figure


def _hyperparameters(one: Finished) -> Any:
    figure, axes = panels(1, 2, width=4, height=3)
    rows = {
        "alpha": {a: "HAPPIER" if a == 1.0 else f"alpha {a:g}" for a in ALPHAS},
        "lambda": {
            w: {0.0: "no clusters", 0.1: "HAPPIER"}.get(w, f"lambda {w:g}") for w in LAMBDAS
        },
    }
    for place, (name, named) in zip(axes[0], rows.items(), strict=True):
        for metric, colour in (("h_ap", COLOURS[0]), ("map@r", COLOURS[1])):
            found = [one.summary(row, metric) for row in named.values()]
            means = [100 * item["mean"] for item in found]
            place.plot(list(named), means, "o-", color=colour, label=metric, lw=1, markersize=3)
            for x, item in zip(named, found, strict=True):
                if item["interval"] is not None:
                    place.vlines(x, *(100 * end for end in item["interval"]), color=colour, lw=1)
        place.set_xlabel(name, fontsize=8)
        place.set_ylabel("test score [%]", fontsize=8)
        place.legend(fontsize=7)
    return figure
