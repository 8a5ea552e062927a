"""Files that commands read: embeddings with labels, neighbor lists, submissions, trial scores.

A file task or the lists of files are also scored here, for the commands in evaluate.py.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.text import count
from truerank.core import registry
from truerank.distance import catalogue
from truerank.io.judgements import Taxonomy, read_qrels
from truerank.io.reading import (
    Bundle,
    gallery_of,
    read,
    read_embeddings,
    read_labels,
    read_npy,
    require_embeddings,
)
from truerank.io.reading import read_side as reading_read_side
from truerank.result.gallery_sizes import sizes_for
from truerank.result.ranked_rows import HeldRows
from truerank.result.result import Result
from truerank.task.task import TaskRules

if TYPE_CHECKING:  # comparing files needs no engine: what evaluates is imported where it is called
    from truerank.evaluation.index_loss import IndexLoss
    from truerank.evaluation.list_input import Prepared

# What commands read: embeddings with labels, scores of trials, and options that are lists.


def read_side(
    path: Path | None, labels: Path | None, levels: list[str] | None, option: str | None = None
) -> Bundle:
    """Embeddings from one file, if any, and the rest from the labels file where there is one.

    `option` says how to name that file, if there must be labels.
    """
    bundle = reading_read_side(path, labels, levels)
    if bundle.labels is None and option is not None:
        raise InputError(f"{path} holds no labels; pass {option} FILE.")
    return bundle


def read_ids(path: Path) -> Any:
    """Read the ids in a file, which must hold some."""
    return _read_column(path, "ids", "id")


def add_columns(side: Bundle, ids: Path | None, groups: Path | None) -> None:
    """Put the ids and groups of files of their own in the place of those that a side has."""
    if ids is not None:
        side.ids = read_ids(ids)
    if groups is not None:
        side.groups = _read_column(groups, "groups", "group or camera")


def _read_column(path: Path, field: str, called: str) -> Any:
    """Read one column of a file; an array without a name is that column."""
    column = getattr(read(path, lone=field), field)
    if column is None:
        raise InputError(f"{path} holds no {field}: expected a column or array called {called}.")
    return column


def read_matrix(path: Path) -> Any:
    """A matrix of numbers from a .npy file."""
    array = read_npy(path)
    if array.ndim != 2:
        raise InputError(f"{path} must be a (queries, gallery) matrix. Got {array.shape}.")
    return array


def read_runs(results: tuple[Path, ...], runs: tuple[str, ...]) -> list[Path | list[Path]]:
    """The models of a command line: each of RESULTS, then the files of each --runs.

    A part of --runs between commas may be a pattern, which names all files that match it, sorted.
    A single file beside RESULTS is refused: a shell expands --runs a-*.json to that.
    """
    models: list[Path | list[Path]] = list(results)
    for text in runs:
        files = [
            path for part in text.split(",") if part.strip() for path in _matches(part.strip())
        ]
        if len(files) == 1 and results:
            pattern = re.sub(r"[0-9]+(?=[^0-9]*$)", "*", str(files[0]))  # of the seed
            raise InputError(
                f"--runs names one file, {files[0]}, beside {count(len(results), 'file')} without "
                f"--runs, each of which would be a model. Write the runs of a model with commas, "
                f"--runs {files[0]},{results[0]}, or as a pattern in quotes, --runs '{pattern}', "
                "which the shell leaves alone. A model with a single run needs no --runs."
            )
        if len(set(files)) < len(files):
            twice = next(path for path in files if files.count(path) > 1)
            raise InputError(f"--runs {text} names {twice} twice; name each run of a model once.")
        models.append(files)
    return models


def _matches(part: str) -> list[Path]:
    """The file that a part of --runs names, or the files that match it, sorted."""
    if Path(part).exists() or not re.search(r"[*?\[]", part):
        return [Path(part)]
    found = sorted(glob.glob(part, recursive=True))
    if not found:
        raise InputError(f"no file matches {part!r}, a pattern of --runs.")
    return [Path(path) for path in found]


def expand(path: Path | None, *sides: Bundle) -> None:
    """Replace finest labels by their paths in the taxonomy of a file."""
    if path is None:
        return
    taxonomy = Taxonomy.read(path)
    for side in sides:
        if isinstance(side.labels, dict):
            raise InputError("--taxonomy takes the finest labels alone; leave the levels out.")
        if side.labels is not None:
            side.labels = taxonomy.levels(side.labels)


def level_names(levels: str | None) -> list[str] | None:
    """The columns that --levels names."""
    return None if levels is None else [name.strip() for name in levels.split(",")]


def chosen_metrics(text: str | None) -> list[str] | str | None:
    """The metrics that --metrics names; 'all' and no choice stay what they are."""
    return text if text is None or text == "all" else split_metrics(text)


def split_metrics(text: str) -> list[str]:
    """'map@r hit@10' and 'map@10,divisor=min,mrr': one string for each name."""
    joined = re.sub(r"\s*,\s*", ",", text.strip(" ,"))
    return [one for part in joined.split() for one in registry.divided(part)]


def whole_numbers(option: str, text: str | None) -> list[int]:
    """The numbers of an option such as '100,1000'; none if it was left out."""
    found = []
    for part in re.split(r"[,\s]+", text.strip(" ,")) if text is not None else ():
        if not re.fullmatch(r"[0-9]{1,15}", part) or int(part) < 1:
            raise InputError(
                f"{option} takes whole numbers, divided by commas, such as 100,1000. Got {text!r}."
            )
        found.append(int(part))
    return found


# The task of files, and its result: of embeddings with labels, or of a submission to a task.


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
    "unmated",
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
    from truerank.evaluation.evaluate import evaluate_task

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
    from truerank.evaluation.evaluate import evaluate_task

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
    unmated: str | None = None,
    lazily: bool = False,
    start: str = "--",
    needed: str = "--labels",
) -> FileTask:
    """The task of labelled or judged files, with its rows; `lazily` does not read shards yet.

    `start` is how the names of the options of these files begin, `needed` where labels belong.
    """
    from truerank.evaluation.task_input import prepare

    names = level_names(levels)
    judged = relevance is not None
    if judged and (labels is not None or gallery_labels is not None):
        raise InputError(
            "--relevance and labels both define the relevant items; pass one of the two."
        )
    matrix = distance in catalogue.names(given=True)
    for name, path in (("ids", gallery_ids), ("groups", gallery_groups)):
        if path is not None and gallery is None and not matrix:
            raise InputError(f"{start}gallery-{name} came without {start}gallery.")
    queries = read_side(embeddings, labels, names, None if judged else needed)
    if gallery_labels is not None and gallery is None and not matrix:
        raise InputError(f"{start}gallery-labels came without {start}gallery.")
    option = None if judged or gallery is None else f"{start}gallery-labels"
    items = read_side(gallery, gallery_labels, names, option)
    items = gallery_of(queries, items, precomputed=matrix)
    add_columns(queries, ids, groups)
    add_columns(items, gallery_ids, gallery_groups)
    if judged:
        queries.labels = items.labels = None
    expand(taxonomy, queries, items)
    separate = any(one is not None for one in (items.embeddings, items.labels, items.ids))
    task, rows, found = prepare(
        queries.embeddings,
        queries.labels,
        gallery=items.embeddings,
        gallery_labels=items.labels,
        query_ids=queries.ids if not separate or items.ids is not None else None,
        gallery_ids=items.ids if queries.ids is not None else None,
        query_groups=queries.groups,
        gallery_groups=items.groups,
        junk_labels=as_labels(junk_label, queries.labels, items.labels),
        relevance=None if relevance is None else _judgements(relevance, queries, items, separate),
        distance=distance,
        unmated=unmated or "report",
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
    from truerank.competition.task import Task

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


def as_labels(texts: tuple[str, ...], *sides: Any) -> list[Any]:
    """Junk labels from the command line, as ints where the labels of a side are ints."""
    if not any(map(_are_integers, sides)):
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError as error:
        raise InputError(f"labels are integers, but a junk label is not ({error}).") from error


def _are_integers(labels: Any) -> bool:
    """Whether the finest labels of a side are integers."""
    column = list(labels.values())[-1] if isinstance(labels, dict) else labels
    values = column.tolist() if hasattr(column, "tolist") else column
    return isinstance(values, list) and all(isinstance(value, int) for value in values)


# The lists of files under the rules of a task, and what they score.


def read_files(options: dict[str, Any]) -> tuple[Prepared, Any]:
    """The task and its lists, and the metrics asked for."""
    from truerank.evaluation.index_loss import NO_METRICS, nothing_listed, nothing_relevant
    from truerank.evaluation.list_input import prepare

    judged = options["relevance"] is not None
    if judged and (options["labels"] is not None or options["gallery_labels"] is not None):
        raise InputError(
            "--relevance and labels both define the relevant items; pass one of the two."
        )
    nobody = not judged and options["labels"] is None
    vectors, exact = options["embeddings"] is not None, options["exact_neighbors"]
    if nobody and (not (vectors or exact) or options["gallery_labels"] is not None):
        raise InputError("pass --labels FILE, or --relevance FILE in place of labels.")
    names = level_names(options["levels"])
    queries, items = (_side(options[name], names) for name in ("labels", "gallery_labels"))
    add_columns(queries, options["ids"], options["groups"])
    add_columns(items, options["gallery_ids"], options["gallery_groups"])
    expand(options["taxonomy"], queries, items)
    alone = not judged and options["gallery_labels"] is None and options["gallery"] is None
    for name in ("ids", "groups") if alone else ():
        if getattr(items, name) is not None:
            raise InputError(f"--gallery-{name} came without --gallery-labels.")
    metrics: Any = chosen_metrics(options["metrics"])
    relevance = _list_judgements(options["relevance"])
    if nobody:
        if metrics is not None:
            raise InputError("metrics need --labels FILE, or --relevance FILE in place of labels.")
        metrics = NO_METRICS
        if vectors:
            relevance = nothing_relevant(*_vectors(options)[:2])
        else:
            relevance = nothing_listed(options["neighbors"], exact)
    scores = read_matrix(options["scores"]) if options["scores"] is not None else None
    prepared = prepare(
        options["neighbors"],
        queries.labels,
        gallery_labels=items.labels,
        query_ids=queries.ids,
        gallery_ids=items.ids,
        query_groups=queries.groups,
        gallery_groups=items.groups,
        scores=False if options["ignore_scores"] else scores,
        relevance=relevance,
        unmated=options["unmated"] or "report",
        junk_labels=as_labels(options["junk_label"], queries.labels, items.labels),
        unlabelled=options["unlabelled"] or "error",
        named_by=options["named_by"],
        gallery_size=options["gallery_size"],
        leave_one_out=(alone and vectors) if nobody else None,
    )
    return prepared, metrics


def _side(path: Path | None, levels: list[str] | None) -> Bundle:
    return Bundle() if path is None else read_labels(path, levels)


def _list_judgements(path: Path | None) -> Any:
    """A matrix of numbers, or the path of judgements that go by id."""
    return read_matrix(path) if path is not None and path.suffix.lower() == ".npy" else path


def _vectors(options: dict[str, Any]) -> list[Any]:
    """The queries, the gallery, and both as the index stores them, as far as they are given."""
    names = ("embeddings", "gallery", "stored", "stored_queries")
    return [None if options[name] is None else read_embeddings(options[name]) for name in names]


def scored(prepared: Prepared, metrics: Any, options: dict[str, Any]) -> Result:
    """The result of the lists."""
    from truerank.evaluation.lists import evaluate_prepared

    return evaluate_prepared(
        prepared,
        metrics=metrics,
        average=options["average"],
        confidence=None if options["no_intervals"] else options["confidence"],
        settle=options["settle"],
        seed=options["seed"],
        units=options["units"],
        threads=options["threads"],
        exact_neighbors=options["exact_neighbors"],
        k=options["k"],
    )


def lost(prepared: Prepared, metrics: Any, options: dict[str, Any], progress: Any) -> IndexLoss:
    """What the index that returned the lists loses."""
    from truerank.evaluation.index_loss import loss_of

    vectors = _vectors(options)
    return loss_of(
        prepared,
        *vectors[:2],
        stored=vectors[2],
        stored_queries=vectors[3],
        distance=options["distance"],
        stored_distance=options["stored_distance"],
        metrics=metrics,
        average=options["average"],
        k=options["k"],
        confidence=None if options["no_intervals"] else options["confidence"],
        seed=options["seed"],
        units=options["units"],
        device=options["device"],
        threads=options["threads"],
        progress=progress,
    )
