"""What the command line does with files: read both sides, evaluate, write one row per query."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.auditing import Audit, audit
from truerank.comparison import Comparison, compare
from truerank.errors import InputError
from truerank.evaluation import evaluate
from truerank.files import Bundle, atomic_path, check_readable, check_writable, read
from truerank.files.alignment import aligned
from truerank.organise import Task
from truerank.result import Result
from truerank.space import catalogue
from truerank.taxonomy import Taxonomy

if TYPE_CHECKING:
    from truerank.threshold import OperatingPoint

__all__ = [
    "audit_files",
    "check_targets",
    "checkpointed",
    "choose_from_files",
    "class_table",
    "compare_files",
    "evaluate_files",
    "read_scores",
    "verify_files",
    "write_per_query",
]

TABLES = (".csv", ".parquet")


def check_targets(
    output: Path | None, per_query: Path | None, inputs: tuple[Path | None, ...] = ()
) -> None:
    """Refuse what could not be written before anything is computed."""
    if per_query is not None and per_query.suffix.lower() not in TABLES:
        raise InputError(f"--per-query writes {' or '.join(TABLES)}. Got {per_query.name!r}.")
    for path in (output, per_query):
        if path is not None:
            check_writable(path)
            for other in inputs:
                if other is not None and other.exists() and path.exists() and path.samefile(other):
                    raise InputError(f"{path} would be written over the input {other}.")
    if output is not None and per_query is not None and output.resolve() == per_query.resolve():
        raise InputError(f"-o and --per-query both name {output}; give each a file of its own.")


@contextmanager
def checkpointed(
    checkpoint: Path | None, resume: bool, output: Path | None, others: tuple[Path | None, ...]
) -> Iterator[Path | None]:
    """Where the counts so far go; an interrupt says how to continue from there."""
    path = checkpoint
    if path is None and output is not None:
        path = output.with_name(f"{output.name}.checkpoint")
    if path is None and resume:
        raise InputError("--resume needs -o or --checkpoint, to know which run to continue.")
    if path is not None:
        check_writable(path)
        for other in (output, *others):
            if other is not None and path.resolve() == other.resolve():
                raise InputError(f"--checkpoint would be written over {other}.")
        if path.exists() and not resume:
            raise InputError(
                f"{path} holds an interrupted evaluation: pass --resume to continue it, or delete "
                "it to start anew."
            )
    try:
        yield path
    except KeyboardInterrupt as stop:
        if path is None or not path.exists():
            raise
        raise KeyboardInterrupt(f"pass --resume to continue from {path}") from stop


def evaluate_files(
    *,
    embeddings: Path,
    labels: Path | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    task_file: Path | None,
    junk_label: tuple[str, ...],
    no_mate: str | None,
    unlabelled: str | None,
    metrics: str | None,
    progress: Callable[[int, int], None] | None,
    **options: Any,
) -> tuple[Result, list[Any] | None]:
    """The result, and the ids of the queries where the files name them."""
    chosen: Any = metrics
    if metrics is not None and metrics != "all":
        chosen = _split_metrics(metrics)
    if task_file is not None:
        refused = {
            "--labels": labels,
            "--gallery-labels": gallery_labels,
            "--levels": levels,
            "--taxonomy": taxonomy,
            "--junk-label": junk_label,
            "--no-mate": no_mate,
            "--unlabelled": unlabelled,
        }
        for option, value in refused.items():
            if value:
                raise InputError(f"--task already holds labels and rules; leave {option} out.")
        return _evaluate_task(task_file, embeddings, gallery, chosen, progress, options)
    names = _level_names(levels)
    queries = _side(embeddings, labels, names, "--labels")
    items = Bundle()
    given = options["distance"] in catalogue.names(given=True)
    if gallery is not None:
        items = _side(gallery, gallery_labels, names, "--gallery-labels")
    elif gallery_labels is not None and given:
        items = _labels(gallery_labels, names)
    elif gallery_labels is not None:
        raise InputError("--gallery-labels came without --gallery.")
    _expand(taxonomy, queries, items)
    separate = gallery is not None or items.labels is not None
    result = evaluate(
        queries.embeddings,
        queries.labels,
        gallery=items.embeddings,
        gallery_labels=items.labels,
        query_ids=queries.ids if not separate or items.ids is not None else None,
        gallery_ids=items.ids if queries.ids is not None else None,
        query_groups=queries.groups,
        gallery_groups=items.groups,
        junk_labels=_as_labels(junk_label, queries.labels),
        no_mate=no_mate or "report",
        unlabelled=unlabelled or "error",
        metrics=chosen,
        progress=progress,
        **options,
    )
    return result, None if queries.ids is None else list(queries.ids)


def verify_files(
    *,
    scores_or_embeddings: Path | None,
    pairs: Path,
    layout: str,
    ids: Path | None,
    distance: str | None,
    metrics: str | None,
) -> Result:
    """The result of a list of trials."""
    from truerank.files.trials import read_trials
    from truerank.verification import verify

    trials = read_trials(pairs, layout)
    chosen: Any = metrics
    if metrics is not None and metrics != "all":
        chosen = _split_metrics(metrics)
    values, names = None, None
    if scores_or_embeddings is not None:
        values = read_scores(scores_or_embeddings)
        if values is None:
            bundle = read(scores_or_embeddings)
            values, names = _require_embeddings(bundle, scores_or_embeddings), bundle.ids
    if ids is not None:
        names = read(ids, lone="labels").ids
        if names is None:
            raise InputError(f"{ids} holds no ids: expected a column or array called id.")
    return verify(values, trials, chosen, ids=names, distance=distance)


def choose_from_files(
    *,
    calibration: Path,
    labels: Path | None,
    far: str,
    apply_to: Path | None,
    apply_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    distance: str,
) -> OperatingPoint:
    """The operating point of files."""
    from truerank.threshold import choose_threshold

    names = _level_names(levels)
    first = _side(calibration, labels, names, "--labels")
    second = Bundle()
    if apply_to is not None:
        second = _side(apply_to, apply_labels, names, "--apply-labels")
    elif apply_labels is not None:
        raise InputError("--apply-labels came without --apply.")
    _expand(taxonomy, first, second)
    return choose_threshold(
        first.embeddings,
        first.labels,
        far=far,
        apply=second.embeddings,
        apply_labels=second.labels,
        distance=distance,
    )


def class_table(point: OperatingPoint) -> str:
    """The spread over classes, and every class, worst first."""
    lines = ["", "One threshold for all classes:"]
    for name, levels in point.spread().items():
        text = ", ".join(f"{level} {100 * rate:.4g} %" for level, rate in levels.items())
        lines.append(f"  {name.upper()}: {text}")
    above = sum(one.far > point.target for one in point.classes)
    lines.append(
        f"  {above:,} of {len(point.classes):,} classes have a FAR above the target of "
        f"{100 * point.target:g} %"
    )
    width = max(len("class"), *(len(str(one.label)) for one in point.classes))
    lines += ["", f"{'class':<{width}}  {'FRR %':>9}  {'FAR %':>9}"]
    lines += [
        f"{one.label!s:<{width}}  {100 * one.frr:9.4f}  {100 * one.far:9.4f}"
        for one in point.classes
    ]
    return "\n".join(lines)


def read_scores(path: Path) -> Any:
    """One number for each trial, from a 1-D .npy file or a text file; None if it is neither."""
    check_readable(path)
    if path.suffix.lower() == ".npy":
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as .npy ({error}).") from error
        return array if array.ndim == 1 else None
    if path.suffix.lower() not in (".txt", ".csv", ".tsv"):
        return None
    numbers = []
    for line, text in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        try:
            numbers += [float(text)] if text.strip() else []
        except ValueError:
            if line == 1:  # a header
                continue
            raise InputError(f"{path}, line {line}: expected one number, a score.") from None
    return np.array(numbers)


def compare_files(
    *,
    results: tuple[Path, ...],
    runs: tuple[str, ...],
    names: str | None,
    metrics: str | None,
    confidence: float,
    seed: int,
    output: Path | None,
) -> Comparison:
    """The comparison of results in files; each of `runs` lists the files of one model."""
    models: list[Any] = [*results]
    for text in runs:
        models.append([Path(part.strip()) for part in text.split(",") if part.strip()])
    check_targets(output, None, tuple(results))
    return compare(
        *models,
        names=None if names is None else [name.strip() for name in names.split(",")],
        metrics=None if metrics is None else _split_metrics(metrics),
        confidence=confidence,
        seed=seed,
    )


def audit_files(
    *,
    embeddings: Path,
    labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    train: Path | None,
    progress: Callable[[int, int], None] | None,
    **options: Any,
) -> Audit:
    """The audit of a file of embeddings."""
    bundle = _side(embeddings, labels, _level_names(levels))
    if taxonomy is not None and bundle.labels is None:
        raise InputError(f"{embeddings} holds no labels for --taxonomy; pass LABELS.")
    _expand(taxonomy, bundle)
    known = None if train is None else _require_embeddings(read(train), train)
    return audit(bundle.embeddings, bundle.labels, train=known, progress=progress, **options)


def _level_names(levels: str | None) -> list[str] | None:
    """The columns that --levels names."""
    return None if levels is None else [name.strip() for name in levels.split(",")]


def _expand(path: Path | None, *sides: Bundle) -> None:
    """Replace finest labels by their paths in the taxonomy of a file."""
    if path is None:
        return
    taxonomy = Taxonomy.read(path)
    for side in sides:
        if isinstance(side.labels, dict):
            raise InputError("--taxonomy takes the finest labels alone; leave the levels out.")
        if side.labels is not None:
            side.labels = taxonomy.levels(side.labels)


def _split_metrics(text: str) -> list[str]:
    """'map@r,hit@10' and 'map@10,divisor=min hit@5': a comma before key=value does not divide."""
    return [part for part in re.split(r"\s+|,(?![^,@\s]+=)", text.strip()) if part]


def _evaluate_task(
    task_file: Path,
    embeddings: Path,
    gallery: Path | None,
    metrics: Any,
    progress: Callable[[int, int], None] | None,
    options: dict[str, Any],
) -> tuple[Result, list[Any] | None]:
    task = Task.load(task_file)
    submission = read(embeddings)
    if task.id_names is not None and submission.ids is None:
        raise InputError(
            f"{embeddings} needs an array 'id' beside its embeddings, one for each row."
        )
    items = None if gallery is None else read(gallery).embeddings
    result = task.evaluate(
        _require_embeddings(submission, embeddings),
        submission.ids,
        gallery=items,
        metrics=metrics,
        progress=progress,
        **options,
    )
    ids = task.id_names
    names = None if ids is None else [ids.values[code] for code in ids.codes[0].tolist()]
    return result, names


def _side(
    path: Path, labels: Path | None, levels: list[str] | None, option: str | None = None
) -> Bundle:
    """Embeddings from one file, the rest from the labels file where there is one.

    `option` says how to name that file, if there must be labels.
    """
    bundle = read(path, levels=levels if labels is None else None)
    _require_embeddings(bundle, path)
    if labels is not None:
        more = aligned(_labels(labels, levels), labels, bundle, path)
        bundle.labels = more.labels
        bundle.ids = more.ids if more.ids is not None else bundle.ids
        bundle.groups = more.groups if more.groups is not None else bundle.groups
    if bundle.labels is None and option is not None:
        raise InputError(f"{path} holds no labels; pass {option} FILE.")
    return bundle


def _labels(path: Path, levels: list[str] | None) -> Bundle:
    bundle = read(path, lone="labels", levels=levels)
    if bundle.labels is None:
        raise InputError(f"{path} holds no labels: expected a column or array called label.")
    return bundle


def _require_embeddings(bundle: Bundle, path: Path) -> Any:
    if bundle.embeddings is None:
        raise InputError(f"{path} holds no embeddings: expected a 2-D array called embeddings.")
    return bundle.embeddings


def _as_labels(texts: tuple[str, ...], labels: Any) -> list[Any]:
    """Junk labels from the command line, as ints where the labels are ints."""
    column = list(labels.values())[-1] if isinstance(labels, dict) else labels
    values = column.tolist() if hasattr(column, "tolist") else column
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError as error:
        raise InputError(f"labels are integers, but a junk label is not ({error}).") from error


def write_per_query(result: Result, names: list[Any] | None, path: Path) -> None:
    """One row per query: its number, its id, and lower, expected, upper of every metric."""
    columns: dict[str, list[Any]] = {}
    for metric, score in result.items():
        if score.per_query is None:
            continue
        for end in ("lower", "expected", "upper"):
            values = getattr(score.per_query, end).tolist()
            columns[f"{metric}:{end}"] = [None if value != value else value for value in values]
    count = result.provenance["queries"]
    head: dict[str, list[Any]] = {"query": list(range(count))}
    if names is not None:
        head["id"] = names
    columns = head | columns
    if path.suffix.lower() == ".csv":
        with atomic_path(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install 'truerank[io]'.") from error
    with atomic_path(path) as partial:
        parquet.write_table(pyarrow.table(columns), partial)
