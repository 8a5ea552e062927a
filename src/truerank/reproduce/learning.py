"""A look at every loss curve: the training loss and the validation score of each rerun."""

from __future__ import annotations

from truerank.reproduce.drawing import COLOURS, panels
from truerank.reproduce.page import Drawing
from truerank.reproduce.trained import Finished

__all__ = ["draw_learning"]


def draw_learning(one: Finished) -> Drawing:
    """Loss (left axis) and validation metric (right axis) over epochs, a panel for each method."""
    columns = min(4, len(one.methods))
    lines = -(-len(one.methods) // columns)
    figure, axes = panels(lines, columns, width=2.7, height=2.0)
    for number, place in enumerate(axes.ravel().tolist()):
        if number >= len(one.methods):
            place.axis("off")
            continue
        method = one.methods[number]
        right = place.twinx()
        for curve in one.curves(method):
            losses = [(point[0], point[1]) for point in curve if point[1] is not None]
            scores = [(point[0], 100 * point[2]) for point in curve if point[2] is not None]
            place.plot(*zip(*losses, strict=True) if losses else ((), ()), color=COLOURS[1],
                       alpha=0.4, lw=0.8)  # fmt: skip
            right.plot(*zip(*scores, strict=True) if scores else ((), ()), color=COLOURS[0],
                       alpha=0.4, lw=0.8)  # fmt: skip
        place.set_title(method, fontsize=8)
        for axis in (place, right):
            axis.tick_params(labelsize=6)
        place.xaxis.get_major_locator().set_params(integer=True)
    metric = one.config.protocol.metric
    return Drawing(
        f"learning-{one.name}",
        f"{one.name}: the loss (orange, left) and validation {metric} in percent (blue, right) of "
        "every training of the reruns, over epochs.",
        figure,
    )
