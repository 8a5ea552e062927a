"""Connection to a Ray cluster: tasks are started, gathered, and run again when a worker dies.

Ray keeps the values, finds a worker for each task and runs it again where a worker or a machine
has died. A task is the name of a function, which workers import. Arguments and results arrive
as copies, except large values, which all workers of a machine share. The passes of the engine
on a cluster are in engine/ray.py.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import Lock
from typing import Any

from truerank._util.errors import ClusterError, ExactnessError, InputError, shortened
from truerank._util.installed import install

SHARED_BYTES = 1 << 24
"""Values from this size on are shared by the workers of a machine, and cannot be written to."""
RETRIES = 8
"""How often a task is run again whose worker has died."""
GPU_RETRIES = 4 * RETRIES
"""The same of a task for a GPU, some of which are handed on (`_take_gpu`)."""
KEPT = 6
"""Values that a worker keeps for its next task."""
PATIENCE_SECONDS = 10.0
"""How long a cluster may take to answer at all."""
START = "start one with: ray start --head"
ADDRESS = re.compile(r"(ray://)?(?P<host>[^/:\s]+):(?P<port>\d{1,5})")
LOOK_SECONDS = 1.0
"""So often it is looked whether machines have come or gone."""


class LocalLock:
    """A lock for the threads of this process; a copy in another process has one of its own."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *unused: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalLock, ()


@dataclass(frozen=True)
class Held:
    """A value that the cluster holds; a fresh one arrives as a new copy in each task."""

    reference: Any
    fresh: bool = False


@dataclass(frozen=True)
class Call:
    """One task: who asked for it, "module:function", and what the function is given: the values
    that are held, in a list, and then, one by one, the others."""

    key: Any
    target: str
    held: tuple[Held | None, ...] = ()
    given: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    """Answers of other tasks, by their references."""
    keeps: bool = False
    """Whether the function returns two values, the second of which stays in the cluster: the answer
    is then the first one, with the reference of the second."""
    gpu: bool = False
    """Whether it needs a GPU, or its share of one; the others take a core."""


class LostError(Exception):
    """A worker could not get a value that the cluster holds: Ray runs its task again.

    It happens where a machine dies that holds the value, or the worker's own one, and the worker
    sees it before Ray has found the value elsewhere or made it anew.
    """


@contextmanager
def connect(address: object, *, gpu: bool | None = False, share: float = 1.0) -> Iterator[Cluster]:
    """A cluster for as long as the block runs: "auto" is the one that Ray finds, or an address.

    `gpu` says whether tasks need a GPU; None if they get one wherever the cluster has some.
    `share` is the part of a GPU that a task then takes.
    """
    address = _checked(address)
    try:
        import ray
    except ImportError:
        raise InputError(f"cluster= needs Ray: {install('cluster')}.") from None
    ours = not ray.is_initialized()
    if ours:
        _check_answers(os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError, AssertionError, OSError) as error:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            found = "none runs here" if address == "auto" else text
            raise InputError(f"no Ray cluster was found ({found}); {START}.") from None
    cluster = None
    try:
        cluster = Cluster(ray, gpu, share)
        yield cluster
    finally:
        if cluster is not None:
            cluster.forget()
        if ours:
            ray.shutdown()


def _checked(address: object) -> str:
    """An address, or "auto"."""
    if isinstance(address, str) and (address == "auto" or ADDRESS.fullmatch(address)):
        return address
    raise InputError(
        "The 'cluster' parameter must be 'auto' or the address of a Ray cluster, such as "
        f"'head:6379'. Got {shortened(address)} instead."
    )


