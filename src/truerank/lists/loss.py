"""index_loss: what a deployed index loses by quantisation, by the cut at k and by its search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.arrays import as_matrix
from truerank.core.groups import Block
from truerank.core.metric import Metric
from truerank.core.score import Score, split_undefined
from truerank.errors import InputError, check_choice
from truerank.evaluation.checks import check_options, check_task
from truerank.files import read_side
from truerank.files.hdf5 import chosen_distance
from truerank.lists.cut import CutGroups
from truerank.lists.evaluated import choose
from truerank.lists.nearest import compare_with_exact, depth
from truerank.lists.parts import IndexLoss, MetricLoss
from truerank.lists.places import Places
from truerank.lists.prepared import Prepared, prepare
from truerank.lists.spread import Spread
from truerank.pairs import Mask, PairList
from truerank.progress import shown
from truerank.relevance import View
from truerank.scoring import score_groups
from truerank.space import Space, build, catalogue, probe
from truerank.stats.intervals import IntervalRequest
from truerank.task import TaskRules
from truerank.version import __version__

__all__ = ["NO_METRICS", "index_loss", "loss_of", "nothing_relevant"]

Array = npt.NDArray[Any]
Tick = Callable[[int, int], None]
NO_METRICS: tuple[str, ...] = ()
"""Where nothing says who is relevant."""


def index_loss(
    neighbours: Any,
    labels: Any = None,
    *,
    embeddings: Any,
    gallery: Any = None,
    stored: Any = None,
    stored_queries: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    relevance: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    unlabelled: str = "error",
    no_mate: str = "report",
    named_by: str = "auto",
    distance: str | None = None,
    stored_distance: str | None = None,
    metrics: Iterable[str] | str | None = None,
    average: str = "query",
    k: int | None = None,
    confidence: float | None = 0.95,
    seed: int = 0,
    units: str = "metric",
    device: str = "auto",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> IndexLoss:
    """What an index loses of each metric: by quantisation, by the cut at k, and by its search.

    With M the metric, lower with lower, expected with expected and upper with upper:
    quantisation = M(full vectors) - M(stored vectors), cut = M(stored) - M(stored, cut at k),
    search = M(stored, cut at k) - M(lists). They add up to M(full vectors) - M(lists).

    Parameters
    ----------
    neighbours, labels : as in evaluate_lists
        What the index returned. Scores of a file are not used: listed items tie if their stored
        vectors are exactly as far from the query. Without labels or relevance there is only
        neighbour_recall.
    embeddings, gallery : (Q, d) and (G, d), or paths
        The full vectors. Without a gallery the queries are their own.
    stored : (G, d), or a path
        The vectors as the index stores them, decoded (faiss: index.reconstruct_n). Without it the
        index stores the full ones, and quantisation loses nothing.
    stored_queries : (Q, d), or a path
        The queries, where the index quantises these as well.
    distance, stored_distance : str
        Of the full vectors, as in evaluate, and of the stored ones, if it is another.
    k : int, optional
        For neighbour_recall; by default as many places as every list had left for eligible items.
    gallery_labels, query_ids, gallery_ids, query_groups, gallery_groups, relevance, junk, \
