"""python -m bench.search: exact neighbours on a GPU, and a gallery kept in half precision there.

First the search of truerank.exact_neighbors beside the ranking pass over the same rows and beside
a float32 product with torch.topk, and the seconds of its steps. Then its products by tiles of
several sizes.
Then the counts of many queries against a gallery that no memory holds: its rows are made anew from
their numbers, the device keeps them in half precision, and what that leaves in doubt is rounded
again from the source. A sample of queries is counted in float64 as well.

--small runs the same code on torch's CPU device, in seconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import truerank
from bench.search_steps import search_steps
from truerank._util.settings import settings
from truerank.core.metric import Scale
from truerank.core.registry import DEFAULT, parse, ranking
from truerank.core.tie_groups import Block, TieGroups
from truerank.distance.catalogue import build
from truerank.distance.cosine import SourcedCosine
from truerank.engine import runner
from truerank.engine.cuda import front, torch_kernels
from truerank.engine.cuda.front import best_kernels
from truerank.engine.cuda.search import Search, search_kernels
from truerank.engine.cuda.worker import Worker, own_filters
from truerank.task.relevance import Exclusions, LabelView

SIZES = (
    ("cosine", 60_502, 60_502, 512, 11_316),
    ("euclidean", 60_502, 60_502, 512, 11_316),
    ("cosine", 10_000, 1_000_000, 512, 200_000),
)
"""Distance, queries, items, dimensions and classes."""
SMALL_SIZES = (("cosine", 200, 200, 32, 40), ("euclidean", 50, 2_000, 32, 400))
LARGE, SMALL_LARGE = (100_000, 50_000_000, 512), (100, 12_800, 32)
MATES, CHECKED = 4, 32
PLACES = (10, 100)
TILES = (
    {},
    {"num_warps": 8},
    {"num_stages": 4},
    {"GROUP": 8},
    {"GROUP": 32},
    {"ITEMS": 256, "num_warps": 8},
    {"ITEMS": 256, "num_warps": 8, "GROUP": 8},
    {"ROWS": 256, "num_warps": 8},
    {"ROWS": 64, "ITEMS": 256},
)
"""What differs from the tiles of the search."""
NOISE, CENTRE = 7, 4
"""Weights of a row's own part and that of its class: mates lie among the nearest of millions."""
ODD = (-7046029254386353131, -4417276706812531889, -7723592293110705685, -4658895280553007687)
FIELD, LOW = 0xFFFF, {29: (1 << 35) - 1, 32: (1 << 32) - 1}


class Bench:
    """Where it runs, and what was measured so far."""

    def __init__(self, small: bool, folder: Path | None) -> None:
        self.small, self._folder = small, folder
        self.device = torch.device("cpu" if small else "cuda:0")
        self.kernels = best_kernels(self.device)
        self.filters = torch_kernels if small else own_filters(self.device, self.kernels)
        self.searching = torch_kernels if small else search_kernels(self.device, self.kernels)
        self.measured: list[dict[str, Any]] = []

    def note(
        self, case: str, what: str, seconds: float, base: float | None = None, **more: Any
    ) -> None:
        """Print a line of the table, and write all of them down."""
        ratio = "" if base is None else f"{seconds / base:.2f}"
        told = ", ".join(f"{name} {value:,}" for name, value in more.items())
        print(f"| {case} | {what} | {seconds:,.4f} | {ratio} | {told} |", flush=True)
        self.measured.append({"case": case, "what": what, "seconds": seconds, **more})
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self.measured, indent=1)
            (self._folder / "search.json").write_text(text)

    def worker(self, view: Any, space: Any) -> Worker:
        """The device at work on a view of a space."""
        return Worker(view, space, self.device, self.kernels, self.filters)

    def seconds(self, work: Callable[[], Any], repeat: int = 3) -> float:
        """The median time of some work; the first turn compiles and allocates."""
        spent = []
        for turn in range(repeat + 1):
            self.settle()
            start = time.perf_counter()
            work()
            self.settle()
            if turn:
                spent.append(time.perf_counter() - start)
        return statistics.median(spent)

    def settle(self) -> None:
        """Wait for the device."""
        if not self.small:
            torch.cuda.synchronize()

    def forget(self) -> None:
        """Give memory back that nothing refers to."""
        gc.collect()
        if not self.small:
            torch.cuda.empty_cache()

    def peak(self) -> float:
        """The most memory of the device so far, in GB."""
        return 0.0 if self.small else round(torch.cuda.max_memory_allocated() / 1e9, 1)


