"""Conversion of user input to numpy arrays, and storage of arrays that do not fit into memory.

`as_array` accepts numpy arrays, memory maps, torch tensors (without importing torch), nested
lists, anything with `__array__` or `__dlpack__`, and Arrow columns. Paths are read in
io/reading.py. `allocate` and `take` use memory where the array fits, else an unnamed temporary
file that vanishes with the process.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.installed import install
from truerank._util.types import Array

# Anything a user calls an array becomes a numpy array, or one sentence says why it cannot.
#
# Accepts numpy arrays and memory maps, torch tensors of any device and dtype (torch itself is
# never imported here), nested lists, whatever offers `__array__` or `__dlpack__`, Arrow arrays,
# and paths (read by truerank.io).


def as_array(value: Any, name: str) -> Array:
    """A numpy array of whatever dtype the value has, without a copy where possible."""
    if isinstance(value, np.ndarray):
        if np.ma.is_masked(value):
            raise InputError(f"{name} has masked cells; fill them or leave those rows out.")
        return value
    if hasattr(value, "tocsr"):
        raise InputError(f"{name} is a sparse matrix; pass a dense one, {name}.toarray().")
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (str, bytes)):
        return np.fromiter(value, object, len(value))  # of fixed width it would lose a last NUL
    try:
        if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
            return _from_torch(value, name)
        if is_arrow(value):
            return from_arrow(value, name)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return _from_dlpack(value, name)
        return np.asarray(value)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever the value's own conversion raises
        raise InputError(
            f"{name} cannot be read as an array ({type(value).__name__} "
            f"{getattr(value, 'dtype', '')}: {error}); "
            "pass a numpy array, a torch tensor or equally long lists of numbers."
        ) from error


def _from_dlpack(value: Any, name: str) -> Array:
    """What exports itself by DLPack; what numpy cannot take goes by torch, if that is in use."""
    try:
        return np.from_dlpack(value)
    except Exception:  # of another device, or of a dtype that numpy lacks
        torch = sys.modules.get("torch")
        if torch is None:
            raise
        return _from_torch(torch.from_dlpack(value), name)


def _from_torch(tensor: Any, name: str) -> Array:
    if str(tensor.layout) != "torch.strided":
        raise InputError(f"{name} is a sparse tensor; pass a dense one, {name}.to_dense().")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has no bfloat16; float32 holds all of it
        tensor = tensor.float()
    array: Array = tensor.numpy()
    return array


class DeviceMatrix:
    """A tensor of embeddings that stays on its GPU; rows that are asked for are fetched."""

    ndim = 2

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.shape: tuple[int, int] = (int(tensor.shape[0]), int(tensor.shape[1]))
        self.dtype = as_array(tensor[:0], "embeddings").dtype

    @staticmethod
    def of(value: Any) -> DeviceMatrix | None:
        """The rows of a plain tensor of floats on a GPU; None for anything else."""
        if type(value).__module__.split(".")[0] != "torch" or not hasattr(value, "is_cuda"):
            return None
        plain = str(value.layout) == "torch.strided" and value.is_floating_point()
        if not (value.is_cuda and plain and value.ndim == 2 and 0 not in value.shape):
            return None
        if value.element_size() not in (2, 4, 8):
            return None
        return DeviceMatrix(value.detach())

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, np.ndarray):
            index = index.tolist()
        return as_array(self.tensor[index], "embeddings")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


def as_plain(value: Any) -> Any:
    """A scalar of numpy as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def numbered(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct integers, ascending, and the place of each value among them.

    Integers close together, as codes and counts are, need no sorting.
    """
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 1024:
        distinct, number = np.unique(values, return_inverse=True)
        return distinct, number.astype(np.int64)
    steps = values - low
    held = np.bincount(steps) > 0
    return np.flatnonzero(held) + low, (np.cumsum(held) - 1)[steps]


def distinct(codes: npt.NDArray[np.int64]) -> int:
    """How many different integers there are, of codes that begin near 0."""
    return len(numbered(codes)[0])


def stable_order(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The order that a stable sort of integers gives, digit by digit of 16 bits each."""
    if not len(values):
        return np.arange(0)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.arange(len(values))
    if high - low >= 1 << 32:
        return np.argsort(values, kind="stable")
    steps = values - low
    order = np.argsort(steps.astype(np.uint16), kind="stable")
    if high - low >= 1 << 16:
        above = (steps >> 16).astype(np.uint16)
        order = order[np.argsort(above[order], kind="stable")]
    return order


def name_rows(rows: npt.NDArray[np.int64], most: int = 5) -> str:
    """'row 3', 'rows 3, 17 and 40', 'rows 0, 1, 2, 3, 4 and 95 more'."""
    shown = [str(row) for row in rows[:most].tolist()]
    if len(rows) > most:
        return f"rows {', '.join(shown)} and {len(rows) - most} more"
    if len(shown) == 1:
        return f"row {shown[0]}"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}"


# Storage of large arrays: memory where they fit, a temporary file where they do not.
#
# A file is mapped into memory, so that the system keeps what is in use and drops the rest, and
# has no name: it vanishes with the process, however that ends.


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


# Columns of Arrow, from pyarrow or from whatever exports itself by Arrow's C interface.


def is_arrow(value: Any) -> bool:
    """Whether a value is an Arrow array that numpy would not read as it is meant."""
    if hasattr(value, "__arrow_c_array__") or type(value).__name__ == "ChunkedArray":
        return True
    return hasattr(value, "__arrow_c_stream__") and not hasattr(value, "__array__")


def from_arrow(value: Any, name: str) -> Array:
    """The rows of a column of lists, and the values of any other one."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{name} is an Arrow array ({type(value).__name__}); reading it needs pyarrow: "
            f"{install('io')}."
        ) from error
    column = value
    if not isinstance(value, (pyarrow.Array, pyarrow.ChunkedArray)):
        make = pyarrow.array if hasattr(value, "__arrow_c_array__") else pyarrow.chunked_array
        column = make(value)
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = column.storage
    types = pyarrow.types
    if types.is_struct(column.type):
        raise InputError(f"{name} is an Arrow table; pass one of its columns.")
    if is_list(column.type):
        return list_rows(column, name)
    numbers = types.is_floating(column.type) or types.is_integer(column.type)
    if numbers and not column.null_count:
        found: Array = column.to_numpy(zero_copy_only=False)
        return found
    return np.fromiter(column.to_pylist(), object, len(column))


def is_list(kind: Any) -> bool:
    """Whether each cell of an Arrow type is a list."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def list_rows(column: Any, name: str) -> Array:
    """A column of lists of one length as a matrix, without a copy where Arrow allows it."""
    from pyarrow import types

    if types.is_fixed_size_list(column.type):
        width = column.type.list_size
    else:
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) != 1 or None in lengths:
            refuse_lengths(name, lengths)
        width = lengths.pop()
    values = column.flatten()
    if types.is_nested(values.type):
        raise InputError(f"{name} must hold lists of numbers, not of lists.")
    if column.null_count or values.null_count or len(values) != len(column) * width:
        raise InputError(f"{name} holds missing values; fill or drop those rows.")
    array: Array = np.asarray(values.to_numpy(zero_copy_only=False))
    return array.reshape(len(column), width)


def refuse_lengths(name: str, lengths: set[Any]) -> NoReturn:
    """Refuse rows of several lengths."""
    shown = sorted(str(length) for length in lengths)[:4]
    raise InputError(f"{name} must hold lists of one length. Got {', '.join(shown)}.")
