"""Time and peak memory of the full mAP: python large.py TOOL [ROWS]; prints JSON.

One process measures one tool, so that the peak is that tool's own (imports included). The times are
those of the call alone. The rows are seeded unit vectors in classes of ten.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

DIMENSIONS = 128
PER_CLASS = 10

Embeddings = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Evaluate = Callable[[Embeddings, Labels], float]


def data(rows: int) -> tuple[Embeddings, Labels]:
    embeddings = np.random.default_rng(0).standard_normal((rows, DIMENSIONS), dtype=np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings, np.arange(rows, dtype=np.int64) // PER_CLASS


def pytorch_metric_learning() -> Evaluate:
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    name = "mean_average_precision"
    calculator = AccuracyCalculator(include=(name,), k=None, device=torch.device("cpu"))
    return lambda embeddings, labels: float(calculator.get_accuracy(embeddings, labels)[name])


def truerank() -> Evaluate:
    from truerank import evaluate

    return lambda embeddings, labels: float(
        evaluate(embeddings, labels, distance="euclidean", metrics=["map"])["map"]
    )


TOOLS = {"pytorch-metric-learning": pytorch_metric_learning, "truerank": truerank}

if __name__ == "__main__":
    evaluate = TOOLS[sys.argv[1]]()
    embeddings, labels = data(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
    start, cpu_start = time.perf_counter(), time.process_time()
    value = evaluate(embeddings, labels)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kibibytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    report = {"map": value, "seconds": seconds, "cpu": cpu_seconds, "gigabytes": peak / 1e9}
    print(json.dumps(report))
