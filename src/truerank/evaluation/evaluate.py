"""evaluate: embeddings and labels in, a Result out.

The order is: check the input, build the distance, score, put the result together with its
provenance. A warning is given where the grid cannot distinguish the rows, so that rounding
decides the ranking. The item that each query finds first is found in one more pass.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import Checkpoint
from truerank._util.cluster import Cluster, connect
from truerank._util.errors import InputError, check_choice, warn
from truerank._util.installed import __version__
from truerank._util.old_names import renamed_keywords
from truerank._util.progress import shown
from truerank._util.threads import available_cores, meanwhile
from truerank._util.types import Array, Integers, Reals
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.score import Score, split_undefined
from truerank.distance import catalogue
from truerank.distance.base import Rows, Space
from truerank.distance.catalogue import build
from truerank.distance.digests import first_by_content
from truerank.distance.probe import probe
from truerank.engine import runner
from truerank.engine.blocks import DistanceBlock
from truerank.engine.reducers import PairObserver, Part
from truerank.engine.schedule import DEVICES, resolve_device, rounding_device
from truerank.evaluation import clustering
from truerank.evaluation.passes import Findings, refused, score
from truerank.evaluation.task_input import (
    check_options,
    check_queries_in_gallery,
    check_task,
    prepare,
    swapped,
)
from truerank.intervals.interval import IntervalRequest
from truerank.io.vectors import chosen_distance
from truerank.metrics.gallery_sizes import why_no_law
from truerank.result.gallery_sizes import check_sizes, growth_curve
from truerank.result.ranked_rows import HeldRows
from truerank.result.result import Attribute, Result
from truerank.task.labels import MISSING, Encoded, encode
from truerank.task.relevance import View
from truerank.task.task import TaskRules


@renamed_keywords(no_mate="unmated")
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
    distance: str | None = None,
    metrics: Iterable[str] | str | None = None,
    average: str = "query",
    unmated: str = "report",
    unlabelled: str = "error",
    device: str = "auto",
    threads: int | None = None,
    confidence: float | None = 0.95,
    seed: int = 0,
    units: str = "metric",
    gallery_sizes: Iterable[int] = (),
    progress: Callable[[int, int], None] | bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    cluster: str | None = None,
) -> Result:
    """Score embeddings by exact, tie-proof ranking metrics.

    Parameters
    ----------
    embeddings : (Q, d) array, tensor or path
        One row for each query; the (Q, G) matrix itself for "precomputed" and "similarity". The
        manifest of `shard` stands for the array in its shards.
    labels : (Q,) or (Q, L), or the path of a file
        A label, or a path of labels from coarse to fine, for each row. A file brings along the
        ids and groups that it holds (columns id and group), as on the command line; so does a file
        of embeddings, which may hold the labels, too.
    gallery, gallery_labels : optional
        The items that are searched, and a label for each of them. Without a gallery each row is
        searched among all other rows (leave-one-out), and the `query_*` arguments describe both
        sides.
    query_ids, gallery_ids : optional
        Rows that share an id never meet: a query in the gallery, crops of one item.
    query_groups, gallery_groups : optional
        Items with the query's label and group (camera) are junk for it.
    junk : (Q, G) bool or sparse, optional
        Further pairs to exclude.
    junk_labels : iterable
        Gallery items with these labels are excluded for every query.
    relevance : (Q, G) bool, grades or sparse, or {query: {item: grade}}, or a path, optional
        Who is relevant to whom, and how much, instead of labels. A path names a TREC qrels file,
        which is matched by query_ids and gallery_ids. A (Q, G) matrix given in place of embeddings
        is then taken as it is: no row is removed from its own list.
    distance : str, optional
        cosine, euclidean, dot, cityblock or hamming; precomputed or similarity for a matrix. By
        default cosine, or what an HDF5 file of the rows says.
    metrics : strings, optional
        Such as "map@r" or "hit@1,5,10"; "all" for the default metrics and one form of
        every other metric that applies to the data. By default
        precision@1, hit@5, hit@10, r_precision, map@r, map, mrr, minp; with labels of several
        levels also h_ap, asi, ndcg; with 20 or more unmated queries also
        dir@far=0.01, mrep@far=0.01, mrep, mfr.
    average : {"query", "class"}
        Mean over queries, or over classes of the mean over each class's queries.
    unmated : {"report", "zero", "error"}
        Queries with nothing to find are left out and counted, count as 0, or are refused.
    unlabelled : {"error", "distractor"}
        Whether gallery rows may have no label; they are then relevant to no query.
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
        Seed of the resamples of intervals, which a separate gallery needs, and of
        clusterings. In leave-one-out intervals follow the data alone.
    units : {"metric", "finer", "finest"}
        What an interval in leave-one-out leaves out as a whole: classes of the coarsest level that
        a metric's relevance uses; or, where these are fewer than 10 (30 with a separate gallery),
        classes of the coarsest level below that has as many, or by the finest label. These do not
        show how coarse classes vary.
    gallery_sizes : ints, optional
        Sizes, up to that of the gallery, at which `result.at_gallery` has the scores as well: on
        average over all galleries that keep a query's relevant items and an equal share of its
        irrelevant ones.
    progress : callable or bool, optional
        Called as progress(pairs done, pairs in all) from time to time; True for a bar on the
        terminal or in the notebook.
    checkpoint : path, optional
        A file that holds the counts so far, written every minute and on an interrupt and removed
        at the end. If it exists, the same evaluation resumes from it; any other is refused.
    cluster : str, optional
        The Ray cluster that makes the passes: "auto" for the one that runs here, or an address such
        as "head:6379". The bits are the same; a checkpoint resumes on a cluster of any size.

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
    distance = chosen_distance(distance, embeddings, gallery)
    task, rows, items = prepare(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        distance=distance,
        unmated=unmated,
        unlabelled=unlabelled,
        lazily=True,
        on_device=isinstance(device, str) and device in ("auto", "cuda") and cluster is None,
    )
    held = HeldRows(task, embeddings, gallery, distance=distance, threads=threads)
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
        units=units,
        gallery_sizes=gallery_sizes,
        progress=progress,
        checkpoint=checkpoint,
        cluster=cluster,
        held=held,
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
    units: str = "metric",
    gallery_sizes: Iterable[int] = (),
    progress: Callable[[int, int], None] | bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    cluster: str | Cluster | None = None,
    first_found: bool = False,
    held: HeldRows | None = None,
    copied: bool = False,
) -> Result:
    """Score the rows (and gallery items) of a task; both are in the task's order.

    With `first_found` the result also says which item each query finds first; with `held` it can
    look at the rows again. `copied` says that rows were made coarser, so that equal ones in queries
    and gallery are no mistake.
    """
    if cluster is not None and not isinstance(cluster, Cluster):
        check_choice("device", device, DEVICES)
        with connect(cluster, gpu={"auto": None, "cuda": True}.get(device, False)) as connected:
            return evaluate_task(
                task,
                rows,
                items,
                distance=distance,
                metrics=metrics,
                average=average,
                device="cuda" if connected.gpu else "cpu" if device == "auto" else device,
                threads=threads,
                confidence=confidence,
                seed=seed,
                units=units,
                gallery_sizes=gallery_sizes,
                progress=progress,
                checkpoint=checkpoint,
                cluster=connected,
                first_found=first_found,
                held=held,
                copied=copied,
            )
    started = time.perf_counter()
    given = catalogue.find(distance).given
    check_options(task, average, threads, progress)
    request = IntervalRequest.of(confidence, seed, units)
    sizes = check_sizes(gallery_sizes, task.items)
    refusals = refused(task, _all(task)) if _is_all(metrics) else {}
    chosen = [metric for metric in _choose(task, metrics) if metric not in refusals]
    if cluster is None:
        device = resolve_device(device, task.queries * task.items)
    check_task(task, rows, items, given=given)
    there = rounding_device() if device == "cuda" and cluster is None else None
    space = build(
        distance, rows, items, task.columns, threads=threads, device=there, cluster=cluster
    )
    if not (task.leave_one_out or items is None or task.excludes_pairs or copied):
        check_queries_in_gallery(task, space)
    probe(space)
    warn_if_too_coarse(space, task.view)
    clustered = [m for m in chosen if registry.definition(m).family == "clustering"]
    space.cluster = cluster
    kept = Checkpoint()
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, _identity(task, space, chosen, request, sizes))
    hashing = meanwhile(lambda: task.digest) if device == "cuda" else nullcontext()
    with hashing, shown(progress, "ranking", None if cluster is None else "pairs") as report:
        scores, findings = score(
            task,
            space,
            [metric for metric in chosen if metric not in clustered],
            average=average,
            device=device,
            threads=threads,
            progress=report,
            checkpoint=kept,
            request=request,
            sizes=sizes,
        )
    kept.remove()
    first = find_first(task, space, device=device, threads=threads) if first_found else None
    if clustered:
        workers = threads or available_cores()
        found = clustering.score(task, space, clustered, int(seed), workers, request)
        scores = {str(metric): (scores | found)[str(metric)] for metric in chosen}
        reasons = {str(metric): why_no_law(metric) for metric in clustered}
        findings.at_sizes = {n: one.but(reasons) for n, one in findings.at_sizes.items()}
        if not _is_all(metrics):
            clustering.warn(found)
    space.cluster = None  # what is looked at later is looked at here
    warned = registry.warnings_about(scores.values())
    if given and not warned and findings.first_mates is not None:
        sentence = swapped(task, findings.first_mates, distance)
        warned = [] if sentence is None else [sentence]
    for sentence in warned:
        warn(sentence)
    facts = provenance(
        task,
        space,
        findings,
        average=average,
        dimensions=None if given else int(rows.shape[1]),
        device=device,
        seconds=time.perf_counter() - started,
    )
    by_name = metrics is not None and not _is_all(metrics)
    result = put_together(
        task,
        scores,
        findings,
        facts,
        skip_undefined=not by_name,
        found=first,
        held=None if held is None else held.seen(space),
    )
    result.skipped |= {str(metric): reason for metric, reason in refusals.items()}
    return result


