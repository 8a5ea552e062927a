"""python -m bench.kmeans: our k-means against ten starts of scikit-learn's, by quality and by time.

On twelve data sets, one thread each: the mean AMI with the labels over some seeds, the squared
error, and CPU seconds, because ratios of them hold on a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score
from threadpoolctl import threadpool_limits

from bench.data import clusterings
from truerank.evaluation.clustering import kmeans

Rows = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.kmeans", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    print(f"{'':34}{'ours':>8}{'theirs':>8}{'error ratio':>13}{'time ratio':>12}")
    table = []
    for name, (rows, labels) in clusterings().items():
        count = len(np.unique(labels))

        def ours(seed: int, rows: Rows = rows, count: int = count) -> Labels:
            return kmeans(rows, count, seed, 1)

        def theirs(seed: int, rows: Rows = rows, count: int = count) -> Labels:
            found: Labels = KMeans(count, n_init=10, random_state=seed).fit(rows).labels_
            return found

        with threadpool_limits(limits=1):
            own, other = (measure(way, rows, labels, seeds) for way in (ours, theirs))
        table.append((own[0], other[0], own[1] / other[1], own[2] / other[2]))
        print(f"{name:34}{own[0]:8.4f}{other[0]:8.4f}{table[-1][2]:13.3f}{table[-1][3]:12.2f}")
    amis = [statistics.mean(column) for column in list(zip(*table, strict=True))[:2]]
    ratios = [statistics.geometric_mean(column) for column in list(zip(*table, strict=True))[2:]]
    print(f"{'mean':34}{amis[0]:8.4f}{amis[1]:8.4f}{ratios[0]:13.3f}{ratios[1]:12.2f}")


def measure(
    way: Callable[[int], Labels], rows: Rows, labels: Labels, seeds: range
) -> tuple[float, float, float]:
    """Means over the seeds of AMI, squared error and CPU seconds."""
    found = []
    for seed in seeds:
        begin = time.process_time()
        clusters = way(seed)
        seconds = time.process_time() - begin
        ami = float(adjusted_mutual_info_score(labels, clusters))
        found.append((ami, squared_error(rows, clusters), seconds))
    ami, error, seconds = (statistics.mean(column) for column in zip(*found, strict=True))
    return ami, error, seconds


def squared_error(rows: Rows, clusters: Labels) -> float:
    """Of the rows, from the mean of their cluster."""
    parts = [rows[clusters == one] for one in np.unique(clusters)]
    return float(sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts))


if __name__ == "__main__":
    main()
