"""GOM, the genuine open-set metric: retrieval and verification over one axis of thresholds."""

from __future__ import annotations

__all__: list[str] = []
