"""python -m bench: one table of time and peak memory, each contender in a process of its own.

Without options it measures a suite of cases, from 5,000 to 60,000 rows, 128 to 2,048 dimensions,
few and many rows a class; with --rows, --dimensions, --mates or --data a case of your own.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import machine, table
from bench.contenders import CONTENDERS, prepare
from bench.data import KINDS, make
from bench.memory import peak, start_peak


@dataclass(frozen=True)
class Case:
    """One size and kind of data."""

    rows: int
    dimensions: int
    mates: int
    """Rows of each class."""
    data: str


SUITE = (
    *(Case(rows, 512, 5, "trained") for rows in (5_000, 10_000, 20_000, 40_000, 60_000)),
    *(Case(20_000, dimensions, 5, "trained") for dimensions in (128, 2_048)),
    *(Case(20_000, 512, mates, "trained") for mates in (20, 100)),
    Case(20_000, 512, 5, "random"),
    Case(20_000, 2_000, 20, "bits"),
    Case(20_000, 512, 5, "bytes"),
    Case(20_000, 128, 5, "ternary"),
    Case(10_000, 128, 5, "trained"),
)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, help="one case: rows, up to a million or so")
    parser.add_argument("--dimensions", type=int, help="one case: dimensions")
    parser.add_argument("--mates", type=int, help="one case: rows of each class")
    parser.add_argument("--data", choices=KINDS, help="one case: kind of data")
    parser.add_argument("--tree", action="store_true", help="hierarchical metrics instead")
    parser.add_argument("--repeat", type=int, help="rounds; 3, and 1 beyond 20,000 rows")
    parser.add_argument("--only", action="append", choices=tuple(CONTENDERS))
    parser.add_argument("--record", type=Path, help="write all measurements to this JSON file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--gpu", action="store_true", help="the GPU's own tables instead")
    parser.add_argument("--part", action="append", help="with --gpu: calls, thresholds, ten, tree")
    parser.add_argument("--profile", action="store_true", help="with --gpu: where time goes")
    parser.add_argument("--timeline", action="store_true", help="with --gpu: when steps begin")
    parser.add_argument("--out", type=Path, help="with --gpu: a folder for what is told")
    parser.add_argument("--seconds", type=float, help="with --gpu: time that it may take")
    options = parser.parse_args()
    if options.gpu:
        run_on_gpu(options)
        return
    if options.worker:
        print(json.dumps(measure(**json.loads(options.worker))))
        return
    measured = [
        {"case": asdict(case), "contender": name, "rounds": rounds}
        for case in chosen_cases(options)
        for name, rounds in run_case(case, options).items()
    ]
    date = datetime.date.today().isoformat()
    record = {"date": date, "machine": machine.describe(), "measured": measured}
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['machine']}, {date}\n")
    print("\n".join(table.lines(record)))


def run_on_gpu(options: argparse.Namespace) -> None:
    """The tables that were asked for; torch is imported for them alone."""
    from bench import gpu, gpu_profile, gpu_timeline

    if options.profile:
        gpu_profile.run(options.rows or gpu.ROWS, options.out)
    elif options.timeline:
        gpu_timeline.run(options.rows or gpu.ROWS, options.out)
    else:
        gpu.run(options.out, parts=options.part or gpu.PARTS, seconds=options.seconds)


def chosen_cases(options: argparse.Namespace) -> tuple[Case, ...]:
    """The suite, or the one case that the options describe."""
    own = (options.rows, options.dimensions, options.mates, options.data)
    if own == (None,) * 4 and not options.tree:
        return SUITE
    usual = (20_000, 512, 5, "trained")
    return (Case(*(mine or default for mine, default in zip(own, usual, strict=True))),)


def run_case(case: Case, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Rounds of every contender that takes part, one after the other in each round."""
    names = options.only or [name for name in CONTENDERS if takes_part(name, case, options.tree)]
    count = options.repeat or (3 if case.rows <= 20_000 else 1)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(count):
        for name in names:
            print(
                f"{table.describe(asdict(case))}: round {number + 1} of {count}: {name}",
                file=sys.stderr,
            )
            worker = json.dumps({"case": asdict(case), "name": name})
            command = [sys.executable, "-m", "bench", "--worker", worker]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rounds[name].append(json.loads(done.stdout.splitlines()[-1]))
    return rounds


def takes_part(name: str, case: Case, tree: bool) -> bool:
    """Hierarchical contenders on request; quadratic memory and whole sorts only where they fit."""
    most = {
        "pytorch-metric-learning, k=None": 10_000,
        "argsort of every row": 20_000,
        "pytorch-metric-learning, top R": 100_000,
        "torch.topk, top R": 100_000,
    }
    if name == "pytorch-metric-learning, k=None" and case.dimensions != 128:
        return False
    fits = case.rows <= most.get(name, case.rows)
    return fits and (name == "truerank" or ("level" in name) == tree)


def measure(case: dict[str, Any], name: str) -> dict[str, Any]:
    """Time, and peak memory beyond the process with everything imported and the data made."""
    run = prepare(name)
    x, y = make(**case)
    gc.collect()
    before = start_peak()
    wall, processor = time.perf_counter(), time.process_time()
    value = run(x, y)
    return {
        "seconds": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "megabytes": (peak() - before) / 2**20,
        "score": value if isinstance(value, float) else None,
    }


main()
