"""plan: what an evaluation on a cluster of GPUs would cost, from figures of one GPU.

The model is small enough to be checked by hand: pairs x seconds a pair, rows x seconds a row, bytes
over rates. Each line says whether it was measured, is assumed, or goes beyond what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from truerank.errors import InputError, check_choice, shortened
from truerank.progress import in_words

__all__ = ["PATHS", "Line", "Plan", "plan", "seconds_a_pair"]

PATHS = ("filter", "float64")
PICO = 1e-12
LOOKED_AT, A_DIMENSION = 5.4 * PICO, 0.00845 * PICO
"""The filter, seconds a pair on one H200: to look at a product or, if longer, to make it."""
FLOAT64, FLOAT64_DIMENSION = 5.1 * PICO, 0.032 * PICO
"""The float64 path: these add up."""
A_MATE = {"filter": 0.1 * PICO, "float64": 0.15 * PICO}
"""Seconds a pair for each mate beyond four."""
A_ROW, A_ROW_DIMENSION = 5.1e-6, 3.8e-9
"""Seconds to check, round and score a row on 16 cores; rounding is what grows with dimensions."""
A_TASK = 0.002
"""Seconds in which a task is handed out and its answer added, on three nodes of one machine."""
MEASURED_ROWS = 1_000_000
ROWS_OF_A_TASK = 65_536
GPU_GIGABYTES = 139.0
"""Memory of the GPU that was measured."""
GPU_SHARE, RESIDENT = 0.8, 0.5
"""Of it, for the gallery of a GPU that works alone, and for all rows of a task: where they need
more, the gallery comes tile by tile."""
LINK = 7.9e9
"""Bytes a second to a GPU from memory that the workers of a machine share, by one process."""
GIGA = 1e9


@dataclass(frozen=True)
class Line:
    """One line of a plan."""

    what: str
    value: str
    known: str
    """How it is known."""


@dataclass(frozen=True)
class Plan:
    """What an evaluation would cost."""

    queries: int
    gallery: int
    dimensions: int
    gpus: int
    machines: int
    mates: int
    path: str
    sharded: bool
    """Whether workers read the rows, from shards."""
    product: float
    """Seconds in which all GPUs count, if nothing holds them up."""
    streamed: float
    """Seconds in which rows go from main memory to each GPU, for each task before it counts."""
    host: float
    """Seconds of checking, rounding and scoring on the machine that began it."""
    rounded: float
    """Seconds in which all machines round their shards."""
    read: float
    """Seconds to read the files there, or a machine's shards on each."""
    sent: float
    """Seconds to send the rows to all machines: in a chain, or of shards from each to each."""
    tasks: int
    scheduling: float
    held: float
    """Bytes of rounded rows on every machine."""
    on_gpu: float
    """Bytes of the gallery on each GPU, in half precision and as integers."""

    @property
    def seconds(self) -> float:
        """All of it: what GPUs do, or what keeps them waiting, and what comes before and after."""
        counting = max(self.product + self.streamed, self.scheduling)
        return counting + self.host + self.rounded + self.read + self.sent

    def lines(self) -> Iterator[Line]:
        """The plan, line by line."""
        inside = max(self.queries, self.gallery) <= MEASURED_ROWS and self.gpus == 1
        counted = "measured within 30%" if inside else "extrapolated from 1,000,000 rows on one GPU"
        pairs = self.queries * self.gallery
        yield Line("pairs", f"{pairs:.3g}", "")
        yield Line(f"counting, {self.path} path", in_words(self.product), counted)
        yield Line("rows to the GPUs", in_words(self.streamed), "measured: 7.9 GB/s to one GPU")
        yield Line("tasks", f"{self.tasks:,}", "")
        yield Line("scheduling", in_words(self.scheduling), "measured: 2 ms a task, meanwhile")
        rows = "measured" if inside else "extrapolated from 1,000,000 rows"
        if self.sharded:
            shared = f"assumed rate, {self.machines:,} machines"
            split = "16 cores each"
            yield Line("reading shards", in_words(self.read), shared)
            yield Line("rounding them there", in_words(self.rounded), f"{rows}, {split}")
            yield Line("scoring here", in_words(self.host), f"{rows}, 16 cores")
        else:
            yield Line("reading files", in_words(self.read), "assumed rate")
            yield Line("rounding and scoring here", in_words(self.host), f"{rows}, 16 cores")
        yield Line("sending rows", in_words(self.sent), "assumed rate")
        yield Line("rows on every machine", f"{self.held / GIGA:,.0f} GB", "4 bytes a component")
        yield Line("gallery on a GPU", f"{self.on_gpu / GIGA:,.0f} GB", "6 bytes a component")
        yield Line("in all", in_words(self.seconds), counted)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; seconds and bytes."""
        return {**vars(self), "seconds": self.seconds}


def seconds_a_pair(dimensions: int, mates: int, path: str) -> float:
    """Seconds in which one H200 counts a pair, within 30% of what was measured."""
    more = A_MATE[path] * max(0, mates - 4)
    if path == "filter":
        return max(LOOKED_AT + more, A_DIMENSION * dimensions)
    return FLOAT64 + more + FLOAT64_DIMENSION * dimensions


def plan(
    queries: float,
    gallery: float | None,
    dimensions: int,
    gpus: int,
    *,
    mates: int = 4,
    path: str = "filter",
    sharded: bool = False,
    gpus_per_machine: int = 8,
    network: float = 12.5,
    disk: float = 2.0,
    bytes_a_component: int = 4,
) -> Plan:
    """The cost of an evaluation.

    Parameters
    ----------
    queries, gallery : rows; without a gallery the queries are their own
    dimensions, gpus, mates : of the rows, in all, and of each query
    path : {"filter", "float64"}, the way of counting
    sharded : whether workers read the rows, from shards
    gpus_per_machine : GPUs that share the rows of one machine
    network, disk : gigabytes a second of one machine, from others and from the files
    bytes_a_component : of the files

    Examples
    --------
    >>> found = plan(1e6, None, 512, 1)
    >>> round(found.product, 1), round(found.host, 1)
    (5.4, 7.0)
    """
    check_choice("path", path, PATHS)
    counts = {"queries": queries, "gallery": 1 if gallery is None else gallery,
              "dim": dimensions, "gpus": gpus, "mates": mates,
              "gpus per machine": gpus_per_machine, "bytes": bytes_a_component}  # fmt: skip
    for name, value in counts.items():
        _check(name, value, whole=True)
    for name, value in (("network", network), ("disk", disk)):
        _check(name, value, whole=False)
    rows, items = int(queries), int(queries if gallery is None else gallery)
    both = rows if gallery is None else rows + items
    machines = math.ceil(gpus / gpus_per_machine)
    held, on_gpu = 4.0 * both * dimensions, 6.0 * items * dimensions
    tasks = math.ceil(rows / ROWS_OF_A_TASK)
    placed = both if held <= RESIDENT * GPU_GIGABYTES * GIGA else items
    alone = gpus == 1 and on_gpu <= GPU_SHARE * GPU_GIGABYTES * GIGA  # it stays there
    rounds = 1 if alone else math.ceil(tasks / gpus)
    product = rows * items * seconds_a_pair(dimensions, mates, path) / min(gpus, tasks)
    scored, rounded = both * A_ROW, both * A_ROW_DIMENSION * dimensions
    files, others = float(both * dimensions * bytes_a_component), held
    if sharded:  # a machine reads its share, and takes in that of the others
        files, rounded, others = (x / machines for x in (files, rounded, held * (machines - 1)))
    return Plan(
        queries=rows,
        gallery=items,
        dimensions=dimensions,
        gpus=gpus,
        machines=machines,
        mates=mates,
        path=path,
        sharded=sharded,
        product=product,
        streamed=rounds * 4.0 * placed * dimensions / LINK,
        host=scored if sharded else scored + rounded,
        rounded=rounded if sharded else 0.0,
        read=files / (disk * GIGA),
        sent=0.0 if machines == 1 else others / (network * GIGA),
        tasks=tasks,
        scheduling=tasks * A_TASK,
        held=held,
        on_gpu=on_gpu,
    )


def _check(name: str, value: Any, *, whole: bool) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = number and math.isfinite(value) and value > 0 and (not whole or value == int(value))
    if not good or value > 1e15:
        kind = "a whole number from 1 on" if whole else "a number above 0"
        raise InputError(f"{name} must be {kind}, up to 1e15. Got {shortened(value)} instead.")
