"""Small words for messages: numbers with their nouns, and lists of choices."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["count", "either", "plural"]

_IRREGULAR = {"class": "classes", "query": "queries", "person": "people"}


def count(number: int, noun: str) -> str:
    """'1 query', '1,200 queries'."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """'queries', 'positive pairs'."""
    return _IRREGULAR.get(noun, noun + "s")


def either(choices: Sequence[str]) -> str:
    """'cosine', 'cosine or dot', 'cosine, dot or hamming'."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last