def truth(bench: Bench) -> None:
    """Searches beside the ranking pass and torch.topk."""
    for size in SMALL_SIZES if bench.small else SIZES:
        measure(bench, *size)
        bench.forget()


def measure(
    bench: Bench, distance: str, queries: int, items: int, dimensions: int, classes: int
) -> None:
    """One size: with as many queries as items, ranked in leave-one-out."""
    case = f"{distance}, {queries:,} x {items:,} x {dimensions}"
    on_device, labels = trained(bench, items, dimensions, classes)
    some = on_device[:queries].contiguous()
    peers = {k: bench.seconds(partial(topk, some, on_device, k)) for k in PLACES}
    x, y = on_device.cpu().numpy(), some.cpu().numpy()
    del on_device, some
    bench.forget()
    alone, rows = queries == items, np.arange(queries)
    task = truerank.Task(labels[:queries], gallery_labels=None if alone else labels)
    pair = build(distance, y, x)
    space = build(distance, x) if alone else pair
    with settings() as limits:
        base = bench.seconds(partial(bench.worker(task.view, space).count, rows, limits))
    bench.forget()
    bench.note(case, "ranking pass", base, base)
    search = Search(pair, bench.device, bench.kernels, bench.searching)
    for k in PLACES:
        bench.note(case, f"torch.topk, k={k}", peers[k], base)
        spent = bench.seconds(partial(search.nearest, rows, k))
        bench.note(case, f"truth, k={k}", spent, base)
    check_search(search, pair, rows[:: max(1, queries // 64)])
    del search
    bench.forget()
    for k in PLACES:
        where = (bench.device, bench.kernels, bench.searching)
        steps, told = search_steps(pair, *where, rows, k)
        for name, spent in steps.items():
            bench.note(case, f"k={k}: {name}", spent, base, **told.get(name, {}))
        bench.forget()
    if alone and not bench.small:
        given: dict[str, Any] = {"device": "cuda", "distance": distance}
        whole = partial(truerank.evaluate, x, labels, confidence=None, **given)
        base = bench.seconds(whole)
        bench.note(case, "evaluate, whole call", base, base)
        spent = bench.seconds(partial(truerank.exact_neighbors, x, x, 100, **given))
        bench.note(case, "truth, whole call, k=100", spent, base)


def trained(bench: Bench, rows: int, dimensions: int, classes: int) -> tuple[Any, Any]:
    """Rows around the centres of their classes, made on the device, and their labels."""
    generator = torch.Generator(bench.device).manual_seed(26)
    labels = torch.randperm(rows, generator=generator, device=bench.device) % classes
    centres = torch.randn((classes, dimensions), generator=generator, device=bench.device)
    x = torch.randn((rows, dimensions), generator=generator, device=bench.device)
    for start in range(0, rows, 1 << 14):
        some = slice(start, start + (1 << 14))
        x[some] = 2 * x[some] + centres[labels[some]]
    return x, labels.cpu().numpy()


def topk(queries: Any, items: Any, k: int) -> None:
    """The k nearest in float32, as anyone would."""
    left, right = (torch.nn.functional.normalize(side) for side in (queries, items))
    step = max(1, (1 << 29) // len(items))
    for start in range(0, len(left), step):
        torch.topk(left[start : start + step] @ right.T, k, dim=1)


def check_search(search: Search, space: Any, rows: Any) -> None:
    """Half precision and float64 list the same, at the distances that integers give."""
    found, exact = (search.nearest(rows, max(PLACES), method) for method in ("auto", "float64"))
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(one, other)
    query = np.repeat(rows, found[1].shape[1])
    np.testing.assert_array_equal(space.pairs(query, found[1].ravel()), found[0].ravel())


class HashedRows:
    """Rows that follow from their numbers: a part of their own, and one of their class if they are
    mates of a query. Integers alone, so that every machine makes the same."""

    def __init__(self, queries: int, gallery: int, dimension: int) -> None:
        self.shape = (gallery, dimension)
        self._queries, self._stride = queries, gallery // (queries * MATES)
        self.made = 0
        """Rows that were made on a device so far."""

    def labels(self) -> Any:
        """The query whose mate an item is, or -1."""
        found = np.full(self.shape[0], -1, np.int64)
        mates = np.arange(self._queries * MATES)
        found[mates * self._stride] = mates % self._queries
        return found

    def read(self, rows: Any) -> Any:
        """See RowSource."""
        return self._make(rows, np.arange(self.shape[1])).astype(np.float64)

    def send(self, rows: Any) -> Any:
        """See RowSource."""
        self.made += len(rows)
        return self._make(rows, torch.arange(self.shape[1], device=rows.device)).double()

    def queries(self) -> Any:
        """The queries: rows of their classes behind the gallery."""
        numbers, columns = np.arange(self._queries), np.arange(self.shape[1])
        own = hashed(numbers + self.shape[0], columns)
        return (NOISE * own + CENTRE * hashed(-1 - numbers, columns)).astype(np.float32)

    def _make(self, rows: Any, columns: Any) -> Any:
        found = NOISE * hashed(rows, columns)
        mate = (rows % self._stride == 0) & (rows < self._stride * self._queries * MATES)
        owner = (rows // self._stride % self._queries)[mate]
        if len(owner):
            found[mate] += CENTRE * hashed(-1 - owner, columns)
        return found


def hashed(rows: Any, columns: Any) -> Any:
    """Integers about 0 for each row and column, by a hash; of numpy's arrays or torch's tensors."""
    z = rows[:, None] * ODD[0] + columns[None, :] * ODD[1]
    for factor in ODD[2:]:
        z = z ^ (z >> 29 & LOW[29])  # without the sign that a shift brings along
        z = z * factor
    z = z ^ (z >> 32 & LOW[32])
    return (z & FIELD) + (z >> 16 & FIELD) + (z >> 32 & FIELD) + (z >> 48 & FIELD) - 2 * FIELD


def large(bench: Bench) -> None:
    """Many queries against a gallery that stays at its source."""
    queries, gallery, dimension = SMALL_LARGE if bench.small else LARGE
    case = f"{queries:,} x {gallery:,} x {dimension}"
    start = time.perf_counter()
    source = HashedRows(queries, gallery, dimension)
    view = LabelView(np.arange(queries), source.labels(), Exclusions([], [], None))
    space = SourcedCosine(source.queries(), source)
    bench.note(case, "labels and queries", time.perf_counter() - start)
    start = time.perf_counter()
    blocks = list(counted(bench, view, space))
    bench.settle()
    spent = time.perf_counter() - start
    flop = 2 * queries * gallery * dimension
    bench.note(
        case,
        "half precision, counts of all queries",
        spent,
        pairs=queries * gallery,
        tera_flop=round(flop / 1e12, 3),
        tera_flop_per_second=round(flop / 1e12 / spent, 1),
        peak_gigabytes=bench.peak(),
        rows_made_again=source.made - gallery,
    )
    scores = values(blocks)
    told = {name: round(float(value.mean()), 6) for name, value in scores.items()}
    bench.note(case, "metrics", 0.0, **told)
    bench.forget()
    start = time.perf_counter()
    rows = np.unique(np.linspace(0, queries - 1, CHECKED).astype(np.int64))
    with settings(method="float64", gallery_rows=8192) as limits:  # few, large tiles
        exact = bench.worker(view, space).count(rows, limits)
    if by_query(blocks, rows) != by_query([exact], rows):
        raise SystemExit("half precision and float64 differ")
    bench.note(case, f"float64, {len(rows)} queries: equal counts", time.perf_counter() - start)


def counted(bench: Bench, view: Any, space: Any) -> Iterator[Block]:
    """The tie groups of all queries."""
    with settings(method="filter") as limits:
        if not bench.small:
            yield from runner.tie_groups(view, space, device="cuda")
            return
        gpus = front.Engine(
            view, space, limits, lambda pairs: None, ["cpu"], bench.kernels, bench.filters
        )
        yield from gpus.tie_groups(iter([np.arange(view.queries)]))


def values(blocks: list[Block]) -> dict[str, Any]:
    """The default metrics of every query, ties at their worst."""
    found: dict[str, list[Any]] = {name: [] for name in DEFAULT}
    for block in blocks:
        groups: TieGroups = block.groups  # type: ignore[assignment]
        for name, several in found.items():
            metric = parse(name)
            several.append(groups.values(metric, Scale(np.ones(1)), ranking(metric))[0])
    return {name: np.concatenate(several) for name, several in found.items()}


def by_query(blocks: list[Block], rows: Any) -> dict[int, Any]:
    """The tie groups of some queries, in plain lists."""
    found = {}
    for block in blocks:
        groups: TieGroups = block.groups  # type: ignore[assignment]
        for number in np.flatnonzero(np.isin(block.rows, rows)):
            part = slice(groups.offsets[number], groups.offsets[number + 1])
            lists = (groups.before[part].tolist(), groups.size[part].tolist())
            found[int(block.rows[number])] = lists
    return found


def tiles(bench: Bench) -> None:
    """The search's products by tiles of several sizes, to choose from; a GPU alone has tiles."""
    if bench.small:
        return
    queries, items, dimension = 10_240, 131_072, 512
    case = f"{queries:,} x {items:,} x {dimension}"
    generator = torch.Generator(bench.device).manual_seed(26)
    left, right = (
        torch.nn.functional.normalize(
            torch.randn((rows, dimension), generator=generator, device=bench.device)
        ).half()
        for rows in (queries, items)
    )
    limit = torch.full((queries,), 3.3 / dimension**0.5, device=bench.device)
    for given in TILES:
        seconds = near_seconds(bench, left, right, limit, given)
        named = ", ".join(f"{name} {value}" for name, value in given.items())
        flop = 2 * queries * items * dimension
        bench.note(case, named, seconds, tera_flop_per_second=round(flop / 1e12 / seconds))


def near_seconds(bench: Bench, left: Any, right: Any, limit: Any, tile: dict[str, int]) -> float:
    """Seconds of the products of these rows that reach a limit, by tiles of this size."""
    from truerank.engine.cuda import search_kernels as own

    size, room = (len(left), len(right)), 512
    count = torch.zeros(len(left), dtype=torch.int32, device=bench.device)
    parts = torch.empty((len(left), room), dtype=torch.int32, device=bench.device)
    products = torch.empty((len(left), room * own.PART), device=bench.device)

    def work() -> None:
        count.zero_()
        own.near_parts(left, right, None, limit, size, count, parts, products)

    before = dict(own.TILE)
    own.TILE.update(tile)
    try:
        return bench.seconds(work)
    finally:
        own.TILE.clear()
        own.TILE.update(before)


SECTIONS = {"truth": truth, "tiles": tiles, "large": large}


def main(given: list[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench.search", description=__doc__)
    parser.add_argument("--small", action="store_true", help="on the CPU, in seconds")
    parser.add_argument("--only", choices=tuple(SECTIONS), help="one of the parts")
    parser.add_argument("--out", type=Path, help="folder for search.json")
    chosen = parser.parse_args(given)
    bench = Bench(chosen.small, chosen.out)
    print("| rows | | seconds | x base | |\n|---|---|---:|---:|---|")
    for name, section in SECTIONS.items():
        if chosen.only in (None, name):
            section(bench)
            bench.forget()


if __name__ == "__main__":
    main()
