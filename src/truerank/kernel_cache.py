"""Compiled kernels on disk, safe among processes that begin at the same time.

numba reads its index, picks the name of a file for the code, writes the index and then the file,
all without a lock: when two processes compile a kernel for different types at one moment, or one is
killed between the two writings, the index may lead to the code of other types, which is then run
without an error, from that day on. Here one process at a time writes, the code before the index.

And numba looks at the file of a kernel alone to see whether its code is still the one on disk. Here
the files of all kernels that it calls count as well, so that they may stand in files of their own.

Before it loads code from disk, numba makes itself ready to compile: it imports what it needs for
that, and scipy where it is installed, which takes longer than a first evaluation. Here that is left
to the moment in which something must be compiled, which may never come.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

try:
    import fcntl
except ImportError:  # where there are no such locks, the order of writing alone has to do
    fcntl = None  # type: ignore[assignment]
try:
    from numba.core.runtime import rtsys
except ImportError:  # no numba, or another one than we know
    rtsys = None

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
    """Let a compiled function keep its code safely and load it at once; numba's insides may change,
    and then it does so as it always did."""
    cache = getattr(dispatcher, "_cache", None)
    inner: Any = getattr(cache, "_cache_file", None)
    parts = ("_cache_path", "_load_index", "_save_index", "_save_data", "_data_name")
    if cache is None or not all(hasattr(inner, part) for part in (*parts, "_source_stamp")):
        return
    inner._source_stamp = (inner._source_stamp, _stamps(dispatcher.py_func))
    cache._cache_file = CacheFile(inner)
    ours = ("_load_overload", "_guard_against_spurious_io_errors")
    if rtsys is not None and all(hasattr(cache, part) for part in ours):
        cache.load_overload = partial(_load, cache)


def _load(cache: Any, signature: Any, target: Any) -> Any:
    """The code of a kernel for some types, None if there is none.

    What it calls in numba's runtime, the allocation of arrays, has to be known; sets, dictionaries
    and texts, which kernels do without, would need more. A compiler makes itself ready.
    """
    rtsys.initialize(target)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, target)


def _stamps(function: FunctionType) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of the files of the kernels that a kernel calls."""
    files = (Path(called.__code__.co_filename) for called in _called(function, set()))
    stats = {file.name: file.stat() for file in files}
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()))


def _called(function: FunctionType, known: set[FunctionType]) -> set[FunctionType]:
    for name in function.__code__.co_names:
        called = getattr(function.__globals__.get(name), "py_func", None)
        if called is not None and called not in known:
            known.add(called)
            _called(called, known)
    return known
