"""A task's fingerprint: the same task gives the same digest whatever the order of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

__all__ = ["task_digest"]

Records = Iterable[tuple[str, list[str]]]


def task_digest(sides: Records, junk_labels: Iterable[Any], masks: Records) -> str:
    """Hash of the sorted (id, labels, group) of each side, the junk labels and the masks.

    Masks are hashed by the ids of their pairs, or by row numbers where no ids were given.
    """
    total = blake2b(digest_size=16)
    for side, records in sides:
        total.update(f"side {side}\n".encode())
        _update(total, records)
    total.update(b"junk labels\n")
    _update(total, {repr(label) for label in junk_labels})
    for name, pairs in masks:
        total.update(f"mask {name}\n".encode())
        _update(total, pairs)
    return total.hexdigest()


def _update(total: Any, records: Iterable[str]) -> None:
    total.update("".join(f"{record}\n" for record in sorted(records)).encode())
