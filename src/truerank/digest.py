"""A task's fingerprint: the same task gives the same digest whatever the order of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truerank.task import Task

__all__ = ["task_digest"]


def task_digest(task: Task) -> str:
    """Hash of the sorted (id, labels, group) of each side, the junk labels and the masks.

    Masks are hashed by the ids of their pairs, or by row numbers where no ids were given.
    """
    total = blake2b(digest_size=16)
    for side, records in task.records():
        total.update(f"side {side}\n".encode())
        _update(total, records)
    total.update(b"junk labels\n")
    _update(total, {repr(label) for label in task.junk_labels})
    for name, pairs in task.mask_records():
        total.update(f"mask {name}\n".encode())
        _update(total, pairs)
    return total.hexdigest()


def _update(total: Any, records: Iterable[str]) -> None:
    total.update("".join(f"{record}\n" for record in sorted(records)).encode())
