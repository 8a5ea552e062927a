"""Ramzi et al. (2022): HAPPIER, training for hierarchical average precision."""

from __future__ import annotations

__all__: list[str] = []
