"""What a schedule must know of devices that only they can tell."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceFacts"]


@dataclass(frozen=True)
class DeviceFacts:
    """The GPUs of a pass, as they are when a schedule is made; of a pass without any, zeros."""

    walks: bool = False
    """Whether rankings can stay on them."""
    ranked_rows: int = 0
    """Rows of grades that each of them has room for now, with two blocks under way."""
    watched_rows: int = 0
    """Rows that each of the threads which show them may hold now."""
    showing: int = 0
    """Threads that show rows."""
