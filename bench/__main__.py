"""python -m bench: one table of time and peak memory, each contender in a process of its own.

Without options it measures a suite of cases, from 5,000 to 60,000 rows, 128 to 2,048 dimensions,
few and many rows a class; with --rows, --dimensions, --mates or --data a case of your own.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.contenders import CONTENDERS, prepare
from bench.data import make
from bench.memory import peak, start_peak

BASES = ("float32 GEMM", "truerank")


@dataclass(frozen=True)
class Case:
    """One size and kind of data."""

    rows: int
    dimensions: int
    mates: int
    """Rows of each class."""
    data: str

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.dimensions:,}, {self.mates} a class, {self.data}"


SUITE = (
    *(Case(rows, 512, 5, "trained") for rows in (5_000, 10_000, 20_000, 40_000, 60_000)),
    *(Case(20_000, dimensions, 5, "trained") for dimensions in (128, 2_048)),
    *(Case(20_000, 512, mates, "trained") for mates in (20, 100)),
    Case(20_000, 512, 5, "random"),
    Case(10_000, 128, 5, "trained"),
)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, help="one case: rows, up to a million or so")
    parser.add_argument("--dimensions", type=int, help="one case: dimensions")
    parser.add_argument("--mates", type=int, help="one case: rows of each class")
    parser.add_argument("--data", choices=("trained", "random"), help="one case: kind of data")
    parser.add_argument("--tree", action="store_true", help="hierarchical metrics instead")
    parser.add_argument("--repeat", type=int, help="rounds; 3, and 1 beyond 20,000 rows")
    parser.add_argument("--only", action="append", choices=tuple(CONTENDERS))
    parser.add_argument("--record", type=Path, help="write all measurements to this JSON file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(**json.loads(options.worker))))
        return
    measured = [
        {"case": asdict(case), "contender": name, "rounds": rounds}
        for case in chosen_cases(options)
        for name, rounds in run_case(case, options).items()
    ]
    if options.record:
        about = {"date": datetime.date.today().isoformat(), "machine": machine()}
        options.record.write_text(json.dumps(about | {"measured": measured}, indent=1) + "\n")
    print_table(measured)


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
            print(f"{case}: round {number + 1} of {count}: {name}", file=sys.stderr)
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


def machine() -> str:
    """In words that stay meaningful elsewhere."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.machine()}, Python {platform.python_version()}"


def print_table(measured: list[dict[str, Any]]) -> None:
    """Medians over the rounds; ratios of seconds are medians of the ratios inside each round."""
    print(f"{machine()}, {datetime.date.today().isoformat()}\n")
    head = ["case", "", "seconds", "CPU seconds", *(f"x {b}" for b in BASES), "peak MB", "score"]
    print("| " + " | ".join(head) + " |")
    print("|---|---|" + "---:|" * (len(head) - 2))
    previous = None
    for entry in measured:
        case, rounds = Case(**entry["case"]), entry["rounds"]
        peers = {e["contender"]: e["rounds"] for e in measured if e["case"] == entry["case"]}
        scores = [r["score"] for r in rounds if r["score"] is not None]
        cells = [
            str(case) if case != previous else "",
            entry["contender"],
            f"{_median(rounds, 'seconds'):.2f}",
            f"{_median(rounds, 'processor'):.2f}",
            *(_ratio(rounds, peers.get(base)) for base in BASES),
            f"{_median(rounds, 'megabytes'):,.0f}",
            f"{scores[0]:.4f}" if scores else "",
        ]
        print("| " + " | ".join(cells) + " |")
        previous = case


def _median(rounds: list[dict[str, Any]], field: str) -> float:
    return statistics.median(r[field] for r in rounds)


def _ratio(rounds: list[dict[str, Any]], base: list[dict[str, Any]] | None) -> str:
    if base is None:
        return ""
    ratios = (mine["seconds"] / other["seconds"] for mine, other in zip(rounds, base, strict=True))
    return f"{statistics.median(ratios):.2f}"


main()
