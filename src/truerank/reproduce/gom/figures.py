"""The figures about GOM: curves over thresholds as in the paper's Figure 3, and two orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
            "mReP of queries with a mate (solid) and mFR of strangers (dotted) over the threshold, "
            "as the paper's Figure 3; the first seed and fold of each model.",
            _curves(finished),
        ),
        Drawing(
            "two-orders",
            "The same models by mAP and by mVP_max: mean over seeds with its interval, a dot each. "
            "Lines that fall are pairs in opposite order.",
            _orders(finished),
        ),
    ]
    return [*found, *(draw_learning(one) for one in finished)]


def _curves(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(1, len(finished), width=5.2, height=3.6)
    for place, one in zip(axes[0], finished, strict=True):
        for method, colour in zip(one.methods, COLOURS, strict=False):
            result = one.saved(method, one.seeds[0], 0)
            limit = limits_of(int(result.provenance["gallery"]))[SHARES[1]]
            mrep, mfr = result.curve("mrep"), result.curve(f"mfr@b={limit}")
            place.plot(mrep["tau"], 100 * mrep["lower"], color=colour, lw=1.2, label=method)
            place.plot(mfr["tau"], 100 * mfr["value"], ":", color=colour, lw=1)
        place.set_title(one.name, fontsize=9)
        place.set_xlabel("threshold, (1 - s)/2", fontsize=8)
        place.set_ylabel("mReP, mFR [%]", fontsize=8)
        place.set_xlim(0, 0.6)
        place.tick_params(labelsize=7)
    axes[0][-1].legend(fontsize=6)
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
