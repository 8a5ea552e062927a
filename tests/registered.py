"""Metrics as they are registered, so that a new one is tested at once."""

from __future__ import annotations

from truerank.core.metric import in_order

__all__ = ["ranking"]


def ranking() -> list[str]:
    """The examples of ranking metrics, for labels of one level."""
    return [
        text
        for entry in in_order()
        if entry.family == "ranking"
        for text in entry.examples
        if "level=" not in text
    ]
