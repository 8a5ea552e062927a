"""Compiled kernels on disk, safe among processes that begin at the same time.

numba reads its index, picks the name of a file for the code, writes the index and then the file,
all without a lock: when two processes compile a kernel for different types at one moment, or one is
killed between the two writings, the index may lead to the code of other types, which is then run
without an error, from that day on. Here one process at a time writes, the code before the index.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # where there are no such locks, the order of writing alone has to do
    fcntl = None  # type: ignore[assignment]

__all__ = ["protect"]


class CacheFile:
    """In the place of numba's IndexDataCacheFile, whose reading and writing of files it uses."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = Path(inner._cache_path, "kernels.lock")

    def flush(self) -> None:
        """Forget what is kept."""
        with self._held(exclusively=True):
            self._inner.flush()

    def load(self, key: Any) -> Any:
        """What was kept under a key, None if nothing was."""
        with self._held(exclusively=False):
            return self._inner.load(key)

    def save(self, key: Any, data: Any) -> None:
        """Keep it: the code first, so that the index never names what is not there."""
        inner = self._inner
        with self._held(exclusively=True):
            overloads = inner._load_index()
            taken = set(overloads.values()) - {overloads.get(key)}
            free = (name for name in map(inner._data_name, itertools.count(1)) if name not in taken)
            name = overloads.get(key) or next(free)
            inner._save_data(name, data)
            overloads[key] = name
            inner._save_index(overloads)

    @contextmanager
    def _held(self, *, exclusively: bool) -> Iterator[None]:
        """A folder that cannot be written to needs no lock."""
        try:
            file = None if fcntl is None else self._lock.open("a")
        except OSError:
            file = None
        if file is None:
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH)
            yield


def protect(dispatcher: Any) -> None:
    """Let a compiled function keep its code safely; numba's insides may change, and then it does
    so as it always did."""
    cache = getattr(dispatcher, "_cache", None)
    inner = getattr(cache, "_cache_file", None)
    parts = ("_cache_path", "_load_index", "_save_index", "_save_data", "_data_name")
    if cache is not None and all(hasattr(inner, part) for part in parts):
        cache._cache_file = CacheFile(inner)
