"""Exact nearest neighbors: of some queries with their relevant items, and of a whole data set.

`neighbors` looks into the ranking that was scored; `exact_neighbors` gives ground truth
neighbors, with their ties, for benchmarks of indexes. Items at one distance come in the order
of their numbers, and how many items lie exactly at the last distance is counted, listed or not.
Parts of a gallery add up, in tiles, on GPUs or on a cluster.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cluster import Call, Cluster, connect
from truerank._util.errors import InputError, check_choice, shortened
from truerank._util.files import as_path, atomic_path
from truerank._util.installed import __version__
from truerank._util.progress import shown
from truerank._util.settings import current_settings
from truerank._util.threads import Workspace, available_cores, run_in_threads
from truerank._util.types import Array
from truerank.analysis.neighbor_kernels import shorten, take
from truerank.core import registry
from truerank.distance import catalogue
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.catalogue import build
from truerank.distance.probe import probe
from truerank.engine.schedule import resolve_device, rounding_device
from truerank.evaluation.evaluate import evaluate_task
from truerank.evaluation.task_input import check_options, check_task, check_threads, prepare
from truerank.io.reading import as_matrix, is_path, read_side
from truerank.io.vectors import chosen_distance
from truerank.result.ranked_rows import Neighbors, find_queries, rank
from truerank.task.task import TaskRules

# neighbors: what some queries find, and where their mates are, in the ranking that was scored.


def neighbors(
    embeddings: Any,
    labels: Any = None,
    *,
    queries: Any = None,
    worst: int | None = None,
    metric: str = "map@r",
    k: int = 10,
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
    unlabelled: str = "error",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Neighbors:
    """Return the nearest items of some queries, and the ranks of all their relevant items.

    Distances are those that `evaluate` ranks by, so what is listed is what was scored; a query
    costs a single row of distances.

    Parameters
    ----------
    embeddings, labels : as in evaluate
    queries : int, str or a list of these
        Row numbers, or ids as text; all rows that share an id.
    worst : int, optional
        Instead, this number of queries, those with the lowest value of a metric, worst first.
    metric : str
        The metric by which `worst` chooses; one with a value for each query.
    k : int
        How many of the nearest items to list.
    progress : callable or bool, optional
        As in evaluate, for the search of the worst queries.
    gallery, gallery_labels, query_ids, gallery_ids, query_groups, gallery_groups, junk, \
junk_labels, relevance, distance, unlabelled, threads
        As in evaluate.

    Returns
    -------
    Neighbors
        A NeighborList for each query; it prints as tables.

    Examples
    --------
    >>> import truerank
    >>> points, labels = [[0.0], [1], [1], [3], [9]], ["a", "a", "b", "b", "b"]
    >>> found = truerank.neighbors(points, labels, queries=0, k=3, distance="euclidean")
    >>> print(found)
    query 0, label a
    1 relevant item among 4 candidates, at rank 1-2.
    rank  label  verdict  row  distance
    1-2   b      wrong      2         1
    1-2   a      right      1         1
    3     b      wrong      3         3
    <BLANKLINE>
    Items at one distance share their ranks; of these, relevant items are listed
    last.
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
        unlabelled=unlabelled,
    )
    names = task.id_names
    ids = None if names is None else [names.values[code] for code in names.codes[0].tolist()]
    with shown(progress, "ranking") as report:
        return look(
            task,
            rows,
            items,
            ids=ids,
            queries=queries,
            worst=worst,
            metric=metric,
            k=k,
            distance=distance,
            threads=threads,
            progress=report,
        )


def look(
    task: TaskRules,
    rows: Array,
    items: Array | None,
    *,
    ids: Any,
    queries: Any,
    worst: int | None,
    metric: str,
    k: int,
    distance: str,
    threads: int | None,
    progress: Callable[[int, int], None] | None,
) -> Neighbors:
    """The same for rows (and gallery items) in a task's order; `ids` are the queries' names."""
    if (queries is None) == (worst is None):
        raise InputError("no queries are chosen: pass queries or worst, one of the two.")
    check_options(task, "query", threads, progress)
    check_task(task, rows, items, given=catalogue.find(distance).given)
    values = None
    if worst is None:
        chosen = find_queries(queries, ids, task.queries)
    else:
        options = {"distance": distance, "threads": threads, "progress": progress}
        values = _values(task, rows, items, metric, options)
        chosen = _lowest(values, worst)
    space = build(distance, rows, items, task.columns, threads=threads)
    probe(space)
    found = rank(task, space, chosen, k)
    return found if values is None else found.chosen_by(metric, values[chosen])


