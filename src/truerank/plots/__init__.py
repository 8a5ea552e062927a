"""plot: curves, scores, classes and rows of results as figures for papers, by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from truerank._util.errors import InputError, shortened
from truerank.analysis.compare import compare
from truerank.analysis.differences import name_models
from truerank.core import registry
from truerank.core.curve import POINTWISE, Curve
from truerank.plots.display import (
    SIZE,
    CurveDisplay,
    DrawnModel,
    PlotDisplay,
    check_matplotlib,
)
from truerank.plots.forest import forest, forest_of_differences
from truerank.plots.rows import classes, map_of_rows, strips
from truerank.result.curves import check_band, marks_of
from truerank.result.result import Result

__all__ = [
    "SIZE",
    "CurveDisplay",
    "PlotDisplay",
    "classes",
    "map_of_rows",
    "plot",
    "strips",
]

Given = Result | str | os.PathLike[str]
MOST_MODELS = 12
"""More lines than this cannot be distinguished."""


def plot(
    results: Given | Sequence[Given],
    curve: str,
    *,
    names: Iterable[str] | None = None,
    ax: Any = None,
    band: str | None = "pointwise",
    marks: bool = True,
    metric: Any = None,
    **options: Any,
) -> PlotDisplay:
    """Draw one result, or several into one figure.

    Parameters
    ----------
    results : Result, or path of one, or a sequence of them
        The models.
    curve : str
        The name of a curve, as `Result.curve` has it ("roc", "det", "cmc", "mrep", ...); or
        "forest" for scores with their intervals, "differences" for those of two or more models;
        or, for a single result, "classes" for the score of each class, "strips" for pictures of
        queries and their nearest items, "map" for all rows in two dimensions.
    names : sequence of str, optional
        The models' names in the legend; by default those of their files.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    band : str, optional
        The confidence band of a curve: "pointwise", "simultaneous" (of the whole curve), or None.
    marks : bool
        Whether points of a curve at which scores were taken are marked, with the score's name.
    metric : str or list of str, optional
        The metrics of forest and differences; the metric of growth, classes and strips.
    **options
        Of truerank.plots.strips, classes and map_of_rows, such as `images` and `by`.

    Returns
    -------
    PlotDisplay
        With `ax_` and `figure_`, to go on with; of a curve also `lines_` and `bands_`.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> display = truerank.plot(r, "cmc")  # doctest: +SKIP
    >>> display.figure_.savefig("cmc.pdf")  # doctest: +SKIP
    """
    check_matplotlib(ax)
    check_band(band)
    if not isinstance(curve, str):
        raise InputError(f"The 'curve' parameter must be a str. Got {shortened(curve)} instead.")
    if not isinstance(marks, bool):
        raise InputError(f"The 'marks' parameter must be a bool. Got {shortened(marks)} instead.")
    given = _listed(results)
    read = [one if isinstance(one, Result) else Result.from_json(one) for one in given]
    labels = name_models(given, names)
    if metric is not None and (curve in OF_ONE or curve == "growth"):
        asked = registry.parse_all(metric)
        if len(asked) > 1:
            raise InputError(f"{curve} shows one metric. Got {', '.join(map(str, asked))}.")
        metric = str(asked[0])
    if curve in OF_ONE:
        if len(read) > 1:
            raise InputError(f"{curve} shows one result. Got {len(read)}; draw each by itself.")
        if metric is not None:
            options["metric"] = metric
        return OF_ONE[curve](read[0], ax=ax, **options)
    if metric is not None and curve not in OF_METRICS:
        options["metric"] = metric
    if options:
        raise InputError(f"{shortened(curve)} has no option {', '.join(map(repr, options))}.")
    if curve == "forest":
        return forest(read, labels, metric=metric, ax=ax)
    if curve == "differences":
        return forest_of_differences(compare(*read, names=labels, metrics=metric), metric, ax)
    models = [
        DrawnModel(
            label,
            result.curve(curve, band=band),
            marks_of(result, curve) if marks else [],
            _name_of(band, result),
        )
        for label, result in zip(labels, read, strict=True)
    ]
    if curve != "growth":
        return CurveDisplay(curve, models).plot(ax)
    shown = _grown(models, metric)
    return CurveDisplay(curve, [_of_metric(model, shown) for model in models], shown).plot(ax)


OF_ONE: dict[str, Callable[..., PlotDisplay]] = {
    "strips": strips,
    "classes": classes,
    "map": map_of_rows,
}
"""What is drawn of a single result."""
OF_METRICS = ("forest", "differences", "growth")


def _name_of(band: str | None, result: Result) -> str | None:
    """What a legend calls the confidence band; None where a result has no intervals."""
    confidence = (result.provenance.get("intervals") or {}).get("confidence")
    if band is None or not isinstance(confidence, float):
        return None
    kind = "interval at each point" if band == "pointwise" else "band of the whole curve"
    return f"{100 * confidence:g} % {kind}"


def _grown(models: list[DrawnModel], metric: str | None) -> str:
    """The metric whose growth is drawn: the one that is asked for, or the first."""
    known = [name for name in list(models[0].curve)[1:] if " " not in name]
    asked = known[0] if metric is None else metric
    if asked not in known or any(asked not in model.curve for model in models):
        raise InputError(f"growth of {asked} is not known here; of {', '.join(known)} it is.")
    return asked


def _of_metric(model: DrawnModel, metric: str) -> DrawnModel:
    """The curve of growth of one metric, with its interval."""
    curve = model.curve
    held = {next(iter(curve)): next(iter(curve.values())), "value": curve[metric]}
    if model.band is not None and f"{metric} low" in curve:
        held |= {end: curve[f"{metric} {end}"] for end in POINTWISE}
    return replace(model, curve=Curve("growth", held))


def _listed(results: Any) -> list[Given]:
    """The results that were passed, as a list."""
    if isinstance(results, (Result, str, os.PathLike)):
        return [results]
    listed = list(results) if isinstance(results, Sequence) else []
    if not listed or not all(isinstance(one, (Result, str, os.PathLike)) for one in listed):
        raise InputError(
            f"results must be results of evaluate, or paths of them. Got {shortened(results)}."
        )
    if len(listed) > MOST_MODELS:
        raise InputError(
            f"a figure shows at most {MOST_MODELS} models. Got {len(listed)}; pass fewer results."
        )
    return listed
