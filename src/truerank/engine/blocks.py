"""Blocks: rows in a given order in, runs of them that memory has room for out."""

from __future__ import annotations

from truerank.settings import Settings
from truerank.space import Rows

__all__ = ["cut", "even", "height", "tiles"]


def cut(mates: Rows, rows: Rows, height: int, most: int) -> tuple[Rows, ...]:
    """Blocks of at most so many rows, in which rows x largest R is at most `most`."""
    found = []
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + height)
        while stop - start > 1 and (stop - start) * int(mates[rows[start:stop]].max()) > most:
            stop = start + (stop - start) // 2
        found.append(rows[start:stop])
        start = stop
    return tuple(found)


def even(rows: Rows, height: int, threads: int) -> tuple[Rows, ...]:
    """Blocks of at most so many rows, and no larger than that each thread has one."""
    height = max(1, min(height, -(-len(rows) // threads)))
    return tuple(rows[start : start + height] for start in range(0, len(rows), height))


def height(gallery: int, numbers: int, limits: Settings) -> int:
    """Rows of the whole gallery that a thread holds at a time."""
    return max(1, min(limits.query_rows, numbers // gallery))


def tiles(gallery: int, limits: Settings) -> list[tuple[int, int]]:
    """The gallery, from start to stop, in tiles."""
    step = limits.gallery_rows
    return [(start, min(start + step, gallery)) for start in range(0, gallery, step)]
