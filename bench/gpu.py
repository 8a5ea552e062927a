"""python -m bench --gpu: counting on the GPU against the bare products, argsort and top-k.

Times are medians with the data on the device, but for "evaluate", which is the whole call from
arrays in main memory to a result. Long ones (marked ~) are measured on some of the queries and
scaled up: every query costs the same.
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
from bench.data import NOISE
from truerank import engine
from truerank.core.registry import DEFAULT
from truerank.engine.cuda import triton_kernels
from truerank.engine.cuda.worker import Worker
from truerank.space import build

__all__ = ["run"]

SIZES = (
    (5_000, 512, 1_000),
    (20_000, 512, 4_000),
    (60_502, 128, 11_316),
    (60_502, 512, 11_316),
    (60_502, 2048, 11_316),
    (60_502, 512, 1_210),
    (1_000_000, 512, 200_000),
    (1_000_000, 512, 20_000),
)
LESS_NOISE = {(1_000_000, 20_000): 2.12}
"""Noise around the centres that keeps MAP@R above .4 among so many rows and mates."""
BLOCK = 4096
MOST_QUERIES = 65_536
REPEAT = 5
LEVELS = (2, 8, 32, 128, 640, 1920)
"""Classes that share a node of each level above the finest, in the tree of 136,093 rows."""


def run(*, quick: bool) -> None:
    """Print the table; `quick` leaves out a million rows."""
    name = torch.cuda.get_device_name(0)
    print(
        f"{name}, torch {torch.__version__}, {date.today():%B %Y}; medians of {REPEAT}, "
        "milliseconds; ~: measured on some of the queries\n"
    )
    print("| rows x dimensions | mates | | ms | x float64 GEMM | peak GPU GB |")
    print("|---|---:|---|---:|---:|---:|")
    for rows, dimensions, classes in SIZES:
        if not (quick and rows >= 1_000_000):
            _measure(rows, dimensions, classes)
    _tree()
    print()
    _thresholds()


def make(rows: int, dimensions: int, classes: int) -> tuple[Any, Any]:
    """Trained-like data, made on the device; bench.data's for a million rows takes minutes."""
    generator = torch.Generator("cuda").manual_seed(2026)
    labels = torch.arange(rows, device="cuda") * classes // rows
    labels = labels[torch.randperm(rows, generator=generator, device="cuda")]
    centres = torch.randn((classes, dimensions), generator=generator, device="cuda")
    x = torch.randn((rows, dimensions), generator=generator, device="cuda")
    x *= LESS_NOISE.get((rows, classes), NOISE[dimensions])
    for start in range(0, rows, BLOCK):
        x[start : start + BLOCK] += centres[labels[start : start + BLOCK]]
    return x, labels


def _measure(rows: int, dimensions: int, classes: int) -> None:
    x, labels = make(rows, dimensions, classes)
    queries = min(rows, MOST_QUERIES)
    print_row = _Printer(rows, dimensions, rows // classes - 1, rows / queries)
    _peers(x, labels, queries, print_row)
    arrays = x.cpu().numpy(), labels.cpu().numpy()
    x = None
    _counting(*arrays, queries, print_row)
    print_row("truerank, evaluate", lambda: truerank.evaluate(*arrays, device="cuda"), whole=True)


def _peers(x: Any, labels: Any, queries: int, print_row: _Printer) -> None:
    wide = x.double()
    print_row("float64 GEMM", lambda: _products(wide, queries))
    print_row("float32 GEMM", lambda: _products(x, queries))
    few = min(queries, 4 * _height(x))
    print_row("argsort mAP", lambda: _argsort(x, labels, few), queries / few)
    print_row("top 20", lambda: _top(x, few), queries / few)


def _counting(x: Any, labels: Any, queries: int, print_row: _Printer) -> None:
    task, space = truerank.Task(labels), build("cosine", x)
    worker = Worker(task.view, space, torch.device("cuda:0"), triton_kernels)
    rows = np.arange(queries)
    ways = {"float64 path": "float64", "filter path": "filter", "path chosen by itself": "auto"}
    for name, method in ways.items():
        with engine.settings(method=method) as limits:
            print_row(f"truerank, {name}", partial(worker.count, rows, limits))


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
        once = whole and self._scale > 1
        seconds = []
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for turn in range(1 if once else repeat + 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            if turn or once:  # the first turn compiles and allocates
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


def _products(x: Any, queries: int) -> None:
    wide = 2 * BLOCK
    for start in range(0, queries, 4 * BLOCK):
        some = x[start : min(start + 4 * BLOCK, queries)]
        for first in range(0, len(x), wide):
            torch.mm(some, x[first : first + wide].T)


def _height(x: Any) -> int:
    """Rows of scores to sort at a time."""
    return min(BLOCK, (1 << 28) // len(x))


def _scores(x: Any, start: int, stop: int) -> Any:
    scores = x[start:stop] @ x.T
    own = torch.arange(len(scores), device=x.device)
    scores[own, own + start] = -torch.inf
    return scores


def _argsort(x: Any, labels: Any, queries: int) -> float:
    x = torch.nn.functional.normalize(x)
    ranks = torch.arange(1, len(x), device=x.device)
    total = 0.0
    for start in range(0, queries, _height(x)):
        scores = _scores(x, start, min(start + _height(x), queries))
        order = torch.argsort(scores, dim=1, descending=True)[:, :-1]
        matches = labels[order] == labels[start : start + len(order), None]
        found = torch.cumsum(matches, 1)
        total += float(((found / ranks * matches).sum(1) / matches.sum(1)).sum())
    return total / queries


def _top(x: Any, queries: int) -> None:
    x = torch.nn.functional.normalize(x)
    for start in range(0, queries, _height(x)):
        torch.topk(_scores(x, start, min(start + _height(x), queries)), 20, dim=1)
