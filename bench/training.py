"""python -m bench.training: how much of the bare trunk's speed is left in training.

The trunk alone, forward, backward and update, runs on one batch that stays on the device; beside it
the trainer runs as users run it: sampling, random crops, the loss, the log. Images of bytes are
made up, so that nothing needs to be fetched. The share is how busy the device is kept, at least.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from typing import Any

import numpy as np
import torch

from truerank.datasets.base import Dataset
from truerank.training import Trainer
from truerank.training.devices import precision
from truerank.training.optimisers import make_optimiser


def main() -> None:
    """Parse, measure in turn, print one row for each loss."""
    parser = argparse.ArgumentParser(prog="bench.training", description=__doc__)
    parser.add_argument("--trunk", default="efficientnet_lite0")
    parser.add_argument("--side", type=int, default=28, help="of the images")
    parser.add_argument("--crop", type=int, default=96, help="side of what the trunk sees")
    parser.add_argument("--images", type=int, default=34_500)
    parser.add_argument("--classes", type=int, default=64, help="in a batch")
    parser.add_argument("--samples", type=int, default=4, help="of each class in a batch")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--loss", action="append")
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    data = make(options)
    print(
        f"{options.trunk}, {options.images} images of {options.side} pixels cut to {options.crop}, "
        f"batch {options.classes} x {options.samples}, median of {options.repeat}"
    )
    print(f"{'':20} {'bare trunk':>12} {'training':>12} {'share':>7}  (images/s)")
    for loss in options.loss or ["smooth_ap", "multi_similarity", "arcface"]:
        trainer = Trainer(configure(options, loss), data)
        before = statistics.median(run_bare(options, trainer) for _ in range(options.repeat))
        trainer.fit()
        speeds = [record["images_per_second"] for record in trainer.history]
        after = statistics.median(speeds[2:])  # before training, and while warming up
        print(f"{loss:20} {before:12,.0f} {after:12,.0f} {after / before:7.1%}", flush=True)


def make(options: argparse.Namespace) -> Dataset:
    """Images of noise, a hundred of each class."""
    shape = (options.images, options.side, options.side, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return Dataset("noise", pixels, np.arange(options.images) // 100, ("class",))


def configure(options: argparse.Namespace, loss: str) -> dict[str, Any]:
    """One epoch to warm up, and one for each repetition."""
    return {
        "data": {"name": "noise"},
        "model": {"trunk": options.trunk, "pretrained": False, "freeze_batchnorm": True},
        "augmentation": {"resize": options.crop, "crop": options.crop},
        "sampler": {"classes": options.classes, "samples": options.samples},
        "loss": {"name": loss},
        "training": {
            "epochs": options.repeat + 1,
            "iterations": options.iterations,
            "device": options.device,
            "patience": None,
            "deterministic": False,
            "channels_last": options.channels_last,
        },
    }


def run_bare(options: argparse.Namespace, trainer: Trainer) -> float:
    """Images per second of the trunk and its embedder on one batch, in the same precision."""
    device = trainer.device
    kind = precision("auto", device)
    model = copy.deepcopy(trainer.model).train()
    optimiser = make_optimiser(model.parameters(), trainer.config.optimiser)
    size = options.classes * options.samples
    batch = torch.rand(size, 3, options.crop, options.crop, device=device) * 255

    def work(iterations: int) -> None:
        for _ in range(iterations):
            optimiser.zero_grad()
            with torch.autocast(device.type, kind, enabled=kind is not torch.float32):
                total = model(batch).sum()
            total.backward()
            optimiser.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    work(max(1, options.iterations // 10))
    started = time.perf_counter()
    work(options.iterations)
    return size * options.iterations / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
