"""python -m bench.cluster_bits [--cpu] [--rows 600] [--out FOLDER]: does a cluster give the bits of
one process?

Several nodes of a Ray cluster are started on this machine. Each is told that it has a GPU, which
is the same one for all (with --cpu: none), so that workers share it. Every metric with its interval
and all curves are compared with one process on the CPU and on the GPU; so are shards that workers
read, a worker killed at work, a node killed at work, and exact neighbours. Meanwhile a benchmark of
two losses trains on shares of the GPU. One line for each; the exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import truerank
from bench import machine
from bench.nodes import NODES, Nodes
from truerank._util.settings import settings
from truerank.engine import ray as spreading

DIMENSIONS, MATES, SHARD, K = 48, 5, 150, 20
SHARE = 0.25
SENT_BYTES = 1 << 30
LARGE, WIDE = 40_000, 240
"""Rows and dimensions of the timed case."""
TASKS = 6
"""Tasks of a pass, at least."""
BENCHMARK_SECONDS = 120.0


# -- what is compared --------------------------------------------------------------------------


def spelled(value: Any) -> Any:
    """A value that equals another one exactly if all bits do; every NaN is one."""
    if is_dataclass(value):
        return {field.name: spelled(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: spelled(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [spelled(one) for one in value]
    return repr(value)


def contents(result: truerank.Result) -> dict[str, Any]:
    """Every field of every score, per query, interval and replicates, and every curve."""
    found = {name: spelled(score) for name, score in result.items()}
    for name in ("cmc", "roc", "det", "pr", "f1", "scores", "dir", "mrp", "mvp", "mrep", "mfr"):
        try:
            found[f"curve {name}"] = spelled(dict(result.curve(name)))
        except truerank.InputError as error:
            found[f"curve {name}"] = str(error)
    return found


def neighbors(found: truerank.ExactNeighbors) -> dict[str, Any]:
    """All that is known of exact neighbours."""
    return {name: spelled(getattr(found, name)) for name in ("item", "distance", "first", "tied")}


def differing(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """What is not the same in both."""
    names = sorted(expected.keys() | actual.keys())
    return [name for name in names if expected.get(name) != actual.get(name)]


# -- the data ----------------------------------------------------------------------------------


def rows_of(labels: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float32]:
    """Rows around a centre for each class, some of them equal, some zero."""
    centres = np.random.default_rng(1).normal(size=(labels.max() + 1, DIMENSIONS))
    rng = np.random.default_rng(seed)
    rows = (centres[labels] + 0.9 * rng.normal(size=(len(labels), DIMENSIONS))).astype(np.float32)
    equal = rng.choice(len(labels), size=(2, len(labels) // 10), replace=False)
    rows[equal[0]] = rows[equal[1]]
    rows[:3] = 0
    return rows


def tree(count: int) -> dict[str, Any]:
    """Leave one out, with two levels above the classes."""
    fine = np.arange(count) % (count // MATES)
    return {
        "embeddings": rows_of(fine, 2),
        "labels": np.column_stack([fine // 20, fine // 4, fine]),
        "units": "finer",
    }


def strangers(count: int) -> dict[str, Any]:
    """Queries against a gallery that has only some of their classes."""
    classes = count // MATES
    labels, there = np.arange(count) % classes, np.arange(count) % (3 * classes // 4)
    return {
        "embeddings": rows_of(labels, 3),
        "labels": labels,
        "gallery": rows_of(there, 4),
        "gallery_labels": there,
    }


def evaluate(data: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Everything of an evaluation by all metrics."""
    return contents(truerank.evaluate(**{"metrics": "all", **data, **options}))


