"""Columns of Arrow, from pyarrow or from whatever exports itself by Arrow's C interface."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.extras import install

__all__ = ["from_arrow", "is_arrow", "is_list", "list_rows", "refuse_lengths"]

Array = npt.NDArray[Any]


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
