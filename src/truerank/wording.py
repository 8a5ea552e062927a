"""Small words for messages: numbers with their nouns."""

from __future__ import annotations

__all__ = ["count", "plural"]

_IRREGULAR = {"class": "classes", "query": "queries"}


def count(number: int, noun: str) -> str:
    """'1 query', '1,200 queries'."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """'queries', 'positive pairs'."""
    return _IRREGULAR.get(noun, noun + "s")
