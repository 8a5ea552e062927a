"""Devices and precisions: names of a configuration become torch's own."""

from __future__ import annotations

import torch

from truerank.errors import InputError

__all__ = ["precision", "resolve"]


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
