"""The environment of a run: versions, device, threads and seed, beside its configuration."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from truerank.version import __version__

__all__ = ["describe"]

PACKAGES = ("torch", "numpy", "pytorch-metric-learning", "pillow", "timm", "torchvision")


def describe(device: torch.device, *, seed: int, deterministic: bool) -> dict[str, Any]:
    """Facts to save beside a run; nothing in it names a person, a host or a folder."""
    versions = {"truerank": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    facts: dict[str, Any] = {
        "versions": versions,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "seeds": {"model": seed, "sampler": seed, "augmentation": seed},
        "deterministic": deterministic,
        "determinism": (
            "Sampler and augmentation do not depend on device, threads or workers. The same "
            "versions, device and number of threads give the same weights"
            + (
                ", as far as torch has deterministic kernels."
                if deterministic and device.type != "cpu"
                else "."
                if deterministic
                else " only on a CPU; deterministic kernels were not asked for."
            )
        ),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda
        facts["cudnn"] = torch.backends.cudnn.version()
    return facts
