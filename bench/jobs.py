"""How many trainings a second several worker processes finish on one device, against one.

    python -m bench.jobs [--jobs 1 4 8] [--device cuda] [--trainings 24] [--iterations 400]

Trainings of the small network on noise in the shape of QuickDraw's search half, through the same
worker processes as `truerank benchmark`; starting the workers is not counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from truerank.benchmark.fold import TrainFold
from truerank.benchmark.processes import Workers
from truerank.benchmark.worker import Half
from truerank.datasets.base import Dataset
from truerank.training.splits import class_folds

CLASSES, EACH, FOLDS = 172, 100, 4
LOSSES = ("contrastive", "multi_similarity", "arcface")


def noise() -> Half:
    """172 classes of 100 images, in four folds."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), EACH)
    pixels = rng.integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    return Half(Dataset("noise", pixels, labels, ("class",)), class_folds(labels, FOLDS))


def task(number: int, device: str, iterations: int, folder: Path) -> TrainFold:
    """One training: four epochs, a validation after each."""
    loss = LOSSES[number % len(LOSSES)]
    config: dict[str, Any] = {
        "data": {"name": "noise", "fold": None},
        "model": {"trunk": "convnet"},
        "augmentation": {"resize": 28, "crop": 28, "scale": [0.4, 1.0]},
        "loss": {"name": loss},
        "optimiser": {"lr": 1e-4},
        "training": {
            "epochs": 4,
            "iterations": iterations // 4,
            "patience": None,
            "seed": number,
            "device": device,
            "precision": "float32",
            "deterministic": False,
        },
    }
    return TrainFold(loss, config, None, {}, number % FOLDS, folder / str(number))


def measure(half: Half, jobs: int, trainings: int, device: str, iterations: int) -> float:
    """Trainings a second."""
    with tempfile.TemporaryDirectory() as name, Workers(half, jobs) as workers:
        folder = Path(name)
        for number in range(jobs):  # one each, to start and to warm up
            workers.submit(number, task(number, device, 8, folder / "warm"))
        while workers.running:
            workers.next()
        started = time.monotonic()
        for number in range(trainings):
            workers.submit(number, task(number, device, iterations, folder))
        while workers.running:
            workers.next()
        return trainings / (time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--trainings", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=400)
    options = parser.parse_args()
    half = noise()
    rates: dict[int, float] = {}
    for jobs in options.jobs:
        rates[jobs] = measure(half, jobs, options.trainings, options.device, options.iterations)
        facts = {
            "jobs": jobs,
            "trainings_per_second": round(rates[jobs], 3),
            "iterations_per_second": round(rates[jobs] * options.iterations, 1),
            "times_the_first": round(rates[jobs] / rates[options.jobs[0]], 2),
        }
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
