"""python -m bench --gpu --quick: the GPU's main figures within 150 seconds.

60,502 rows with 4 and with 49 mates: evaluate from tensors on the device and from arrays in main
memory, without and with intervals, beside other tools and the bare product. A million rows: the
count, and evaluate with intervals; data that are as good as random last, if there is time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import truerank
from bench import peers
from bench.gpu_data import make
from bench.gpu_record import Case, Record
from truerank import engine
from truerank.arrays import DeviceMatrix
from truerank.engine import cuda
from truerank.space import build

__all__ = ["SECONDS", "run"]

SECONDS = 150.0
ROWS, MILLION, DIMENSIONS = 60_502, 1_000_000, 512
CLASSES = {(ROWS, 4): 11_316}
"""As many as Stanford Online Products has; elsewhere all classes are equally large."""
COMPILED = 200_000
SOME = 16_384
"""Queries that a bare product of a million rows is measured on."""
WAYS = {"": None, ", intervals": 0.95}


def run(
    out: Path | None = None,
    *,
    seconds: float = SECONDS,
    device: str = "cuda",
    rows: tuple[int, int] = (ROWS, MILLION),
    dimensions: int = DIMENSIONS,
) -> Record:
    """Measure and print; everything is in `out` as soon as it is known."""
    record = Record(out, device, seconds)
    few, many = rows
    for mates in (4, 49):
        _small(record, few, dimensions, mates)
    for mates in (4, 49):
        _large(record, many, dimensions, mates)
    if record.fits(45, f"random, {many:,} rows"):
        _random(record, many, dimensions)
    return record


def _small(record: Record, rows: int, dimensions: int, mates: int) -> None:
    classes = CLASSES.get((rows, mates), rows // (mates + 1))
    x, labels = make(rows, dimensions, classes, device=record.device)
    case = Case(record, rows, dimensions, mates, "trained")
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        case(f"{str(dtype)[6:]} GEMM", partial(peers.products, x.to(dtype), rows), repeat=3)
    case("truerank, count alone", _counting(x, labels), repeat=3)
    for name, arrays in {"tensors": (x, labels), "arrays": _home(x, labels)}.items():
        for way, confidence in WAYS.items():
            work = partial(truerank.evaluate, *arrays, device="cuda", confidence=confidence)
            case(f"truerank, evaluate {name}{way}", work, expected=4)
    if mates == 4:
        calculator = peers.metric_learning(labels)
        if calculator is not None:
            work = partial(calculator, x)
            case("pytorch-metric-learning, top R", work, repeat=1, expected=20)
        asked = peers.torchmetrics_precision(x, labels)
        if asked is not None:
            scale = rows / peers.ASKED
            case("torchmetrics, mAP", asked, repeat=1, scale=scale, expected=5)


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
    x, labels = make(rows, dimensions, rows // (mates + 1), device=record.device)
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
    x, labels = make(rows, dimensions, rows // 5, device=record.device, noise=100.0)
    case = Case(record, rows, dimensions, 4, "as good as random")
    _bare(case, x, rows)
    case("truerank, count alone", _counting(x, labels), repeat=1, warm=False, expected=30)


def _bare(case: Case, x: Any, rows: int) -> None:
    queries = min(SOME, rows)
    for dtype in (torch.float64, torch.bfloat16):
        work = partial(peers.products, x.to(dtype), queries)
        case(f"{str(dtype)[6:]} GEMM", work, repeat=2, scale=rows / queries, expected=3)


def _counting(x: Any, labels: Any) -> Callable[[], None]:
    """Tie groups of all queries, from rows that are rounded already."""
    task = truerank.Task(labels.cpu().numpy())
    space = build("cosine", DeviceMatrix(x), device=cuda.FIRST)  # type: ignore[arg-type]

    def count() -> None:
        for _ in engine.tie_groups(task.view, space, device="cuda"):
            pass

    return count


def _home(x: Any, labels: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return x.cpu().numpy(), labels.cpu().numpy()
