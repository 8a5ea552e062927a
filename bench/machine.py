"""What measurements were taken on, in words that stay meaningful elsewhere."""

from __future__ import annotations

import os
import platform

__all__ = ["cores", "describe"]


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> str:
    """Cores, architecture and Python."""
    return f"{cores()} cores, {platform.machine()}, Python {platform.python_version()}"
