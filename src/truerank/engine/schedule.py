"""The schedule of a pass: which rows go to which strategy, float32 or float64, CPU or GPU.

`schedule` runs nothing: it takes the request, the remaining queries, the settings and the facts
of devices, and returns work items. Where the memory of a device decides, rows remain for a
later schedule; rows that a strategy returns go into one without it. The context holds what the
strategies of a pass share: threads, GPUs and progress, started on first use. Where the queries
are the gallery each tile can serve its rows and its columns; only tiles on and above the
diagonal are made.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise
from types import TracebackType

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import stable_order
from truerank._util.cached import cached_property
from truerank._util.checkpoint import Checkpoint
from truerank._util.cluster import Cluster
from truerank._util.errors import InputError, check_choice
from truerank._util.kernels import compiled
from truerank._util.settings import Settings
from truerank._util.threads import Tile, TilePool, single_threaded_blas
from truerank.core.jackknife import GalleryFolds
from truerank.distance.base import Distances, Rows, Space
from truerank.engine.blocks import DistanceBlock, ExcludedPairs
from truerank.engine.cuda import front
from truerank.engine.cuda.front import SPLIT_TALLER, TALLER, DeviceFacts, check, likely
from truerank.engine.reducers import Observers
from truerank.task.relevance import View

# A request: all that is asked of one pass, as it was asked.


@dataclass(frozen=True, eq=False)
class PassRequest:
    """One pass over queries x gallery; see truerank.engine.tie_groups for what is meant."""

    view: View
    space: Space
    device: str
    """The device as resolved: reference, cpu or cuda."""
    threads: int
    groups: bool = True
    """Whether tie groups are wanted; if not, observers see all pairs."""
    observers: Observers | None = None
    seen: npt.NDArray[np.bool_] | None = None
    """Queries that are left out."""
    only: Rows | None = None
    """The queries to look at; None for all."""
    rankings: bool = False
    """Whether rankings without ties may stay on a device."""
    folds: GalleryFolds | None = None
    """How groups are split by fold; None if they are not."""
    split_view: tuple[View, npt.NDArray[np.bool_]] | None = None
    """The view in which groups of sorted rows are split, and the queries that go with it."""
    keep: bool = True
    """Whether a block's tie groups stay valid when the next block is asked for."""

    @property
    def splitting(self) -> bool:
        """Whether the pass is there for nothing but the split groups of some queries."""
        return self.only is not None and self.observers is None and self.folds is not None


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries that are left to do, in the order in which they are best done."""

    rows: Rows
    """Queries that have a relevant item, by their number of mates; without tie groups, all."""
    unmated_rows: Rows
    """Queries that have no relevant item, and are there for the observers only."""
    behind: int = 0
    """Queries with a relevant item that had been seen before."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.unmated_rows)

    def and_rows(self, rows: Rows) -> Queries:
        """The queries, and some more that have a relevant item."""
        return replace(self, rows=np.concatenate([self.rows, rows]))

    @staticmethod
    def none() -> Queries:
        """No queries: nothing is left to do."""
        return Queries.with_mates(np.empty(0, np.int64))

    @staticmethod
    def with_mates(rows: Rows) -> Queries:
        """Queries that all have a relevant item."""
        return Queries(rows, rows[:0])

    @staticmethod
    def of(request: PassRequest) -> Queries:
        """All queries that a request asks for."""
        view, seen, only = request.view, request.seen, request.only
        if not request.groups:
            rows = np.arange(view.queries)
            return Queries.with_mates(rows if seen is None else rows[~seen])
        wanted = view.mates > 0
        if only is not None:
            wanted[:] = False
            wanted[only] = view.mates[only] > 0
        every = int(np.count_nonzero(wanted))
        if seen is not None:
            wanted &= ~seen
        rows = np.flatnonzero(wanted)
        if request.device != "cuda":  # whose blocks are in ascending order
            rows = rows[stable_order(view.kinds(rows))]
        rows = rows[stable_order(view.mates[rows])]
        unmated_rows = rows[:0]
        if request.observers is not None:
            unmated_rows = np.arange(view.queries) if only is None else np.sort(only)
            unmated_rows = unmated_rows[view.mates[unmated_rows] == 0]
            if seen is not None:
                unmated_rows = unmated_rows[~seen[unmated_rows]]
        return Queries(rows, unmated_rows, every - len(rows))


