"""plot: curves of results as figures for papers, by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from truerank._util.errors import InputError, shortened
from truerank.analysis.differences import name_models
from truerank.core.curve import Curve
from truerank.plots.display import SIZE, CurveDisplay, DrawnModel, check_matplotlib
from truerank.result.curves import check_band, marks_of
from truerank.result.result import Result

__all__ = [
    "SIZE",
    "CurveDisplay",
    "plot",
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
) -> CurveDisplay:
    """Draw a curve of one result, or of several into one figure.

    Parameters
    ----------
    results : Result, or path of one, or a sequence of them
        The models.
    curve : str
        The curve's name, as `Result.curve` has it: "roc", "det", "cmc", "mrep", ...
    names : sequence of str, optional
        The models' names in the legend; by default those of their files.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    band : str, optional
        The confidence band: "pointwise", "simultaneous" (of the whole curve), or None.
    marks : bool
        Whether points at which scores were taken are marked, with the score's name.

    Returns
    -------
    CurveDisplay
        With `ax_` and `figure_`, `lines_` and `bands_`, to go on with.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> display = truerank.plot(r, "cmc")  # doctest: +SKIP
    >>> display.figure_.savefig("cmc.pdf")  # doctest: +SKIP
    """
    check_matplotlib()
    check_band(band)
    if ax is not None and not hasattr(ax, "fill_between"):
        raise InputError(f"ax must be axes of matplotlib. Got {shortened(ax)}.")
    if not isinstance(marks, bool):
        raise InputError(f"The 'marks' parameter must be a bool. Got {shortened(marks)} instead.")
    given = _listed(results)
    read = [one if isinstance(one, Result) else Result.from_json(one) for one in given]
    labels = name_models(given, names)
    models = [
        DrawnModel(label, result.curve(curve, band=band), marks_of(result, curve) if marks else [])
        for label, result in zip(labels, read, strict=True)
    ]
    if curve == "growth":
        models = [one for model in models for one in _by_metric(model, several=len(models) > 1)]
    return CurveDisplay(curve, models).plot(ax)


def _by_metric(model: DrawnModel, *, several: bool) -> list[DrawnModel]:
    """The curve of growth as one curve for each of its metrics."""
    size, *columns = model.curve
    found = []
    for metric in (name for name in columns if " " not in name):
        ends = {end: f"{metric} {end}" for end in ("low", "high") if f"{metric} {end}" in columns}
        held = {size: model.curve[size], "value": model.curve[metric]}
        held |= {end: model.curve[name] for end, name in ends.items()}
        name = f"{model.name}: {metric}" if several else metric
        found.append(DrawnModel(name, Curve("growth", held), []))
    return found


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
