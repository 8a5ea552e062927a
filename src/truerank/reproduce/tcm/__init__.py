"""Zhang et al. (2024): OPIS, and the threshold-consistent margin."""

from __future__ import annotations

__all__: list[str] = []