# The schedule: which rows go to which strategy, in which blocks. Nothing is run here.
#
# A request, the queries that are left and the settings come in, with what devices can tell; work
# items come out. Where a device's memory decides, rows are left for a schedule that is made later,
# and rows that a strategy hands back go into one that does without it.


COUNTING = {"float64": "count", "filter": "filter", "symmetric": "symmetric"}
"""The strategy of each method, without observers."""
DEVICES = ("auto", "cpu", "cuda", "reference")
_LARGE = 1 << 27
"""Pairs from which a GPU, found and warmed up, is faster than the CPU."""
_SMALL = 1 << 19
"""Pairs below which counting float64 tiles is as fast."""


@dataclass(frozen=True, eq=False)
class WorkItem:
    """Blocks of rows for one strategy."""

    strategy: str
    blocks: tuple[Rows, ...]
    folds: GalleryFolds | None = None
    """How groups are split, if they are."""
    device_backed: bool = False
    """Whether a GPU makes the distances that the CPU counts."""
    compiled: bool = True
    """Whether observers may count by compiled kernels."""
    both_ways: SymmetricStrips | None = None
    """The strips, where observers see each tile from both sides."""
    observed: int = 0
    """Rows that are observed at a time, where that is up to a device's memory."""
    worker: str = ""
    """The strategy by which each worker of a cluster adds tiles."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Work in its order, and the queries that are left to a later schedule."""

    items: tuple[WorkItem, ...]
    left: Queries


def schedule(
    request: PassRequest,
    left: Queries,
    limits: Settings,
    facts: DeviceFacts,
    spent: frozenset[str] = frozenset(),
) -> Schedule:
    """What to do next for the queries that are left, without the strategies that are spent."""
    made = _BY_DEVICE[request.device](request, left, limits, facts, spent)
    return Schedule(tuple(item for item in made.items if item.blocks), made.left)


Planner = Callable[[PassRequest, Queries, Settings, DeviceFacts, frozenset[str]], Schedule]


def _by_reference(
    request: PassRequest, left: Queries, limits: Settings, facts: DeviceFacts, spent: frozenset[str]
) -> Schedule:
    if not request.groups:
        return _observed(request, left, limits, compiled=False)
    found = _in_turn(request, left, limits.query_rows, limits.mates)
    return _last(WorkItem("reference", found, request.folds))


def _by_cpu(
    request: PassRequest, left: Queries, limits: Settings, facts: DeviceFacts, spent: frozenset[str]
) -> Schedule:
    if not request.groups:
        return _observed(request, left, limits, compiled=True)
    few = _few(request, left.rows, limits)
    if request.only is not None and not request.splitting:
        few[:] = True
    return _in_main_memory(request, left, few, limits, device_backed=False)


def _by_gpus(
    request: PassRequest, left: Queries, limits: Settings, facts: DeviceFacts, spent: frozenset[str]
) -> Schedule:
    """First GPUs count rows with few relevant items, then they rank, then the rest is sorted."""
    if not request.groups:
        return _last(
            WorkItem("cuda observe", even(left.rows, facts.observed_rows, facts.observing))
        )
    few = _few(request, left.rows, limits)
    if request.only is not None and request.observers is None and not request.splitting:
        few[:] = True  # these are too few for a device of their own
        return _in_main_memory(request, left, few, limits, device_backed=True)
    if few.any() or len(left.unmated_rows):
        counted = Queries(left.rows[few], left.unmated_rows)
        items = _counted_by_gpus(request, counted, limits, facts)
        return Schedule(items, Queries.with_mates(left.rows[~few]))
    ranks = request.rankings and facts.walks and request.only is None and request.observers is None
    if ranks and "cuda rank" not in spent:
        tall = min(TALLER * limits.query_rows, facts.ranked_rows)
        found = cut(request.view.mates, left.rows, tall, TALLER**3 * limits.mates)
        return _last(WorkItem("cuda rank", found))
    return _in_main_memory(request, left, few, limits, device_backed=True)


def _last(*items: WorkItem) -> Schedule:
    return Schedule(items, Queries.none())


