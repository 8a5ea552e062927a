"""The three sizes of the protocol, and in what a configuration deviates from the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truerank.losses.registry import SearchRange

if TYPE_CHECKING:
    from truerank.benchmark.config import BenchmarkConfig

__all__ = ["PRESETS", "TRUNK_RATE", "deviations", "fill_in", "trunk_rate"]

TRUNK_RATE = SearchRange(1e-5, 1e-2, log=True)
"""Where the presets other than the paper's search the rate of trunk and head, for every method."""

PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"folds": 2, "trials": 3, "startup": 2, "reruns": 2},
    "standard": {"folds": 4, "trials": 25, "startup": 5, "reruns": 5},
    "paper": {"folds": 4, "trials": 50, "startup": 10, "reruns": 10},
}
_SHARED: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {"optimiser": {"lr": 1e-3}, "training": {"epochs": 2, "iterations": 20}},
    "standard": {"optimiser": {"lr": 3e-4}},
    "paper": {},
}


def fill_in(given: dict[str, Any]) -> dict[str, Any]:
    """A configuration with what its preset says, where it does not say otherwise itself."""
    protocol = given.get("protocol", {})
    preset = protocol.get("preset", "standard") if isinstance(protocol, dict) else None
    if not isinstance(preset, str) or preset not in PRESETS:
        return given
    shared = given.get("shared", {})
    if not isinstance(shared, dict):
        return given
    filled = dict(shared)
    for section, fields in _SHARED[preset].items():
        own = filled.get(section, {})
        filled[section] = {**fields, **own} if isinstance(own, dict) else own
    return {**given, "protocol": {**PRESETS[preset], **protocol}, "shared": filled}


def trunk_rate(config: BenchmarkConfig) -> SearchRange | None:
    """Where the rate of trunk and head is searched; None where it is fixed."""
    return None if config.protocol.preset == "paper" else TRUNK_RATE


def deviations(config: BenchmarkConfig) -> list[str]:
    """Sentences about what is not as in the paper, in the order of the configuration."""
    protocol, shared = config.protocol, config.shared
    found = []
    if config.data.split == "images":
        found.append("the test images are of the classes that were trained on")
    for name, value in PRESETS["paper"].items():
        here = getattr(protocol, name)
        if here != value and name != "reruns":
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