junk_labels, unlabelled, no_mate, named_by
        As in evaluate_lists.
    metrics, average, confidence, seed, units, device, threads, progress
        As in evaluate. Intervals are of paired differences, conditional on the gallery.

    Returns
    -------
    IndexLoss
        A mapping from metric string to MetricLoss, which has the four scores and the parts, each
        with intervals and the values of every query; and neighbour_recall against exact search.

    Examples
    --------
    >>> import truerank
    >>> gallery = [[0.25], [0.75], [2.25], [3.0]]
    >>> stored = [[0.0], [1], [2], [3]]
    >>> loss = truerank.index_loss([[1, 2]], ["a"], embeddings=[[0.0]], gallery=gallery,
    ...                            stored=stored, gallery_labels=["a", "b", "a", "b"],
    ...                            distance="euclidean", metrics="map@r")["map@r"]
    >>> float(loss.quantisation), float(loss.cut), float(loss.search), float(loss.total)
    (0.0, 0.0, 0.25, 0.25)
    """
    distance = chosen_distance(distance, embeddings, gallery)
    queries, items = read_side(embeddings, labels), read_side(gallery, gallery_labels)
    if relevance is not None:  # it stands in the place of labels that nobody asked for
        queries.labels, items.labels = labels, gallery_labels
    unjudged = queries.labels is None and items.labels is None and relevance is None
    if unjudged:
        if metrics is not None:
            raise InputError("labels are missing: pass labels or relevance= to have metrics.")
        metrics = NO_METRICS
        relevance = nothing_relevant(queries.embeddings, items.embeddings)
    prepared = prepare(
        neighbours,
        queries.labels,
        gallery_labels=items.labels,
        query_ids=queries.ids if query_ids is None else query_ids,
        gallery_ids=items.ids if gallery_ids is None else gallery_ids,
        query_groups=queries.groups if query_groups is None else query_groups,
        gallery_groups=items.groups if gallery_groups is None else gallery_groups,
        scores=False,
        relevance=relevance,
        no_mate=no_mate,
        junk=junk,
        junk_labels=junk_labels,
        unlabelled=unlabelled,
        named_by=named_by,
        leave_one_out=(items.embeddings is None) if unjudged else None,
    )
    return loss_of(
        prepared,
        queries.embeddings,
        items.embeddings,
        stored=stored,
        stored_queries=stored_queries,
        distance=distance,
        stored_distance=stored_distance,
        metrics=metrics,
        average=average,
        k=k,
        confidence=confidence,
        seed=seed,
        units=units,
        device=device,
        threads=threads,
        progress=progress,
    )


def loss_of(
    prepared: Prepared,
    embeddings: Any,
    gallery: Any,
    *,
    stored: Any,
    stored_queries: Any,
    distance: str,
    stored_distance: str | None,
    metrics: Iterable[str] | str | None,
    average: str,
    k: int | None,
    confidence: float | None,
    seed: int,
    units: str,
    device: str,
    threads: int | None,
    progress: Callable[[int, int], None] | bool | None,
) -> IndexLoss:
    """The loss of lists that are read and checked."""
    task, places = prepared.task, prepared.places
    check_options(task, average, threads, progress)
    request = IntervalRequest.of(confidence, seed, units)
    chosen, refusals = ([], {}) if metrics is NO_METRICS else choose(task, metrics)
    of_stored = distance if stored_distance is None else stored_distance
    for name, value in (("distance", distance), ("stored_distance", of_stored)):
        check_choice(name, value, catalogue.names(given=False), of="index_loss")
    device = engine.resolve_device(device, task.queries * task.items)
    rows = as_matrix(embeddings, "embeddings")
    items = _gallery(gallery, rows, task)
    check_task(task, rows, items, given=False)
    full = build(distance, rows, items, task.columns, threads=threads)
    probe(full)
    same = stored is None and stored_queries is None and of_stored == distance
    if same:
        kept = full
    else:
        decoded = _stored(stored, rows if items is None else items, "stored")
        asking = _stored(stored_queries, rows, "stored_queries")
        check_task(task, asking, decoded, given=False)
        kept = build(of_stored, asking, decoded, task.columns, threads=threads)
        probe(kept)
    most = depth(k, places)
    cut = places.asked - places.taken_out
    workers = threads or engine.available_cores()
    with shown(progress, "ranking") as report:
        stage = _Stages(3 if same else 5, task.queries * task.items, report)
        scorer = _Scorer(task, chosen, average, request, device, workers, stage)
        against = compare_with_exact(kept, task.view.exclusions, places, most, stage.next())
        by_full = against
        if not same:
            by_full = compare_with_exact(full, task.view.exclusions, places, most, stage.next())
        scores: dict[str, dict[str, Score]] = {"full": {}}
        if chosen:
            scores = {"full": scorer.ranked(full)}
            scores["stored"] = scores["full"] if same else scorer.ranked(kept)
            scores["at_k"] = scorer.ranked(kept, cut)
            scores["returned"] = scorer.listed(places.tied_by(against.distance))
    spread = Spread(task, request, average, chosen)
    losses = {str(metric): _loss(metric, scores, spread) for metric in chosen}
    named = metrics is not None and not (isinstance(metrics, str) and metrics == "all")
    undefined = {} if named else split_undefined(scores["full"])[1]
    return IndexLoss(
        {name: loss for name, loss in losses.items() if name not in undefined},
        full_recall=spread.recall(most, by_full.recall),
        stored_recall=spread.recall(most, against.recall),
        provenance={
            "version": __version__,
            "queries": task.queries,
            "gallery": task.items,
            "asked": places.asked,
            "distance": distance,
            "stored_distance": of_stored,
            "quantised": not same,
            "average": average,
            "confidence": None if request is None else request.confidence,
            "seed": None if request is None else request.seed,
            "unit": "queries" if task.levels is None else "classes",
            "repeated": places.repeated,
            "unknown": places.unknown,
            "excluded": task.exclusions(),
            "no_mate": task.no_mate_counts(),
            "task_digest": task.digest,
            "device": device,
        },
        skipped=refusals | undefined,
    )


def nothing_relevant(embeddings: Any, gallery: Any) -> Mask:
    """Judgements of vectors that nobody has judged: only neighbour_recall can be told."""
    rows = as_matrix(embeddings, "embeddings")
    items = rows if gallery is None else as_matrix(gallery, "gallery")
    none = np.empty(0, np.int64)
    return Mask.of_pairs("relevance", (len(rows), len(items)), PairList.empty(), none)


def _loss(metric: Metric, scores: dict[str, dict[str, Score]], spread: Spread) -> MetricLoss:
    full, stored, at_k, returned = (scores[step][str(metric)] for step in scores)
    return MetricLoss(
        str(metric),
        full,
        stored,
        at_k,
        returned,
        quantisation=spread.part(metric, full, stored),
        cut=spread.part(metric, stored, at_k),
        search=spread.part(metric, at_k, returned),
        total=spread.part(metric, full, returned),
    )


def _gallery(gallery: Any, rows: Array, task: TaskRules) -> Array | None:
    """The gallery's vectors; None where the queries are their own gallery."""
    if task.leave_one_out and gallery is not None:
        raise InputError("a gallery came without gallery_labels; pass one label for each item.")
    if gallery is None and task.levels is not None and not task.leave_one_out:
        raise InputError("gallery_labels came without a gallery; pass gallery= or leave both out.")
    if gallery is None:
        return None if task.leave_one_out else rows
    return as_matrix(gallery, "gallery")


