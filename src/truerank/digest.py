"""A task's fingerprint and its sealed envelope: neither depends on the order of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

__all__ = ["SALT_BYTES", "canonical_text", "commitment", "task_digest"]

Records = Iterable[tuple[str, list[str]]]
SALT_BYTES = 32


def canonical_text(sides: Records, junk_labels: Iterable[Any], masks: Records) -> str:
    """The sorted (id, labels, group) of each side, the junk labels and the masks, a line each.

    Masks are listed by the ids of their pairs, or by row numbers where no ids were given.
    """
    parts: list[str] = []
    for side, records in sides:
        parts += [f"side {side}", *sorted(records)]
    parts += ["junk labels", *sorted({repr(label) for label in junk_labels})]
    for name, pairs in masks:
        parts += [f"mask {name}", *sorted(pairs)]
    return "".join(f"{line}\n" for line in parts)


def task_digest(sides: Records, junk_labels: Iterable[Any], masks: Records) -> str:
    """Hash of a task's canonical text, by which two people see that they mean the same task."""
    return blake2b(canonical_text(sides, junk_labels, masks).encode(), digest_size=16).hexdigest()


def commitment(salt: bytes, rules: Mapping[str, Any], text: str) -> str:
    """What is published before a competition: it binds its maker to the text and tells nothing.

    Without the salt nobody can try out texts; with it anybody can check the one that is revealed.

    Examples
    --------
    >>> commitment(bytes(32), {}, "side both\\n")[:16]
    '25128b784eeaae33'
    """
    told = f"rules {json.dumps(rules, sort_keys=True)}\n{text}"
    return blake2b(told.encode(), key=salt, digest_size=32).hexdigest()
