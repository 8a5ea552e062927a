"""Sizes that schedules and devices both go by."""

from __future__ import annotations

__all__ = ["FEW", "SHARED", "STRIP"]

STRIP = 1 << 14
"""Most items that a GPU filters between two refinements: their integer rows stay in its cache."""
FEW = 8
"""Most thresholds of a query with which a GPU compares items one by one."""
SHARED = 64
"""Most mates of a query whose products with other queries a GPU makes for both of them: the
thresholds of all such queries are on the device at a time."""
