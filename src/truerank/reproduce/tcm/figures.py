"""The figures about TCM: accuracy against consistency, and the utility of single classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerank.reproduce.drawing import COLOURS, INK, panels
from truerank.reproduce.learning import draw_learning
from truerank.reproduce.page import Drawing
from truerank.reproduce.tcm.configuration import CONTROL, TCM
from truerank.reproduce.tcm.verdicts import bases_of
from truerank.reproduce.trained import Finished

__all__ = ["draw"]

CLASS = "class "
"""How the columns of single classes begin in a curve of utilities."""


def draw(finished: Sequence[Finished]) -> list[Drawing]:
    """All figures of the page."""
    found = [
        Drawing(
            "pareto",
            "Recognition error against OPIS, as the paper's Figure 3: a circle for each loss "
            "alone, a star with TCM, a cross with the contrastive loss; thin marks are seeds.",
            _pareto(finished),
        ),
        Drawing(
            "utility",
            "Utility of the classes served best and worst over the calibration range, as the "
            "paper's Figure 2: without TCM (above) and with it (below); black is the mean.",
            _utility(finished[0]),
        ),
    ]
    return [*found, *(draw_learning(one) for one in finished)]


def _pareto(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(1, len(finished), width=4.6, height=3.8)
    for place, one in zip(axes[0], finished, strict=True):
        for base, colour in zip(bases_of(one), COLOURS, strict=False):
            points = []
            for end, mark in (("", "o"), (TCM, "*"), (CONTROL, "x")):
                x, y = one.summary(base + end, "hit@1"), one.summary(base + end, "opis")
                error = [100 - 100 * value for value in x["values"]]
                place.plot(error, [1000 * value for value in y["values"]], mark, color=colour,
                           alpha=0.25, markersize=4)  # fmt: skip
                points.append((100 - 100 * x["mean"], 1000 * y["mean"]))
                place.plot(*points[-1], mark, color=colour, markersize=8,
                           label=base if not end else None)  # fmt: skip
            place.plot(*zip(*points[:2], strict=True), color=colour, lw=1)
        place.set_title(one.name, fontsize=9)
        place.set_xlabel("100 - hit@1 [%]", fontsize=8)
        place.set_ylabel("OPIS x 1000", fontsize=8)
        place.tick_params(labelsize=7)
    axes[0][0].legend(fontsize=7)
    return figure


def _utility(one: Finished) -> Any:
    bases = bases_of(one)
    figure, axes = panels(2, len(bases), width=2.9, height=2.3)
    for column, base in enumerate(bases):
        for line, end in enumerate(("", TCM)):
            place = axes[line, column]
            curve = one.saved(base + end, one.seeds[0], 0).curve("utility")
            for name in curve:
                if name.startswith(CLASS):
                    place.plot(curve["threshold"], curve[name], color=COLOURS[line], alpha=0.4,
                               lw=0.7)  # fmt: skip
            place.plot(curve["threshold"], curve["mean"], color=INK, lw=1.5)
            place.set_ylim(0, 1)
            place.set_title(base + end, fontsize=8)
            place.tick_params(labelsize=6)
            place.set_xlabel("threshold", fontsize=7)
    return figure
