"""Devices, precisions, random numbers and the environment of a run.

Sampler and augmentation draw from their own counters. Initial weights, dropout and miners draw
from the global generators of Python, numpy and torch, which a run borrows while it works.
"""

from __future__ import annotations

import os
import platform
import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from truerank._util.errors import InputError
from truerank._util.installed import __version__

# Devices and precisions: names of a configuration become torch's own.


def resolve(name: str) -> torch.device:
    """The torch device of a name; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"the device {name!r} is not available here.") from error
    return device


def precision(name: str, device: torch.device) -> torch.dtype:
    """The type that layers compute in; "auto" is bfloat16 on a GPU that has it, else float32."""
    if name == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if fast else torch.float32
    chosen: torch.dtype = getattr(torch, name)
    return chosen


# Random numbers that a run shares with nobody, and determinism as far as it goes.


State = dict[str, Any]


def seed_all(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def capture(device: torch.device | None = None) -> State:
    """The state of the global generators, as numbers and tensors that load safely.

    A GPU has one of its own, which is included for a `device` that is one.
    """
    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    state: State = {
        "python": random.getstate(),
        "numpy": [name, torch.from_numpy(np.array(keys, np.int64)), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
    }
    if device is not None and device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _restore(state: State, device: torch.device | None) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state(  # noqa: NPY002
        (name, keys.numpy().astype(np.uint32), position, has_gauss, gauss)
    )
    torch.set_rng_state(state["torch"])
    if device is not None and device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)


@contextmanager
def borrowed(state: State | int, device: torch.device) -> Iterator[None]:
    """Borrow the global generators from a state or a seed on; afterwards they are as before."""
    before = capture(device)
    try:
        if isinstance(state, int):
            seed_all(state)
        else:
            _restore(state, device)
        yield
    finally:
        _restore(before, device)


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Ask torch for deterministic kernels, or for those that are fastest on this GPU.

    A deterministic kernel that does not exist is a warning, not an error.
    """
    if wanted:  # cuBLAS reads it when it is first used, and sums in changing order without it
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(wanted, warn_only=True)
    torch.backends.cudnn.benchmark = not wanted
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warns)
        torch.backends.cudnn.benchmark = benchmark


# The environment of a run: versions, device, threads and seed, beside its configuration.


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
