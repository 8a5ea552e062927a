"""One decorator for all compiled kernels: numba where it is installed, plain Python where not.

Kernels are scalar loops that release the GIL, so that a ThreadPoolExecutor can run them side by
side (numba's own `parallel=True` brings an OpenMP runtime that kills children forked later).
Without fast-math every operation is one IEEE operation: compiled and interpreted bits agree.

numba takes longer to import than all of truerank, and much of truerank, such as comparing saved
results, needs no kernel. So nothing here imports it before a kernel is called.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib.util import find_spec
from types import FunctionType
from typing import Any, TypeVar, cast

from truerank.errors import TruerankWarning
from truerank.kernel_cache import protect, read_only, remember
from truerank.progress import notice

__all__ = ["COMPILING", "Kernel", "compiled", "interpreted", "kernel"]

SLOW = 2.0
"""Seconds of compiling after which a command says what it is doing."""
COMPILING = (
    "compiling kernels for this machine, some 15 s in all; later runs load them where the cache "
    "folder can be written."
)

Function = TypeVar("Function", bound=Callable[..., Any])


class Compiling:
    """Adds up the time that numba compiles, and says so once if it is long.

    It has the methods of numba's `event.Listener`.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._depth, self._began, self._spent, self._said = 0, 0.0, 0.0, False

    def notify(self, event: Any) -> None:
        """A kernel, or one that it calls, begins or ends to be compiled."""
        (self.on_start if event.is_start else self.on_end)(event)

    def on_start(self, event: Any) -> None:
        """Note the time; numba has a lock around it."""
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


def compiled() -> bool:
    """Whether kernels are compiled here; where numba is installed, it is loaded to find out."""
    return _numba() is not None


@cache
def _numba() -> Any:
    """The numba package, None where it is missing or does not load."""
    if find_spec("numba") is None:
        return None
    try:
        import numba
    except (ImportError, OSError) as error:  # it does not go with this numpy, say
        warnings.warn(
            f"numba is installed but does not load ({error}), so truerank computes without it, "
            "slowly; install a numba that goes with this Python and numpy.",
            TruerankWarning,
            stacklevel=2,
        )
        return None
    return numba


class Kernel:
    """A function that numba compiles, or loads from its cache, at the first call.

    Other kernels call it by its global name, by that of its module, or as an argument.
    """

    def __init__(self, function: FunctionType) -> None:
        update_wrapper(self, function)
        self.py_func: Any = function
        self._ready: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.compiled(*arguments, **named)

    def __reduce__(self) -> str:
        """Pickled as the global that it is."""
        return str(self.py_func.__qualname__)

    @property
    def compiled(self) -> Any:
        """What numba makes of the function; the function itself where there is no numba."""
        if self._ready is None:
            if _numba() is None:
                self._become(self.py_func)
            else:
                self._compile()
        return self._ready

    @property
    def _numba_type_(self) -> Any:
        """What numba asks an object for, to see how to compile its use in a kernel."""
        return self.compiled._numba_type_

    def _compile(self) -> None:
        from numba.core.compiler_lock import global_compiler_lock

        # A kernel that is being compiled asks for those that it calls, with numba's lock held. A
        # lock of our own around theirs could wait for that one, and the other way round.
        with global_compiler_lock:
            if self._ready is None:
                _listen()
                self._become(_dispatcher(self.py_func))

    def _become(self, ready: Any) -> None:
        """From now on a call goes straight on: no Python code runs in between."""
        self._ready = ready
        self.__class__ = type("Kernel", (Kernel,), {"__call__": staticmethod(ready)})


@cache
def _listen() -> None:
    """Called with numba's lock held, so that there is one listener."""
    from numba.core import event

    event.Listener.register(Compiling)
    event.register("numba:compile", Compiling())


def _dispatcher(function: FunctionType) -> Any:
    # Nobody calls kernels as C functions; wrappers for that are a seventh of the compilation.
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    numba = _numba()
    try:
        dispatcher = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no cache folder can be written
        dispatcher = _kept_or_not(numba, function, options)
    protect(dispatcher)
    return dispatcher


def _kept_or_not(numba: Any, function: FunctionType, options: dict[str, Any]) -> Any:
    """Read a cache that cannot be written to; without one, compile anew in each process."""
    try:
        with read_only():
            return numba.njit(function, cache=True, **options)
    except RuntimeError:
        return numba.njit(function, **options)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a kernel; it takes numpy arrays in place of floats."""
    original: Callable[..., Any] = getattr(function, "py_func", function)
    return original


def kernel(function: Function) -> Function:
    """Compile at the first call and keep the machine code on disk where a folder is writable."""
    plain = cast(FunctionType, function)
    remember(plain)
    return cast(Function, Kernel(plain))
