"""python -m bench.openset: what thresholds cost beside ranking, as ratios in one run.

GOM on a task of Market-1501's size, bracketed and exact; on 20,000 x 512 of 4,000 classes AUC, EER
and TAR, and OPIS in one pass (a sample foretells the range) and in two. Against the ranking alone
from the same float64 distances that thresholds need, and against the ranking as it runs by default,
which float32 decides; without intervals and with them, on both sides. CPU seconds, because ratios
of them hold on a busy machine; the rounds are interleaved and the median of each is taken.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import truerank
from bench import machine
from bench.data import market, uneven
from truerank._util.settings import Limits, limits, settings
from truerank.core.registry import DEFAULT

__all__ = ["lines", "measure"]

BASES = ("ranking by default", "ranking in float64")
GOM = {"GOM, bracketed": ["mrep", "mfr"], "GOM, exact": ["mrep@integral=exact", "mfr"]}
PAIRS = {
    "AUC, EER, TAR": ["auc", "eer", "tar@far=0.001"],
    "OPIS, one pass": ["opis"],
    "OPIS, two passes": ["opis"],
}
WAYS = {"scores alone": None, "with intervals": 0.95}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.openset", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--record", type=Path, help="write all measurements to this JSON file")
    options = parser.parse_args()
    record = measure(options.repeat, options.threads)
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(record)))


def measure(
    repeat: int, threads: int | None, tasks: tuple[dict[str, Any], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """CPU seconds of every round, by task, way and metrics; `tasks` are those of GOM and of pairs,
    if not the usual ones."""
    people, pairs = tasks or (market(), _of(*uneven(20_000, 512, 4_000)))
    warm = np.random.default_rng(0).normal(size=(60, 8))
    names = {name for metrics in (*GOM.values(), *PAIRS.values()) for name in metrics}
    truerank.evaluate(warm, np.arange(60) // 3, metrics=[*DEFAULT, *names])
    found = {}
    for shape, (task, asked) in {
        "Market-1501's size": (people, GOM),
        "20,000 x 512": (pairs, PAIRS),
    }.items():
        runs = {
            (way, name): _run(task, name, asked.get(name, []), confidence, threads)
            for way, confidence in WAYS.items()
            for name in (*BASES, *asked)
        }
        spent: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
        for turn in range(repeat):
            for (way, name), run in runs.items():
                start = time.process_time()
                run()
                seconds = time.process_time() - start
                spent[way].setdefault(name, []).append(seconds)
                print(f"round {turn + 1}: {shape}, {way}, {name}: {seconds:.2f} s", flush=True)
        found[shape] = spent
    date = datetime.date.today().isoformat()
    return {"date": date, "machine": machine.describe(), "threads": threads, "seconds": found}


def _run(
    task: dict[str, Any], name: str, more: list[str], confidence: float | None, threads: int | None
) -> Callable[[], Any]:
    sample = 0 if name == "OPIS, two passes" else Limits().sampled_rows
    method = "float64" if name == "ranking in float64" else "auto"
    asked = {"metrics": [*DEFAULT, *more], "confidence": confidence, "threads": threads}

    def run() -> Any:
        with limits(sampled_rows=sample), settings(method=method):
            return truerank.evaluate(**task, **asked)

    return run


def _of(embeddings: Any, labels: Any) -> dict[str, Any]:
    return {"embeddings": embeddings, "labels": labels}


def lines(record: dict[str, Any]) -> list[str]:
    """The Markdown table: medians, and medians of the ratios in each round."""
    head = "CPU seconds | x ranking | x float64 ranking"
    table = [f"| | {head} | with intervals, {head} |", "|---|" + "---:|" * 6]
    for shape, ways in record["seconds"].items():
        for name in next(iter(ways.values())):
            cells = []
            for spent in ways.values():
                cells.append(f"{statistics.median(spent[name]):.2f}")
                for base in BASES:
                    pairs = zip(spent[name], spent[base], strict=True)
                    cells.append(f"{statistics.median(one / other for one, other in pairs):.2f}")
            shown = f"{name}, {shape}" if name in BASES else name
            table.append(f"| {shown} | {' | '.join(cells)} |")
    return table


if __name__ == "__main__":
    main()
