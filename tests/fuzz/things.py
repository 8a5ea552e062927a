"""What no one should pass, and sooner or later someone does."""

from __future__ import annotations

import datetime
import decimal
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import torch
from scipy import sparse

from tests.fuzz.escapes import EMBEDDINGS, LABELS, ROWS, odd_arrays
from truerank._util.errors import shortened


class Raises:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        raise RuntimeError("no")


class Lies:
    """Claims to be an array and hands over none."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return "not an array"


def _tensors() -> list[torch.Tensor]:
    tensor = torch.from_numpy(EMBEDDINGS)
    with warnings.catch_warnings():  # this layout is not finished, torch says
        warnings.simplefilter("ignore")
        by_rows = tensor.to_sparse_csr()
    return [
        tensor.to_sparse(),
        by_rows,
        tensor.to(torch.float8_e4m3fn),
        tensor.to(torch.complex64),
        tensor.to(torch.complex64).conj(),
        tensor.to(torch.complex64).conj().imag,
        tensor.bfloat16().requires_grad_(),
        torch.empty(ROWS, 3, device="meta"),
        torch.tensor(3.0),
        torch.zeros(0, 3),
    ]


def things() -> list[Any]:
    """What no one should pass, and sooner or later someone does."""
    return [
        *(
            None,
            True,
            0,
            -1,
            3,
            2**70,
            10**5000,
            3.5,
            float("nan"),
            float("inf"),
            1j,
            ...,
            NotImplemented,
        ),
        *("", "x", "cosine", "all", "nowhere.npy", "\0", "\ud800", "x" * 300, b"", b"bytes"),
        *(
            [],
            [[]],
            [[]] * ROWS,
            [[1], [2, 3]],
            [None] * ROWS,
            [float("nan")] * ROWS,
            [[[1]]] * ROWS,
        ),
        *((), {}, {"a": 1}, set(), {1, 2}, range(ROWS), iter(LABELS), (x for x in LABELS)),
        *([{}] * ROWS, [set()] * ROWS, [object()] * ROWS, [("a",), "b"] * (ROWS // 2)),
        *([("a", "b")] * ROWS, [["a"]] * ROWS, [("a",), ("b", "c")] * (ROWS // 2), [b"a"] * ROWS),
        *([1, "a"] * (ROWS // 2), [1, 1.5] * (ROWS // 2), [True, None] * (ROWS // 2)),
        *(
            [datetime.date(2020, 1, 1)] * ROWS,
            [decimal.Decimal(1)] * ROWS,
            [decimal.Decimal("nan")] * ROWS,
            [2**70] * ROWS,
        ),
        *(object(), type, len, lambda: None, Path("nowhere.npy"), Path("."), Raises(), Lies()),
        *(pandas.Series(LABELS), pandas.DataFrame(EMBEDDINGS), pandas.DataFrame(index=range(ROWS))),
        pandas.Series([pandas.NA] * ROWS, dtype="string"),
        pandas.Series(pandas.NaT, index=range(ROWS)),
        pandas.DataFrame({"a": LABELS, "b": LABELS}),
        pandas.Index(LABELS),
        sparse.eye_array(ROWS).tocsr(),
        sparse.eye_array(ROWS).tocoo(),
        sparse.csr_array((ROWS, ROWS), dtype=bool),
        sparse.csr_array(EMBEDDINGS),
        np.ma.masked_less(EMBEDDINGS, 0),
        np.array(["map", "hit@1"]),
        np.array(LABELS, object),
        np.array([None] * ROWS),
        np.bool_(True),
        np.float64(2),
        memoryview(b"bytes"),
        *_tensors(),
    ]


def observed(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__} {getattr(value, 'dtype', '')} {tuple(shape)}"
    text = shortened(value)
    return type(value).__name__ if " at 0x" in text else text[:60]


def spoilers(seed: str) -> Iterator[Any]:
    """Things and arrays, endlessly, from one seed; an iterator comes only once."""
    draw, arrays = random.Random(seed), odd_arrays()
    while True:
        some = things()
        draw.shuffle(some)
        for thing in some:
            yield thing
            if draw.random() < 0.5:
                yield next(arrays)


def spoilt(value: Any, draw: random.Random, thing: Any) -> Any:
    """The thing in the value's place, or in the place of one of its items."""
    if isinstance(value, (list, tuple)) and value and draw.random() < 0.6:
        changed = list(value)
        place = draw.randrange(len(changed))
        changed[place] = spoilt(changed[place], draw, thing)
        return changed if isinstance(value, list) else tuple(changed)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and draw.random() < 0.4:
        changed = value.copy()
        odd = draw.choice([np.nan, np.inf, 1e30, -0.0, 1e-40])
        changed.flat[draw.randrange(value.size)] = odd
        return changed
    return thing
