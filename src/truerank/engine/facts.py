"""Device facts: what a schedule must know of GPUs that only they can tell."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceFacts"]


@dataclass(frozen=True)
class DeviceFacts:
    """The GPUs of a pass, as they are when a schedule is made; of a pass without any, zeros."""

    walks: bool = False
    """Whether rankings can stay on the GPUs."""
    ranked_rows: int = 0
    """Rows of grades that each GPU has memory for now, with two blocks under way."""
    observed_rows: int = 0
    """Rows that each observing thread may hold now."""
    observing: int = 0
    """Threads in which observers see rows."""
    devices: int = 0
    """GPUs that share the queries."""
