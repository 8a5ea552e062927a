"""Families of threshold metrics, a package each.

A package says what its family collects in a pass, its scores, its curves, and how the scores move
without a fold of the classes.
"""

from __future__ import annotations

__all__: list[str] = []
