"""What a reproduction reads besides data sets: embeddings of a paper, and photographs by path.

Both are files of their users: .npz with named arrays, as the pages of the papers say.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.files import read_archive

__all__ = ["Embeddings", "read_embedded"]


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Rows with a label each."""

    name: str
    rows: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    @property
    def digest(self) -> str:
        """SHA-256 of rows and labels."""
        total = sha256(np.ascontiguousarray(self.rows).tobytes())
        total.update(np.ascontiguousarray(self.labels).tobytes())
        return total.hexdigest()

    @property
    def has_mate(self) -> npt.NDArray[np.bool_]:
        """Which rows find another one of their class."""
        _, codes, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        return np.asarray(counts[codes] > 1)


def read_embedded(path: str | os.PathLike[str], name: str) -> Embeddings:
    """Embeddings and labels from an .npz: one array with two dimensions, and one label a row.

    Arrays are told apart by what they are: the labels are the integers or the text.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} is no file; it should be an .npz with embeddings and labels.")
    try:
        arrays: dict[str, Any] = read_archive(file)
    except InputError:
        raise
    except Exception as error:  # whatever numpy or zipfile say of a damaged file
        raise InputError(f"{file} cannot be read as an .npz with embeddings and labels.") from error
    rows = [a for a in arrays.values() if a.ndim == 2 and a.dtype.kind == "f"]
    labels = [
        a.ravel() for a in arrays.values() if a.dtype.kind in "iuU" and a.size == max(a.shape)
    ]
    if len(rows) != 1 or len(labels) != 1 or len(rows[0]) != len(labels[0]):
        raise InputError(
            f"{file} must hold one array of embeddings (rows, dimensions) and one label for each "
            f"row. It holds {', '.join(f'{k} {v.dtype} {v.shape}' for k, v in arrays.items())}."
        )
    if not np.isfinite(rows[0]).all():
        raise InputError(f"the embeddings of {file} hold NaN or infinite numbers.")
    _, codes = np.unique(labels[0], return_inverse=True)
    return Embeddings(name, rows[0].astype(np.float32), codes.astype(np.int64))
