"""Musgrave et al. (2020): is there any progress in metric learning? From finished benchmarks."""

from __future__ import annotations

__all__: list[str] = []