def _values(
    task: TaskRules, rows: Array, items: Array | None, metric: str, options: dict[str, Any]
) -> npt.NDArray[np.float64]:
    """What every query gets in a metric, the lower bound over ties."""
    asked = registry.parse(metric)
    known = registry.definition(asked)
    if not known.higher_is_better or not known.is_mean(asked):
        raise InputError(f"{metric} has no value for each query to choose the worst by; try map@r.")
    score = evaluate_task(task, rows, items, metrics=[metric], confidence=None, **options)[metric]
    if score.reason is not None or score.per_query is None:
        raise InputError(f"{metric} is not defined here: {score.reason}.")
    return score.per_query.lower


def _lowest(values: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """The queries with the lowest values, of equal ones in their order."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise InputError(
            f"The 'worst' parameter must be an int >= 1. Got {shortened(most)} instead."
        )
    counted = np.flatnonzero(~np.isnan(values))
    order: npt.NDArray[np.int64] = counted[np.argsort(values[counted], kind="stable")][:most]
    return order


# truth: the exact nearest neighbors of queries, with their ties, for benchmarks of indexes.


MOST = 1_000_000
"""Most neighbors of a query."""
NUMBERS = 1 << 24
"""Most numbers that a thread holds for the lists of the queries it is at."""
TALLER = 128
"""A GPU takes so many times as many queries at a time."""
ON_GPU = 1 << 27
"""Most places of the lists that a GPU fills at a time."""
DEVICES = ("auto", "cpu", "cuda")
LARGEST = 1 << 31
"""Items that a number of 32 bits can name."""
ENDINGS = (".ibin", ".ivecs")


@dataclass(frozen=True)
class ExactNeighbors:
    """The exact nearest neighbors of queries.

    Attributes
    ----------
    item : (Q, k)
        Gallery rows, nearest first; those at one distance in the order of their numbers.
    distance : (Q, k)
        In the unit of the distance: 1 - cosine, length of the difference, and so on.
    first : (Q, k)
        The first place (from 0) of the tie group of each place.
    tied : (Q,)
        Gallery rows at exactly the distance of the last place, listed or not. A search that returns
        others of them in the places of the last tie group is as exact as this list.
    facts : dict
        The distance, the digests of the rows, the version.
    """

    item: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    first: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]
    facts: dict[str, Any]

    @property
    def ambiguous(self) -> int:
        """Queries of which items that are not listed tie with the last one."""
        listed = self.item.shape[1] - self.first[:, -1]
        return int(np.count_nonzero(self.tied > listed))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the lists (.ibin with distances behind them, or .ivecs) and PATH.ties.npz.

        The second file marks the tie groups: `first`, `tied`, the exact `distance`, and a header.
        Returns its path.
        """
        target = check_ending(path)
        item = self.item.astype("<i4")
        with atomic_path(target) as partial, partial.open("wb") as file:
            if target.suffix.lower() == ".ibin":
                np.array(item.shape, "<u4").tofile(file)
                item.tofile(file)
                self.distance.astype("<f4").tofile(file)
            else:
                lengths = np.full((len(item), 1), item.shape[1], "<i4")
                np.hstack([lengths, item]).tofile(file)
        beside = target.with_name(target.name + ".ties.npz")
        header = np.frombuffer(json.dumps(self.facts).encode(), np.uint8)
        with atomic_path(beside) as partial, partial.open("wb") as file:
            np.savez(
                file,
                header=header,
                first=self.first.astype(np.int32),
                tied=self.tied,
                distance=self.distance,
            )
        return beside


def check_ending(path: str | os.PathLike[str]) -> Path:
    """The path of a file of lists, which its ending must say."""
    target = as_path(path)
    if target.suffix.lower() not in ENDINGS:
        raise InputError(f"{target} must end in .ibin or .ivecs.")
    return target


def exact_neighbors(
    queries: Any,
    gallery: Any,
    k: int = 100,
    *,
    distance: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
    cluster: str | None = None,
) -> ExactNeighbors:
    """Compute the exact k nearest gallery rows of each query, with their ties.

    Parameters
    ----------
    queries, gallery : (Q, d) and (G, d) arrays, tensors or paths
    k : int
        Neighbors of each query: up to a million, and no more than the gallery has.
    distance : str, optional
        cosine, euclidean, dot, cityblock or hamming; by default cosine, or what an HDF5 file of the
        rows says.
    device : str
        auto, cpu or cuda: "auto" takes GPUs for large tasks. The bits are the same.
    threads : int, optional
        Number of threads; all available cores by default.
    progress : callable or bool, optional
        Called as progress(pairs done, pairs in all); True for a bar.
    cluster : str, optional
        The Ray cluster that searches: "auto" or an address, as in evaluate. Its workers read the
        shards of a manifest. The bits are the same.

    Examples
    --------
    >>> import truerank
    >>> found = truerank.exact_neighbors([[0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0], [0.0, 2.0]], k=1)
    >>> found.item.tolist(), found.tied.tolist(), found.ambiguous
    ([[1]], [2], 1)
    """
    check_threads(threads)
    distance = chosen_distance(distance, queries, gallery)
    known = catalogue.find(distance)
    if known.given:
        raise InputError(
            f"neighbors are searched among embeddings; distance {distance!r} has none."
        )
    rows = _matrix(queries, "queries")
    items = rows if gallery is queries else _matrix(gallery, "gallery")
    if rows.shape[1] != items.shape[1]:
        raise InputError(
            "queries and gallery must have the same number of dimensions. "
            f"Got {rows.shape} and {items.shape}."
        )
    whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
    most = min(MOST, len(items))
    if not whole or not 1 <= k <= most:
        raise InputError(
            f"The 'k' parameter must be an int from 1 to {most}, the size of the gallery or "
            f"{MOST}. Got {shortened(k)} instead."
        )
    if len(items) >= LARGEST:
        raise InputError(f"{len(items)} gallery rows are more than 32 bits can number.")
    check_choice("device", device, DEVICES)
    if cluster is not None:
        with connect(cluster, gpu={"auto": None, "cuda": True}.get(device, False)) as workers:
            space = build(distance, rows, items, threads=threads, cluster=workers)
            probe(space)
            with shown(progress, "searching", "pairs") as report:
                found = _there(space, int(k), workers, report)
    else:
        device = resolve_device(device, len(rows) * len(items))
        there = rounding_device() if device == "cuda" else None
        space = build(distance, rows, items, threads=threads, device=there)
        probe(space)
        with shown(progress, "searching", "pairs") as report:
            if device == "cuda":
                found = _on_gpus(space, int(k), report)
            else:
                found = _here(space, int(k), threads or available_cores(), report)
    facts = {"format": "truerank-truth", "version": __version__, **space.facts.to_dict()}
    return ExactNeighbors(
        found.item, space.in_unit(found.distance), found.first_places(), found.tied, facts
    )


Report = Callable[[int, int], None] | None


def _matrix(given: Any, name: str) -> npt.NDArray[Any]:
    """Rows, or shards of them, of which rows are read when they are needed."""
    rows = read_side(given, None).embeddings if is_path(given) else given
    return as_matrix(rows, name, lazily=True)


class _Lists:
    """Room for the lists of all queries."""

    def __init__(self, space: Space, k: int, report: Report) -> None:
        self._distance = np.empty((space.queries, k))
        self._item = np.empty((space.queries, k), np.int64)
        self._tied = np.empty(space.queries, np.int64)
        self._report, self._done, self._all = report, 0, space.queries * space.gallery

    def put(self, rows: Rows, found: Nearest) -> None:
        """Take in the lists of some queries, which follow each other."""
        where = slice(rows[0], rows[-1] + 1)
        self._distance[where], self._item[where] = found.distance, found.item
        self._tied[where] = found.tied

    def tick(self, pairs: int) -> None:
        """Tell that so many more pairs are done."""
        self._done += pairs
        if self._report is not None:
            self._report(self._done, self._all)

    @property
    def whole(self) -> Nearest:
        """All of them."""
        return Nearest(self._distance, self._item, self._tied)


def _blocks(space: Space, k: int) -> list[Rows]:
    """Queries whose lists, with room to sort them, are held at a time."""
    step = max(1, min(current_settings().neighbor_rows, NUMBERS // (4 * k)))
    return [np.arange(at, min(at + step, space.queries)) for at in range(0, space.queries, step)]


def _tall_blocks(space: Space, k: int) -> list[Rows]:
    """Queries that a GPU takes at a time."""
    step = max(1, min(TALLER * current_settings().neighbor_rows, ON_GPU // k))
    return [np.arange(at, min(at + step, space.queries)) for at in range(0, space.queries, step)]


def _here(space: Space, k: int, threads: int, report: Report) -> Nearest:
    lists, width = _Lists(space, k, report), current_settings().neighbor_items

    def work(rows: Rows, unused: Workspace) -> None:
        lists.put(rows, nearest(space, rows, (0, space.gallery), k, width))
        lists.tick(len(rows) * space.gallery)

    run_in_threads(_blocks(space, k), threads, work)
    return lists.whole


def _on_gpus(space: Space, k: int, report: Report) -> Nearest:
    lists = _Lists(space, k, report)

    def take(rows: Rows, found: Nearest) -> None:
        lists.put(rows, found)
        lists.tick(len(rows) * space.gallery)

    nearest_on_gpus(space, _tall_blocks(space, k), k, take)
    return lists.whole


def _there(space: Space, k: int, cluster: Cluster, report: Report) -> Nearest:
    lists, width = _Lists(space, k, report), current_settings().neighbor_items
    held = (cluster.put(space),)
    target, blocks = "nearest_part", _blocks(space, k)
    step = max(k, current_settings().task_pairs // len(blocks[0]))
    if cluster.gpu:
        target, blocks, step = "nearest_by_gpu", _tall_blocks(space, k), space.gallery
    parts = [(at, min(at + step, space.gallery)) for at in range(0, space.gallery, step)]
    found: dict[int, list[Nearest]] = {}

    def calls() -> Iterator[Call]:
        for number, rows in enumerate(blocks):
            for part in parts:
                given = (rows, part, k, width)
                yield Call(
                    (number, part),
                    f"truerank.analysis.neighbors:{target}",
                    held,
                    given,
                    gpu=cluster.gpu,
                )

    with closing(cluster.gather(calls())) as answers:
        for (number, part), some in answers:
            found.setdefault(number, []).append(some)
            lists.tick(len(blocks[number]) * (part[1] - part[0]))
            if len(found[number]) == len(parts):
                lists.put(blocks[number], Nearest.merged(found.pop(number), k))
    return lists.whole


# The k nearest items of queries, exactly, from tiles of distances; parts of a gallery add up.


SPARE = 1 << 10
"""Least room for items that are met before a list is sorted again."""


@dataclass(frozen=True)
class Nearest:
    """The nearest items of a block of queries, nearest first."""

    distance: Distances
    """(queries, places): in the space's own numbers."""
    item: Rows
    """(queries, places)."""
    tied: Rows
    """(queries,): the items at the distance of the last place, listed or not."""

    @staticmethod
    def merged(parts: Sequence[Nearest], k: int) -> Nearest:
        """The k nearest of several parts of a gallery, each with its own k nearest or all it has.

        A part that leaves items out has its last distance no nearer than that of all: what it left
        out counts only where the two are equal.
        """
        distance = np.concatenate([part.distance for part in parts], axis=1)
        item = np.concatenate([part.item for part in parts], axis=1)
        order = np.lexsort((item, distance), axis=1)[:, :k]
        distance, item = (np.take_along_axis(array, order, axis=1) for array in (distance, item))
        last = distance[:, -1]
        tied = np.zeros(len(last), np.int64)
        for part in parts:
            listed = (part.distance == last[:, None]).sum(axis=1)
            tied += np.where(part.distance[:, -1] == last, part.tied, listed)
        return Nearest(distance, item, tied)

    def first_places(self) -> Rows:
        """(queries, places): the first place at the distance of each place."""
        queries, places = self.distance.shape
        found: Rows = np.tile(np.arange(places), (queries, 1))
        same = self.distance[:, 1:] == self.distance[:, :-1]
        tied = np.flatnonzero(same.any(axis=1))  # few rows, if any
        first = found[tied]
        first[:, 1:][same[tied]] = 0
        found[tied] = np.maximum.accumulate(first, axis=1)
        return found


def nearest(space: Space, rows: Rows, items: tuple[int, int], k: int, width: int) -> Nearest:
    """The k nearest of a range of items, or all of them where these are fewer."""
    k = min(k, items[1] - items[0])
    room = k + max(k, SPARE)
    distance = np.full((len(rows), room), np.inf)
    item = np.zeros((len(rows), room), np.int64)
    count = np.zeros(len(rows), np.int64)
    last = np.full(len(rows), np.inf)
    beyond = np.zeros(len(rows), np.int64)
    tile = space.block(rows)
    for start in range(*items, width):
        near = tile(start, min(start + width, items[1]))
        take(near, start, k, distance, item, count, last, beyond)
    for row in range(len(rows)):
        shorten(row, k, distance, item, count, last, beyond)
    found = distance[:, :k].copy()
    within = (found == found[:, -1:]).sum(axis=1)
    return Nearest(found, item[:, :k].copy(), within + beyond)


def nearest_part(
    held: list[Any], rows: Rows, items: tuple[int, int], k: int, width: int
) -> Nearest:
    """A task of a cluster, which holds the space."""
    return nearest(held[0], rows, items, k, width)


def nearest_on_gpus(
    space: Space, blocks: Iterable[Rows], k: int, take: Callable[[Rows, Nearest], None]
) -> None:
    """The k nearest items of blocks of queries, by the GPUs of this machine."""
    from truerank.engine.cuda.search import Searches

    method = current_settings().method
    Searches(space).run(blocks, k, method, lambda rows, lists: take(rows, Nearest(*lists)))


def nearest_by_gpu(
    held: list[Any], rows: Rows, items: tuple[int, int], k: int, width: int
) -> Nearest:
    """A task of a cluster whose workers have a GPU each, which holds nothing for the next one."""
    found: list[Nearest] = []
    nearest_on_gpus(held[0], [rows], k, lambda rows, lists: found.append(lists))
    return found[0]
