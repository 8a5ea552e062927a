"""report: results in, one HTML page out that opens offline and shows all that they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, check_choice
from truerank._util.files import check_writable, write_text
from truerank.analysis.compare import Comparison, compare
from truerank.analysis.differences import name_models
from truerank.io.pictures import ByColumn, Images, check_images, find_pictures
from truerank.report.details import look
from truerank.report.page import (
    benchmark_data,
    check_templates,
    is_benchmark,
    render,
    thumbnails,
)
from truerank.report.results import (
    comparison_data,
    conclusion,
    model_data,
)
from truerank.result.result import Result

__all__ = [
    "write",
]


SECTIONS: dict[str, tuple[str, ...]] = {
    "comparison": (),
    "head-to-head": (),
    "scores": (),
    "curves": ("curves", "marks"),
    "queries": ("ranked",),
    "threshold": (),
    "classes": ("parts",),
    "confusions": ("confusions",),
    "severity": ("severity",),
    "map": ("map",),
    "checks": ("audit", "ties"),
    "reproduce": ("provenance",),
}
"""The sections of a page, in their order, and what of a model only they show."""


def write(
    results: Sequence[Result | str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    title: str | None = None,
    sections: Iterable[str] | None = None,
    images: Images | None = None,
    gallery_images: Images | None = None,
    coordinates: npt.ArrayLike | None = None,
    credits: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a page about one result, about several of one task, or about benchmarks.

    Parameters
    ----------
    results : results, paths of their JSON files, or folders of benchmarks
    path : where the page goes
    names : of the models; by default the differing parts of their files' names
    title : of the page; by default the names
    sections : names of the sections to show, of comparison, head-to-head, scores, curves, queries,
        threshold, classes, confusions, severity, map, checks and reproduce; by default all that
        the results have
    images : a folder whose files have the rows' ids as names, or one for each query
    gallery_images : the same for a separate gallery, where `images` is no folder
    coordinates : (queries, 2) numbers for the map of the rows, such as of UMAP or t-SNE, instead
        of the first two principal axes
    credits : a line at the end of the page, such as the makers of the images
    progress : called as progress(pairs done, pairs in all) while rows are examined

    Examples
    --------
    >>> import tempfile, truerank
    >>> from truerank import report
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write([r], f"{folder}/page.html", title="Four rows", sections=["scores"])
    """
    check_templates()
    check_writable(path)
    if images is not None or gallery_images is not None:
        check_images()
    shown = chosen_sections(sections)
    folders, others = _told_apart(results)
    if not folders and not others:
        raise InputError("a report needs at least one result.")
    read = [Result.from_json(one) if not isinstance(one, Result) else one for one in others]
    labels = _named(others, names)
    places = [_places(coordinates, result) for result in read]
    for result in read:
        look(result, progress)
    models = [_drawn(*one) for one in zip(others, read, labels, places, strict=True)]
    compared = compare(*read, names=labels) if len(read) > 1 else None
    benchmarks = [benchmark_data(folder) for folder in folders]
    data = {
        "models": models,
        "comparison": None if compared is None else comparison_data(read, labels, compared),
        "benchmarks": benchmarks,
        "sections": shown,
        "one_side": all(result.provenance.get("leave_one_out") for result in read),
        "conclusion": _conclusion(read, models, compared),
        "credits": credits,
    }
    _leave_out(data, shown)
    if images is not None:
        data["thumbnails"] = _illustrated(data, read[0], images, gallery_images)
    if title is None:
        parts = [*labels, *(one["name"] for one in benchmarks)]
        title = (" against " if len(labels) == 2 and not benchmarks else ", ").join(parts)
    write_text(path, render(title, data))


def chosen_sections(sections: Iterable[str] | None) -> list[str]:
    """The names of the sections to show, in the order of the page."""
    if sections is None:
        return list(SECTIONS)
    asked = [sections] if isinstance(sections, str) else list(sections)
    for name in asked:
        check_choice("sections", name, tuple(SECTIONS))
    return [name for name in SECTIONS if name in asked]


def _leave_out(data: dict[str, Any], shown: list[str]) -> None:
    """Remove from the page what only sections that are not shown have."""
    for model in data["models"]:
        for name, fields in SECTIONS.items():
            for field in fields if name not in shown else ():
                model[field] = {} if field in ("curves", "marks") else None
        if "threshold" not in shown and model["stops"] is not None:
            # Curves are drawn from the rates at the stops where no metric asked for them.
            model["stops"] = {**model["stops"], "served": None} if "curves" in shown else None
    found = data["comparison"]
    if found is not None and "head-to-head" not in shown:
        found["solved"] = None
    if "comparison" not in shown and "head-to-head" not in shown:
        data["comparison"] = None


def _places(coordinates: npt.ArrayLike | None, result: Result) -> npt.NDArray[np.float64] | None:
    """The given place of each query in two dimensions."""
    if coordinates is None:
        return None
    places = np.asarray(coordinates, np.float64)
    expected = (result.provenance.get("queries"), 2)
    if places.shape != expected or not np.isfinite(places).all():
        raise InputError(
            f"coordinates must be finite numbers of shape {expected}, one row per query. Got "
            f"shape {places.shape}."
        )
    return places


def _conclusion(
    read: list[Result], models: list[dict[str, Any]], compared: Comparison | None
) -> list[str]:
    if compared is not None:
        return [compared.finding]
    return conclusion(read[0], models[0]) if read else []


def _drawn(
    given: Result | str | os.PathLike[str],
    result: Result,
    name: str,
    places: npt.NDArray[np.float64] | None,
) -> dict[str, Any]:
    """What the page says of a result; one of a file may be damaged where only a page looks."""
    if isinstance(given, Result):
        return model_data(result, name, places)
    try:
        return model_data(result, name, places)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"the truerank result {given} is damaged ({reason}).") from error


def _told_apart(
    results: Sequence[Result | str | os.PathLike[str]],
) -> tuple[list[Path], list[Result | str | os.PathLike[str]]]:
    """The folders of benchmarks, and everything else."""
    folders, others = [], []
    for one in results:
        if not isinstance(one, Result) and is_benchmark(Path(one)):
            folders.append(Path(one))
        else:
            others.append(one)
    return folders, others


def _named(results: Sequence[Any], names: Iterable[str] | None) -> list[str]:
    found = name_models(results, names) if results else []
    if names is None and len(results) == 1 and isinstance(results[0], Result):
        return ["embeddings"]
    return found


def _illustrated(
    data: dict[str, Any], result: Result, images: Images, gallery_images: Images | None
) -> dict[str, str]:
    """The pictures of the rows that are shown; results of one task have the same rows."""
    facts = result.provenance
    queries = find_pictures(images, facts["queries"], "queries")
    items = queries
    if gallery_images is not None:
        items = find_pictures(gallery_images, facts["gallery"], "gallery")
    elif not (facts["leave_one_out"] or isinstance(images, (str, os.PathLike, ByColumn))):
        raise InputError("images of the queries came without gallery_images; pass both.")
    return thumbnails(data, queries, items)
