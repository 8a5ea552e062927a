"""OPIS, the consistency of one threshold over classes."""

from __future__ import annotations

__all__: list[str] = []
