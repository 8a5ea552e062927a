"""Small words for messages: numbers with their nouns, and lists of choices."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["count", "either", "level_name", "plural"]

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


def level_name(name: str) -> str:
    """'level 2' for a level that is called 2; a name of its own, 'genus' or 'level1', as it is."""
    return f"level {name}" if name.isdigit() else name
