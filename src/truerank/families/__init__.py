"""Families of threshold metrics, a package each.

What a family collects in a pass, its scores, its curves, and what it does without a fold.
"""

from __future__ import annotations

__all__: list[str] = []
