"""evaluate: arrays and labels in, a Result out. The one place where the layers meet."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import clustering, engine
from truerank.arrays import as_array, as_matrix
from truerank.checkpoint import Checkpoint
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.errors import InputError, TruerankWarning
from truerank.pairs import Mask
from truerank.result import Attribute, Result
from truerank.scoring import score
from truerank.space import Space, build, catalogue, probe
from truerank.space.digests import as_keys
from truerank.stats.intervals import Request
from truerank.task import TaskRules
from truerank.version import __version__
from truerank.wording import either

__all__ = ["evaluate", "evaluate_task"]

Array = npt.NDArray[Any]
MOST_THREADS = 1024


def evaluate(
    embeddings: Any,
    labels: Any = None,
    *,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    distance: str = "cosine",
    metrics: Iterable[str] | str | None = None,
    average: str = "query",
    no_mate: str = "report",
    unlabelled: str = "error",
    device: str = "auto",
    threads: int | None = None,
    confidence: float | None = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Result:
    """Score embeddings by exact, tie-proof ranking metrics.

    Parameters
    ----------
    embeddings : (Q, d) array, tensor or path
        One row for each query; the (Q, G) matrix itself for "precomputed" and "similarity".
    labels : (Q,) or (Q, L)
        A label, or a path of labels from coarse to fine, for each row.
    gallery, gallery_labels : optional
        What is searched. Without a gallery each row is searched among all the others
        (leave-one-out), and the `query_*` arguments describe both sides.
    query_ids, gallery_ids : optional
        Rows that share an id never meet: a query in the gallery, crops of one item.
    query_groups, gallery_groups : optional
        Items with the query's label and group (camera) are junk for it.
    junk : (Q, G) bool or sparse, optional
        Further pairs to exclude.
    junk_labels : iterable
        Gallery items with these labels are excluded for every query.
    relevance : (Q, G) bool, grades or sparse, or a path, optional
        Who is relevant to whom, and how much, instead of labels. A path names a TREC qrels file,
        which is matched by query_ids and gallery_ids. A (Q, G) matrix given in place of embeddings
        is then taken as it is: no row is removed from its own list.
    distance : str
        By its name in `truerank.space.catalogue`: cosine, euclidean, ...; "precomputed" and
        "similarity" for a matrix.
    metrics : strings, optional
        Such as "map@r" or "hit@10"; "all" for every registered one. By default
        precision@1, hit@5, hit@10, r_precision, map@r, map, mrr, minp; with labels of several
        levels also h_ap, asi, ndcg; with queries that have no mate also dir@far=0.01, mrep, mfr.
    average : {"query", "class"}
        Mean over queries, or over classes of the mean over each class's queries.
    no_mate : {"report", "zero", "error"}
        Queries with nothing to find are left out and counted, count as 0, or are refused.
    unlabelled : {"error", "distractor"}
        Whether gallery rows may have no label; they are then relevant to nobody.
    device : {"auto", "cpu", "cuda", "reference"}
        The compiled engine, the GPUs of this machine (with torch), or the slow numpy engine that
        defines the truth; the bits are the same. "auto" takes a GPU, if there is one, for tasks
        large enough to gain by it.
    threads : int, optional
        Number of threads; all available cores by default.
    confidence : float, optional
        Of the interval around each score; None for no intervals. In leave-one-out it is for the
        expectation over new data sets of the same design, otherwise conditional on this gallery.
    seed : int
        Of what the intervals draw at random. No score depends on it.
    progress : callable, optional
        Called as progress(pairs done, pairs in all) from time to time.
    checkpoint : path, optional
        A file that holds the counts so far, written every minute and on an interrupt and removed
        at the end. If it exists, the same evaluation goes on from there; another one's is refused.

    Returns
    -------
    Result
        A mapping from metric string to Score.

    Examples
    --------
    >>> import truerank
    >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
    >>> r["map@r"].value
    0.75
    """
    given = catalogue.find(distance).given
    if isinstance(relevance, (str, os.PathLike)):
        relevance = _judgements(relevance, query_ids, gallery_ids)
    rows = as_matrix(embeddings, "embeddings")
    items = None if gallery is None else as_matrix(gallery, "gallery")
    relevance = _check_relevance(relevance, rows, items, given)
    _check_sides(rows, items, labels, gallery_labels, relevance, given)
    task = TaskRules(
        labels,
        ids=query_ids,
        groups=query_groups,
        gallery_labels=gallery_labels,
        gallery_ids=gallery_ids,
        gallery_groups=gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        no_mate=no_mate,
        unlabelled=unlabelled,
        leave_one_out=items is None and gallery_labels is None and not (given and labels is None),
    )
    return evaluate_task(
        task,
        rows,
        items,
        distance=distance,
        metrics=metrics,
        average=average,
        device=device,
        threads=threads,
        confidence=confidence,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )


def evaluate_task(
    task: TaskRules,
    rows: Array,
    items: Array | None,
    *,
    distance: str = "cosine",
    metrics: Iterable[str] | str | None = None,
    average: str = "query",
    device: str = "auto",
    threads: int | None = None,
    confidence: float | None = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Result:
    """Score the rows (and gallery items) of a task; both are in the task's order."""
    started = time.perf_counter()
    given = catalogue.find(distance).given
    if not isinstance(average, str) or average not in ("query", "class"):
        raise InputError(
            f"The 'average' parameter must be one of query, class. Got {average!r} instead."
        )
    if average == "class" and task.levels is None:
        raise InputError("average='class' needs labels; relevance= says nothing about classes.")
    if threads is not None and (
        isinstance(threads, bool)
        or not isinstance(threads, (int, np.integer))
        or not 1 <= threads <= MOST_THREADS
    ):
        raise InputError(
            f"The 'threads' parameter must be an int >= 1 and at most {MOST_THREADS}. "
            f"Got {threads!r} instead."
        )
    request = Request.of(confidence, seed)
    chosen = _choose(task, metrics)
    device = engine.resolve_device(device, task.queries * task.items)
    _check_task(task, rows, items, given=given)
    space = build(distance, rows, items, task.columns, threads=threads)
    if not task.leave_one_out and items is not None and not task.excludes_pairs:
        _refuse_queries_in_gallery(task, space)
    probe(space)
    kept = Checkpoint()
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, _identity(task, space, chosen, request))
    clustered = [m for m in chosen if registry.definition(m).family == "clustering"]
    ranked = [metric for metric in chosen if metric not in clustered]
    scores, findings = score(
        task,
        space,
        ranked,
        average=average,
        device=device,
        threads=threads,
        progress=progress,
        checkpoint=kept,
        request=request,
    )
    kept.remove()
    if clustered:
        workers = threads or engine.available_cores()
        found = clustering.score(task, space, clustered, int(seed), workers, request)
        scores |= found
        if metrics != "all":
            clustering.warn(found)
        scores = {str(metric): scores[str(metric)] for metric in chosen}
    for sentence in registry.warnings_about(scores.values()):
        warnings.warn(sentence, TruerankWarning, stacklevel=3)
    skipped = {}
    if metrics is None:
        skipped = {name: s.reason for name, s in scores.items() if s.reason}
        scores = {name: s for name, s in scores.items() if not s.reason}
    consistency = findings.reports.get("consistency")
    provenance = {
        "version": __version__,
        "queries": task.queries,
        "gallery": task.items,
        "dimensions": None if given else int(rows.shape[1]),
        "leave_one_out": task.leave_one_out,
        "distance": space.facts.to_dict(),
        "average": average,
        "excluded": task.exclusions(),
        "no_mate_option": task.no_mate,
        "no_mate": task.no_mate_counts(),
        "ties": findings.ties,
        "hierarchy": findings.hierarchy,
        "severity": None if findings.severity is None else findings.severity.to_dict(),
        "intervals": findings.intervals,
        "consistency": None if consistency is None else consistency.to_dict(),
        "task_digest": task.digest,
        "device": device,
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Result(
        scores,
        skipped=skipped,
        provenance=provenance,
        attributes=_attributes(task),
        severity=findings.severity,
        units=_units(task),
        curves=findings.curves,
        first_mates=findings.first_mates,
        consistency=consistency,
    )


def _identity(
    task: TaskRules, space: Space, metrics: list[Metric], request: Request | None
) -> dict[str, str]:
    """What counts depend on. Unlike the digests of a result, these see the order of rows."""
    labels, rows = blake2b(task.digest.encode(), digest_size=16), blake2b(digest_size=16)
    for _, records in task.records():
        labels.update("\n".join(records).encode())
    rows.update(space.facts.input_digest.encode())
    for digests in (space.query_digests, space.gallery_digests):
        rows.update(digests.astype("<u8").tobytes())
    return {
        "version of truerank": __version__,
        "distance": space.facts.distance,
        "set of embeddings": rows.hexdigest(),
        "task": labels.hexdigest(),
        "choice of metrics": " ".join(map(str, metrics)),
        "seed of the intervals": "none" if request is None else str(request.seed),
    }


def _choose(task: TaskRules, metrics: Iterable[str] | str | None) -> list[Metric]:
    deep = task.levels is not None and len(task.levels) > 1
    if metrics is None:
        more = registry.DEFAULT_HIERARCHY if deep else ()
        if (task.mates == 0).any():
            more = (*more, *registry.DEFAULT_OPEN_SET)
        return registry.parse_all([*registry.DEFAULT, *more])
    if isinstance(metrics, str) and metrics == "all":
        return registry.parse_all(registry.examples())
    chosen = registry.parse_all(metrics)
    for sentence in registry.advice_about(chosen):
        warnings.warn(sentence, TruerankWarning, stacklevel=4)
    return chosen


def _judgements(path: str | os.PathLike[str], query_ids: Any, gallery_ids: Any) -> Any:
    from truerank.files.judgements import read_qrels

    if query_ids is None or gallery_ids is None:
        raise InputError("a file of judgements names rows by id; pass query_ids and gallery_ids.")
    ids = [as_array(side, "ids").tolist() for side in (query_ids, gallery_ids)]
    return read_qrels(path, *ids)


def _attributes(task: TaskRules) -> dict[str, Attribute]:
    attributes = {}
    if task.levels is not None:
        attributes["label"] = Attribute(task.query_codes, task.levels.finest.values)
    if task.group_names is not None:
        attributes["group"] = Attribute(task.group_names.codes[0], task.group_names.values)
    return attributes


def _units(task: TaskRules) -> npt.NDArray[np.int64]:
    """What resampling draws: classes, or queries (by their ids, if they have any)."""
    if task.levels is not None:
        return task.query_codes
    if task.id_names is not None:
        return task.id_names.codes[0]
    return np.arange(task.queries)


def _check_sides(
    rows: Array,
    items: Array | None,
    labels: Any,
    gallery_labels: Any,
    relevance: Any,
    given: bool,
) -> None:
    if given and items is not None:
        raise InputError(
            f"a {either(catalogue.names(given=True))} matrix already covers the gallery; leave "
            "gallery out and pass gallery_labels for its columns."
        )
    if not given and items is None and gallery_labels is not None:
        raise InputError("gallery_labels came without a gallery; pass gallery= or leave both out.")
    if items is not None and labels is not None and gallery_labels is None and relevance is None:
        raise InputError("a gallery came without gallery_labels; pass one label for each item.")


def _check_relevance(relevance: Any, rows: Array, items: Array | None, given: bool) -> Mask | None:
    mask = Mask.of(relevance, "relevance")
    gallery = rows.shape[1] if given else len(rows if items is None else items)
    if mask is not None and mask.shape != (len(rows), gallery):
        raise InputError(
            f"relevance must have shape (queries, gallery) = {(len(rows), gallery)}. "
            f"Got {mask.shape} instead."
        )
    return mask


def _check_task(task: TaskRules, rows: Array, items: Array | None, *, given: bool) -> None:
    if items is not None and items.shape[1] != rows.shape[1]:
        raise InputError(
            "queries and gallery must have the same number of dimensions. "
            f"Got {rows.shape} and {items.shape}."
        )
    if len(rows) != task.queries:
        raise InputError(
            f"embeddings have {len(rows)} rows but there are {task.queries} labels; "
            "pass one label for each row."
        )
    gallery = rows.shape[1] if given else len(rows if items is None else items)
    if gallery == task.gallery_size:
        return
    if not given:
        raise InputError(
            f"the gallery has {gallery} rows but there are {task.gallery_size} gallery labels; "
            "pass one label for each item."
        )
    fix = (
        "a matrix without gallery_labels must be square"
        if task.leave_one_out
        else "pass one gallery label for each column"
    )
    raise InputError(f"the matrix of shape {rows.shape} needs {task.gallery_size} columns; {fix}.")


def _refuse_queries_in_gallery(task: TaskRules, space: Space) -> None:
    """Every query found again, with its label, as a gallery row of its own: self-matches."""
    queries = Counter(zip(as_keys(space.query_digests), task.query_codes.tolist(), strict=True))
    items = Counter(zip(as_keys(space.gallery_digests), task.gallery_codes.tolist(), strict=True))
    if queries <= items:
        raise InputError(
            "the gallery contains the queries: leave it out or pass ids (query_ids, gallery_ids), "
            "so that no query finds itself."
        )
