"""Whatever holds the same numbers gets the same scores; whatever holds none says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pytest
import torch

import truerank
from tests.files.samples import CLASSES, EMBEDDINGS, LABELS, expected, scores


class Holder:
    """Offers `__array__` and nothing else."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return EMBEDDINGS.astype(dtype or np.float32)


def _read_only() -> npt.NDArray[Any]:
    array = EMBEDDINGS.copy()
    array.flags.writeable = False
    return array


def _every_other_column() -> npt.NDArray[Any]:
    return np.repeat(EMBEDDINGS, 2, axis=1)[:, ::2]


def _negative_strides() -> npt.NDArray[Any]:
    return np.ascontiguousarray(EMBEDDINGS[::-1, ::-1])[::-1, ::-1]


TENSOR = torch.from_numpy(EMBEDDINGS)

EMBEDDING_KINDS: dict[str, Callable[[], Any]] = {
    "float64": lambda: EMBEDDINGS,
    "float32": lambda: EMBEDDINGS.astype(np.float32),
    "float16": lambda: EMBEDDINGS.astype(np.float16),
    "big-endian": lambda: EMBEDDINGS.astype(">f4"),
    "column-major": lambda: np.asfortranarray(EMBEDDINGS),
    "every other column": _every_other_column,
    "negative strides": _negative_strides,
    "read-only": _read_only,
    "masked, nothing hidden": lambda: np.ma.masked_array(EMBEDDINGS),
    "lists": EMBEDDINGS.tolist,
    "tuples": lambda: tuple(map(tuple, EMBEDDINGS.tolist())),
    "list of arrays": lambda: list(EMBEDDINGS),
    "list of tensors": lambda: list(TENSOR),
    "__array__": Holder,
    "data frame": lambda: pandas.DataFrame(EMBEDDINGS),
    "memoryview": lambda: memoryview(EMBEDDINGS),
    "tensor float64": lambda: TENSOR,
    "tensor float32": TENSOR.float,
    "tensor float16": TENSOR.half,
    "tensor bfloat16": TENSOR.bfloat16,
    "tensor with gradient": lambda: TENSOR.float().requires_grad_(),
    "tensor with history": lambda: TENSOR.float().requires_grad_() * 1,
    "bfloat16 with gradient": lambda: TENSOR.bfloat16().requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(TENSOR.float()),
    "tensor transposed": lambda: TENSOR.T.contiguous().T,
    "tensor every other row": lambda: TENSOR.repeat_interleave(2, dim=0)[::2],
    "tensor of integers, quartered": lambda: (TENSOR * 4).to(torch.int8),
}


@pytest.mark.parametrize("kind", EMBEDDING_KINDS)
def test_embeddings_of_every_kind_score_alike(kind: str) -> None:
    assert scores(truerank.evaluate(EMBEDDING_KINDS[kind](), LABELS)) == expected()


@pytest.mark.parametrize("distance", ["euclidean", "dot", "cityblock"])
@pytest.mark.parametrize("kind", ["float16", "tensor bfloat16", "tensor transposed", "__array__"])
def test_every_kind_under_every_distance(kind: str, distance: str) -> None:
    found = truerank.evaluate(EMBEDDING_KINDS[kind](), LABELS, distance=distance)
    assert scores(found) == expected(distance=distance)


def test_hamming_takes_bits_of_every_kind() -> None:
    bits = EMBEDDINGS > 0
    wanted = scores(truerank.evaluate(bits, LABELS, distance="hamming"))
    for same in (
        bits.astype(np.int8),
        torch.from_numpy(bits),
        bits.tolist(),
        torch.tensor(bits).int(),
    ):
        assert scores(truerank.evaluate(same, LABELS, distance="hamming")) == wanted


LABEL_KINDS: dict[str, Callable[[], Any]] = {
    "integers": lambda: CLASSES,
    "unsigned": lambda: CLASSES.astype(np.uint64),
    "list of integers": CLASSES.tolist,
    "list of numpy integers": lambda: list(CLASSES),
    "text": lambda: np.array(LABELS),
    "objects": lambda: np.array(LABELS, object),
    "bytes": lambda: np.array(LABELS, "S4"),
    "floats": lambda: CLASSES.astype(np.float64),
    "tensor": lambda: torch.from_numpy(CLASSES),
    "column of tensor": lambda: torch.from_numpy(CLASSES)[:, None],
    "int8 tensor": lambda: torch.from_numpy(CLASSES).to(torch.int8),
    "series": lambda: pandas.Series(LABELS),
    "category": lambda: pandas.Series(LABELS, dtype="category"),
    "tuple": lambda: tuple(LABELS),
    "beyond 2^53": lambda: (CLASSES + 2**62).tolist(),
    "beyond 2^64": lambda: [2**70 + int(label) for label in CLASSES],
}


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_of_every_kind_score_alike(kind: str) -> None:
    assert scores(truerank.evaluate(EMBEDDINGS, LABEL_KINDS[kind]())) == expected()