def _identity(
    task: TaskRules,
    space: Space,
    metrics: list[Metric],
    request: IntervalRequest | None,
    sizes: tuple[int, ...],
) -> dict[str, str]:
    """What counts depend on. Unlike the digests of a result, these see the order of rows."""
    labels, rows = blake2b(task.digest.encode(), digest_size=16), blake2b(digest_size=16)
    for _, records in task.records():
        labels.update("\n".join(records).encode())
    rows.update(space.facts.input_digest.encode())
    for digests in (space.query_digests, space.gallery_digests):
        rows.update(digests.astype("<u8").tobytes())
    found = {
        "version of truerank": __version__,
        "distance": space.facts.distance,
        "set of embeddings": rows.hexdigest(),
        "task": labels.hexdigest(),
        "choice of metrics": " ".join(map(str, metrics)),
        "seed of the intervals": "none" if request is None else str(request.seed),
    }
    if request is not None and request.units != "metric":
        found["choice of units"] = request.units
    if sizes:
        found["choice of gallery sizes"] = " ".join(map(str, sizes))
    return found


def _is_all(metrics: object) -> bool:
    return isinstance(metrics, str) and metrics == "all"


def _defaults(task: TaskRules) -> list[Metric]:
    deep = task.levels is not None and len(task.levels) > 1
    more = registry.DEFAULT_HIERARCHY if deep else ()
    if int((task.n_relevant == 0).sum()) >= registry.OPEN_SET_FROM:
        more = (*more, *registry.DEFAULT_OPEN_SET)
    return registry.parse_all([*registry.DEFAULT, *more])


