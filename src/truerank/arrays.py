"""Anything a user calls an array becomes a numpy array, or one sentence says why it cannot.

Accepts numpy arrays and memory maps, torch tensors of any device and dtype (torch itself is never
imported here), nested lists, whatever offers `__array__` or `__dlpack__`, Arrow arrays, and paths
(read by truerank.files).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrow import from_arrow, is_arrow
from truerank.errors import InputError

__all__ = [
    "DeviceMatrix",
    "as_array",
    "as_matrix",
    "as_plain",
    "distinct",
    "name_rows",
    "numbered",
    "stable_order",
]

Array = npt.NDArray[Any]


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


def as_matrix(value: Any, name: str, *, lazily: bool = False) -> Array:
    """A non-empty (rows, dimensions) array of real numbers that float64 can hold.

    With `lazily`, shards stay where they are: what stands for the array reads rows when asked.
    """
    if isinstance(value, (str, os.PathLike)):
        from truerank.files import read_embeddings

        value = read_embeddings(value)
    if lazily and hasattr(value, "manifest"):
        shards: Array = value
        return shards
    array = as_array(value, name)
    if array.ndim != 2:
        hint = "; for one number a row pass reshape(-1, 1)" if array.ndim == 1 else ""
        raise InputError(
            f"{name} must have shape (rows, dimensions). Got shape {array.shape} instead{hint}."
        )
    if 0 in array.shape:
        raise InputError(
            f"{name} is empty. Got shape {array.shape}; at least one row of one number is needed."
        )
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise InputError(
            f"{name} must hold real numbers of at most 64 bits. "
            f"Got dtype {array.dtype} instead; convert with {name}.astype(numpy.float64)."
        )
    if array.dtype.itemsize == 8 and array.dtype.kind in "iu":
        limit = 2**53
        if int(array.max()) > limit or int(array.min()) < -limit:
            raise InputError(
                f"{name} holds integers beyond 2^53, which float64 cannot tell apart; "
                "subtract an offset or divide by a power of two first."
            )
    return array


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
