"""The lists of files under the rules of a task, and what they score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truerank.cli.evaluate_files import as_labels
from truerank.cli.inputs import add_columns, chosen_metrics, expand, level_names, read_matrix
from truerank.errors import InputError
from truerank.files import Bundle, read_embeddings, read_labels
from truerank.lists import IndexLoss
from truerank.lists.evaluated import evaluate_prepared
from truerank.lists.loss import NO_METRICS, loss_of, nothing_relevant
from truerank.lists.prepared import Prepared, prepare
from truerank.result import Result

__all__ = ["lost", "read_files", "scored"]


def read_files(options: dict[str, Any]) -> tuple[Prepared, Any]:
    """The task and its lists, and the metrics asked for."""
    judged = options["relevance"] is not None
    if judged and (options["labels"] is not None or options["gallery_labels"] is not None):
        raise InputError("--relevance says who is relevant; leave the labels out.")
    nobody = not judged and options["labels"] is None
    if nobody and (options["embeddings"] is None or options["gallery_labels"] is not None):
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
    relevance = _judgements(options["relevance"])
    if nobody:
        if metrics is not None:
            raise InputError("metrics need --labels FILE, or --relevance FILE in place of labels.")
        metrics, relevance = NO_METRICS, nothing_relevant(*_vectors(options)[:2])
    scores = read_matrix(options["scores"]) if options["scores"] is not None else None
    prepared = prepare(
        options["neighbours"],
        queries.labels,
        gallery_labels=items.labels,
        query_ids=queries.ids,
        gallery_ids=items.ids,
        query_groups=queries.groups,
        gallery_groups=items.groups,
        scores=False if options["ignore_scores"] else scores,
        relevance=relevance,
        no_mate=options["no_mate"] or "report",
        junk_labels=as_labels(options["junk_label"], queries.labels),
        unlabelled=options["unlabelled"] or "error",
        named_by=options["named_by"],
        gallery_size=options["gallery_size"],
        leave_one_out=alone if nobody else None,
    )
    return prepared, metrics


def _side(path: Path | None, levels: list[str] | None) -> Bundle:
    return Bundle() if path is None else read_labels(path, levels)


def _judgements(path: Path | None) -> Any:
    """A matrix of numbers, or the path of judgements that go by id."""
    return read_matrix(path) if path is not None and path.suffix.lower() == ".npy" else path


def _vectors(options: dict[str, Any]) -> list[Any]:
    """The queries, the gallery, and both as the index stores them, as far as they are given."""
    names = ("embeddings", "gallery", "stored", "stored_queries")
    return [None if options[name] is None else read_embeddings(options[name]) for name in names]


def scored(prepared: Prepared, metrics: Any, options: dict[str, Any]) -> Result:
    """The result of the lists."""
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
