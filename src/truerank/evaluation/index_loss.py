"""index_loss: what a deployed index loses by quantisation, by the cut at k and by its search.

quantisation = full - stored
cut          = stored - stored cut at k
search       = stored cut at k - list

Each part is the difference of two scores, with an interval: whole classes of queries are drawn
with replacement, paired. In an exact ranking that is cut at k, the rest is one tie group; a tie
group that the cut divides gives any of its items to the list, each choice with its probability.
Lists are also compared with the exact neighbors, computed or from a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util import text
from truerank._util.arrays import as_array
from truerank._util.errors import InputError, check_choice, shortened
from truerank._util.files import as_path, read_archive, to_json
from truerank._util.installed import __version__
from truerank._util.old_names import renamed_keywords
from truerank._util.progress import shown
from truerank._util.text import TextTable, count, separated
from truerank._util.threads import available_cores
from truerank._util.types import Array, Integers, Reals
from truerank.core.metric import Metric
from truerank.core.registry import display_name
from truerank.core.score import PerQuery, Score, split_undefined
from truerank.core.student import quantile
from truerank.core.tie_groups import Block, Measure, TieGroups
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.probe import probe
from truerank.engine import runner
from truerank.engine.schedule import resolve_device
from truerank.evaluation.list_input import UNKNOWN, ListPlaces, Prepared, Returned, choose, prepare
from truerank.evaluation.passes import score_groups
from truerank.evaluation.task_input import check_options, check_task
from truerank.intervals.estimation import Estimation
from truerank.intervals.interval import FEWEST_DRAWN, ClassSums, IntervalRequest, standard_errors
from truerank.io.lists import read_lists
from truerank.io.reading import as_matrix, is_path, read_side
from truerank.io.vectors import chosen_distance
from truerank.result.tables import laid_out, percent
from truerank.task.relevance import Exclusions, Mask, PairList, View
from truerank.task.task import TaskRules, Unit, finest_unit

Tick = Callable[[int, int], None]
NO_METRICS: tuple[str, ...] = ()
"""Where nothing says who is relevant."""


@renamed_keywords(neighbours="neighbors", no_mate="unmated")
def index_loss(
    neighbors: Any,
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
    unmated: str = "report",
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
    """Measure what an index loses of each metric: by quantisation, the cut at k and its search.

    With M the metric, lower with lower, expected with expected and upper with upper:
    quantisation = M(full vectors) - M(stored vectors), cut = M(stored) - M(stored, cut at k),
    search = M(stored, cut at k) - M(lists). They add up to M(full vectors) - M(lists).

    Parameters
    ----------
    neighbors, labels : as in evaluate_lists
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
junk_labels, unlabelled, unmated, named_by
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
        neighbors,
        queries.labels,
        gallery_labels=items.labels,
        query_ids=queries.ids if query_ids is None else query_ids,
        gallery_ids=items.ids if gallery_ids is None else gallery_ids,
        query_groups=queries.groups if query_groups is None else query_groups,
        gallery_groups=items.groups if gallery_groups is None else gallery_groups,
        scores=False,
        relevance=relevance,
        unmated=unmated,
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
    device = resolve_device(device, task.queries * task.items)
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
    workers = threads or available_cores()
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
            "no_mate": task.unmated_counts(),
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


def nothing_listed(neighbors: Any, exact: Any) -> Mask:
    """Judgements of lists that nobody has judged, of the rows that they and exact search name."""
    lists = read_lists(neighbors).neighbors if is_path(neighbors) else neighbors
    true = _exact(exact)[0]
    items = 1 + max(_largest(lists), _largest(true))
    none = np.empty(0, np.int64)
    return Mask.of_pairs("relevance", (len(true), items), PairList.empty(), none)