def _few(request: PassRequest, rows: Rows, limits: Settings) -> npt.NDArray[np.bool_]:
    """Which rows have few relevant items: looking each of all items up among them pays."""
    few: npt.NDArray[np.bool_] = (
        request.view.mates[rows] <= limits.sort_share * request.space.gallery
    )
    return few


def _split_mates(request: PassRequest, limits: Settings) -> int:
    """Most relevant pairs in flight where the groups of some of the queries are split."""
    if request.folds is None:
        return limits.mates
    share = 1.0  # of a pass that is there for nothing else
    if not request.splitting:
        share = max(float(request.folds.queries.mean()), 1 / len(request.folds.queries))
    return max(1, min(limits.mates, int(limits.split_cells / request.folds.columns / share)))


def _in_turn(request: PassRequest, left: Queries, height: int, most: int) -> tuple[Rows, ...]:
    """Blocks of queries without a mate, then of the others."""
    mates = request.view.mates
    return cut(mates, left.unmated_rows, height, most) + cut(mates, left.rows, height, most)


def _counted_by_gpus(
    request: PassRequest, queries: Queries, limits: Settings, facts: DeviceFacts
) -> tuple[WorkItem, ...]:
    """Tall blocks, in ascending order each: what is found of them is put into long columns, which
    takes several times as long in any other order."""
    mates, tall = request.view.mates, TALLER * limits.query_rows
    if request.splitting:
        most = SPLIT_TALLER * _split_mates(request, limits)
        return (WorkItem("cuda count", _ascending(mates, queries, tall, most), request.folds),)
    own_view = request.split_view is None or request.split_view[0] is request.view
    folds = request.folds if own_view else None
    most = TALLER * limits.mates
    if folds is not None:
        most = min(most, SPLIT_TALLER * _split_mates(request, limits))
    if request.observers is None:
        both, others = _on_either_side(request, queries.rows, limits, facts)
        rest = _ascending(mates, Queries.with_mates(others), tall, most)
        once = cut(mates, both, tall, most)
        return (
            WorkItem("cuda count both ways", once, folds),
            WorkItem("cuda count", rest, folds),
        )
    without_mate = (queries.unmated_rows,) if len(queries.unmated_rows) else ()
    blocks = without_mate + _ascending(mates, queries, tall, most)
    return (WorkItem("cuda count observed", blocks, folds, observed=facts.observed_rows),)


def _on_either_side(
    request: PassRequest, rows: Rows, limits: Settings, facts: DeviceFacts
) -> tuple[Rows, Rows]:
    """Rows whose pairs a GPU had better multiply once, ascending, and the others.

    More than one block of them, and most of the gallery; with few mates, for those of all are held.
    """
    mates, gallery = request.view.mates[rows], request.space.gallery
    few = mates <= front.SHARED
    most, block = int(np.count_nonzero(few)), TALLER * limits.query_rows
    pays = limits.method == "symmetric" or (
        limits.method == "auto" and 2 * most > gallery and most > block
    )
    fits = int(mates[few].sum()) <= TALLER * limits.symmetric_mates
    if not (request.space.symmetric and facts.devices == 1 and pays and fits):
        return rows[:0], rows
    return np.sort(rows[few]), rows[~few]


def _in_main_memory(
    request: PassRequest,
    left: Queries,
    few: npt.NDArray[np.bool_],
    limits: Settings,
    *,
    device_backed: bool,
) -> Schedule:
    """Rows with few relevant items are counted, and rows with many are sorted, or split."""
    counted = Queries(left.rows[few], left.unmated_rows)
    return _last(
        _counted(request, counted, limits, device_backed=device_backed),
        _whole(request, left.rows[~few], len(left.rows), limits, device_backed=device_backed),
    )


