"""Verification: pairs accepted or rejected at a threshold (ROC, AUC, EER, DCF, TAR)."""

from __future__ import annotations

__all__: list[str] = []
