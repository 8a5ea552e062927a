"""Nicolaou et al. (2018): what ties and rounding do to mAP. No training."""

from __future__ import annotations

__all__: list[str] = []