def _largest(lists: Any) -> int:
    """The largest row number in lists, 0 if they hold none; -1 as an unsigned number is none."""
    if hasattr(lists, "dtype"):
        cells = as_array(lists, "neighbors").ravel()
    else:
        rows = (row for row in lists if np.iterable(row)) if np.iterable(lists) else ()
        cells = np.array([cell for row in rows for cell in row], object)
    if cells.dtype.kind not in "iu":
        whole = (int(cell) for cell in cells.tolist() if isinstance(cell, (int, np.integer)))
        cells = np.fromiter((cell for cell in whole if cell.bit_length() < 64), np.int64)
    return int(cells[cells < np.iinfo(np.int32).max].max(initial=0))


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
            found = runner.tie_groups(
                view, space, device=self._device, threads=self._threads, progress=tick, keep=False
            )
            with closing(found):
                for block in found:
                    groups = block.groups
                    if k is not None:
                        groups = CutGroups.of(groups, k[block.rows])
                    yield Block(block.rows, groups, block.split)

        return self._scored(blocks)

    def listed(self, places: ListPlaces) -> dict[str, Score]:
        """Of the lists."""
        return self._scored(places.blocks, places)

    def _scored(
        self, blocks: Callable[[View], Iterator[Block]], places: ListPlaces | None = None
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


# What an index loses, in parts: each the difference of two scores, which together are the whole.


ENDS = ("lower", "expected", "upper")
PARTS = ("quantisation", "cut", "search", "total")
Interval = tuple[float, float]


@dataclass(frozen=True)
class LossPart:
    """How much of a metric is lost on one step: positive where the step costs something."""

    lower: float
    expected: float
    upper: float
    """Lower less lower, expected less expected, upper less upper; each rounded once."""
    intervals: Mapping[str, Interval | None]
    """Of lower, expected and upper; None where no class differs from another."""
    reason: str | None
    """Why there are no intervals, if they were asked for."""
    per_query: PerQuery = field(repr=False)

    @property
    def value(self) -> float:
        """What the score, the pessimistic end, loses."""
        return self.lower

    @property
    def interval(self) -> Interval | None:
        """That of the value."""
        return self.intervals["lower"]

    def __float__(self) -> float:
        return self.value

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        data: dict[str, Any] = {end: _plain(getattr(self, end)) for end in ENDS}
        data["intervals"] = {
            end: None if one is None else list(one) for end, one in self.intervals.items()
        }
        data["reason"] = self.reason
        if per_query:
            data["per_query"] = self.per_query.to_dict()
        return data


@dataclass(frozen=True)
class MetricLoss:
    """One metric on the way from the vectors to what is returned."""

    metric: str
    full: Score
    """Of the whole ranking by the full vectors."""
    stored: Score
    """Of the whole ranking by the vectors that the index stores."""
    at_k: Score
    """Of that ranking cut at k."""
    returned: Score
    """Of the lists; items whose stored vectors are equally far tie."""
    quantisation: LossPart
    cut: LossPart
    search: LossPart
    total: LossPart

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        scores = {name: getattr(self, name) for name in ("full", "stored", "at_k", "returned")}
        data = {name: score.to_dict(per_query) for name, score in scores.items()}
        return data | {name: getattr(self, name).to_dict(per_query) for name in PARTS}


@dataclass(frozen=True)
class NeighborRecall:
    """Of the first k places, the share that belongs to the true k nearest; not recall@k."""

    k: int
    value: float
    interval: Interval | None
    reason: str | None
    per_query: Reals = field(repr=False)

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Plain JSON values."""
        data: dict[str, Any] = {"k": self.k, "value": _plain(self.value), "reason": self.reason}
        data["interval"] = None if self.interval is None else list(self.interval)
        if per_query:
            data["per_query"] = [_plain(value) for value in self.per_query.tolist()]
        return data


class IndexLoss(Mapping[str, MetricLoss]):
    """Losses of a deployed index by metric; prints as a table."""

    def __init__(
        self,
        losses: Mapping[str, MetricLoss],
        *,
        full_recall: NeighborRecall,
        stored_recall: NeighborRecall,
        provenance: Mapping[str, Any],
        skipped: Mapping[str, str],
    ) -> None:
        self._losses = dict(losses)
        self.full_recall = full_recall
        """neighbour_recall against exact search by the full vectors."""
        self.stored_recall = stored_recall
        """The same by the stored vectors: what the search alone misses."""
        self.provenance = dict(provenance)
        self.skipped = dict(skipped)

    def __getitem__(self, metric: str) -> MetricLoss:
        from truerank.core import registry

        name = metric if metric in self._losses else str(registry.parse(metric))
        if name not in self._losses:
            raise KeyError(f"{metric!r} was not computed; there are {', '.join(self._losses)}")
        return self._losses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._losses)

    def __len__(self) -> int:
        return len(self._losses)

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = text.table(self._table()) if self._losses else ""
        return text.block(table, text.paragraphs(self.notes))

    def _rows(self, written: Any) -> Iterator[list[Any]]:
        for name, loss in self._losses.items():
            several = any(
                score.lower != score.upper
                for score in (loss.full, loss.stored, loss.at_k, loss.returned)
            )
            for end in ENDS if several else ENDS[:1]:
                yield [
                    display_name(name) if end == "lower" else "",
                    end,
                    percent(getattr(loss.full, end)),
                    *(written(getattr(loss, part), end) for part in PARTS[:3]),
                    percent(getattr(loss.returned, end)),
                ]

    def _table(self) -> TextTable:
        def written(part: LossPart, end: str) -> str:
            interval = part.intervals[end]
            ends = "" if interval is None else f" ({' to '.join(map(_change, interval))})"
            return f"{_change(getattr(part, end))}{ends}"

        header = ["metric", "bound", "full", "quantisation", "cut", "search", "returned"]
        return TextTable(header, list(self._rows(written)), words=(0, 1))

    @property
    def notes(self) -> list[str]:
        """How to read it, what was searched, and how the intervals came about."""
        facts = self.provenance
        told = (
            "In percent: the full vectors' score, what is lost on the way, and the lists' score, "
            "which is the first less the three losses."
        )
        lines = [
            told if self._losses else "In percent; without labels there are no metrics.",
            f"{count(facts['queries'], 'query')} against "
            f"{count(facts['gallery'], 'gallery item')}, "
            f"{count(facts['asked'], 'place')} asked for; full vectors by {facts['distance']} "
            f"distance, stored ones by {facts['stored_distance']}"
            f"{'' if facts['quantised'] else ' (the same vectors)'}.",
        ]
        for recall, of in ((self.full_recall, "full"), (self.stored_recall, "stored")):
            interval = ""
            if recall.interval is not None:
                interval = f" ({' to '.join(map(percent, recall.interval))})"
            lines.append(
                f"neighbour_recall@{recall.k} against exact search by the {of} vectors: "
                f"{percent(recall.value)}{interval}."
            )
        if facts["confidence"] is not None:
            lines.append(
                f"Intervals of {100 * facts['confidence']:g} % by bootstrap of whole "
                f"{facts['unit']}, paired; conditional on this gallery."
            )
        reasons = dict.fromkeys(
            part.reason
            for loss in self._losses.values()
            for part in (loss.quantisation, loss.cut, loss.search)
            if part.reason is not None
        )
        return lines + [f"No interval: {reason}." for reason in reasons]

    def to_text(self, *, rule: bool = False) -> str:
        """A table and the sentences below it, as wide as the screen."""
        if not self._losses:
            return "\n".join(map(text.paragraph, self.notes))
        return laid_out(self._table(), self.notes, rule=rule)

    def to_markdown(self) -> str:
        """A Markdown table."""
        return text.markdown(self._table())

    def to_latex(self) -> str:
        """A booktabs tabular."""
        return text.latex(self._table())

    def to_csv(self) -> str:
        """Fractions at full precision: a row for each metric, step and bound."""
        header = ["metric", "step", "bound", "value", "interval_low", "interval_high"]
        rows: list[list[Any]] = []
        for name, loss in self._losses.items():
            for step in ("full", "stored", "at_k", "returned"):
                score = getattr(loss, step)
                rows += [[name, step, end, getattr(score, end), None, None] for end in ENDS]
            for step in PARTS:
                part = getattr(loss, step)
                rows += [
                    [name, step, end, getattr(part, end), *(part.intervals[end] or (None, None))]
                    for end in ENDS
                ]
        for step, recall in (("full", self.full_recall), ("stored", self.stored_recall)):
            ends = recall.interval or (None, None)
            rows.append([f"neighbour_recall@{recall.k}", step, "value", recall.value, *ends])
        return separated(header, rows)

    def to_dict(self, per_query: bool = True) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return {
            "format": "truerank-index-loss",
            "schema_version": 1,
            "losses": {name: loss.to_dict(per_query) for name, loss in self._losses.items()},
            "neighbour_recall": {
                "full": self.full_recall.to_dict(per_query),
                "stored": self.stored_recall.to_dict(per_query),
            },
            "skipped": self.skipped,
            "provenance": self.provenance,
        }

    def to_json(self, path: Any = None, per_query: bool = True) -> str:
        """The JSON text; written to `path` in one step if given."""
        return to_json(self.to_dict(per_query), path)


def _change(value: float) -> str:
    """A difference in percent, such as '0.25', never '-0.00'."""
    return percent(round(value, 4) + 0.0)


def _plain(value: float) -> float | None:
    return None if value != value else float(value)


# How sure the parts of a loss are: whole classes of queries drawn with replacement, paired.


class Spread:
    """How far differences and shares vary over the classes, drawn with replacement."""

    def __init__(
        self,
        task: TaskRules,
        request: IntervalRequest | None,
        average: str,
        metrics: Iterable[Metric] = (),
    ) -> None:
        self._task, self._request = task, request
        self._estimation = None
        if request is not None:
            parts = {metric: [metric] for metric in metrics}
            self._estimation = Estimation(task, None, request, average, parts)
        self._classes = task.query_codes if average == "class" else None

    def part(self, metric: Metric, first: Score, second: Score) -> LossPart:
        """The first score less the second, with intervals over the units of the metric."""
        assert first.per_query is not None
        assert second.per_query is not None
        values = {end: getattr(first, end) - getattr(second, end) for end in ENDS}
        rows = PerQuery(
            *(getattr(first.per_query, end) - getattr(second.per_query, end) for end in ENDS)
        )
        intervals: dict[str, Interval | None] = dict.fromkeys(ENDS)
        if self._request is None or values["lower"] != values["lower"]:
            return LossPart(**values, intervals=intervals, reason=None, per_query=rows)
        assert self._estimation is not None
        unit = self._estimation.units[metric]
        codes = unit.codes(self._task)[0]
        terms = list(zip(first.per_query.terms, second.per_query.terms, strict=True))
        sums = [
            ClassSums.of(getattr(a, end) - getattr(b, end), codes, self._classes).in_order()
            for end in ENDS
            for a, b in terms
        ]
        units = min(map(len, sums))
        reason = self._too_few(units, unit)
        if reason is None:
            errors = standard_errors(sums, self._request.seed)
            for number, end in enumerate(ENDS):
                # the error of a mean over levels is at most the mean of their errors
                own = errors[number * len(terms) : (number + 1) * len(terms)]
                error = math.fsum(own) / len(own)
                if error > 0:  # otherwise no class differs from another
                    intervals[end] = self._around(values[end], error, units)
        return LossPart(**values, intervals=intervals, reason=reason, per_query=rows)

    def recall(self, k: int, values: Reals) -> NeighborRecall:
        """The mean of shares of queries."""
        held = ~np.isnan(values)
        mean = math.fsum(values[held].tolist()) / int(held.sum()) if held.any() else math.nan
        if self._request is None or not held.any():
            return NeighborRecall(k, mean, None, None, values)
        codes = np.arange(len(values)) if self._task.levels is None else self._task.query_codes
        sums = ClassSums.of(values, codes).in_order()
        reason = self._too_few(len(sums), finest_unit(self._task))
        interval = None
        if reason is None:
            (error,) = standard_errors([sums], self._request.seed)
            low, high = self._around(mean, error, len(sums))
            interval = (max(low, 0.0), min(high, 1.0)) if error > 0 else None
        return NeighborRecall(k, mean, interval, reason, values)

    def _around(self, value: float, error: float, units: int) -> Interval:
        assert self._request is not None
        reach = quantile(self._request.confidence, units - 1) * error
        return value - reach, value + reach

    def _too_few(self, units: int, unit: Unit) -> str | None:
        if units >= FEWEST_DRAWN or self._estimation is None:
            return None
        return self._estimation.too_few(units, unit).reason


# Exact rankings cut at k: what lies beyond is one tie group, as in a list of k places.
#
# A tie group that the cut divides gives some of its items to the list, any of them. So a query's
# groups become several, each with its probability: lower and upper are the least and the greatest
# over them, expected is their mean.


MOST_WAYS = 100_000
"""Ways to divide one tie group that are looked at."""


@dataclass(frozen=True)
class CutGroups:
    """Tie groups of queries whose rankings are cut, in all ways in which that can be."""

    ways: TieGroups
    """Groups of every way of every query."""
    offsets: Integers
    """Query q owns the ways offsets[q] to offsets[q + 1]."""
    weight: Reals
    """The probability of each way."""

    @staticmethod
    def of(groups: TieGroups, k: Integers) -> CutGroups:
        """The groups cut behind the first k items, a number for each query."""
        queries = len(groups)
        owner = np.repeat(np.arange(queries), np.diff(groups.offsets))
        limit, end = k[owner], groups.before + groups.size
        divided = np.flatnonzero((groups.before < limit) & (limit < end))
        divisions = {
            int(owner[at]): divide(
                tuple(groups.graded[at].tolist()),
                int(groups.size[at]),
                int(limit[at] - groups.before[at]),
            )
            for at in divided.tolist()
        }
        count = np.ones(queries, np.int64)
        count[list(divisions)] = [len(weights) for _, weights in divisions.values()]
        way_of = np.repeat(np.arange(queries), count)
        offsets = np.concatenate([[0], np.cumsum(count)])
        weight = np.ones(len(way_of))
        listed = np.zeros((len(way_of), groups.graded.shape[1]), np.int64)
        for query, (some, weights) in divisions.items():
            listed[offsets[query] : offsets[query + 1]] = some
            weight[offsets[query] : offsets[query + 1]] = weights

        whole = _chosen(groups, end <= limit, owner).some(way_of)
        at_cut = np.full(queries, -1)
        at_cut[owner[divided]] = divided
        cut = np.flatnonzero(listed.any(axis=1))
        group = at_cut[way_of[cut]]
        missing = groups.totals[way_of] - whole.totals - listed
        behind = np.flatnonzero(missing.any(axis=1))
        owing = way_of[behind]
        owners = np.repeat(np.arange(len(way_of)), np.diff(whole.offsets))
        owners = np.concatenate([owners, cut, behind])
        order = np.argsort(owners, kind="stable")  # whole ones, the divided one, what lies behind
        before = [whole.before, groups.before[group], k[owing]]
        size = [whole.size, k[way_of[cut]] - groups.before[group], (groups.candidates - k)[owing]]
        graded: list[npt.NDArray[Any]] = [whole.graded, listed[cut], missing[behind]]
        ways = TieGroups(
            np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(way_of)))]),
            np.concatenate(before)[order],
            np.concatenate(size)[order],
            np.concatenate(graded)[order].astype(np.int32),
            groups.candidates[way_of],
        )
        return CutGroups(ways, offsets, weight)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def values(self, metric: Any, scale: Any, measure: Measure) -> Reals:
        """See TieGroups."""
        every = self.ways.values(metric, scale, measure)
        start = self.offsets[:-1]
        lower = np.minimum.reduceat(every[0], start)
        upper = np.maximum.reduceat(every[2], start)
        expected = every[1][start]
        for query in np.flatnonzero(np.diff(self.offsets) > 1).tolist():
            own = slice(*self.offsets[query : query + 2])
            expected[query] = math.fsum((every[1][own] * self.weight[own]).tolist())
        return np.stack([lower, np.clip(expected, lower, upper), upper])

    def at_least(self, grade: int) -> tuple[Integers, CutGroups]:
        """See TieGroups: every way has all the mates, so that a query stays with all of them."""
        return self._kept(*self.ways.at_least(grade))

    def among_graded(self) -> tuple[Integers, CutGroups]:
        """See TieGroups."""
        return self._kept(*self.ways.among_graded())

    def _kept(self, kept: Integers, few: TieGroups) -> tuple[Integers, CutGroups]:
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))[kept]
        queries, count = np.unique(owner, return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(count)])
        return queries, CutGroups(few, offsets, self.weight[kept])

    @property
    def totals(self) -> Integers:
        """See TieGroups."""
        return self.ways.totals[self.offsets[:-1]]

    @property
    def candidates(self) -> Integers:
        """See TieGroups."""
        return self.ways.candidates[self.offsets[:-1]]

    @property
    def mixed(self) -> Integers:
        """See TieGroups; of the first way of each query."""
        return self.ways.mixed[self.offsets[:-1]]

    def first(self) -> Integers:
        """See TieGroups; of the first way of each query."""
        return self.ways.first()[:, self.offsets[:-1]]

    def nearest_level(self) -> Integers:
        """See TieGroups; of the worst way of each query."""
        return np.minimum.reduceat(self.ways.nearest_level(), self.offsets[:-1])


def _chosen(groups: TieGroups, kept: npt.NDArray[np.bool_], owner: Integers) -> TieGroups:
    """Some of the groups of all queries, which then may have none."""
    own = np.bincount(owner[kept], minlength=len(groups))
    return TieGroups(
        np.concatenate([[0], np.cumsum(own)]),
        groups.before[kept],
        groups.size[kept],
        groups.graded[kept],
        groups.candidates,
    )


@lru_cache(maxsize=4096)
def divide(graded: tuple[int, ...], size: int, first: int) -> tuple[Integers, Reals]:
    """How many of each grade the first so many of a tie group can hold, and how likely that is.

    Examples
    --------
    >>> divide((1,), 3, 2)
    (array([[0],
           [1]]), array([0.33333333, 0.66666667]))
    """
    others = size - sum(graded)
    if math.prod(min(number, first) + 1 for number in graded) > MOST_WAYS:
        raise InputError(
            f"a tie group of {size} items, {', '.join(map(str, graded))} of them of each grade, "
            f"can be cut behind {first} in more than {MOST_WAYS:,} ways; choose another k."
        )
    ways = [way for way in _ways(graded, first) if first - sum(way) <= others]
    every = math.comb(size, first)
    weights = [
        math.prod(math.comb(number, x) for number, x in zip(graded, way, strict=True))
        * math.comb(others, first - sum(way))
        / every
        for way in ways
    ]
    return np.array(ways, np.int64), np.array(weights)


def _ways(graded: tuple[int, ...], first: int) -> Iterator[tuple[int, ...]]:
    for way in product(*(range(min(number, first) + 1) for number in graded)):
        if sum(way) <= first:
            yield way


# Lists against exact search, by vectors or by a file of exact neighbors: the distance of each
# place, and the share of the true neighbors.


PAIRS = 1 << 22
"""Most distances that are held at a time, but for a single row."""


@dataclass(frozen=True)
class Compared:
    """What exact search says about lists."""

    distance: Reals
    """The exact distance in each place, NaN for what is no gallery item."""
    recall: Reals
    """neighbour_recall of each query, NaN where it has nothing to find at all."""


def compare_with_exact(
    space: Space,
    exclusions: Exclusions,
    places: ListPlaces,
    k: int,
    tick: Callable[[int, int], None],
) -> Compared:
    """The distances of what was returned, and how much of the k nearest that is.

    Of the first k places those count that are strictly nearer than the k-th nearest item, and of
    those at its distance as many as the k nearest hold; each item once. Divided by k, or by the
    number of items where these are fewer.
    """
    queries = len(places)
    distance = np.full(len(places.item), np.nan)
    recall = np.full(queries, np.nan)
    step = max(1, PAIRS // space.gallery)
    for start in range(0, queries, step):
        rows = np.arange(start, min(start + step, queries))
        block = np.array(space.block(rows)(0, space.gallery))
        never = exclusions.pairs(rows, space.gallery)
        block[never.query, never.item] = np.inf
        span = slice(*places.offsets[[start, start + len(rows)]])
        query = np.repeat(np.arange(len(rows)), places.lengths[rows])
        named = places.named[span]
        known = named != UNKNOWN
        distance[span][known] = block[query[known], named[known]]

        most = min(k, space.gallery)
        nearest = np.partition(block, most - 1, axis=1)[:, :most]
        nearest.sort(axis=1)
        divisor = np.minimum(most, places.eligible[rows])
        last = nearest[np.arange(len(rows)), np.maximum(divisor, 1) - 1]
        nearer = (nearest < last[:, None]).sum(axis=1)
        place = np.arange(span.start, span.stop) - places.offsets[rows][query]
        counts = (places.item[span] != UNKNOWN) & (place < k)
        found, at = query[counts], distance[span][counts]
        strictly = np.bincount(found[at < last[found]], minlength=len(rows))
        tied = np.bincount(found[at == last[found]], minlength=len(rows))
        right = strictly + np.minimum(tied, divisor - nearer)
        some = divisor > 0
        recall[rows[some]] = right[some] / divisor[some]
        tick(start + len(rows), queries)
    return Compared(distance, recall)


def depth(k: Any, places: ListPlaces) -> int:
    """How many neighbors are looked for: k, or the places left for eligible items."""
    if k is None:
        return max(1, int((places.asked - places.taken_out).min()))
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"The 'k' parameter must be an int >= 1. Got {shortened(k)} instead.")
    return int(k)


def compare_with_neighbors(
    source: Any, task: TaskRules, places: ListPlaces, k: int | None
) -> tuple[int, Reals]:
    """k, and neighbour_recall of each query, NaN where it has nothing to find at all.

    `source` is what `exact_neighbors` returned, or its file. Its lists are those of exact search,
    under the rules of the task as well; without a k, it is no larger than the shortest of them.
    """
    lists, ties, tied = _exact(source)
    found = Returned.of(lists, ties, queries=task.queries, items=task.gallery_size, named_by="row")
    exact = ListPlaces.of(found, task)
    if exact.unknown or exact.repeated:
        raise InputError("exact_neighbors must list rows of the gallery, each once per query.")
    most = depth(k, places)
    if k is None:
        most = max(1, min(most, int(exact.lengths.min())))
    wanted = np.minimum(most, places.eligible)
    short = np.flatnonzero(exact.lengths < wanted)
    if len(short):
        raise InputError(
            f"exact_neighbors hold {exact.lengths[short].min():,} neighbors of "
            f"{count(len(short), 'query')} once its own row and junk are taken out, but "
            f"neighbour_recall@{most} needs {wanted[short[0]]:,}; pass a smaller k, or find "
            "more ground truth neighbours."
        )
    some = np.flatnonzero(wanted)
    recall = np.full(task.queries, np.nan)
    last = exact.run[exact.offsets[some] + wanted[some] - 1]
    if tied is not None:
        end = found.run[found.offsets[some + 1] - 1]
        held = np.bincount(found.run, minlength=int(found.run.max()) + 1)
        open_ = (last == end) & (tied[some] > held[end]) & (exact.lengths < places.eligible)[some]
        if open_.any():
            raise InputError(
                f"{count(int(open_.sum()), 'query')} could have other items among the {most} "
                "nearest: items that exact_neighbors do not list are exactly as near. "
                "Pass a smaller k, or find more ground truth neighbours."
            )
    # runs count on from query to query, so that a run is of one query
    limit = np.full(task.queries, -1)
    limit[some] = last
    query = np.repeat(np.arange(task.queries), exact.lengths)
    key = query * task.items + exact.item
    nearer, at_last = exact.run < limit[query], exact.run == limit[query]
    owner = np.repeat(np.arange(task.queries), places.lengths)
    place = np.arange(len(owner)) - places.offsets[owner]
    counts = (places.item != UNKNOWN) & (place < most)
    listed = owner[counts] * task.items + places.item[counts]

    def right(which: npt.NDArray[np.bool_]) -> Integers:
        return np.bincount(owner[counts][np.isin(listed, key[which])], minlength=task.queries)

    free = wanted - np.bincount(query[nearer], minlength=task.queries)
    hits = right(nearer) + np.minimum(right(at_last), free)
    recall[some] = hits[some] / wanted[some]
    return most, recall


def _exact(source: Any) -> tuple[Any, Any, Integers | None]:
    """Lists, numbers or distances that are equal where places tie, and the items that tie with
    the last place of each; None where that is not known."""
    if not is_path(source):
        if not hasattr(source, "tied"):
            raise InputError(
                "exact_neighbors must be what truerank.exact_neighbors returned, or its file. "
                f"Got {shortened(source)} instead."
            )
        return source.item, source.first, source.tied
    found = read_lists(source)
    path = as_path(source)
    beside = path.with_name(path.name + ".ties.npz")
    if not beside.exists():
        return found.neighbors, found.scores, None
    ties = read_archive(beside)
    if {"first", "tied"} - set(ties) or ties["first"].shape != np.shape(found.neighbors):
        raise InputError(f"{beside} does not belong to {path}: its lists are of another shape.")
    return found.neighbors, ties["first"], ties["tied"]