def _check_answers(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would wait for minutes."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        return
    try:
        socket.create_connection((found["host"], int(found["port"])), PATIENCE_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster answers at {address} ({error}); {START}.") from None


class Cluster:
    """A cluster that this process is connected to; one thread uses it."""

    def __init__(self, ray: Any, gpu: bool | None, share: float = 1.0) -> None:
        self._ray, self._share = ray, share
        resources = ray.cluster_resources()
        self.gpu = resources.get("GPU", 0) > 0 if gpu is None else gpu
        """Whether tasks can ask for a GPU, or a share of one."""
        if self.gpu and not resources.get("GPU", 0):
            raise InputError("the cluster has no GPU; use device='cpu' or add a machine with one.")
        core: dict[str, Any] = {
            "num_cpus": 1 if resources.get("CPU", 0) else 0,
            "scheduling_strategy": "SPREAD",
        }
        core |= {"max_retries": RETRIES, "retry_exceptions": [LostError]}
        on_gpu = core | {"num_cpus": 0, "num_gpus": share, "max_retries": GPU_RETRIES}
        self._call = ray.remote(_call).options(**core)
        self._keep = ray.remote(_call_and_keep).options(**core, num_returns=2)
        self._call_on_gpu = ray.remote(_call_on_gpu).options(**on_gpu)
        self._staying: dict[Any, Any] = {}
        self._put: dict[int, tuple[Any, Held]] = {}
        self._resources: dict[str, float] = resources
        self._looked = time.monotonic()

    def put(self, value: Any, *, fresh: bool = False, shared: bool = True) -> Held:
        """Put a value there, once as long as it is not fresh; workers may share a large one."""
        if fresh:
            return Held(self._ray.put(_packed(value)), fresh=True)
        if id(value) not in self._put:
            # A value that refers to others must be told to Ray as it is.
            refers = getattr(value, "refers", False)
            whole = refers or (shared and _size(value) >= SHARED_BYTES)
            stored = value if whole else _packed(value)
            self._put[id(value)] = (value, Held(self._ray.put(stored)))
        return self._put[id(value)][1]

    def forget(self) -> None:
        """No longer hold what was put."""
        self._put.clear()

    @property
    def slots(self) -> int:
        """Tasks that can run at a time, on GPUs where it has some, as far as it is known."""
        return self._room(self.gpu)

    def _room(self, gpu: bool) -> int:
        """Tasks of a kind that can run at a time."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._resources, self._looked = self._ray.cluster_resources(), time.monotonic()
        room = self._resources.get("GPU" if gpu else "CPU", 1)
        return max(1, int(room / self._share if gpu else room))

    def start(self, call: Call) -> Any:
        """Have a task run; the reference of its answer."""
        held = [None if one is None else (one.reference, one.fresh) for one in call.held]
        given = (call.target, held, _packed(call.given), *call.after)
        if call.gpu:
            return self._call_on_gpu.remote(*given, self._share)
        if not call.keeps:
            return self._call.remote(*given)
        reference, staying = self._keep.remote(*given)
        self._staying[reference] = staying
        return reference

    def answer(self, reference: Any, *, cancelled: Any = None) -> Any:
        """What a task returned, or the error in which it ended; `cancelled` if it was."""
        staying = self._staying.pop(reference, None)
        try:
            found = pickle.loads(_get(self._ray, reference))
        except self._ray.exceptions.TaskCancelledError:
            return cancelled
        return found if staying is None else (found, staying)

    def ended(self, references: list[Any], timeout: float | None) -> list[Any]:
        """Which tasks have ended, after one has or the seconds are over."""
        ready: list[Any] = self._ray.wait(references, num_returns=1, timeout=timeout)[0]
        return ready

    def cancel(self, reference: Any) -> None:
        """Ask a task to end."""
        self._ray.cancel(reference)

    def gather(self, calls: Iterable[Call]) -> Generator[tuple[Any, Any], None, None]:
        """Yield (key, answer) of every task as it ends; calls are taken as workers become free.

        After an error no task is begun, and those that run are waited for. A caller that may stop
        early must close it: what still runs is cancelled.
        """
        ahead: Iterator[Call] | None = iter(calls)
        pending: dict[Any, Any] = {}
        failed: Exception | None = None
        gpu = False
        try:
            while True:
                while ahead is not None and len(pending) < 2 * self._room(gpu):
                    call = next(ahead, None)
                    if call is None:
                        ahead = None
                    else:
                        gpu = call.gpu  # all calls are of one kind
                        pending[self.start(call)] = call.key
                if not pending:
                    break
                for reference in self.ended(list(pending), LOOK_SECONDS):
                    key = pending.pop(reference)
                    try:
                        answer = self.answer(reference)
                    except Exception as error:
                        failed, ahead = failed or error, None
                        continue
                    yield key, answer
            if failed is not None:
                raise failed
        finally:
            for reference in pending:
                self.cancel(reference)


def fetch(reference: Any) -> Any:
    """In a worker: the value that the cluster holds, seen where this machine has it."""
    import ray

    try:
        return _get(ray, reference)
    except (ClusterError, OSError) as error:
        time.sleep(LOOK_SECONDS)  # a machine that dies is soon known to be dead
        raise LostError(type(error.__context__ or error).__name__) from error


def _get(ray: Any, reference: Any) -> Any:
    """What a reference stands for, or the error in which its task ended."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error
        while isinstance(cause, ray.exceptions.RayTaskError) and cause.cause is not None:
            cause = cause.cause  # a task that asked for what another one could not make
        if isinstance(cause, (InputError, ExactnessError, MemoryError)):
            raise cause from None
        if isinstance(cause, LostError):
            raise ClusterError(
                f"a task was run {RETRIES + 1} times and could not get a value that the cluster "
                f"holds ({cause}); check the cluster's machines."
            ) from None
        raise
    except ray.exceptions.TaskCancelledError:
        raise
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a task was run {RETRIES + 1} times or more and its worker died each time "
            f"({type(error).__name__}); check the memory of the cluster's machines."
        ) from None


_kept: OrderedDict[Any, Any] = OrderedDict()
"""The values that this worker has used last."""


def _call(target: str, held: list[Any], given: bytes, *after: Any) -> bytes:
    """Run a task in a worker."""
    return _packed(_run(target, held, given, after))


def _call_and_keep(target: str, held: list[Any], given: bytes, *after: Any) -> tuple[bytes, Any]:
    """Run a task in a worker, the second of whose two values stays in the cluster."""
    small, large = _run(target, held, given, after)
    return _packed(small), large


def _call_on_gpu(target: str, held: list[Any], given: bytes, *after: Any) -> bytes:
    """Run a task in a worker that has a GPU, or the share of it that comes last."""
    *others, share = after
    _take_gpu(share)
    try:
        return _packed(_run(target, held, given, tuple(others)))
    finally:
        import torch

        torch.cuda.empty_cache()  # this process may wait while another one has the GPU


_taken: dict[str, float] = {}
"""The GPU that this process has begun with, by Ray's name, and the share of it that is its own."""


def gpu_share() -> float:
    """The part of a GPU's memory that this process may take."""
    return next(iter(_taken.values()), 1.0)


def _take_gpu(share: float) -> None:
    """Keep to this process's GPU, and to the task's share of its memory.

    Ray tells a process by its environment which GPU it may see, which counts until CUDA begins and
    never again. A process that is later given another GPU would go on with its first one, which is
    somebody else's by then: it ends, and Ray has the task run by another process.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if _taken and named not in _taken:
        sys.exit(0)
    try:
        import torch
    except ImportError:
        raise InputError("a worker of the cluster has no torch, which its GPU needs.") from None
    if not torch.cuda.is_available():
        raise InputError(
            "a worker of the cluster was given a GPU in which torch sees none; use device='cpu', "
            "or a build of torch for that GPU."
        )
    _taken[named] = share
    torch.cuda.set_per_process_memory_fraction(share)


def _run(target: str, held: list[Any], given: bytes, after: tuple[Any, ...]) -> Any:
    module, name = target.split(":")
    function = getattr(import_module(module), name)
    values = [None if one is None else _fetch(*one) for one in held]
    others = (pickle.loads(one) if isinstance(one, bytes) else one for one in after)
    return function(values, *pickle.loads(given), *others)


def _fetch(reference: Any, fresh: bool) -> Any:
    if fresh:
        return pickle.loads(fetch(reference))
    if reference not in _kept:
        found = fetch(reference)
        _kept[reference] = pickle.loads(found) if isinstance(found, bytes) else found
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(reference)
    return _kept[reference]


def _packed(value: Any) -> bytes:
    """A value in bytes that hold all of it: what is made of them may be written to."""
    from ray import cloudpickle

    packed: bytes = cloudpickle.dumps(value, protocol=5)  # type: ignore[no-untyped-call]
    return packed


def _size(value: Any) -> int:
    """The bytes of a value's arrays, which are not copied to know it."""
    from ray import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    keep = arrays.append
    cloudpickle.dumps(value, protocol=5, buffer_callback=keep)  # type: ignore[no-untyped-call]
    return sum(array.raw().nbytes for array in arrays)
