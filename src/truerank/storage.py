"""Storage of large arrays: memory where they fit, a temporary file where they do not.

A file is mapped into memory, so that the system keeps what is in use and drops the rest, and has no
name: it vanishes with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError

__all__ = ["TooLargeError", "allocate", "available", "check_fits", "fits", "memory", "take"]

Array = npt.NDArray[Any]
SHARE = 4
"""An array may take up one part in so many of the memory."""
_CHUNK_BYTES = 1 << 24


def memory() -> int:
    """Bytes that this process can hope for: of the machine, its container, and its limits."""
    found = [_machine()]
    with contextlib.suppress(ImportError):
        import resource

        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft = resource.getrlimit(limit)[0]
            if soft != resource.RLIM_INFINITY:
                found.append(soft)
    return min(found)


@cache
def _machine() -> int:
    """Bytes of the machine or its container."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # no such limit, or "max"
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(found)


def available() -> int:
    """Bytes that are free for this process now, as far as the system tells."""
    found = [memory()]
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        found.append(int(text.split("MemAvailable:")[1].split()[0]) << 10)
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used -= int(counts.get("inactive_file", 0))  # what the system drops when asked
        found.append(int((group / "memory.max").read_text()) - used)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            found.append(soft - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found))


class TooLargeError(InputError):
    """A file holds more than the memory does."""


def check_fits(what: str, size: int, fix: str) -> None:
    """Refuse what could not be held, before memory is set aside for it."""
    free = available()
    if size > free:
        raise TooLargeError(
            f"{what} takes up {size >> 20:,} MB of memory and {free >> 20:,} MB are free; {fix}."
        )


def fits(size: int) -> bool:
    """Whether an array of this many bytes should be held in memory."""
    return SHARE * size <= memory()


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """An array of this shape with anything in it."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if fits(size):
        return np.empty(shape, dtype)
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile(prefix="truerank-") as file:
        try:
            if hasattr(os, "posix_fallocate"):  # a mapped file must not meet a full disk later
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "w+", shape=shape).view(np.ndarray)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(f"no room to map {size >> 20:,} MB") from error
            raise InputError(
                f"{size >> 20:,} MB of temporary space are needed and {folder} does not have them "
                f"({error.strerror or error}): set the environment variable TMPDIR to a folder on "
                "a larger disk."
            ) from error


def take(array: Array, rows: npt.NDArray[np.int64]) -> Array:
    """array[rows], in a file where it does not fit into memory, itself if nothing moves."""
    if np.array_equal(rows, np.arange(len(array))):
        return array
    taken = allocate((len(rows), *array.shape[1:]), array.dtype)
    step = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(rows), step):
        taken[start : start + step] = array[rows[start : start + step]]
    return taken
