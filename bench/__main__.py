"""python -m bench: one table of time and peak memory, each contender in a process of its own."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.contenders import CONTENDERS, prepare
from bench.data import make


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--classes", type=int, default=4_000)
    parser.add_argument("--data", choices=("trained", "random"), default="trained")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tree", action="store_true", help="hierarchical metrics instead")
    parser.add_argument("--only", action="append", choices=tuple(CONTENDERS))
    parser.add_argument("--worker", choices=tuple(CONTENDERS), help=argparse.SUPPRESS)
    parser.add_argument("--gpu", action="store_true", help="the GPU's own table instead")
    parser.add_argument("--quick", action="store_true", help="with --gpu: no million rows")
    options = parser.parse_args()
    if options.gpu:
        from bench import gpu

        gpu.run(quick=options.quick)
        return
    if options.worker:
        print(json.dumps(measure(options)))
        return
    names = options.only or [name for name in CONTENDERS if takes_part(name, options)]
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(options.repeat):
        for name in names:
            print(f"round {number + 1} of {options.repeat}: {name}", file=sys.stderr)
            rounds[name].append(start_worker(name))
    print_table(options, rounds)


def takes_part(name: str, options: argparse.Namespace) -> bool:
    """Hierarchical contenders on request; k=None only where its quadratic memory fits."""
    if name.endswith("k=None") and options.rows > 10_000:
        return False
    return name == "truerank" or ("level" in name) == options.tree


def start_worker(name: str) -> dict[str, Any]:
    """Measure one contender in a fresh process."""
    command = [sys.executable, "-m", "bench", *sys.argv[1:], "--worker", name]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, and peak memory beyond the process with everything imported and the data made."""
    run = prepare(options.worker)
    x, y = make(options.rows, options.dimensions, options.classes, options.data)
    gc.collect()
    before = _start_peak()
    start = time.perf_counter()
    value = run(x, y)
    seconds = time.perf_counter() - start
    score = value if isinstance(value, float) else None
    return {"seconds": seconds, "megabytes": (_peak() - before) / 2**20, "score": score}


def _start_peak() -> int:
    """Resident memory now; on Linux the peak starts anew from it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return _peak()


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if platform.system() == "Darwin" else peak * 1024


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(field)


def print_table(options: argparse.Namespace, rounds: dict[str, list[dict[str, Any]]]) -> None:
    """Medians over the rounds; ratios are medians of the ratios inside each round."""
    print(
        f"{options.rows:,} x {options.dimensions}, {options.classes:,} classes, "
        f"{options.data} data; {len(os.sched_getaffinity(0))} cores; "
        f"medians of {options.repeat} rounds\n"
    )
    bases = [name for name in ("float64 GEMM", "float32 GEMM", "truerank") if name in rounds]
    head = ["", "seconds", *(f"x {name}" for name in bases), "peak MB beyond data"]
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for name, results in rounds.items():
        seconds = [result["seconds"] for result in results]
        ratios = [
            statistics.median(
                mine / base["seconds"] for mine, base in zip(seconds, rounds[other], strict=True)
            )
            for other in bases
        ]
        cells = [
            name,
            f"{statistics.median(seconds):.2f}",
            *(f"{ratio:.2f}" for ratio in ratios),
            f"{statistics.median(result['megabytes'] for result in results):,.0f}",
        ]
        print("| " + " | ".join(cells) + " |")
    for name, results in rounds.items():
        if results[0]["score"] is not None:
            print(f"{name}: score {results[0]['score']:.4f}")


main()