def _counted(
    request: PassRequest, queries: Queries, limits: Settings, *, device_backed: bool
) -> WorkItem:
    view, space, observers = request.view, request.space, request.observers
    folds, split = request.folds, request.folds is not None
    most = _split_mates(request, limits)
    ascending = np.sort(queries.rows)
    if observers is None:
        # A device-backed space makes float64 tiles only.
        mates = view.mates[queries.rows]
        name = COUNTING[
            "float64" if device_backed else method_of(space, mates, limits, split=split)
        ]
        if name == "symmetric":
            found = cut(view.mates, ascending, limits.query_rows, limits.mates)
            return WorkItem(name, found, folds)
        found = _in_turn(request, queries, limits.query_rows, most)
        return WorkItem(name, found, folds, device_backed)
    if observers.whole_rows:
        close = observers.ask_for_cuts and not device_backed
        close = close and method_of(space, view.mates[queries.rows], limits) != "float64"
        numbers = limits.observed_numbers * (2 if close else 1)  # of half the size
        tall = height(space.gallery, numbers, limits)
        return WorkItem(
            "count close rows" if close else "count observed rows",
            _in_turn(request, queries, tall, limits.mates),
            folds,
            device_backed,
        )
    if len(queries) == view.queries and not device_backed:
        both = each_pair_once(view, space, observers, limits, split=split)
        if both is not None:
            found = cut(view.mates, ascending, limits.query_rows, limits.mates)
            return WorkItem("count observed both ways", found, folds, both_ways=both)
    found = _in_turn(request, queries, limits.query_rows, most)
    return WorkItem("count observed tiles", found, folds, device_backed)


