"""The task of files, and its result: of embeddings with labels, or of a submission to a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from truerank.cli.inputs import (
    add_columns,
    chosen_metrics,
    expand,
    level_names,
    read_matrix,
    read_side,
)
from truerank.errors import InputError
from truerank.evaluation import evaluate_task
from truerank.evaluation.prepared import prepare
from truerank.extrapolation import sizes_for
from truerank.files import Bundle, read, require_embeddings
from truerank.files.judgements import read_qrels
from truerank.organise import Task
from truerank.ranked import HeldRows
from truerank.result import Result
from truerank.space import catalogue
from truerank.task import TaskRules

__all__ = ["FileTask", "as_labels", "evaluate_alone", "evaluate_files", "read_task"]

HELD_BY_A_TASK = (
    "labels",
    "gallery_labels",
    "levels",
    "taxonomy",
    "relevance",
    "ids",
    "gallery_ids",
    "groups",
    "gallery_groups",
    "junk_label",
    "no_mate",
    "unlabelled",
)
OF_A_TASK = ("embeddings", "gallery", *HELD_BY_A_TASK)


class FileTask(NamedTuple):
    """A task, its rows and gallery items, and the ids of its queries where files name them."""

    task: TaskRules
    rows: npt.NDArray[Any]
    items: npt.NDArray[Any] | None
    ids: list[Any] | None


def evaluate_files(
    *,
    task_file: Path | None,
    metrics: str | None,
    gallery_sizes: list[int],
    fitted: bool = False,
    **options: Any,
) -> tuple[Result, list[Any] | None]:
    """The full result, and the ids of the queries where the files name them.

    `fitted` adds the gallery sizes that an extrapolation needs.
    """
    chosen = chosen_metrics(metrics)
    if task_file is None:
        given = {name: options.pop(name) for name in OF_A_TASK}
        read = read_task(**given, distance=options["distance"], lazily=True)
        held = HeldRows(
            *read[:3], distance=options["distance"], threads=options["threads"], keep=True
        )
        sizes = [*gallery_sizes, *(sizes_for(read.task.items) if fitted else ())]
        found = evaluate_task(*read[:3], metrics=chosen, held=held, gallery_sizes=sizes, **options)
        return found, read.ids
    if fitted:
        raise InputError(
            "--extrapolate goes with labels; of a task, pass --gallery-sizes with --full FILE and "
            "have that result extrapolate."
        )
    for name in HELD_BY_A_TASK:
        if options.pop(name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"--task already holds labels and rules; leave {option} out.")
    return _evaluate_task(task_file, metrics=chosen, gallery_sizes=gallery_sizes, **options)


def evaluate_alone(
    embeddings: Path,
    labels: Path | None,
    *,
    metrics: str | None,
    levels: str | None,
    distance: str,
    **options: Any,
) -> Result:
    """The result of rows searched among each other, by labels in their file or in another."""
    given: dict[str, Any] = {**dict.fromkeys(OF_A_TASK), "junk_label": ()}
    given |= {"embeddings": embeddings, "labels": labels, "levels": levels}
    read = read_task(**given, distance=distance, lazily=True)
    return evaluate_task(*read[:3], distance=distance, metrics=chosen_metrics(metrics), **options)


def read_task(
    *,
    embeddings: Path,
    labels: Path | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    relevance: Path | None,
    ids: Path | None,
    gallery_ids: Path | None,
    groups: Path | None,
    gallery_groups: Path | None,
    junk_label: tuple[str, ...],
    unlabelled: str | None,
    distance: str,
    no_mate: str | None = None,
    lazily: bool = False,
    start: str = "--",
    needed: str = "--labels",
) -> FileTask:
    """The task of labelled or judged files, with its rows; `lazily` does not read shards yet.

    `start` is how the names of the options of these files begin, `needed` where labels belong.
    """
    names = level_names(levels)
    judged = relevance is not None
    if judged and (labels is not None or gallery_labels is not None):
        raise InputError("--relevance says who is relevant; leave the labels out.")
    matrix = distance in catalogue.names(given=True)
    for name, path in (("ids", gallery_ids), ("groups", gallery_groups)):
        if path is not None and gallery is None and not matrix:
            raise InputError(f"{start}gallery-{name} came without {start}gallery.")
    queries = read_side(embeddings, labels, names, None if judged else needed)
    if gallery_labels is not None and gallery is None and not matrix:
        raise InputError(f"{start}gallery-labels came without {start}gallery.")
    option = None if judged or gallery is None else f"{start}gallery-labels"
    items = read_side(gallery, gallery_labels, names, option)
    add_columns(queries, ids, groups)
    add_columns(items, gallery_ids, gallery_groups)
    if judged:
        queries.labels = items.labels = None
    expand(taxonomy, queries, items)
    separate = gallery is not None or items.labels is not None or items.ids is not None
    task, rows, found = prepare(
        queries.embeddings,
        queries.labels,
        gallery=items.embeddings,
        gallery_labels=items.labels,
        query_ids=queries.ids if not separate or items.ids is not None else None,
        gallery_ids=items.ids if queries.ids is not None else None,
        query_groups=queries.groups,
        gallery_groups=items.groups,
        junk_labels=as_labels(junk_label, queries.labels),
        relevance=None if relevance is None else _judgements(relevance, queries, items, separate),
        distance=distance,
        no_mate=no_mate or "report",
        unlabelled=unlabelled or "error",
        lazily=lazily,
    )
    return FileTask(task, rows, found, None if queries.ids is None else list(queries.ids))


def _judgements(path: Path, queries: Bundle, items: Bundle, separate: bool) -> Any:
    """A matrix of numbers, or judgements that go by the ids of both sides."""
    if path.suffix.lower() == ".npy":
        return read_matrix(path)
    others = items if separate else queries
    for side, option in ((queries, "--ids"), (others, "--gallery-ids")):
        if side.ids is None:
            raise InputError(f"{path} names rows by their ids; pass {option} FILE.")
    return read_qrels(path, list(queries.ids), list(others.ids))


def _evaluate_task(
    task_file: Path, *, embeddings: Path, gallery: Path | None, **options: Any
) -> tuple[Result, list[Any] | None]:
    task = Task.load(task_file)
    submission = read(embeddings)
    if task.id_names is not None and submission.ids is None:
        raise InputError(
            f"{embeddings} needs an array 'id' beside its embeddings, one for each row."
        )
    items = None if gallery is None else read(gallery).embeddings
    rows = require_embeddings(submission, embeddings)
    result = task.evaluate(rows, submission.ids, gallery=items, full=True, **options)
    ids = task.id_names
    names = None if ids is None else [ids.values[code] for code in ids.codes[0].tolist()]
    return result, names


def as_labels(texts: tuple[str, ...], labels: Any) -> list[Any]:
    """Junk labels from the command line, as ints where the labels are ints."""
    column = list(labels.values())[-1] if isinstance(labels, dict) else labels
    values = column.tolist() if hasattr(column, "tolist") else column
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError as error:
        raise InputError(f"labels are integers, but a junk label is not ({error}).") from error
