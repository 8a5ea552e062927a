"""python -m bench --gpu: all tables of the GPU, each figure beside the bare product of its run.

Times are medians with the data on the device, but for "evaluate", which is the whole call, from
tensors there or from arrays in main memory to a result. Long ones (marked ~) are measured on some
of the queries and scaled up: every query costs the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import torch

import truerank
from bench import peers
from bench.gpu_data import make
from truerank import engine
from truerank.arrays import DeviceMatrix
from truerank.core.registry import DEFAULT
from truerank.engine import cuda
from truerank.engine.cuda import triton_kernels
from truerank.engine.cuda.worker import Worker
from truerank.space import build

__all__ = ["run", "run_ten"]

SIZES = (
    (5_000, 512, 1_000),
    (20_000, 512, 4_000),
    (60_502, 128, 11_316),
    (60_502, 512, 11_316),
    (60_502, 2048, 11_316),
    (60_502, 512, 1_210),
    (1_000_000, 512, 200_000),
    (1_000_000, 512, 20_000),
    (1_000_000, 512, 200_001),
)
MILLION = 1_000_000
MOST_QUERIES = 65_536
REPEAT, REPEAT_LONG = 5, 2
LEVELS = (2, 8, 32, 128, 640, 1920)
"""Classes that share a node of each level above the finest, in the tree of 136,093 rows."""


def run() -> None:
    """Print the tables."""
    name = torch.cuda.get_device_name(0)
    print(
        f"{name}, torch {torch.__version__}, {date.today():%B %Y}; medians of {REPEAT}, "
        "milliseconds; ~: measured on some of the queries\n"
    )
    print("| rows x dimensions | mates | | ms | x float64 GEMM | peak GPU GB |")
    print("|---|---:|---|---:|---:|---:|")
    for rows, dimensions, classes in SIZES:
        _measure(rows, dimensions, classes)
    _tree()
    print()
    _thresholds()


def _measure(rows: int, dimensions: int, classes: int) -> None:
    x, labels = make(rows, dimensions, classes)
    queries = min(rows, MOST_QUERIES)
    print_row = _Printer(rows, dimensions, rows // classes - 1, rows / queries)
    _peers(x, labels, queries, print_row)
    _counting(x, labels.cpu().numpy(), queries, print_row)
    here = x.cpu().numpy(), labels.cpu().numpy()
    for name, arrays in {"tensors": (x, labels), "arrays": here}.items():
        for intervals, confidence in {"": None, ", intervals": 0.95}.items():
            work = partial(truerank.evaluate, *arrays, device="cuda", confidence=confidence)
            print_row(f"truerank, evaluate {name}{intervals}", work, whole=True)


def _peers(x: Any, labels: Any, queries: int, print_row: _Printer) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        print_row(f"{str(dtype)[6:]} GEMM", partial(peers.products, x.to(dtype), queries))
    few = min(queries, 4 * peers.height(x))
    print_row("argsort mAP", lambda: peers.argsort(x, labels, few), queries / few)
    print_row("top 20", lambda: peers.top(x, few), queries / few)
    if len(x) <= MOST_QUERIES:
        calculator = peers.metric_learning(labels)
        if calculator is not None:
            print_row("pytorch-metric-learning, top R", lambda: calculator(x), repeat=1)
        asked = peers.torchmetrics_precision(x, labels)
        if asked is not None:
            print_row("torchmetrics, mAP", asked, queries / peers.ASKED, repeat=1)


def _counting(x: Any, labels: Any, queries: int, print_row: _Printer) -> None:
    task, space = truerank.Task(labels), build("cosine", DeviceMatrix(x), device=cuda.FIRST)  # type: ignore[arg-type]
    worker = Worker(task.view, space, torch.device("cuda:0"), triton_kernels)
    rows = np.arange(queries)
    for name, method in {"float64 path": "float64", "filter path": "filter"}.items():
        with engine.settings(method=method) as limits:
            print_row(f"truerank, {name}", partial(worker.count, rows, limits))

    def whole_pass() -> None:
        for _ in engine.tie_groups(task.view, space, device="cuda"):
            pass

    print_row("truerank, all queries, path chosen by itself", whole_pass, whole=True)


def run_ten() -> None:
    """Ten million rows made on the device beside a million; the counts of 1,000 queries checked."""
    seconds = {}
    for rows in (MILLION, MILLION, 10 * MILLION):  # the first pass compiles
        x, labels = make(rows, 512, rows // 5)
        task = truerank.Task(labels.cpu().numpy())
        space = build("cosine", DeviceMatrix(x), device=cuda.FIRST)  # type: ignore[arg-type]
        del x
        checked = np.sort(np.random.default_rng(rows).choice(rows, 1_000, replace=False))
        found: dict[int, Any] = {}
        torch.cuda.synchronize()
        start = time.perf_counter()
        for block in engine.tie_groups(task.view, space, device="cuda"):
            places = np.flatnonzero(np.isin(block.rows, checked))
            some = block.groups.some(places)
            found |= _by_row(block.rows[places], some)
        seconds[rows] = time.perf_counter() - start
        worker = Worker(task.view, space, torch.device("cuda:0"), triton_kernels)
        with engine.settings(method="float64") as limits:
            exact = _by_row(checked, worker.count(checked, limits).groups)
        print(
            f"{rows:,} x 512: {seconds[rows]:.1f} s, {seconds[rows] / seconds[MILLION]:.1f} times "
            f"a million's, counts of 1,000 queries {'agree' if exact == found else 'DIFFER'}",
            flush=True,
        )
        del space, worker, task
        torch.cuda.empty_cache()


def _by_row(rows: Any, groups: Any) -> dict[int, Any]:
    ends = zip(
        rows.tolist(), groups.offsets[:-1].tolist(), groups.offsets[1:].tolist(), strict=True
    )
    return {
        row: (groups.before[start:stop].tolist(), groups.size[start:stop].tolist())
        for row, start, stop in ends
    }


def _tree() -> None:
    """Seven levels at iNaturalist's size, the coarsest shared by a third of the gallery."""
    x, labels = make(136_093, 512, 5_760)
    paths = torch.stack([*(labels // size for size in reversed(LEVELS)), labels], 1)
    arrays = x.cpu().numpy(), paths.cpu().numpy()
    metrics = ["precision@1", "map@r", "map", "h_ap", "sum_wap", "asi", "ndcg", "map@level=mean"]
    del x
    print_row = _Printer(136_093, 512, 45_363, 1.0)
    print_row(
        "truerank, evaluate, tree of 7 levels",
        lambda: truerank.evaluate(*arrays, device="cuda", metrics=metrics),
        whole=True,
        repeat=1,
    )


def _thresholds(repeat: int = 5) -> None:
    """What metrics over thresholds cost beside the ranking, from arrays to result.

    They need the exact distance of every pair, as the ranking does whose filter is switched off.
    """
    x, labels = (part.cpu().numpy() for part in make(60_502, 512, 11_316))
    names: dict[str, list[str]] = {
        "ranking": [],
        "ranking, float64 path": [],
        "GOM": ["mrep"],
        "OPIS": ["opis"],
        "verification": ["auc", "eer", "tar@far=0.001"],
        "identification": ["dir@far=0.01"],
    }
    bases = list(names)[:2]
    ways = [(name, confidence) for confidence in (None, 0.95) for name in names]
    spent: dict[tuple[str, float | None], list[float]] = {way: [] for way in ways}
    for turn in range(repeat + 1):
        for name, confidence in ways:
            metrics = [*DEFAULT, *names[name]]
            start = time.perf_counter()
            with engine.settings(method="float64" if name == bases[1] else "auto"):
                truerank.evaluate(x, labels, metrics=metrics, device="cuda", confidence=confidence)
            if turn:  # the first turn compiles and allocates
                spent[name, confidence].append(time.perf_counter() - start)
    head = "ms | x ranking | x float64 path"
    print(f"| 60,502 x 512, evaluate | {head} | with intervals, {head} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in names:
        cells = []
        for confidence in (None, 0.95):
            mine = spent[name, confidence]
            cells.append(f"{1000 * statistics.median(mine):,.0f}")
            for base in bases:
                pairs = zip(mine, spent[base, confidence], strict=True)
                cells.append(f"{statistics.median(one / other for one, other in pairs):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


class _Printer:
    """Measures and prints the rows of one size."""

    def __init__(self, rows: int, dimensions: int, mates: int, scale: float) -> None:
        self._head = f"| {rows:,} x {dimensions} | {mates:,} "
        self._scale = scale
        self._base: float | None = None

    def __call__(
        self,
        name: str,
        work: Callable[[], Any],
        more: float = 1.0,
        *,
        whole: bool = False,
        repeat: int = REPEAT,
    ) -> None:
        scale = 1.0 if whole else self._scale * max(1.0, more)
        if self._scale > 1:
            repeat = min(repeat, REPEAT_LONG)
        seconds = []
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for turn in range(repeat + 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            if turn:  # the first turn compiles and allocates
                seconds.append(time.perf_counter() - start)
        milliseconds = 1000 * scale * statistics.median(seconds)
        if self._base is None:
            self._base = milliseconds
        peak = torch.cuda.max_memory_allocated() / 1e9
        print(
            f"{self._head}| {name} | {'~' if scale > 1 else ''}{milliseconds:,.1f} | "
            f"{milliseconds / self._base:.2f} | {peak:.1f} |",
            flush=True,
        )
        self._head = "| | "