def start_benchmark(folder: Path, device: str, address: str) -> subprocess.Popen[str]:
    """Two losses on drawings of noise, by the command line, on shares of the cluster's GPUs."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (32, 6, 28, 28), dtype=np.uint8)
    np.savez(folder / "drawings.npz", images=images, names=np.array([f"c{n}" for n in range(32)]))
    shared = {
        "model": {"trunk": "convnet", "dimensions": 8},
        "augmentation": {"resize": 16, "crop": 16, "scale": [0.5, 1.0]},
        "batch": 8,
        "training": {"epochs": 2, "iterations": 2, "device": device},
    }
    config = {
        "data": {"name": "quickdraw", "root": str(folder / "drawings.npz")},
        "protocol": {"preset": "smoke"},
        "shared": shared,
        "methods": ["contrastive", "arcface"],
    }
    (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    command = [sys.executable, "-m", "truerank", "benchmark", str(folder / "config.yaml")]
    command += ["-o", str(folder / "losses"), "--cluster", address, "--gpu-share", str(SHARE)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **piped)  # type: ignore[call-overload, no-any-return]


# -- the lines ---------------------------------------------------------------------------------


class Lines:
    """What was compared, printed as it comes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, began: float, wrong: list[str], note: str = "") -> None:
        """One line; `wrong` names what differs."""
        seconds = round(time.perf_counter() - began, 2)
        self.rows.append({"what": name, "seconds": seconds, "different": wrong, "note": note})
        print(self.line(self.rows[-1]), flush=True)

    @staticmethod
    def line(row: dict[str, Any]) -> str:
        """A line as it is printed."""
        wrong, note = row["different"], row["note"]
        verdict = "ok" if not wrong else "DIFFERENT: " + ", ".join(wrong[:6])
        said = f"{row['what']:<48} {row['seconds']:7.2f} s  {verdict}"
        return said + (f"; {note}" if note else "")

    def compare(
        self, name: str, expected: dict[str, Any], run: Callable[[], dict[str, Any]], note: str = ""
    ) -> None:
        """Run, and compare; an error is a line as well."""
        began = time.perf_counter()
        try:
            wrong = differing(expected, run())
        except Exception as error:
            wrong = [f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"]
        self.add(name, began, wrong, note)


def once(act: Callable[[], str], heard: list[str]) -> Callable[[int, int], None]:
    """A progress that acts when the first task has ended."""

    def progress(done: int, total: int) -> None:
        if not heard:
            heard.append(act())

    return progress


def compare_cluster(
    lines: Lines,
    nodes: Nodes,
    device: str,
    shapes: dict[str, dict[str, Any]],
    alone: dict[str, dict[str, Any]],
    folder: Path,
) -> None:
    """Passes on the cluster; nothing survives the last of them."""
    there: dict[str, Any] = {"device": device, "cluster": nodes.address}
    for name, data in shapes.items():
        lines.compare(f"{name}: cluster", alone[name], lambda data=data: evaluate(data, **there))
    plain = shapes["strangers"]
    rows, gallery = plain["embeddings"], plain["gallery"]
    sharded = plain | {
        "embeddings": truerank.shard(rows, folder / "queries", rows=SHARD),
        "gallery": truerank.shard(gallery, folder / "gallery", rows=SHARD),
    }
    lines.compare(
        "strangers: shards that workers read", alone["strangers"],
        lambda: evaluate(sharded, **there),
    )  # fmt: skip
    expected = neighbors(truerank.exact_neighbors(rows, gallery, K, device="cpu"))
    shards = (sharded["embeddings"], sharded["gallery"])
    kinds = {"cluster": ((rows, gallery), there), "shards": (shards, there)}
    if device == "cuda":
        kinds["one process, GPU"] = ((rows, gallery), {"device": device})
    for name, (sides, where) in kinds.items():
        lines.compare(
            f"neighbours: {name}",
            expected,
            lambda sides=sides, where=where: neighbors(
                truerank.exact_neighbors(*sides, K, **where)
            ),
        )
    for name, act in (("worker", nodes.kill_worker), ("node", nodes.kill_node)):
        data = plain if name == "worker" else sharded
        heard: list[str] = []
        given = {**data, **there, "progress": once(act, heard)}
        lines.compare(
            f"strangers: a {name} killed at work", alone["strangers"],
            lambda given=given, heard=heard: evaluate(given) | ({} if any(heard) else {"kill": 0}),
        )  # fmt: skip


def compare_large(lines: Lines, nodes: Nodes, device: str, count: int) -> None:
    """Tasks of their usual size, twice: the second time nothing is compiled or started."""
    labels = np.arange(count) % (count // MATES)
    rows = np.tile(rows_of(labels, 5), (1, WIDE // DIMENSIONS))
    rows += 0.1 * np.random.default_rng(6).normal(size=rows.shape).astype(np.float32)
    data = {"embeddings": rows, "labels": labels, "confidence": None, "metrics": ["map@r", "mrr"]}
    alone = {}
    for turn in ("first", "again"):
        where: dict[str, Any] = {"device": device}
        began = time.perf_counter()
        alone = evaluate(data | where)
        lines.add(f"{rows.shape}, one process, {turn}", began, [])
        lines.compare(
            f"{rows.shape}, cluster, {turn}",
            alone,
            lambda where=where: evaluate(data | where, cluster=nodes.address),
        )


def time_sending(lines: Lines) -> None:
    """How fast rows go to the GPU: those that a cluster's workers share, and others."""
    import torch

    from truerank.engine.cuda.transfer import sent

    own = np.ones((SENT_BYTES // 4096, 1024), np.int32)
    shared = own.view()
    shared.flags.writeable = False
    pinned = torch.from_numpy(own).pin_memory()
    for name, send in (
        ("shared rows", lambda: sent(shared, "cuda")),
        ("shared rows, copied first", lambda: sent(shared.copy(), "cuda")),
        ("own rows", lambda: sent(own, "cuda")),
        ("pinned rows", lambda: pinned.to("cuda")),
    ):
        send()
        torch.cuda.synchronize()
        began = time.perf_counter()
        send()
        torch.cuda.synchronize()
        rate = SENT_BYTES / (time.perf_counter() - began) / 1e9
        lines.add(f"1 GB of {name} to the GPU", began, [], f"{rate:.1f} GB/s")


def wait_for(training: subprocess.Popen[str], began: float, lines: Lines) -> None:
    """The benchmark's line: it ends, and prints a table with both losses."""
    try:
        told, complaints = training.communicate(timeout=BENCHMARK_SECONDS)
    except subprocess.TimeoutExpired:
        training.kill()
        told, complaints = training.communicate()
    named = all(name in told.lower() for name in ("contrastive", "arcface"))
    wrong = [] if training.returncode == 0 and named else [" ".join(complaints.split())[-400:]]
    lines.add(f"benchmark of two losses, {SHARE} of a GPU each", began, wrong)


def run(device: str, count: int, large: int, folder: Path, *, trains: bool) -> Lines:
    """All lines; `trains` says whether a benchmark is among them."""
    import ray

    lines, began = Lines(), time.perf_counter()
    nodes = Nodes(device)
    try:
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        lines.add(f"{NODES} nodes", began, [])
        started = time.perf_counter()
        training = start_benchmark(folder, device, nodes.address) if trains else None
        shapes = {"tree": tree(count), "strangers": strangers(count)}
        alone = {}
        for name, data in shapes.items():
            began = time.perf_counter()
            alone[name] = evaluate(data, device="cpu")
            lines.add(f"{name}: one process, CPU", began, [], f"{len(alone[name])} scores, curves")
            if device == "cuda":
                lines.compare(
                    f"{name}: one process, GPU", alone[name],
                    lambda data=data: evaluate(data, device="cuda"),
                )  # fmt: skip
        if training is not None:
            wait_for(training, started, lines)
        if large:
            compare_large(lines, nodes, device, large)
        if device == "cuda":
            time_sending(lines)
        tasks = {"query_rows": count // TASKS, "task_pairs": (count // TASKS) ** 2}
        tall = {"GPU_ROWS": count // TASKS, "OBSERVED_ROWS": count // TASKS}
        with patch.multiple(spreading, **tall), settings(**tasks):
            compare_cluster(lines, nodes, device, shapes, alone, folder)
    finally:
        nodes.end()
    return lines


def main() -> int:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(prog="bench.cluster_bits", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="workers without a GPU")
    parser.add_argument("--rows", type=int, default=600, help="queries, and gallery rows")
    parser.add_argument(
        "--large", type=int, help="rows of a timed case; 40,000 on a GPU, else none"
    )
    parser.add_argument("--sending", action="store_true", help="how fast rows go to a GPU, alone")
    parser.add_argument("--no-benchmark", action="store_true", help="evaluations alone")
    parser.add_argument("--out", type=Path, help="folder for cluster_bits.json")
    given = parser.parse_args()
    device = "cpu" if given.cpu else "cuda"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys(filter(None, map(os.path.abspath, sys.path)))
    )
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    warnings.simplefilter("ignore")
    if given.sending:
        time_sending(Lines())
        return 0
    began = time.perf_counter()
    print(f"{machine.describe()}, {given.rows} rows, device {device}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        large = (0 if given.cpu else LARGE) if given.large is None else given.large
        lines = run(device, given.rows, large, Path(name), trains=not given.no_benchmark)
    wrong = [row["what"] for row in lines.rows if row["different"]]
    print("", *map(lines.line, lines.rows), sep="\n")  # once more, without what Ray says between
    print(f"{len(lines.rows)} lines, {len(wrong)} differ; {time.perf_counter() - began:.0f} s")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        record = {"machine": machine.describe(), "device": device, "lines": lines.rows}
        (given.out / "cluster_bits.json").write_text(json.dumps(record, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
