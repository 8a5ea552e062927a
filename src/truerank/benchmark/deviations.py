"""In what a benchmark deviates from the paper, the searched rate of the trunk above all."""

from __future__ import annotations

from truerank.benchmark.config import SPLITS, BenchmarkConfig, SharedConfig
from truerank.benchmark.presets import PRESETS
from truerank.losses.registry import SearchRange

__all__ = ["TRUNK_RATE", "deviations", "trunk_rate"]

TRUNK_RATE = SearchRange(1e-5, 1e-2, log=True)
"""Where the presets other than the paper's search the rate of trunk and head, for every method."""
PAPER = SharedConfig()
"""What all methods share in the paper, but for its trunk."""
HEAD_ITERATIONS = 2000
"""So many, or early stopping, and a head on fixed features has learnt what it can."""


def trunk_rate(config: BenchmarkConfig) -> SearchRange | None:
    """Where the rate of trunk and head is searched; None where it is fixed."""
    return None if config.protocol.preset == "paper" else TRUNK_RATE


def deviations(config: BenchmarkConfig) -> list[str]:
    """Sentences about what is not as in the paper, in the order of the configuration."""
    return [*_of_data(config), *_of_protocol(config), *_of_model(config), *_of_training(config)]


def _of_data(config: BenchmarkConfig) -> list[str]:
    found = []
    if config.data.split == "images":
        found.append("the test images are of the classes that were trained on")
    if config.data.split == "stratified":
        found.append("classes are dealt into halves below each coarsest label (paper: in order)")
    if config.data.split not in SPLITS:
        found.append(
            "a file says which images are searched on and tested (paper: half the classes)"
        )
    sampler = config.shared.sampler
    if sampler is not None:
        found.append(
            f"one sampler for all: {sampler.classes} classes x {sampler.samples} "
            "(paper: 32 x 1 for classification losses, 8 x 4 for others)"
        )
    return found


def _of_protocol(config: BenchmarkConfig) -> list[str]:
    protocol = config.protocol
    found = [
        f"{name}: {getattr(protocol, name)} (paper: {value})"
        for name, value in PRESETS["paper"].items()
        if getattr(protocol, name) != value
    ]
    if protocol.metric != "map@r":
        found.append(f"searched by {protocol.metric} (paper: map@r)")
    if trunk_rate(config) is not None:
        found.append(
            "the rate of trunk and head is searched for every method, log [1e-5, 1e-2] "
            "(paper: 1e-6 for all)"
        )
    elif config.shared.optimiser.lr != PAPER.optimiser.lr:
        found.append(f"the rate of trunk and head is {config.shared.optimiser.lr:g} (paper: 1e-6)")
    return found


def _of_model(config: BenchmarkConfig) -> list[str]:
    model, found = config.shared.model, []
    if model.trunk == "frozen":
        found.append(f"only a head is trained, on fixed features of {model.base}")
        iterations = config.shared.training.epochs * config.shared.training.iterations
        if iterations < HEAD_ITERATIONS:
            found.append(
                f"up to {iterations:,} iterations a head ({HEAD_ITERATIONS:,} are advised)"
            )
    else:
        weights = "pretrained" if model.pretrained else "from random weights"
        found.append(f"trunk: {model.trunk}, {weights} (paper: BN-Inception, ImageNet)")
    if model.dimensions != PAPER.model.dimensions:
        found.append(f"{model.dimensions} dimensions (paper: 128)")
    if model.head != PAPER.model.head:
        found.append(f"head: {model.head} (paper: linear)")
    if model.pretrained and model.freeze_batchnorm is False:
        found.append("the statistics of batch norm are trained (paper: fixed)")
    return found


def _of_training(config: BenchmarkConfig) -> list[str]:
    shared, found = config.shared, []
    if shared.batch != PAPER.batch:
        found.append(f"batches of {shared.batch} (paper: 32)")
    cut, paper = shared.augmentation, PAPER.augmentation
    if (cut.resize, cut.crop, cut.scale[0]) != (paper.resize, paper.crop, paper.scale[0]):
        found.append(
            f"crops of {cut.crop} out of {cut.resize} pixels, at least {cut.scale[0]:g} of the "
            "area (paper: 227 out of 256, 0.16)"
        )
    if (cut.scale[1], cut.ratio) != (paper.scale[1], paper.ratio):
        found.append(
            f"crops of at most {cut.scale[1]:g} of the area, {cut.ratio[0]:.3g} to "
            f"{cut.ratio[1]:.3g} times as wide as high (paper: 1, 0.75 to 1.33)"
        )
    if cut.flip != paper.flip:
        found.append(f"{100 * cut.flip:g} % are flipped (paper: 50 %)")
    optimiser, schedule = shared.optimiser, shared.schedule
    if optimiser.name != PAPER.optimiser.name:
        found.append(f"optimiser: {optimiser.name} (paper: rmsprop)")
    if (optimiser.momentum, optimiser.weight_decay) != (0.9, 1e-4):
        found.append(
            f"momentum {optimiser.momentum:g}, weight decay {optimiser.weight_decay:g} "
            "(paper: 0.9, 0.0001)"
        )
    if optimiser.head_lr is not None:
        found.append(f"the head has a rate of its own, {optimiser.head_lr:g} (paper: the trunk's)")
    if schedule.name != "constant" or schedule.warmup:
        found.append(f"schedule: {schedule.name} (paper: constant)")
    if schedule.frozen_trunk:
        found.append(f"the trunk rests for {schedule.frozen_trunk} iterations (paper: never)")
    return found
