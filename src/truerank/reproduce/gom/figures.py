"""The figures about GOM: curves over thresholds as in the paper's Figure 3, and two orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerank.plots import plot
from truerank.reproduce.drawing import COLOURS, INK, panels
from truerank.reproduce.gom.configuration import SHARES, limits_of
from truerank.reproduce.learning import draw_learning
from truerank.reproduce.page import Drawing
from truerank.reproduce.trained import Finished

__all__ = ["draw"]


def draw(finished: Sequence[Finished]) -> list[Drawing]:
    """All figures of the page."""
    found = [
        Drawing(
            "curves",
            "mReP of queries with a mate (above) and mFR of strangers (below) over the threshold, "
            "as the paper's Figure 3; the first seed and fold of each model.",
            _curves(finished),
        ),
        Drawing(
            "two-orders",
            "The same models by mAP and by mVP_max: a dot for each seed, a cross for the mean. A "
            "model to the right of another and below it stands in opposite order.",
            _orders(finished),
        ),
    ]
    return [*found, *(draw_learning(one) for one in finished)]


def _curves(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(2, len(finished), width=4.6, height=3.0)
    for column, one in enumerate(finished):
        results = [one.saved(method, one.seeds[0], 0) for method in one.methods]
        limit = limits_of(int(results[0].provenance["gallery"]))[SHARES[1]]
        for place, curve in zip(axes[:, column], ("mrep", f"mfr@b={limit}"), strict=True):
            plot(results, curve, names=one.methods, ax=place, band=None, marks=False)
            place.set_title(f"{one.name}: {curve}", fontsize=9)
            place.tick_params(labelsize=7)
    return figure


def _orders(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(1, len(finished), width=4.4, height=3.6)
    for place, one in zip(axes[0], finished, strict=True):
        for method, colour in zip(one.methods, COLOURS, strict=False):
            x, y = one.summary(method, "map"), one.summary(method, "mvp_max")
            place.plot([100 * v for v in x["values"]], [100 * v for v in y["values"]], ".",
                       color=colour, alpha=0.5)  # fmt: skip
            place.plot([100 * x["mean"]], [100 * y["mean"]], "+", color=INK, markersize=9)
            place.annotate(method, (100 * x["mean"], 100 * y["mean"]), fontsize=6,
                           textcoords="offset points", xytext=(4, 4), color=colour)  # fmt: skip
        place.set_title(one.name, fontsize=9)
        place.set_xlabel("mAP [%]", fontsize=8)
        place.set_ylabel("mVP_max [%]", fontsize=8)
        place.tick_params(labelsize=7)
    return figure
