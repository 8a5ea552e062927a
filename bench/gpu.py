"""python -m bench --gpu: the GPU's figures, each beside the bare product of the same run.

Calls: 60,502 rows with 4 and with 49 mates, evaluate from tensors on the device and from arrays in
main memory, without and with intervals, beside other tools; a million rows, the count and evaluate
with intervals; data that are as good as random. Then metrics over thresholds, ten million rows, and
a tree. All of it takes some eight minutes, the calls two; --part measures some of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import truerank
from bench import peers
from bench.gpu_data import make
from bench.gpu_record import RANKING, Case, Record
from truerank._util.arrays import DeviceMatrix
from truerank._util.settings import Settings, settings
from truerank.core.registry import DEFAULT
from truerank.distance.catalogue import build
from truerank.engine import runner
from truerank.engine.cuda import front
from truerank.engine.cuda.front import best_kernels
from truerank.engine.cuda.worker import Worker

__all__ = ["CLASSES", "PARTS", "ROWS", "run"]

PARTS = ("calls", "thresholds", "ten", "tree")
SECONDS = 1500.0
ROWS, MILLION, DIMENSIONS = 60_502, 1_000_000, 512
CLASSES = {(ROWS, 4): 11_316}
"""As many as Stanford Online Products has; elsewhere all classes are equally large."""
COMPILED = 200_000
SOME = 16_384
"""Queries that a bare product of a million rows is measured on."""
WAYS = {"": None, ", intervals": 0.95}
THRESHOLDS = {
    "and GOM (mReP)": ["mrep"],
    "and OPIS": ["opis"],
    "and AUC, EER, TAR at a FAR of .001": ["auc", "eer", "tar@far=0.001"],
    "and DIR at a FAR of .01": ["dir@far=0.01"],
}
"""Metrics over thresholds that are asked for beside the default ones."""
TURNS = 5
TREE, NODES = 136_093, (2, 8, 32, 128, 640, 1920)
"""Rows of a tree of iNaturalist's size, and how many classes share a node of each level above the
finest: the coarsest is shared by a third of the gallery."""
OF_TREE = ["precision@1", "map@r", "map", "h_ap", "sum_wap", "asi", "ndcg", "map@level=mean"]
CHECKED = 1_000
"""Queries whose counts are compared with those of the float64 path."""


def run(
    out: Path | None = None,
    *,
    parts: Sequence[str] = PARTS,
    seconds: float | None = None,
    device: str = "cuda",
    rows: tuple[int, int] = (ROWS, MILLION),
    dimensions: int = DIMENSIONS,
    tree: int = TREE,
) -> Record:
    """Measure and print; everything is in `out` as soon as it is known.

    Without some of the parts, what `out` has of them on the same machine stays there.
    """
    record = Record(out, device, seconds or SECONDS, go_on=set(parts) < set(PARTS))
    few, many = rows
    if "calls" in parts:
        for mates in (4, 49):
            _small(record, few, dimensions, mates)
        for mates in (4, 49):
            _large(record, many, dimensions, mates)
        if record.fits(45, f"random, {many:,} rows"):
            _random(record, many, dimensions)
    if "thresholds" in parts:
        _thresholds(record, few, dimensions)
    if "ten" in parts and record.fits(300, f"{10 * many:,} rows"):
        _ten(record, 10 * many, dimensions)
    if "tree" in parts:
        _tree(record, tree, dimensions)
    return record


def _small(record: Record, rows: int, dimensions: int, mates: int) -> None:
    x, labels = make(rows, dimensions, _classes(rows, mates), device=record.device)
    case = Case(record, rows, dimensions, mates, "trained")
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        case(f"{str(dtype)[6:]} GEMM", partial(peers.products, x.to(dtype), rows), repeat=3)
    case("truerank, count alone", _counting(x, labels), repeat=3)
    for name, arrays in {"tensors": (x, labels), "arrays": _home(x, labels)}.items():
        for way, confidence in WAYS.items():
            work = partial(truerank.evaluate, *arrays, device="cuda", confidence=confidence)
            case(f"truerank, evaluate {name}{way}", work, expected=4)
    if mates == 4:
        _peers(case, x, labels, rows)


def _peers(case: Case, x: Any, labels: Any, rows: int) -> None:
    few = min(rows, 4 * peers.height(x))
    scaled = {"repeat": 1, "scale": rows / few}
    case("torch.topk, 20 nearest", lambda: peers.top(x, few), **scaled)
    case("argsort of every row, mAP", lambda: peers.argsort(x, labels, few), **scaled)
    calculator = peers.metric_learning(labels)
    if calculator is not None:
        work = partial(calculator, x)
        case("pytorch-metric-learning, top R", work, repeat=1, expected=20)
    asked = peers.torchmetrics_precision(x, labels)
    if asked is not None:
        case("torchmetrics, mAP", asked, repeat=1, scale=rows / peers.ASKED, expected=5)


def _compile(rows: int, dimensions: int, mates: int, device: str, **how: float) -> None:
    """Have compiled what only many rows need: blocks that meet one another, and counts by fold of
    16 bits, from some 150,000 on."""
    some = min(rows, COMPILED)
    x, labels = make(some, dimensions, some // (mates + 1), device=device, **how)
    truerank.evaluate(x, labels, device="cuda")


def _large(record: Record, rows: int, dimensions: int, mates: int) -> None:
    """What calls cost whose kernels were compiled before; memory is allocated anew."""
    if not record.fits(20, f"{rows:,} rows, {mates} mates"):
        return
    _compile(rows, dimensions, mates, record.device)
    x, labels = make(rows, dimensions, _classes(rows, mates), device=record.device)
    case = Case(record, rows, dimensions, mates, "trained")
    _bare(case, x, rows)
    many = mates > 9
    case("truerank, count alone", _counting(x, labels), repeat=1, warm=False, expected=12)
    work = partial(truerank.evaluate, x, labels, device="cuda")
    expected = 22.0 if many else 15.0
    case("truerank, evaluate tensors, intervals", work, repeat=1, warm=False, expected=expected)
    if many:
        return
    work = partial(truerank.evaluate, x, labels, device="cuda", confidence=None)
    case("truerank, evaluate tensors", work, repeat=1, warm=False, expected=12)
    home = _home(x, labels)
    work = partial(truerank.evaluate, *home, device="cuda")
    case("truerank, evaluate arrays, intervals", work, repeat=1, warm=False, expected=17)


def _random(record: Record, rows: int, dimensions: int) -> None:
    _compile(rows, dimensions, 4, record.device, noise=100.0)
    x, labels = make(rows, dimensions, _classes(rows, 4), device=record.device, noise=100.0)
    case = Case(record, rows, dimensions, 4, "as good as random")
    _bare(case, x, rows)
    case("truerank, count alone", _counting(x, labels), repeat=1, warm=False, expected=30)


def _thresholds(record: Record, rows: int, dimensions: int) -> None:
    """Metrics over thresholds beside the ranking, from arrays to result, in turns.

    They need the exact distance of every pair, as the ranking does whose filter is switched off.
    """
    arrays = _home(*make(rows, dimensions, _classes(rows, 4), device=record.device))
    names = {RANKING[0]: [], RANKING[1]: [], **THRESHOLDS}
    ways = [(name, way) for way in WAYS for name in names]
    spent: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    for turn in range(TURNS + 1):
        for name, way in ways:
            metrics = [*DEFAULT, *names[name]]
            start = time.perf_counter()
            with settings(method="float64" if name == RANKING[1] else "auto"):
                asked = {"metrics": metrics, "confidence": WAYS[way]}
                truerank.evaluate(*arrays, device="cuda", **asked)
            if turn:  # the first turn compiles and allocates
                spent[name, way].append(time.perf_counter() - start)
    found = {name: {way: spent[name, way] for way in WAYS} for name in names}
    record.put("thresholds", {"rows": rows, "dimensions": dimensions, "seconds": found})


def _tree(record: Record, rows: int, dimensions: int) -> None:
    x, labels = make(rows, dimensions, 3 * NODES[-1], device=record.device)
    paths = torch.stack([*(labels // size for size in reversed(NODES)), labels], 1)
    arrays = _home(x, paths)
    case = Case(record, rows, dimensions, rows // 3, f"a tree of {len(NODES) + 1} levels")
    _bare(case, x, rows)
    del x
    work = partial(truerank.evaluate, *arrays, device="cuda", metrics=OF_TREE)
    case("truerank, evaluate arrays, intervals", work, repeat=1, expected=60)


def _ten(record: Record, rows: int, dimensions: int) -> None:
    """Ten times as many rows, made on the device; the counts of some queries are checked."""
    _compile(rows, dimensions, 4, record.device)
    x, labels = make(rows, dimensions, _classes(rows, 4), device=record.device)
    case = Case(record, rows, dimensions, 4, "trained")
    _bare(case, x, rows)
    task = truerank.Task(labels.cpu().numpy())
    space = build("cosine", DeviceMatrix(x), device=front.FIRST)  # type: ignore[arg-type]
    del x
    checked = np.sort(np.random.default_rng(rows).choice(rows, CHECKED, replace=False))
    found: dict[int, Any] = {}
    count = partial(_count, task, space, checked, found)
    case("truerank, count alone", count, repeat=1, warm=False, expected=0)
    exact = _by_float64(task, space, checked)
    if found != exact:
        raise AssertionError(f"counts of {rows:,} rows are not those of the float64 path")
    record.put(f"checked, {rows:,} rows", len(exact))


def _count(task: Any, space: Any, some: Any, found: dict[int, Any]) -> None:
    """Count all queries, and note what is found of some."""
    for block in runner.tie_groups(task.view, space, device="cuda"):
        places = np.flatnonzero(np.isin(block.rows, some))
        found |= _by_row(block.rows[places], block.groups.some(places))


def _by_float64(task: Any, space: Any, rows: Any) -> dict[int, Any]:
    where = torch.device(front.FIRST)
    worker = Worker(task.view, space, where, best_kernels(where))
    return _by_row(rows, worker.count(rows, Settings(method="float64")).groups)


def _by_row(rows: Any, groups: Any) -> dict[int, Any]:
    ends = zip(
        rows.tolist(), groups.offsets[:-1].tolist(), groups.offsets[1:].tolist(), strict=True
    )
    return {
        row: (groups.before[start:stop].tolist(), groups.size[start:stop].tolist())
        for row, start, stop in ends
    }


def _bare(case: Case, x: Any, rows: int) -> None:
    queries = min(SOME, rows)
    for dtype in (torch.float64, torch.bfloat16):
        work = partial(peers.products, x.to(dtype), queries)
        case(f"{str(dtype)[6:]} GEMM", work, repeat=2, scale=rows / queries, expected=3)


def _counting(x: Any, labels: Any) -> Callable[[], None]:
    """Tie groups of all queries, from rows that are rounded already."""
    task = truerank.Task(labels.cpu().numpy())
    space = build("cosine", DeviceMatrix(x), device=front.FIRST)  # type: ignore[arg-type]

    def count() -> None:
        for _ in runner.tie_groups(task.view, space, device="cuda"):
            pass

    return count


def _classes(rows: int, mates: int) -> int:
    return CLASSES.get((rows, mates), rows // (mates + 1))


def _home(x: Any, labels: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return x.cpu().numpy(), labels.cpu().numpy()
