"""Tables of what was trained: a row for each method, mean and interval over seeds in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from truerank.benchmark.study import BEHIND
from truerank.core import registry
from truerank.reproduce.page import Sheet
from truerank.reproduce.trained import Finished

__all__ = ["score_sheet"]


def score_sheet(
    one: Finished,
    metrics: Sequence[str],
    *,
    scales: Mapping[str, float] | None = None,
    about: str = "",
    note: str = "",
) -> Sheet:
    """Scores in percent, or multiplied as `scales` says, with the half-width over seeds.

    `about` is what the table is about, where a data set has several.
    """
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
        rows.append([method, *cells, _validation(one, method, scales or {})])
    shown = []
    for metric in metrics:
        scale = (scales or {}).get(metric, 100.0)
        worse = not registry.find(metric).higher_is_better
        shown.append(metric + (" x 1000" if scale == 1000 else "") + (" (lower is better)" * worse))
    seeds = len(one.seeds)
    return Sheet(
        f"{', '.join(filter(None, (one.name, about)))}: test scores in percent, mean over {seeds} "
        "seeds and 95 % interval over seeds",
        ["row", *shown, f"validation {one.config.protocol.metric}"],
        rows,
        note,
    )


def _validation(one: Finished, method: str, scales: Mapping[str, float]) -> str:
    """What the search found: the protocol's metric, or the one that it was to make small."""
    found = one.validation(method)
    given = next(each for each in one.config.methods if each.name == method)
    if given.objective is None:
        return f"{100 * found:.2f}"
    if found <= BEHIND:
        return "no trial kept up"
    metric = given.objective.minimise
    scale = scales.get(metric, 100.0)
    return f"{metric} {-scale * found:.2f}" + (" x 1000" if scale == 1000 else "")
