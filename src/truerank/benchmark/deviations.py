"""In what a benchmark deviates from the paper, the searched rate of the trunk above all."""

from __future__ import annotations

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.presets import PRESETS
from truerank.losses.registry import SearchRange

__all__ = ["TRUNK_RATE", "deviations", "trunk_rate"]

TRUNK_RATE = SearchRange(1e-5, 1e-2, log=True)
"""Where the presets other than the paper's search the rate of trunk and head, for every method."""


def trunk_rate(config: BenchmarkConfig) -> SearchRange | None:
    """Where the rate of trunk and head is searched; None where it is fixed."""
    return None if config.protocol.preset == "paper" else TRUNK_RATE


def deviations(config: BenchmarkConfig) -> list[str]:
    """Sentences about what is not as in the paper, in the order of the configuration."""
    protocol, shared = config.protocol, config.shared
    found = []
    if config.data.split == "images":
        found.append("the test images are of the classes that were trained on")
    if config.data.split == "stratified":
        found.append("classes are dealt into halves below each coarsest label (paper: in order)")
    if shared.sampler is not None:
        found.append(
            f"one sampler for all: {shared.sampler.classes} classes x {shared.sampler.samples} "
            "(paper: 32 x 1 for classification losses, 8 x 4 for others)"
        )
    for name, value in PRESETS["paper"].items():
        here = getattr(protocol, name)
        if here != value:
            found.append(f"{name}: {here} (paper: {value})")
    if protocol.metric != "map@r":
        found.append(f"searched by {protocol.metric} (paper: map@r)")
    if trunk_rate(config) is not None:
        found.append(
            "the rate of trunk and head is searched for every method, log [1e-5, 1e-2] "
            "(paper: 1e-6 for all)"
        )
    if shared.model.trunk == "frozen":
        found.append(f"only a head is trained, on fixed features of {shared.model.base}")
    else:
        random = shared.model.trunk == "convnet" or not shared.model.pretrained
        pretrained = "from random weights" if random else "pretrained"
        found.append(f"trunk: {shared.model.trunk}, {pretrained} (paper: BN-Inception, ImageNet)")
    if shared.model.dimensions != 128:
        found.append(f"{shared.model.dimensions} dimensions (paper: 128)")
    if shared.batch != 32:
        found.append(f"batches of {shared.batch} (paper: 32)")
    crops = (shared.augmentation.resize, shared.augmentation.crop, shared.augmentation.scale[0])
    if crops != (256, 227, 0.16):
        found.append(
            f"crops of {crops[1]} out of {crops[0]} pixels, at least {crops[2]:g} of the area "
            "(paper: 227 out of 256, 0.16)"
        )
    optimiser = shared.optimiser
    if optimiser.name != "rmsprop" or optimiser.head_lr is not None:
        found.append(f"optimiser: {optimiser.name} (paper: rmsprop)")
    if shared.schedule.name != "constant" or shared.schedule.warmup:
        found.append(f"schedule: {shared.schedule.name} (paper: constant)")
    return found
