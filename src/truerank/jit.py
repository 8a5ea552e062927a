"""One decorator for all compiled kernels: numba where it is installed, plain Python where not.

Kernels are scalar loops that release the GIL, so that a ThreadPoolExecutor can run them side by
side (numba's own `parallel=True` brings an OpenMP runtime that kills children forked later).
Without fast-math every operation is one IEEE operation: compiled and interpreted bits agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from truerank.kernel_cache import protect

try:
    import numba
except ImportError:  # the reference engine runs without it
    numba = None

__all__ = ["compiled", "interpreted", "kernel"]

compiled = numba is not None

Function = TypeVar("Function", bound=Callable[..., Any])


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a kernel; it takes numpy arrays in place of floats."""
    original: Callable[..., Any] = getattr(function, "py_func", function)
    return original


def kernel(function: Function) -> Function:
    """Compile on first call and keep the machine code on disk where a cache folder is writable."""
    if numba is None:
        return function
    # Nobody calls kernels as C functions; wrappers for that are a seventh of the compilation.
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        compiled_function = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no cache folder can be written: compile anew in each process
        compiled_function = numba.njit(function, **options)
    protect(compiled_function)
    return compiled_function  # type: ignore[no-any-return]
