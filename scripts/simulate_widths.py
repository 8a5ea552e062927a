"""Measure how far an interval's width depends on luck: on half precision, samples and names.

For each number of classes: the widths of all metrics of a copy of the rows in half precision, and
with ids dealt to the rows anew, which say what is sampled and who leaves together. A spread is
(max - min) / median. No seed of `evaluate` enters; that is tried as well, for clusterings too.

    python scripts/simulate_widths.py [classes ...]
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import truerank

Array = np.ndarray
FAMILIES = {
    "ranking": ["precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp"],
    "open set": [
        *("dir@far=0.1", "dir@far=0.1,rank=5", "dir@rank=5,tau=0.3"),
        *("ttr@far=0.1", "far@tau=0.3"),
    ],
    "GOM": [
        *("mrep", "mrep@tau=0.25", "mvp@tau=0.25", "mfr", "mfr@b=20,tau=0.2"),
        *("mrep_max", "mvp_max"),
    ],
    "verification": [
        *("auc", "eer", "min_dcf", "best_f1", "tar@far=0.01", "tar@far=0.1"),
        *("threshold@far=0.01", "fmr@tau=0.5", "fnmr@tau=0.5"),
    ],
    "OPIS": ["opis"],
}
CLUSTERING = ["nmi", "ami", "pairwise_f1"]


def rows_of(classes: int, size: int, strangers: int, spread: float) -> tuple[Array, Array]:
    """Gaussian clusters of unequal width, and rows that are alone with their label."""
    rng = np.random.default_rng(5)
    labels = np.append(np.repeat(np.arange(classes), size), classes + np.arange(strangers))
    everybody = classes + strangers
    width = spread * np.exp(0.35 * rng.standard_normal(everybody))[labels, None]
    centres = rng.standard_normal((everybody, 32))[labels]
    return (centres + width * rng.standard_normal(centres.shape)).astype(np.float32), labels


def width(score: truerank.Score) -> float:
    """How wide the interval is; NaN where there is none."""
    return float("nan") if score.interval is None else score.interval[1] - score.interval[0]


def spread_of(widths: list[float]) -> float:
    """(max - min) / median; 0 where there is no interval."""
    return float(np.nan_to_num((max(widths) - min(widths)) / np.median(widths)))


def spreads(
    classes: int, size: int, strangers: int, spread: float, draws: int = 12, family: str = ""
) -> dict[str, tuple[float, float]]:
    """Of each metric: the spread with the copy in half precision, and over other ids as well."""
    x, labels = rows_of(classes, size, strangers, spread)
    metrics = [name for key, names in FAMILIES.items() if family in ("", key) for name in names]
    seen = [
        truerank.evaluate(rows, labels, metrics=metrics, threads=1)
        for rows in (x, x.astype(np.float16))
    ]
    for draw in range(draws):
        ids = np.random.default_rng(draw).permutation(len(labels))
        seen.append(truerank.evaluate(x, labels, metrics=metrics, query_ids=ids, threads=1))
    widths = {name: [width(result[name]) for result in seen] for name in metrics}
    return {name: (spread_of(some[:2]), spread_of(some)) for name, some in widths.items()}


def seeds(classes: int, size: int, spread: float, draws: int = 12) -> dict[str, float]:
    """The spread over seeds of clusterings, whose scores follow the seed as well."""
    x, labels = rows_of(classes, size, 0, spread)
    widths: dict[str, list[float]] = {}
    for seed in range(draws):
        result = truerank.evaluate(x, labels, metrics=CLUSTERING, seed=seed, threads=1)
        for name, score in result.items():
            widths.setdefault(name, []).append(width(score))
    return {name: spread_of(some) for name, some in widths.items()}


def tests_of_renamed_classes(classes: int, names: int) -> tuple[float, float]:
    """The smallest and the largest p of one comparison, the classes renamed in many ways."""
    x, labels = rows_of(classes, 4, 0, 0.9)
    rng = np.random.default_rng(2)
    models = [x + rng.normal(0, 0.5, x.shape) for _ in range(2)]
    found = []
    for number in range(names):
        named = np.random.default_rng(number).permutation(classes)[labels]
        pair = [truerank.evaluate(rows, named, metrics="map", threads=1) for rows in models]
        found.append(truerank.compare(*pair).differences[0].p)
    return min(found), max(found)


def main() -> None:
    """All numbers of classes, or those named."""
    warnings.simplefilter("ignore", truerank.TruerankWarning)
    for classes in [int(word) for word in sys.argv[1:]] or [30, 60, 200, 1000]:
        for size, spread in ((5, 0.9), (10, 0.6)):
            strangers = max(60, classes // 3)
            print(f"\n{classes:,} classes of {size} rows and {strangers} strangers ({spread})\n")
            print("| metric | half precision | drawn anew |\n| --- | ---: | ---: |")
            for family in FAMILIES:
                started = time.process_time()
                found = spreads(classes, size, strangers, spread, family=family)
                for name, (copied, drawn) in found.items():
                    print(f"| {name} | {100 * copied:.1f} % | {100 * drawn:.1f} % |")
                print(f"{family}: {time.process_time() - started:.0f} s", file=sys.stderr)
        found_too = seeds(classes, 5, 0.9)
        print("".join(f"| {n} | seeds | {100 * s:.1f} % |\n" for n, s in found_too.items()))
    low, high = tests_of_renamed_classes(1500, 20)
    print(f"p of one comparison of 1,500 classes renamed 20 times: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
