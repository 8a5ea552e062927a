"""python -m bench.cluster: what handing out tasks costs, and what the driver holds meanwhile.

A local cluster of separate processes. First tasks that sleep, so that nothing but the scheduling is
measured: wall time over tasks x seconds / workers. Then one evaluation cut into few and into many
tasks, and galleries of ever more shards, which workers read: how far the driver's memory grows.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import truerank
from truerank._util.cluster import Call, connect
from truerank._util.settings import settings

ROWS, DIMENSIONS, CLASSES = 6_000, 32, 1_200
SHARD, WIDE = 1_000, 1_024
"""Rows and dimensions of a shard."""


def asleep(held: list[Any], seconds: float) -> float:
    """A task of a cluster: a tile that takes so long."""
    time.sleep(seconds)
    return seconds


def peak_megabytes() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def blocks(shards: int) -> Iterator[npt.NDArray[np.float32]]:
    """The rows of a gallery, a shard at a time."""
    for number in range(shards):
        yield np.random.default_rng(number).normal(size=(SHARD, WIDE)).astype(np.float32)


def evaluate_shards(shards: int) -> float:
    """Some queries against a gallery of so many shards of 4 MB; the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        queries = truerank.shard(blocks(1), f"{folder}/queries")
        gallery = truerank.shard(blocks(shards), f"{folder}/gallery", rows=SHARD)
        labels = np.arange(SHARD * shards) % (SHARD * shards // 4)
        began = time.perf_counter()
        truerank.evaluate(
            queries, np.arange(SHARD), gallery=gallery, gallery_labels=labels,
            query_ids=np.arange(SHARD), gallery_ids=np.arange(SHARD * shards),
            metrics=["mrr"], confidence=None, device="cpu", cluster="auto",
        )  # fmt: skip
        return time.perf_counter() - began


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="bench.cluster", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each task")
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()

    import ray

    ray.init(
        num_cpus=given.workers,
        object_store_memory=1 << 30,
        include_dashboard=False,
        log_to_driver=False,
    )
    with connect("auto") as cluster:
        warm = [Call(n, "bench.cluster:asleep", given=(0.0,)) for n in range(4 * given.workers)]
        list(cluster.gather(warm))
        began = time.perf_counter()
        calls = (
            Call(n, "bench.cluster:asleep", given=(given.seconds,)) for n in range(given.tasks)
        )
        slept = sum(seconds for _, seconds in cluster.gather(calls))
        wall, least = time.perf_counter() - began, slept / given.workers
    print(f"{given.tasks} tasks of {given.seconds} s, {given.workers} workers: {wall:.2f} s, "
          f"{100 * (wall / least - 1):.1f}% above {least:.2f} s")  # fmt: skip
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % CLASSES
    rows = rng.normal(size=(CLASSES, DIMENSIONS))[labels] + rng.normal(size=(ROWS, DIMENSIONS))
    for tasks in (9, 36, 144):
        side = round(ROWS / tasks**0.5)
        sizes = {"query_rows": side, "gallery_rows": side, "task_pairs": side * side}
        with settings(**sizes):
            began = time.perf_counter()
            truerank.evaluate(rows, labels, metrics=["map@r"], confidence=None, cluster="auto")
            wall = time.perf_counter() - began
        print(f"evaluate in {tasks} tiles: {wall:.1f} s, peak {peak_megabytes():.0f} MB")
    for shards in (4, 16, 64):
        wall = evaluate_shards(shards)
        print(f"gallery of {shards} shards, {4 * shards} MB: {wall:.1f} s, peak "
              f"{peak_megabytes():.0f} MB")  # fmt: skip
    ray.shutdown()


if __name__ == "__main__":
    main()
