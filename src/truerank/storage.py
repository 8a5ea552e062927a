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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError

__all__ = ["allocate", "fits", "memory", "take"]

Array = npt.NDArray[Any]
SHARE = 4
"""An array may take up one part in so many of the memory."""
_CHUNK_BYTES = 1 << 24


def memory() -> int:
    """Bytes that this process can hope for: of the machine, its container, and its limits."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # no such limit, or "max"
            found.append(int(Path("/sys/fs/cgroup", name).read_text()))
    with contextlib.suppress(ImportError):
        import resource

        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft = resource.getrlimit(limit)[0]
            if soft != resource.RLIM_INFINITY:
                found.append(soft)
    return min(found)


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
