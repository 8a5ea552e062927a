"""Small words for messages: numbers with their nouns."""

from __future__ import annotations

__all__ = ["count"]

_IRREGULAR = {"class": "classes", "query": "queries"}


def count(number: int, noun: str) -> str:
    """'1 query', '1,200 queries'."""
    return f"{number:,} {noun if number == 1 else _IRREGULAR.get(noun, noun + 's')}"
