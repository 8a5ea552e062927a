"""python -m bench.training: how much of the bare trunk's speed is left in training.

The trunk alone (forward, backward and update) and the trainer's whole step, with its loss, run on
one batch that stays on the device; beside them the trainer runs as users run it: sampling, random
crops, the step, the log. Training over steps is how busy the loader keeps the device, at least;
training over the trunk is what loss and loader take together. Images of bytes are made up, so that
nothing needs to be fetched.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from truerank.datasets.base import Dataset
from truerank.training.devices import precision
from truerank.training.loop import Trainer
from truerank.training.objective import make_optimiser


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
    heads = ("bare trunk", "steps", "training", "of steps", "of trunk")
    print(f"{'':20}" + "".join(f" {head:>12}" for head in heads) + "  (images/s)")
    for loss in options.loss or ["smooth_ap", "multi_similarity", "arcface"]:
        trainer = Trainer(configure(options, loss), data)
        bare, steps = [], []
        twin = Trainer(configure(options, loss), data)
        for _ in range(options.repeat):
            bare.append(run(options, twin.device, trunk_alone(options, twin)))
            steps.append(run(options, twin.device, whole_step(options, twin)))
        trainer.fit()
        speeds = [record["images_per_second"] for record in trainer.history]
        trunk, step = statistics.median(bare), statistics.median(steps)
        after = statistics.median(speeds[2:])  # before training, and while warming up
        figures = f"{trunk:12,.0f} {step:12,.0f} {after:12,.0f}"
        print(f"{loss:20} {figures} {after / step:12.1%} {after / trunk:12.1%}", flush=True)


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


def trunk_alone(options: argparse.Namespace, trainer: Trainer) -> Callable[[], object]:
    """One update of the trunk and its embedder on one batch, in the trainer's precision."""
    kind = precision("auto", trainer.device)
    model = copy.deepcopy(trainer.model).train()
    optimiser = make_optimiser(model.parameters(), trainer.config.optimiser)
    batch = one_batch(options, trainer.device)

    def work() -> None:
        optimiser.zero_grad()
        with torch.autocast(trainer.device.type, kind, enabled=kind is not torch.float32):
            total = model(batch).sum()
        total.backward()
        optimiser.step()

    return work


def whole_step(options: argparse.Namespace, trainer: Trainer) -> Callable[[], object]:
    """One step of the trainer, with its loss, on one batch."""
    trainer.model.train()
    trainer.loss.train()
    labels = torch.arange(options.classes, device=trainer.device)
    labels = labels.repeat_interleave(options.samples)
    batch = one_batch(options, trainer.device)
    return lambda: trainer._step(batch, labels, 1.0)


def one_batch(options: argparse.Namespace, device: torch.device) -> torch.Tensor:
    """Noise on the device."""
    size = options.classes * options.samples
    return torch.rand(size, 3, options.crop, options.crop, device=device) * 255


def run(options: argparse.Namespace, device: torch.device, work: Callable[[], object]) -> float:
    """Images per second."""

    def repeat(times: int) -> None:
        for _ in range(times):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    repeat(max(1, options.iterations // 10))
    started = time.perf_counter()
    repeat(options.iterations)
    size = options.classes * options.samples
    return size * options.iterations / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
