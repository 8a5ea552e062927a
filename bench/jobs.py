"""How many trainings a second several worker processes finish on one device, against one.

    python -m bench.jobs [--jobs 1 4 8] [--device cuda] [--trainings 24] [--iterations 400]

Trainings of the small network on noise in the shape of QuickDraw's search half, through the same
worker processes as `truerank benchmark`; starting the workers is not counted. With --linear, heads
on features in the shape of EfficientNet-lite0's of the emoji's search half.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from truerank.benchmark.tasks import TrainFold, with_features
from truerank.benchmark.workers import Half, Workers
from truerank.datasets.base import Dataset
from truerank.training.sampler import class_folds

CLASSES, EACH, FOLDS = 172, 100, 4
LOSSES = ("contrastive", "multi_similarity", "arcface")


def noise() -> Half:
    """172 classes of 100 images, in four folds."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), EACH)
    pixels = rng.integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    return Half(Dataset("noise", pixels, labels, ("class",)), class_folds(labels, FOLDS))


def features(path: Path) -> Half:
    """1,212 classes of 6 images, 1,280 features each in one crop and eight copies."""
    labels = np.repeat(np.arange(1212), 6)
    rng = np.random.default_rng(0)
    np.save(path, rng.normal(size=(9, len(labels), 1280)).astype(np.float32))
    pixels = np.zeros((len(labels), 1, 1), np.uint8)
    data = with_features(Dataset("features", pixels, labels, ("class",)), path)
    return Half(data, class_folds(labels, FOLDS))


def task(number: int, trunk: str, device: str, iterations: int, folder: Path) -> TrainFold:
    """One training: four epochs, a validation after each."""
    loss = LOSSES[number % len(LOSSES)]
    config: dict[str, Any] = {
        "data": {"name": "noise", "fold": None},
        "model": {"trunk": trunk},
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


def measure(
    half: Half, trunk: str, jobs: int, trainings: int, device: str, iterations: int
) -> float:
    """Trainings a second."""
    with tempfile.TemporaryDirectory() as name, Workers(half, jobs) as workers:
        folder = Path(name)
        for number in range(jobs):  # one each, to start and to warm up
            workers.submit(number, task(number, trunk, device, 8, folder / "warm"))
        while workers.running:
            workers.next()
        started = time.monotonic()
        for number in range(trainings):
            workers.submit(number, task(number, trunk, device, iterations, folder))
        while workers.running:
            workers.next()
        return trainings / (time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--trainings", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--linear", action="store_true", help="heads on fixed features")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        half = features(Path(folder) / "features.npy") if options.linear else noise()
        trunk = "frozen" if options.linear else "convnet"
        first = 0.0
        for jobs in options.jobs:
            rate = measure(half, trunk, jobs, options.trainings, options.device, options.iterations)
            first = first or rate
            facts = {
                "jobs": jobs,
                "trainings_per_second": round(rate, 3),
                "iterations_per_second": round(rate * options.iterations, 1),
                "times_the_first": round(rate / first, 2),
            }
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