def test_the_input_is_left_as_it_was() -> None:
    tensor = TENSOR.float().requires_grad_()
    array = EMBEDDINGS.astype(np.float32)
    truerank.evaluate(tensor, LABELS)
    truerank.evaluate(array, LABELS)
    assert tensor.requires_grad
    assert torch.equal(tensor.detach(), TENSOR.float())
    assert np.array_equal(array, EMBEDDINGS)


def test_an_array_is_not_copied() -> None:
    from truerank.io.reading import as_matrix

    for value in (EMBEDDINGS, TENSOR, TENSOR.float().requires_grad_(), memoryview(EMBEDDINGS)):
        source = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        assert np.shares_memory(as_matrix(value, "embeddings"), source)


class Broken:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        raise RuntimeError("the server is gone")


def _quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(TENSOR.float(), 0.25, 0, torch.qint8)


WRONG_EMBEDDINGS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "one number": (lambda: 5, ["shape ()"]),
    "nothing": (lambda: None, ["embeddings"]),
    "1-D": (lambda: EMBEDDINGS[:, 0], ["shape (36,)", "reshape(-1, 1)"]),
    "3-D": (lambda: EMBEDDINGS[None], ["shape (1, 36, 5)"]),
    "no rows": (lambda: EMBEDDINGS[:0], ["empty", "(0, 5)"]),
    "no dimensions": (lambda: EMBEDDINGS[:, :0], ["empty", "(36, 0)"]),
    "complex": (lambda: EMBEDDINGS.astype(complex), ["real numbers", "complex128"]),
    "text": (lambda: EMBEDDINGS.astype(str), ["real numbers", "<U"]),
    "dates": (lambda: EMBEDDINGS.astype("datetime64[s]"), ["real numbers", "datetime64"]),
    "longdouble": (lambda: EMBEDDINGS.astype(np.longdouble), ["64 bits"]),
    "objects": (lambda: EMBEDDINGS.astype(object), ["object"]),
    "ragged": (lambda: [[1.0, 2.0], [3.0]], ["equally long"]),
    "beyond 2^53": (lambda: np.full((36, 5), 2**60), ["2^53"]),
    "sparse": (lambda: _sparse(), ["sparse", "toarray"]),
    "NaN": (lambda: _with(np.nan), ["row 3", "NaN"]),
    "infinity": (lambda: _with(np.inf), ["row 3", "infinity"]),
    "hidden cells": (lambda: np.ma.masked_less(EMBEDDINGS, 0), ["masked"]),
    "raising": (Broken, ["Broken", "server is gone"]),
    "complex tensor": (lambda: TENSOR.to(torch.complex64), ["real numbers", "complex64"]),
    "sparse tensor": (TENSOR.to_sparse, ["sparse", "dense"]),
    "float8 tensor": (lambda: TENSOR.to(torch.float8_e4m3fn), ["float8"]),
    "quantized tensor": (_quantized, ["qint8"]),
    "tensor without data": (lambda: torch.empty(36, 5, device="meta"), ["meta"]),
}


def _sparse() -> Any:
    from scipy import sparse

    return sparse.csr_array(EMBEDDINGS)


def _with(value: float) -> npt.NDArray[Any]:
    array = EMBEDDINGS.copy()
    array[3, 2] = value
    return array


@pytest.mark.parametrize("kind", WRONG_EMBEDDINGS)
def test_what_is_no_matrix_of_numbers_is_refused(kind: str) -> None:
    make, words = WRONG_EMBEDDINGS[kind]
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(make(), LABELS)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_a_negated_view_of_a_tensor_is_read() -> None:
    """The imaginary part of a conjugate is a lazy negation, which torch will not hand to numpy."""
    lazy = torch.complex(torch.zeros_like(TENSOR), -TENSOR).conj().imag
    assert lazy.is_neg()
    assert scores(truerank.evaluate(lazy, LABELS)) == expected()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS[:-1], ["36 rows", "35"]),
        ([], ["labels"]),
        (None, ["labels are missing"]),
        ("labels.csv", ["labels"]),
        (np.eye(9)[CLASSES], ["one-hot", "argmax"]),
        ([[]] * 36, ["labels"]),
        (pandas.DataFrame(index=range(36)), ["labels"]),
        ([("a",), *LABELS[1:]], ["labels"]),
        ([["a", "b"], *[["a"]] * 35], ["levels"]),
        ([{"a": 1}] * 36, ["hashable"]),
        ([None, *LABELS[1:]], ["row 0", "no label"]),
        ([float("nan"), *LABELS[1:]], ["row 0", "no label"]),
        (pandas.Series([pandas.NA, *LABELS[1:]], dtype="string"), ["row 0", "no label"]),
        ([1, *LABELS[1:]], ["int", "str"]),
        (set(LABELS), ["labels"]),
    ],
    ids=[
        "one too few",
        "none",
        "None",
        "a file name",
        "one-hot",
        "empty lists",
        "frame without columns",
        "a tuple and text",
        "ragged levels",
        "dictionaries",
        "None in a row",
        "NaN in a row",
        "pandas.NA in a row",
        "mixed types",
        "a set",
    ],
)
def test_wrong_labels_are_refused(labels: Any, words: list[str]) -> None:
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(EMBEDDINGS, labels)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
