"""python -m bench.openset: what thresholds cost beside ranking, as ratios in one run.

GOM on a task of Market-1501's size, bracketed and exact; on 20,000 x 512 of 4,000 classes AUC, EER
and TAR, and OPIS in one pass (a sample foretells the range) and in two. Against the ranking alone
from the same float64 distances that thresholds need, and against the ranking as it runs by default,
which float32 decides; each has its limits. CPU seconds, because ratios of them hold on a busy
machine; the rounds are interleaved and the median of each is taken.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import truerank
from bench.data import market, uneven
from truerank import engine
from truerank.core.registry import DEFAULT
from truerank.settings import Limits, limits

LIMITS = {"GOM, bracketed": 1.3, "GOM, exact": 1.8, "OPIS, one pass": 1.5, "OPIS, two passes": 2.2}
DEFAULT_LIMITS = {"GOM, bracketed": 1.6, "OPIS, one pass": 2.5, "AUC, EER, TAR": 2.0}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.openset", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--no-intervals", action="store_true", help="scores alone, on both sides")
    options = parser.parse_args()
    how = {
        "threads": options.threads,
        "confidence": None if options.no_intervals else 0.95,
    }
    ranking = list(DEFAULT)
    task = market()
    x, y = uneven(20_000, 512, 4_000)

    def gom(*more: str) -> Callable[[], Any]:
        return lambda: truerank.evaluate(**task, metrics=[*ranking, *more], **how)

    def opis(*more: str, sample: int = Limits().sampled_rows) -> Callable[[], Any]:
        def run() -> Any:
            with limits(sampled_rows=sample):
                return truerank.evaluate(x, y, metrics=[*ranking, *more], **how)

        return run

    def plainly(run: Callable[[], Any]) -> Callable[[], Any]:
        def plain() -> Any:
            with engine.settings(method="float64"):
                return run()

        return plain

    groups: list[dict[str, Callable[[], Any]]] = [
        {
            "ranking in float64, Market-1501's size": plainly(gom()),
            "ranking by default, Market-1501's size": gom(),
            "GOM, bracketed": gom("mrep", "mfr"),
            "GOM, exact": gom("mrep@integral=exact", "mfr"),
        },
        {
            "ranking in float64, 20,000 x 512": plainly(opis()),
            "ranking by default, 20,000 x 512": opis(),
            "AUC, EER, TAR": opis("auc", "eer", "tar@far=0.001"),
            "OPIS, one pass": opis("opis"),
            "OPIS, two passes": opis("opis", sample=0),
        },
    ]
    warm = np.random.default_rng(0).normal(size=(60, 8))
    names = [*ranking, "mrep", "mrep@integral=exact", "mfr", "opis", "auc", "eer"]
    truerank.evaluate(warm, np.arange(60) // 3, metrics=names)
    ratios = "x float64 ranking | allowed | x default ranking | allowed"
    print(f"| | CPU seconds | {ratios} | bracket / value |\n|---|{'---:|' * 6}")
    for group in groups:
        spent: dict[str, list[float]] = {name: [] for name in group}
        widths: dict[str, str] = dict.fromkeys(group, "")
        for _ in range(options.repeat):
            for name, run in group.items():
                start = time.process_time()
                result = run()
                spent[name].append(time.process_time() - start)
                for score in result.values():
                    if score.bracket is not None:
                        low, high = score.bracket
                        widths[name] = f"{(high - low) / score.value:.1e}"
        bases = list(spent.values())[:2]
        for name, seconds in spent.items():
            plain, default = (
                statistics.median(a / b for a, b in zip(seconds, base, strict=True))
                for base in bases
            )
            print(
                f"| {name} | {statistics.median(seconds):.2f} | {plain:.2f} "
                f"| {LIMITS.get(name, '')} | {default:.2f} | {DEFAULT_LIMITS.get(name, '')} "
                f"| {widths[name]} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
