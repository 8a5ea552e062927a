"""One decorator for all compiled kernels: numba where it is installed, plain Python where not.

Kernels are scalar loops that release the GIL, so that a ThreadPoolExecutor can run them side by
side (numba's own `parallel=True` brings an OpenMP runtime that kills children forked later).
Without fast-math every operation is one IEEE operation: compiled and interpreted bits agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from truerank.kernel_cache import protect, read_only
from truerank.progress import notice

try:
    import numba
    from numba.core import event
except ImportError:  # the reference engine runs without it
    numba = event = None

__all__ = ["COMPILING", "compiled", "interpreted", "kernel"]

compiled = numba is not None
SLOW = 2.0
"""Seconds of compiling after which a command says what it is doing."""
COMPILING = (
    "compiling kernels for this machine, some 15 s in all; later runs load them where the cache "
    "folder can be written."
)

Function = TypeVar("Function", bound=Callable[..., Any])


class Compiling(event.Listener if event is not None else object):  # type: ignore[misc]
    """Adds up the time that numba compiles, and says so once if it is long."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._depth, self._began, self._spent, self._said = 0, 0.0, 0.0, False

    def on_start(self, event: Any) -> None:
        """A kernel, or one that it calls, begins to be compiled; numba has a lock around it."""
        if self._depth == 0:
            self._began = self._clock()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Add its time."""
        self._depth -= 1
        seconds = self._spent + self._clock() - self._began
        if self._depth == 0:
            self._spent = seconds
        if seconds > SLOW and not self._said:
            self._said = True
            notice(COMPILING)


if event is not None:
    event.register("numba:compile", Compiling())


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a kernel; it takes numpy arrays in place of floats."""
    original: Callable[..., Any] = getattr(function, "py_func", function)
    return original


def _kept_or_not(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Read a cache that cannot be written to; without one, compile anew in each process."""
    try:
        with read_only():
            return numba.njit(function, cache=True, **options)
    except RuntimeError:
        return numba.njit(function, **options)


def kernel(function: Function) -> Function:
    """Compile on first call and keep the machine code on disk where a cache folder is writable."""
    if numba is None:
        return function
    # Nobody calls kernels as C functions; wrappers for that are a seventh of the compilation.
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        compiled_function = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no cache folder can be written
        compiled_function = _kept_or_not(function, options)
    protect(compiled_function)
    return compiled_function  # type: ignore[no-any-return]
