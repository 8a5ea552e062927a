"""A file that is not what it should be ends in one sentence that says what it is."""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file

import truerank
from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, LABELS

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def npy(array: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def pt(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def safetensors(**tensors: torch.Tensor) -> bytes:
    from safetensors.torch import save

    data: bytes = save(tensors)
    return data


def table(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def header_of(shape: tuple[int, ...]) -> bytes:
    """A .npy that promises much and holds 64 bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue() + bytes(64)


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


class Model:
    """A class that only its author's program knows."""


LISTS = EMBEDDINGS.tolist()

# Name of the file, what is in it, and what the sentence must mention.
WRONG: dict[str, tuple[str, Callable[[], bytes], list[str]]] = {
    "npy that is a zip": ("x.npy", lambda: npz(a=EMBEDDINGS), ["named .npy", "zip archive"]),
    "npy that is a pickle": (
        "x.npy",
        lambda: pickle.dumps(EMBEDDINGS),
        ["named .npy", "pickle", "never opened"],
    ),
    "npy that is text": ("x.npy", lambda: b"1.0, 2.0\n", ["named .npy", "text file"]),
    "npy that is gzip": ("x.npy", lambda: b"\x1f\x8b\x08" + bytes(40), ["gzip"]),
    "npy that is HDF5": ("x.npy", lambda: b"\x89HDF\r\n\x1a\n" + bytes(40), ["HDF5"]),
    "npy that is unknown": ("x.npy", lambda: bytes(range(200, 256)), ["binary file"]),
    "npz that is a PNG": ("x.npz", lambda: PNG, ["named .npz", "PNG picture"]),
    "npz that is npy": ("x.npz", lambda: npy(EMBEDDINGS), ["named .npz", ".npy file"]),
    "parquet that is a JPEG": (
        "x.parquet",
        lambda: b"\xff\xd8\xff\xe0" + bytes(40),
        ["named .parquet", "JPEG picture"],
    ),
    "empty": ("x.npy", lambda: b"", ["empty"]),
    "empty csv": ("x.csv", lambda: b"", ["empty"]),
    "unknown suffix": ("x.xyz", lambda: b"hello", ["text file", ".npy", ".parquet"]),
    "cut HDF5": ("x.h5", lambda: b"\x89HDF\r\n\x1a\n" + bytes(40), ["cannot be read as .hdf5"]),
    "hdf5 that is npy": ("x.hdf5", lambda: npy(EMBEDDINGS), ["named .hdf5", ".npy file"]),
    "no suffix": ("embeddings", lambda: npy(EMBEDDINGS), [".npy file", "expected"]),
    "pickle by name": ("x.pkl", lambda: pickle.dumps(LISTS), ["pickle", "never opened"]),
    "truncated npy": ("x.npy", lambda: npy(EMBEDDINGS)[:-9], ["cannot be read as .npy"]),
    "npy header cut": ("x.npy", lambda: npy(EMBEDDINGS)[:20], ["cannot be read as .npy"]),
    "npy of a later version": (
        "x.npy",
        lambda: b"\x93NUMPY\x09\x00" + npy(EMBEDDINGS)[8:],
        ["cannot be read as .npy"],
    ),
    "npy that promises too much": (
        "x.npy",
        lambda: header_of((10**7, 10**6)),
        ["cannot be read as .npy"],
    ),
    "npz that promises too much": (
        "x.npz",
        lambda: archive(embeddings=header_of((10**7, 10**6))),
        ["x.npz"],
    ),
    "truncated npz": ("x.npz", lambda: npz(embeddings=EMBEDDINGS)[:-30], ["x.npz", ".npz"]),
    "npz without arrays": ("x.npz", archive, ["x.npz"]),
    "object array": (
        "x.npy",
        lambda: npy(np.array([[{}, []]], object), allow_pickle=True),
        ["x.npy", "objects"],
    ),
    "structured dtype": (
        "x.npy",
        lambda: npy(np.zeros((36, 2), [("a", "f4"), ("b", "f4")])),
        ["real numbers", "dtype"],
    ),
    "1-D": ("x.npy", lambda: npy(EMBEDDINGS[:, 0]), ["(rows, dimensions)", "(36,)"]),
    "3-D": ("x.npy", lambda: npy(EMBEDDINGS[None]), ["(rows, dimensions)", "(1, 36, 5)"]),
    "no rows": ("x.npy", lambda: npy(EMBEDDINGS[:0]), ["empty", "(0, 5)"]),
    "complex": ("x.npy", lambda: npy(EMBEDDINGS * 1j), ["real numbers", "complex128"]),
    "text cells": ("x.npy", lambda: npy(EMBEDDINGS.astype(str)), ["real numbers"]),
    "NaN": ("x.npy", lambda: npy(EMBEDDINGS * np.nan), ["rows 0, 1, 2, 3, 4 and 31 more", "NaN"]),
    "npz without embeddings": (
        "x.npz",
        lambda: npz(weight=EMBEDDINGS, bias=EMBEDDINGS),
        ["x.npz", "'weight'", "'bias'", "embeddings"],
    ),
    "npz of labels": ("x.npz", lambda: npz(labels=LABELS, ids=LABELS), ["no embeddings"]),
    "pt that holds a class": ("x.pt", lambda: pt(Model()), ["x.pt", "Model"]),
    "pt that is a pickle": ("x.pt", lambda: pickle.dumps(Model()), ["x.pt", "pickle"]),
    "pt that is text": ("x.pt", lambda: b"hello " * 20, ["x.pt", "text file"]),
    "pt that is a PNG": ("x.pt", lambda: PNG, ["x.pt", "PNG picture"]),
    "pt of a number": ("x.pt", lambda: pt(5), ["(rows, dimensions)"]),
    "pt of a nested state": ("x.pt", lambda: pt({"model": {"a": torch.ones(2)}}), ["x.pt"]),
    "truncated pt": ("x.pt", lambda: pt(torch.ones(9, 9))[:-40], ["cannot be read as .pt"]),
    "sparse pt": ("x.pt", lambda: pt(torch.eye(36).to_sparse()), ["sparse", "dense"]),
    "truncated safetensors": (
        "x.safetensors",
        lambda: safetensors(x=torch.ones(9, 9))[:-40],
        ["cannot be read as .safetensors"],
    ),
    "safetensors that is a zip": (
        "x.safetensors",
        lambda: npz(a=EMBEDDINGS),
        ["x.safetensors", "zip archive"],
    ),
    "safetensors of float8": (
        "x.safetensors",
        lambda: safetensors(x=torch.ones(36, 5).to(torch.float8_e5m2)),
        ["float8"],
    ),
    "ragged parquet": (
        "x.parquet",
        lambda: table(embedding=[[1.0, 2.0], [3.0]]),
        ["'embedding'", "one length", "1, 2"],
    ),
    "parquet with a missing row": (
        "x.parquet",
        lambda: table(embedding=[[1.0, 2.0], None]),
        ["'embedding'"],
    ),
    "parquet with a missing cell": (
        "x.parquet",
        lambda: table(embedding=[[1.0, 2.0], [3.0, None]]),
        ["'embedding'", "missing"],
    ),
    "parquet of fixed lists with a missing row": (
        "x.parquet",
        lambda: table(embedding=pyarrow.array([[1.0], None], pyarrow.list_(pyarrow.float64(), 1))),
        ["'embedding'", "missing"],
    ),
    "parquet of text lists": ("x.parquet", lambda: table(embedding=[["a"], ["b"]]), ["numbers"]),
    "parquet of lists of lists": ("x.parquet", lambda: table(embedding=[[[1.0]]] * 36), ["x.parq"]),
    "parquet of numbers": ("x.parquet", lambda: table(a=[1.0], b=[2.0]), ["'a'", "'b'"]),
    "parquet without rows": (
        "x.parquet",
        lambda: table(embedding=pyarrow.array([], pyarrow.list_(pyarrow.float64()))),
        ["x.parquet"],
    ),
    "truncated parquet": (
        "x.parquet",
        lambda: table(embedding=LISTS)[:-20],
        ["cannot be read as .parquet"],
    ),
    "csv of labels": ("x.csv", lambda: b"label\na\n", ["no embeddings"]),
    "csv without numbers": (
        "x.csv",
        lambda: b"name,colour\na,red\n",
        ["x.csv", "no embeddings", "'name', 'colour'", "e0, e1"],
    ),
    "csv of one number a row": ("x.csv", lambda: b"1.0\n2.0\n", ["one number a row", "e0, e1"]),
    "csv of lists": (
        "x.csv",
        lambda: b'label,embedding\na,"[0.1, 0.2]"\n',
        ["no embeddings", "'embedding'", "columns of their own", ".npy"],
    ),
    "csv with a word": (
        "x.csv",
        lambda: b"e0,e1,label\n1,2,a\n1,two,b\n",
        ["row 3", "column 'e1'", "number", "'two'"],
    ),
    "csv with a hole": (
        "x.csv",
        lambda: b"e0,e1,e3\n1,2,3\n",
        ["no column 2", "'e0'", "'e3'"],
    ),
    "csv of two kinds": (
        "x.csv",
        lambda: b"x1,y1,x2,y2\n1,2,3,4\n",
        ["two kinds", "'x1'", "'y1'"],
    ),
    "ragged csv": ("x.csv", lambda: b"e0,e1\n1,2\n1\n", ["row 3", "1 cells", "2 were expected"]),
    "csv with a header alone": ("x.csv", lambda: b"e0,e1\n", ["header", "no rows"]),
    "wide parquet with a gap": (
        "x.parquet",
        lambda: table(e0=[1.0, None], e1=[1.0, 2.0]),
        ["'e0'", "missing values"],
    ),
}


def assert_one_sentence(message: str) -> None:
    assert "\n" not in message
    assert message.endswith((".", "?")), message
    assert not re.search(r"[^.]\.\.$", message), message
    assert "\x1b" not in message, message
    assert len(message) < 500, message
    assert "weights_only" not in message, f"advice to run the pickle: {message}"
    assert "allow_pickle" not in message, f"advice to run the pickle: {message}"


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_says_what_it_is(kind: str, tmp_path: Path) -> None:
    name, content, words = WRONG[kind]
    path = tmp_path / name
    path.write_bytes(content())
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(path, LABELS)
    message = str(caught.value)
    assert_one_sentence(message)
    assert all(word in message for word in words), message
    (tmp_path / "labels.csv").write_text("\n".join(LABELS))
    complaint = run("evaluate", path, "--labels", tmp_path / "labels.csv").complaint()
    assert all(word in complaint for word in words), complaint


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.npy"
    with pytest.raises(truerank.InputError, match=r"^cannot read .*nowhere\.npy: No such file"):
        truerank.evaluate(path, LABELS)
    assert "nowhere.npy" in run("evaluate", path, "--labels", path).complaint()


@pytest.mark.parametrize("name", ["folder", "folder.npy"])
def test_a_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.mkdir()
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(path, LABELS)
    assert str(caught.value) == f"{path} is a folder; pass a file."


def test_an_empty_file_is_called_empty_once(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.touch()
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(path, LABELS)
    assert str(caught.value) == f"{path} is empty."


def test_a_file_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a")
    with pytest.raises(truerank.InputError, match="Not a directory"):
        truerank.evaluate(tmp_path / "x" / "y.npy", LABELS)


@pytest.mark.parametrize("name", ["a\0b.npy", "n" * 300 + ".npy"])
def test_a_name_no_file_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(truerank.InputError, match="cannot read"):
        truerank.evaluate(tmp_path / name, LABELS)


def test_a_file_one_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.npy"
    np.save(path, EMBEDDINGS)
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser may read everything

        def refuse(*arguments: Any, **options: Any) -> Any:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(path, LABELS)
    assert str(caught.value) == f"cannot read {path}: Permission denied."


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names what to install."""
    import sys

    cases = {
        "x.pt": ("torch", "pip install torch"),
        "x.parquet": ("pyarrow", "pip install pyarrow safetensors"),
    }
    (tmp_path / "x.pt").write_bytes(pt(torch.ones(2, 2)))
    (tmp_path / "x.parquet").write_bytes(table(embedding=LISTS))
    for name, (module, command) in cases.items():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(truerank.InputError) as caught:
                truerank.evaluate(tmp_path / name, LABELS)
        message = str(caught.value)
        assert module in message
        assert command in message


def test_bfloat16_without_torch_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    path = tmp_path / "x.safetensors"
    save_file({"x": torch.from_numpy(EMBEDDINGS).bfloat16()}, path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(truerank.InputError) as caught:
        truerank.evaluate(path, LABELS)
    assert_one_sentence(str(caught.value))
    assert "bf" in str(caught.value).lower()


# --- tasks


def test_wrong_tasks(tmp_path: Path) -> None:
    contents = {
        "npy": (npy(EMBEDDINGS), "not a truerank task"),
        "npz": (npz(embeddings=EMBEDDINGS), "not a truerank task"),
        "text": (b"label\na\n", "not a truerank task"),
        "pickle": (pickle.dumps(Model()), "not a truerank task"),
        "empty": (b"", "empty"),
        "list": (npz(header=np.frombuffer(b"[1]", np.uint8)), "not a truerank task"),
        "number": (npz(header=np.frombuffer(b"1", np.uint8)), "not a truerank task"),
    }
    for name, (content, words) in contents.items():
        path = tmp_path / f"{name}.task"
        path.write_bytes(content)
        with pytest.raises(truerank.InputError, match=words) as caught:
            truerank.Task.load(path)
        assert_one_sentence(str(caught.value))
        assert "context manager" not in str(caught.value)
    with pytest.raises(truerank.InputError, match="folder"):
        truerank.Task.load(tmp_path)
    with pytest.raises(truerank.InputError, match="cannot read"):
        truerank.Task.load(tmp_path / "nowhere.task")


def test_wrong_results(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for text in (
        "",
        "{",
        "[]",
        "5",
        "null",
        "{}",
        '{"format": "truerank-result", "schema_version": 99}',
        '{"format": "truerank-result", "schema_version": 1}',
        '{"format": "truerank-result", "schema_version": 1, "scores": [], "skipped": {}}',
        '{"format": "truerank-result", "schema_version": 1, "scores": {"map": {}}, "skipped": {}, '
        '"provenance": {}}',
        "[" * 100_000,
    ):
        path.write_text(text)
        with pytest.raises(truerank.InputError) as caught:
            truerank.Result.from_json(path)
        assert "\n" not in str(caught.value)
