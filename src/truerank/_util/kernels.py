"""The decorator of compiled kernels, numba or plain Python, and their cache on disk.

Kernels are scalar loops that release the GIL, so that a ThreadPoolExecutor runs them side by
side. numba's own `parallel=True` is not used: it starts an OpenMP runtime that kills children
forked later. There is no fast-math, so every operation is one IEEE operation, and compiled and
interpreted kernels give the same bits.

The cache is safe among processes that compile at the same time: one process writes at a time,
the code before the index. A cached kernel is valid only while the sources of all kernels that
it calls are unchanged too. A cache that cannot be written is read, and missing code is compiled
for this process alone.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial, update_wrapper
from hashlib import blake2b
from importlib.util import find_spec
from numbers import Number
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from truerank._util.errors import TruerankWarning
from truerank._util.progress import notice

# One decorator for all compiled kernels: numba where it is installed, plain Python where not.
#
# Kernels are scalar loops that release the GIL, so that a ThreadPoolExecutor can run them side by
# side (numba's own `parallel=True` brings an OpenMP runtime that kills children forked later).
# Without fast-math every operation is one IEEE operation: compiled and interpreted bits agree.
#
# numba takes longer to import than all of truerank, and much of truerank, such as comparing saved
# results, needs no kernel. So nothing here imports it before a kernel is called.


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


# Compiled kernels on disk, safe among processes that begin at the same time.
#
# numba reads its index, picks the name of a file for the code, writes the index and then the
# file, all without a lock: when two processes compile a kernel for different types at one moment,
# or one is killed between the two writings, the index may lead to the code of other types, which
# is then run without an error, from that day on. Here one process at a time writes, the code
# before the index.
#
# And numba looks at the file of a kernel alone to see whether its code is still the one on disk.
# Here the files of all kernels that it calls count as well, so that they may stand in files of
# their own, and what counts is what they hold: two versions may have files of one size and time
# in one place. They are read when they are imported, since a kernel is compiled later, and they
# may have changed in between. Numbers that a kernel takes from other modules count by their
# values.
#
# A cache that cannot be written to, such as one in an image of a container, is read, and what is
# not in it is compiled for this process alone.
#
# Before it loads code from disk, numba makes itself ready to compile: it imports what it needs
# for that, and scipy where it is installed, which takes longer than a first evaluation. Here that
# is left to the moment in which something must be compiled, which may never come.


try:
    import fcntl
except ImportError:  # where there are no such locks, the order of writing alone has to do
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(__file__).parents[1]


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
    if hasattr(cache, "_save_overload"):
        cache.save_overload = partial(_save, cache)
    ours = ("_load_overload", "_guard_against_spurious_io_errors")
    with suppress(ImportError):
        from numba.core.runtime import rtsys

        if all(hasattr(cache, part) for part in ours):
            cache.load_overload = partial(_load, cache, rtsys)


@contextmanager
def read_only() -> Iterator[None]:
    """Let numba take a folder for its cache that holds code and cannot be written to."""
    try:
        from numba.core.caching import _CacheLocator as Locator
    except ImportError:  # another numba than we know
        yield
        return
    usual = Locator.ensure_cache_path
    Locator.ensure_cache_path = _check_that_it_holds_code
    try:
        yield
    finally:
        Locator.ensure_cache_path = usual


def _check_that_it_holds_code(locator: Any) -> None:
    if not any(Path(locator.get_cache_path()).glob("*.nbi")):
        raise FileNotFoundError


def _save(cache: Any, signature: Any, data: Any) -> None:
    """Keep the code of a kernel on disk where that is possible."""
    with suppress(OSError):
        cache._save_overload(signature, data)


def _load(cache: Any, rtsys: Any, signature: Any, target: Any) -> Any:
    """The code of a kernel for some types, None if there is none.

    What it calls in numba's runtime, the allocation of arrays, has to be known; sets, dictionaries
    and texts, which kernels do without, would need more. A compiler makes itself ready.
    """
    rtsys.initialize(target)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, target)


def remember(function: FunctionType) -> None:
    """Read the file of a kernel while it still holds the code that was imported from it."""
    _digest(function.__code__.co_filename)


def _stamps(function: FunctionType) -> tuple[tuple[str, str], ...]:
    """Places and digests of the files of a kernel and of those that it calls, and the numbers among
    their global names: what its code depends on."""
    files, numbers = set(), set()
    for one in _with_called(function, {function}):
        files.add(one.__code__.co_filename)
        numbers |= {
            (name, repr(value)) for name, value in _globals(one) if isinstance(value, Number)
        }
    return tuple(sorted({(_place(file), _digest(file)) for file in files} | numbers))


def _place(file: str) -> str:
    """The path inside the package; outside of it, the name."""
    path = Path(file)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name


@cache
def _digest(file: str) -> str:
    try:
        return blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()
    except OSError:  # a prompt's, or in an archive, for which numba has a stamp of its own
        return ""


def _with_called(function: FunctionType, known: set[FunctionType]) -> set[FunctionType]:
    for _, value in _globals(function):
        called = getattr(value, "py_func", None)
        if called is not None and called not in known:
            known.add(called)
            _with_called(called, known)
    return known


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global names of a function with their values, and what it may name of modules there."""
    names = function.__code__.co_names
    modules = [function.__globals__]
    modules += [vars(v) for v in map(modules[0].get, names) if isinstance(v, ModuleType)]
    for module in modules:
        yield from ((name, module[name]) for name in names if name in module)