def _all(task: TaskRules) -> list[Metric]:
    """The default metrics, and every metric that is not among them in its plainest form."""
    chosen = _defaults(task)
    return [*chosen, *registry.parse_all(definitions.plainest(but={one.name for one in chosen}))]


def _choose(task: TaskRules, metrics: Iterable[str] | str | None) -> list[Metric]:
    if metrics is None:
        return _defaults(task)
    if _is_all(metrics):
        return _all(task)
    if not isinstance(metrics, str) and np.iterable(metrics):
        metrics = list(metrics)
    chosen = registry.parse_all(metrics)
    if task.levels is None:
        registry.check_judged(metrics)
    for metric in chosen:
        if registry.definition(metric).family == "trials":
            raise InputError(
                f"{metric} is measured on a list of trials, such as LFW's pairs; pass one to "
                "truerank.verify (truerank verify on the command line)."
            )
    for sentence in registry.advice_about(metrics, judged=task.levels is None):
        warn(sentence)
    return chosen


# From scores and what the passes saw to a Result that says where it comes from.


def provenance(
    task: TaskRules,
    space: Space,
    findings: Findings,
    *,
    average: str,
    dimensions: int | None,
    device: str,
    seconds: float,
) -> dict[str, Any]:
    """What was evaluated and how, and what the passes met."""
    consistency = findings.reports.get("consistency")
    return {
        "version": __version__,
        "queries": task.queries,
        "gallery": task.items,
        "dimensions": dimensions,
        "leave_one_out": task.leave_one_out,
        "distance": space.facts.to_dict(),
        "average": average,
        "excluded": task.exclusions(),
        "no_mate_option": task.unmated,
        "no_mate": task.unmated_counts(),
        "ties": findings.ties,
        "hierarchy": findings.hierarchy,
        "severity": None if findings.severity is None else findings.severity.to_dict(),
        "intervals": findings.intervals,
        "consistency": None if consistency is None else consistency.to_dict(),
        "task_digest": task.digest,
        "device": device,
        "seconds": round(seconds, 3),
    }