def _stored(value: Any, instead: Array, name: str) -> Array:
    """Vectors as they are stored, or the full ones where nothing is said."""
    return instead if value is None else as_matrix(value, name)


class _Stages:
    """Progress over several passes of as many pairs each."""

    def __init__(self, stages: int, pairs: int, report: Tick | None) -> None:
        self._stages, self._pairs, self._report = stages, pairs, report
        self._stage, self._furthest = -1, 0

    def next(self) -> Tick:
        """A function that is told how much of the next pass is done."""
        self._stage += 1
        behind = self._stage * self._pairs

        def tick(done: int, whole: int) -> None:
            at = behind + self._pairs * done // max(whole, 1)
            if self._report is not None and at > self._furthest:  # a pass may be several
                self._furthest = at
                self._report(at, self._stages * self._pairs)

        return tick


class _Scorer:
    """Scores of the same metrics from one ranking after another."""

    def __init__(
        self,
        task: TaskRules,
        metrics: list[Metric],
        average: str,
        request: IntervalRequest | None,
        device: str,
        threads: int,
        stages: _Stages,
    ) -> None:
        self._task, self._metrics, self._average, self._request = task, metrics, average, request
        self._device, self._threads, self._stages = device, threads, stages

    def ranked(self, space: Space, k: npt.NDArray[np.int64] | None = None) -> dict[str, Score]:
        """Of the exact ranking, or of its first k items: a number for each query."""
        tick = self._stages.next()

        def blocks(view: View) -> Iterator[Block]:
            found = engine.tie_groups(
                view, space, device=self._device, threads=self._threads, progress=tick, keep=False
            )
            with closing(found):
                for block in found:
                    groups = block.groups
                    if k is not None:
                        groups = CutGroups.of(groups, k[block.rows])
                    yield Block(block.rows, groups, block.split)

        return self._scored(blocks)

    def listed(self, places: Places) -> dict[str, Score]:
        """Of the lists."""
        return self._scored(places.blocks, places)

    def _scored(
        self, blocks: Callable[[View], Iterator[Block]], places: Places | None = None
    ) -> dict[str, Score]:
        return score_groups(
            self._task,
            self._metrics,
            blocks,
            average=self._average,
            threads=self._threads,
            request=self._request,
            strangers=None if places is None else places.strangers,
        )[0]
