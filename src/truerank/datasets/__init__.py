"""Data sets: the one inside the package, and readers of others."""

from __future__ import annotations

from truerank.datasets.emoji import Emoji, emoji

__all__ = ["Emoji", "emoji"]
