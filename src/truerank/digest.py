"""A task's fingerprint and its sealed envelope: neither depends on the order of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import Any

__all__ = ["SALT_BYTES", "canonical_text", "commitment", "task_digest"]

Records = Iterable[tuple[str, list[str]]]
CountedRecords = Iterable[tuple[str, Iterable[tuple[str, int]]]]
"""Distinct records, and how many rows have each: those of a class are often alike."""
SALT_BYTES = 32
_CHARACTERS = 1 << 16
"""Characters hashed at a time, and of a line that is repeated: a label may be as long as a book."""


def canonical_text(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> str:
    """The sorted (id, labels, group) of each side, the junk labels and the masks, a line each.

    Masks are listed by the ids of their pairs, or by row numbers where no ids were given.
    """
    return "".join(_lines(sides, junk_labels, masks))


def task_digest(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> str:
    """Hash of a task's canonical text, by which two people see that they mean the same task."""
    total = blake2b(digest_size=16)
    for some in _lines(sides, junk_labels, masks):
        total.update(some.encode())
    return total.hexdigest()


def _lines(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> Iterator[str]:
    for side, records in sides:
        yield from _part(f"side {side}", records)
    yield from _part("junk labels", ((text, 1) for text in {repr(label) for label in junk_labels}))
    for name, pairs in masks:
        yield from _part(f"mask {name}", ((pair, 1) for pair in pairs))


def _part(title: str, records: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The lines of a part, many at a time."""
    yield f"{title}\n"
    ordered = sorted(records, key=itemgetter(0))  # equal records are the same line
    longest = 1 + max(map(len, map(itemgetter(0), ordered)), default=0)
    most = max(map(itemgetter(1), ordered), default=1)
    step = _CHARACTERS // (longest * most)
    for start in range(0, len(ordered) if step else 0, max(1, step)):
        yield "".join([f"{text}\n" * times for text, times in ordered[start : start + step]])
    if step:
        return
    for record, times in ordered:
        at_once = max(1, _CHARACTERS // (len(record) + 1))
        while times > 0:
            yield f"{record}\n" * min(times, at_once)
            times -= at_once


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
