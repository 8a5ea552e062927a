"""Tables of what was trained: a row for each method, mean and interval over seeds in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from truerank.core import registry
from truerank.reproduce.page import Sheet
from truerank.reproduce.trained import Finished

__all__ = ["score_sheet"]


def score_sheet(
    one: Finished,
    metrics: Sequence[str],
    *,
    scales: Mapping[str, float] | None = None,
    note: str = "",
) -> Sheet:
    """Scores in percent, or multiplied as `scales` says, with the half-width over seeds."""
    rows = []
    for method in one.methods:
        cells = []
        for metric in metrics:
            found = one.summary(method, metric)
            scale = (scales or {}).get(metric, 100.0)
            text = f"{scale * found['mean']:.2f}"
            if found["interval"] is not None:
                half = (found["interval"][1] - found["interval"][0]) / 2
                text += f" ± {scale * half:.2f}"
            cells.append(text)
        rows.append([method, *cells, f"{100 * one.validation(method):.2f}"])
    shown = []
    for metric in metrics:
        scale = (scales or {}).get(metric, 100.0)
        worse = not registry.definition(registry.parse(metric)).higher_is_better
        shown.append(metric + (" x 1000" if scale == 1000 else "") + (" (lower is better)" * worse))
    seeds = len(one.seeds)
    return Sheet(
        f"{one.name}: test scores in percent, mean over {seeds} seeds and 95 % interval over seeds",
        ["row", *shown, f"validation {one.config.protocol.metric}"],
        rows,
        note,
    )