def put_together(
    task: TaskRules,
    scores: dict[str, Score],
    findings: Findings,
    provenance: dict[str, Any],
    *,
    skip_undefined: bool,
    found: dict[str, list[Any]] | None = None,
    held: HeldRows | None = None,
    names: list[Any] | None = None,
) -> Result:
    """A result; undefined scores are listed apart where nobody asked for them by name.

    `names` are the queries' ids where the task has none: a run may be all that names them.
    """
    ids = _ids(task, names)
    skipped: dict[str, str] = {}
    if skip_undefined:
        scores, skipped = split_undefined(scores)
    sizes = list(findings.at_sizes.values())
    if skip_undefined:
        sizes = [one.without_undefined() for one in sizes]
    return Result(
        scores,
        skipped=skipped,
        provenance=provenance,
        attributes=_attributes(task, ids),
        severity=findings.severity,
        units=_units(task, ids),
        level_units=findings.level_units,
        curves=findings.curves | ({"growth": growth_curve(sizes)} if sizes else {}),
        first_mates=findings.first_mates,
        consistency=findings.reports.get("consistency"),
        found=found,
        held=held,
        at_sizes=sizes,
    )


def _ids(task: TaskRules, names: list[Any] | None) -> Attribute | None:
    """The id of each query, if anything names it."""
    if task.id_names is not None:
        return Attribute(task.id_names.codes[0], task.id_names.values)
    if names is None:
        return None
    encoded = encode((names,), ("query_ids",))
    return Attribute(encoded.codes[0], encoded.values)


def _attributes(task: TaskRules, ids: Attribute | None) -> dict[str, Attribute]:
    attributes = {}
    if task.levels is not None:
        if len(task.levels) > 1:
            for name, level in zip(task.levels.names, task.levels.columns, strict=True):
                attributes[str(name)] = Attribute(level.codes[0], level.values)
        attributes["label"] = Attribute(task.query_codes, task.levels.finest.values)
    if task.group_names is not None:
        attributes["group"] = Attribute(task.group_names.codes[0], task.group_names.values)
    if ids is not None:
        attributes["id"] = ids
    return attributes


def _units(task: TaskRules, ids: Attribute | None) -> npt.NDArray[np.int64]:
    """What resampling draws: classes, or queries (by their ids, if they have any)."""
    if task.levels is not None:
        return task.query_codes
    return np.arange(task.queries) if ids is None else ids.codes


# Whether the grid can tell a model's rows apart: a warning where rounding decides the ranking.
#
# Rows that share a direction and differ by little more than a step of the grid are ranked, exactly
# and reproducibly, by what rounding made of them. Some queries' mates say cheaply whether that can
# be; only then are some whole rows of distances looked at.


QUERIES = 64
"""Queries that are looked at."""
PAIRS = 1 << 22
"""Most distances that are looked at."""
ITEMS = 1 << 16
"""Items whose distances are made at once."""
FINE = 1e-3
"""Rounding that moves the distances of mates by less than this share of them is no matter."""
SHARE = 0.1
"""Mates that may lie as near to another item as rounding moves them."""


