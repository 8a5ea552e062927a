"""Open-set identification: queries with and without a mate against a threshold (DIR, FAR, TTR)."""

from __future__ import annotations

__all__: list[str] = []