def _whole(
    request: PassRequest, many: Rows, rows: int, limits: Settings, *, device_backed: bool
) -> WorkItem:
    mates, numbers = request.view.mates, limits.row_numbers
    if request.observers is None and request.rankings:  # ranks and grades are small
        numbers *= 2
    tall = height(request.space.gallery, numbers, limits)
    if request.splitting:  # these are few: some for each thread
        tall = min(tall, -(-rows // request.threads))
        found = cut(mates, many, tall, _split_mates(request, limits))
        return WorkItem("split rows", found, request.folds, device_backed)
    most = min(limits.mates, numbers // 4)
    return WorkItem("sort rows", cut(mates, many, tall, most), request.folds, device_backed)


def _observed(request: PassRequest, left: Queries, limits: Settings, *, compiled: bool) -> Schedule:
    """A schedule in which observers see all pairs, and there are no tie groups."""
    space, observers = request.space, request.observers
    whole = observers is not None and observers.whole_rows
    if compiled and observers is not None and len(left) == request.view.queries:
        both = observes_each_pair_once(request.view, space, observers, limits)
        if both is not None:
            return _last(WorkItem("observe both ways", (left.rows,), both_ways=both))
    name, tall = "observe tiles", limits.query_rows // 4
    if whole:
        name, tall = "observe rows", height(space.gallery, limits.observed_numbers, limits)
    return _last(WorkItem(name, even(left.rows, tall, request.threads), compiled=compiled))


# -- blocks ------------------------------------------------------------------------------------


def cut(mates: Rows, rows: Rows, height: int, most: int) -> tuple[Rows, ...]:
    """Blocks of at most `height` rows, in which rows x largest R is at most `most`."""
    found = []
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + height)
        while stop - start > 1 and (stop - start) * int(mates[rows[start:stop]].max()) > most:
            stop = start + (stop - start) // 2
        found.append(rows[start:stop])
        start = stop
    return tuple(found)


def _ascending(mates: Rows, queries: Queries, height: int, most: int) -> tuple[Rows, ...]:
    """Blocks as `cut` makes them, the rows of each in ascending order."""
    found = cut(mates, queries.rows, height, most)
    return tuple(rows if (rows[1:] > rows[:-1]).all() else np.sort(rows) for rows in found)


def even(rows: Rows, height: int, threads: int) -> tuple[Rows, ...]:
    """Blocks of at most `height` rows, and no larger than that each thread has one."""
    height = max(1, min(height, -(-len(rows) // threads)))
    return tuple(rows[start : start + height] for start in range(0, len(rows), height))


def height(gallery: int, numbers: int, limits: Settings) -> int:
    """Rows of the whole gallery that a thread holds at a time."""
    return max(1, min(limits.query_rows, numbers // gallery))


# -- methods -----------------------------------------------------------------------------------


def method_of(
    space: Space, mates: Rows, limits: Settings, *, split: bool = False, observed: bool = False
) -> str:
    """The method that the settings name, or the cheapest one; observers see float64."""
    if not len(mates) or (not observed and space.single is None):
        return "float64"
    square = space.symmetric
    if limits.method == "symmetric" and not square:
        return "filter"
    if limits.method != "auto":
        return limits.method
    if len(mates) * space.gallery < _SMALL:
        return "float64"
    # Half of all tiles cost as much as the rows of half of the queries.
    most = limits.symmetric_mates // 8 if split else limits.symmetric_mates
    fits = int(mates.sum()) <= most
    if observed:
        return "symmetric" if square and fits else "float64"
    return "symmetric" if square and fits and 2 * len(mates) > space.gallery else "filter"


def each_pair_once(
    view: View, space: Space, observers: Observers, limits: Settings, *, split: bool
) -> SymmetricStrips | None:
    """Strips to compute each pair once for observers of all queries, where it can be and pays."""
    mates = view.mates[view.mates > 0]
    if observers.whole_rows or (mates > limits.sort_share * space.gallery).any():
        return None
    if method_of(space, mates, limits, split=split, observed=True) != "symmetric":
        return None
    return SymmetricStrips.of(view, limits.side, limits.symmetric_mates)


def observes_each_pair_once(
    view: View, space: Space, observers: Observers, limits: Settings
) -> SymmetricStrips | None:
    """Strips to compute each pair once for observers, where no tie groups are wanted."""
    pays = limits.method == "symmetric" or (
        limits.method == "auto" and space.queries * space.gallery >= _SMALL
    )
    if observers.whole_rows or not space.symmetric or not pays:
        return None
    return SymmetricStrips.of(view, limits.side, limits.symmetric_mates)


# Both ways: the queries are the gallery, and a tile of distances serves its rows and its columns.


WIDER = 5 / 3
"""How much wider these strips are than those of float32 tiles: the product is then faster."""


class SymmetricStrips:
    """Strips of rows, with the pairs of each strip that never meet."""

    def __init__(self, strips: list[Tile], excluded: list[ExcludedPairs]) -> None:
        self.strips, self._excluded = strips, excluded

    @staticmethod
    def of(view: View, side: int, most: int) -> SymmetricStrips | None:
        """Strips of a view; None where more than `most` pairs never meet, for all are held."""
        strips, excluded, total = strips_of(view.items, int(side * WIDER)), [], 0
        for start, stop in strips:
            pairs = view.exclusions.pairs(np.arange(start, stop), view.items)
            total += len(pairs)
            if total > most:
                return None
            excluded.append(ExcludedPairs.of(pairs))
        return SymmetricStrips(strips, excluded)

    def distances(self, space: Space, tile: Tile) -> Distances:
        """The distances of a tile, from the side of its rows."""
        rows, columns = (self.strips[number] for number in tile)
        return space.block(np.arange(*rows))(*columns)

    def observe(self, observers: Observers, tile: Tile, distances: Distances) -> None:
        """Let observers see a tile from both sides; on the diagonal they are one."""
        rows, columns = (self.strips[number] for number in tile)
        gone, gone_too = (self._excluded[number] for number in tile)
        block = DistanceBlock(np.arange(*rows), distances, True, columns[0])
        if rows == columns:
            observers.observe_at_once(block, gone)
        elif gone.meet(slice(*columns)) or gone_too.meet(slice(*rows)):
            turned = block.turned  # pairs that never meet may do so the other way round
            observers.observe_at_once(block, gone)
            observers.observe_at_once(turned, gone_too)
        else:
            observers.observe_both(block)


def strips_of(rows: int, side: int) -> list[Tile]:
    """Rows cut into strips of `side` rows, each from start to stop; of few rows at least four, for
    the tiles on the diagonal are made as a whole."""
    side = min(side, -(-rows // 4))
    return list(pairwise([*range(0, rows, side), rows]))


_BY_DEVICE: dict[str, Planner] = {"reference": _by_reference, "cpu": _by_cpu, "cuda": _by_gpus}


def tiles(gallery: int, limits: Settings) -> list[tuple[int, int]]:
    """The gallery, from start to stop, in tiles."""
    step = limits.gallery_rows
    return [(start, min(start + step, gallery)) for start in range(0, gallery, step)]


# -- devices -----------------------------------------------------------------------------------


def rounding_device() -> str:
    """Return the device on which rows are rounded where GPUs count."""
    return front.FIRST


def resolve_device(device: str, pairs: int = 0) -> str:
    """Return the engine that will run: "cpu" (compiled), "cuda" or "reference" (pure numpy).

    "auto" looks for a GPU, which imports torch, only for as many pairs as make it worth the while.
    """
    check_choice("device", device, DEVICES)
    if device == "auto":
        if pairs >= _LARGE and likely() and front.unavailable() is None:
            return "cuda"
        return "cpu" if compiled() else "reference"
    if device == "cuda":
        check()
    if device == "cpu" and not compiled():
        raise InputError("device='cpu' needs numba; install it or use device='reference'.")
    return device


# What the strategies of one pass share: its threads, its GPUs and its progress.


class PassContext:
    """A pass that is under way; leaving it ends its threads and gives BLAS its own back."""

    def __init__(
        self,
        request: PassRequest,
        limits: Settings,
        checkpoint: Checkpoint,
        tick: Callable[[int], None],
    ) -> None:
        self.request, self.limits, self.tick = request, limits, tick
        self.tiles = tiles(request.space.gallery, limits)
        self._checkpoint, self._stack = checkpoint, ExitStack()

    def __enter__(self) -> PassContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def observers(self) -> Observers:
        """The observers of the pass; an error where it has none."""
        if self.request.observers is None:
            raise ValueError("this pass has no observers")
        return self.request.observers

    def space(self, item: WorkItem) -> Space:
        """The space that the distances of some work come from."""
        return self._device_backed if item.device_backed else self.request.space

    def has_mates(self, block: Rows) -> bool:
        """Whether these queries have relevant items; blocks hold no two kinds."""
        return bool(self.request.view.mates[block[0]])

    def advance(self, rows: Rows) -> None:
        """Report progress: these queries have met the whole gallery."""
        self.tick(len(rows) * self.request.space.gallery)

    @property
    def cluster(self) -> Cluster:
        """The cluster on which the pass is made; an error where it is made here."""
        if self.request.space.cluster is None:
            raise ValueError("this pass has no cluster")
        return self.request.space.cluster

    @property
    def kept(self) -> Checkpoint:
        """The checkpoint that keeps the counts of blocks, if there are no observers."""
        return self._checkpoint if self.request.observers is None else Checkpoint()

    def tile_pool(self) -> TilePool:
        """Threads that count tiles; the checkpoint keeps their counts if there are no observers."""
        return TilePool(self.pool, self.request.threads, self.tick, self.kept)

    def observed_tile_pool(self) -> TilePool:
        """Threads that count tiles and keep what observers have seen, where that can be kept."""
        observers = self.observers
        if not observers.resumable:
            return self.tile_pool()
        return TilePool(self.pool, self.request.threads, self.tick, self._checkpoint, observers)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads of the CPU."""
        self._stack.enter_context(single_threaded_blas())
        return self._stack.enter_context(ThreadPoolExecutor(self.request.threads))

    @cached_property
    def gpus(self) -> front.Engine:
        """The GPUs; with observers, progress is what they have seen, not what was counted."""
        request = self.request
        tick = self.tick if request.observers is None else lambda pairs: None
        return front.Engine(request.view, request.space, self.limits, tick)

    def facts(self) -> DeviceFacts:
        """What the device that was asked for can tell now."""
        return self.gpus.facts() if self.request.device == "cuda" else DeviceFacts()

    @cached_property
    def _device_backed(self) -> Space:
        return front.DeviceBackedSpace(self.request.space)


SQUARE = 32
"""Strips on either side of a square of tiles."""


def every_two(strips: list[Tile]) -> list[Tile]:
    """Every two strips once, in the order in which their tiles are best made."""
    return sorted(combinations_with_replacement(range(len(strips)), 2), key=_turn)


def _turn(tile: Tile) -> tuple[int, int, int]:
    """A key that sorts tiles by when their turn comes.

    Square by square, so that rows that come from a file are read again less often. In a square
    along its diagonals, so that threads seldom wait for each other's strip; the main diagonal,
    where mates crowd if rows come class by class, last.
    """
    i, j = tile
    return i // SQUARE, j // SQUARE, -((j - i) % SQUARE)