def warn_if_too_coarse(space: Space, view: View) -> None:
    """Warn, and note among the space's facts, where many mates and others lie within rounding."""
    rows = _sample(space, view)
    if not len(rows):
        return
    pairs = view.relevant(rows)
    distance = space.pairs(rows[pairs.query], pairs.item)
    grain = space.grain(rows[pairs.query], pairs.item, distance)
    if grain is None:
        return
    moved = (grain > FINE * distance) & (distance > 0)
    if 2 * np.count_nonzero(moved) <= len(moved):
        return
    rows = rows[: max(1, PAIRS // space.gallery)]
    close = mates = 0
    for place, row in enumerate(rows):
        mine, block = rows[place : place + 1], view.block(rows[place : place + 1])
        tile = space.block(mine)
        found = np.concatenate(
            [
                tile(start, min(start + ITEMS, space.gallery))[0]
                for start in range(0, space.gallery, ITEMS)
            ]
        )
        others = np.ones(space.gallery, bool)
        others[block.relevant.item] = others[block.excluded.item] = False
        among = np.sort(found[others])
        own = found[block.relevant.item]
        grain = space.grain(np.full(len(own), row), block.relevant.item, own)
        if grain is None or not len(among):
            continue
        low, high = among.searchsorted(own - grain), among.searchsorted(own + grain, "right")
        close += int(np.count_nonzero(high > low))
        mates += len(own)
    if close <= SHARE * mates:
        return
    note = (
        f"the rows lie so close together that the grid ({space.facts.grid}) decides the ranking: "
        f"{close:,} of {mates:,} relevant items of {len(rows):,} queries are no farther from an "
        "irrelevant item than rounding moves a distance"
    )
    space.facts.notes.append(note)
    warn(f"{note}; if the mean of the rows carries no meaning, subtract it.")


def _sample(space: Space, view: View) -> Rows:
    """Some queries with a mate, chosen by what their rows hold, not by where they stand."""
    rows = np.flatnonzero(view.mates)
    if len(space.query_digests) != space.queries:
        return rows[:0]
    return rows[first_by_content(space.query_digests[rows], QUERIES)]


# The item that each query finds first, for files of queries: one more pass over all pairs.


def find_first(
    task: TaskRules, space: Space, *, device: str, threads: int | None
) -> dict[str, list[Any]]:
    """Columns about the item that each query finds first: its row, and its id, label and group.

    Of items at one distance it is one that is no mate, if there is one: as the score sees it. A
    query without candidates has found nothing.
    """
    nearest = NearestItem(task.view)
    runner.sweep(task.view, space, [nearest], device=device, threads=threads)
    met = nearest.item >= 0
    item = nearest.item if task.columns is None else task.columns[nearest.item]
    item = np.where(met, item, -1)
    distance = np.full(len(item), np.nan)
    distance[met] = space.in_unit(nearest.distance[met])
    columns: dict[str, list[Any]] = {"found": [row if row >= 0 else None for row in item.tolist()]}
    finest = None if task.levels is None else task.levels.finest
    for name, encoded in (("id", task.id_names), ("label", finest), ("group", task.group_names)):
        if encoded is not None:
            columns[f"found_{name}"] = _values(encoded, item)
    columns["found_distance"] = [value if value == value else None for value in distance.tolist()]
    return columns


def _values(encoded: Encoded, item: Integers) -> list[Any]:
    codes = np.where(item >= 0, encoded.codes[-1][item], MISSING)
    return [None if code == MISSING else encoded.values[code] for code in codes.tolist()]


@dataclass
class NearestItem(PairObserver):
    """Observes every query's nearest item, of tied ones the first that is no mate."""

    view: View
    whole_rows = True

    def __post_init__(self) -> None:
        self.item: Integers = np.full(self.view.queries, -1)
        self.distance: Reals = np.full(self.view.queries, np.inf)

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver; no two blocks have a query in common."""
        distances, lines = block.distances, np.arange(len(block.rows))
        at = distances.argmin(axis=1)
        least = distances[lines, at]
        mates = self.view.relevant(block.rows)
        others = distances.copy()
        others[mates.query, mates.item] = np.inf
        other = others.argmin(axis=1)
        at = np.where(others[lines, other] == least, other, at)
        self.item[block.rows] = np.where(np.isfinite(least), at, -1)
        self.distance[block.rows] = least

    def __reduce__(self) -> tuple[Any, ...]:
        return NearestItem, (self.view,)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"item": self.item[rows], "distance": self.distance[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.item[rows], self.distance[rows] = part["item"], part["distance"]
