"""truth: the exact nearest neighbours of queries, with their ties, for benchmarks of indexes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_matrix
from truerank.cluster import Call, Cluster, connect
from truerank.engine import available_cores, resolve_device, rounding_device
from truerank.engine.threads import Workspace, run_in_threads
from truerank.errors import InputError, check_choice, shortened
from truerank.evaluation.checks import check_threads
from truerank.files import atomic_path, is_path, read_side
from truerank.files.hdf5 import chosen_distance
from truerank.files.paths import as_path
from truerank.progress import shown
from truerank.ranked.nearest import Nearest, nearest, nearest_on_gpus
from truerank.settings import current_settings
from truerank.space import Rows, Space, build, catalogue, probe
from truerank.version import __version__

__all__ = ["MOST", "Truth", "check_ending", "truth"]

MOST = 1_000_000
"""Most neighbours of a query."""
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
class Truth:
    """The exact nearest neighbours of queries.

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
        others of them in the last group's places is as right as this list.
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


def truth(
    queries: Any,
    gallery: Any,
    k: int = 100,
    *,
    distance: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
    cluster: str | None = None,
) -> Truth:
    """The exact k nearest gallery rows of each query, with their ties.

    Parameters
    ----------
    queries, gallery : (Q, d) and (G, d) arrays, tensors or paths
    k : int
        Neighbours of each query: up to a million, and no more than the gallery has.
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
    >>> found = truerank.truth([[0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0], [0.0, 2.0]], k=1)
    >>> found.item.tolist(), found.tied.tolist(), found.ambiguous
    ([[1]], [2], 1)
    """
    check_threads(threads)
    distance = chosen_distance(distance, queries, gallery)
    known = catalogue.find(distance)
    if known.given:
        raise InputError(f"neighbours are looked for among rows; {distance} has none.")
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
            f"The 'k' parameter must be an int from 1 to {most}, as many as the gallery has and at "
            f"most {MOST}. Got {shortened(k)} instead."
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
    return Truth(found.item, space.in_unit(found.distance), found.first_places(), found.tied, facts)


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
    step = max(1, min(current_settings().neighbour_rows, NUMBERS // (4 * k)))
    return [np.arange(at, min(at + step, space.queries)) for at in range(0, space.queries, step)]


def _tall_blocks(space: Space, k: int) -> list[Rows]:
    """Queries that a GPU takes at a time."""
    step = max(1, min(TALLER * current_settings().neighbour_rows, ON_GPU // k))
    return [np.arange(at, min(at + step, space.queries)) for at in range(0, space.queries, step)]


def _here(space: Space, k: int, threads: int, report: Report) -> Nearest:
    lists, width = _Lists(space, k, report), current_settings().neighbour_items

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
    lists, width = _Lists(space, k, report), current_settings().neighbour_items
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
                    f"truerank.ranked.nearest:{target}",
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
