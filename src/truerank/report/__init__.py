"""report: results in, one HTML page out that opens offline and shows all that they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.files import check_writable, write_text
from truerank.analysis.differences import name_models
from truerank.io.pictures import ByColumn, Images, check_images, find_pictures
from truerank.report.details import look
from truerank.report.page import (
    add_thumbnails,
    benchmark_data,
    check_templates,
    is_benchmark,
    render,
)
from truerank.report.results import comparison_data, model_data
from truerank.result.result import Result

__all__ = [
    "write",
]


def write(
    results: Sequence[Result | str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    images: Images | None = None,
    gallery_images: Images | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a page about one result, about several of one task, or about benchmarks.

    Parameters
    ----------
    results : results, paths of their JSON files, or folders of benchmarks
    path : where the page goes
    names : of the models; by default the differing parts of their files' names
    images : a folder whose files have the rows' ids as names, or one for each query
    gallery_images : the same for a separate gallery, where `images` is no folder
    progress : called as progress(pairs done, pairs in all) while rows are examined

    Examples
    --------
    >>> import tempfile, truerank
    >>> from truerank import report
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write([r], f"{folder}/page.html")
    """
    check_templates()
    check_writable(path)
    if images is not None or gallery_images is not None:
        check_images()
    folders, others = _told_apart(results)
    if not folders and not others:
        raise InputError("a report needs at least one result.")
    read = [Result.from_json(one) if not isinstance(one, Result) else one for one in others]
    labels = _named(others, names)
    for result in read:
        look(result, progress)
    models = [_drawn(*one) for one in zip(others, read, labels, strict=True)]
    if images is not None:
        for model, result in zip(models, read, strict=True):
            _illustrate(model, result, images, gallery_images)
    benchmarks = [benchmark_data(folder) for folder in folders]
    data = {
        "models": models,
        "comparison": comparison_data(read, labels) if len(read) > 1 else None,
        "benchmarks": benchmarks,
    }
    title = ", ".join([*labels, *(one["name"] for one in benchmarks)])
    write_text(path, render(title, data))


def _drawn(given: Result | str | os.PathLike[str], result: Result, name: str) -> dict[str, Any]:
    """What the page says of a result; one of a file may be damaged where only a page looks."""
    if isinstance(given, Result):
        return model_data(result, name)
    try:
        return model_data(result, name)
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


def _illustrate(
    model: dict[str, Any], result: Result, images: Images, gallery_images: Images | None
) -> None:
    """Add pictures of the rows that are shown."""
    facts = result.provenance
    queries = find_pictures(images, facts["queries"], "queries")
    items = queries
    if gallery_images is not None:
        items = find_pictures(gallery_images, facts["gallery"], "gallery")
    elif not (facts["leave_one_out"] or isinstance(images, (str, os.PathLike, ByColumn))):
        raise InputError("images of the queries came without gallery_images; pass both.")
    add_thumbnails(model, queries, items)
