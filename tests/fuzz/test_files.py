"""Thousands of malformed files: each is read or refused in one sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save as save_safetensors

import truerank
from tests.fuzz.damage import changed_inside, damaged
from tests.fuzz.escapes import (
    EMBEDDINGS,
    IDS,
    LABELS,
    ROWS,
    Escapes,
    evaluate,
    odd_arrays,
    saved,
    small_task,
)
from truerank.io.reading import read

# How many cases each test goes through.
DAMAGED = 200  # of each of 9 kinds of file
LISTS = 100  # of each of 7 kinds of file
GARBAGE = 40  # of each of 14 suffixes
CONTENTS = 200
TASKS = 250
RESULTS = 200


def test_there_are_thousands_of_cases() -> None:
    assert 9 * DAMAGED + 7 * LISTS + 14 * GARBAGE + CONTENTS + TASKS + RESULTS >= 2000


def _valid(suffix: str, folder: Path) -> bytes:
    """A whole file of each kind, embeddings and labels where it can hold both."""
    columns = {"embeddings": EMBEDDINGS, "labels": np.array(LABELS)}
    if suffix == ".npy":
        return saved(lambda file: np.save(file, EMBEDDINGS))
    if suffix == ".npz":
        return saved(lambda file: np.savez(file, **columns))
    if suffix == ".pt":
        tensors = {"embeddings": torch.from_numpy(EMBEDDINGS), "labels": LABELS}
        return saved(lambda file: torch.save(tensors, file))
    if suffix == ".safetensors":
        content: bytes = save_safetensors(
            {"embeddings": torch.from_numpy(EMBEDDINGS), "labels": torch.arange(ROWS) // 3}
        )
        return content
    if suffix == ".parquet":
        table = pyarrow.table({"embedding": EMBEDDINGS.tolist(), "label": LABELS})
        return saved(lambda file: parquet.write_table(table, file))
    if suffix == ".fbin":
        return np.array(EMBEDDINGS.shape, "<u4").tobytes() + EMBEDDINGS.astype("<f4").tobytes()
    if suffix == ".fvecs":
        head = np.full(ROWS, EMBEDDINGS.shape[1], "<i4").view("<f4")
        return np.column_stack([head, EMBEDDINGS]).astype("<f4").tobytes()
    if suffix == ".csv":
        rows = [f'{label},{row % 2},"{IDS[row]}"' for row, label in enumerate(LABELS)]
        return "\n".join(["label,group,id", *rows, ""]).encode()
    assert suffix == ".task"
    small_task().save(folder / "whole.task")
    return (folder / "whole.task").read_bytes()


@pytest.mark.parametrize(
    "suffix",
    [".npy", ".npz", ".pt", ".safetensors", ".parquet", ".fbin", ".fvecs", ".csv", ".task"],
)
def test_damaged_files(suffix: str, tmp_path: Path) -> None:
    escapes = Escapes()
    draw = random.Random(f"damage {suffix}")
    whole = _valid(suffix, tmp_path)
    path = tmp_path / f"damaged{suffix}"
    embeddings, labels = tmp_path / "whole.npy", tmp_path / "whole.csv"
    np.save(embeddings, EMBEDDINGS)
    labels.write_text("\n".join(LABELS))
    for number in range(DAMAGED):
        path.write_bytes(damaged(whole, draw))
        what = f"case {number}"
        if suffix == ".task":
            escapes.attempt(what, lambda: truerank.Task.load(path).evaluate(EMBEDDINGS, IDS))
        elif suffix == ".csv":
            escapes.attempt(what, lambda: read(path, lone="labels"))
        else:
            escapes.attempt(what, lambda: evaluate(path))
        if number % 5 == 0:
            arguments = {
                ".task": (embeddings, "--task", path),
                ".csv": (embeddings, "--labels", path),
            }.get(suffix, (path, "--labels", labels))
            escapes.command(what, "evaluate", *arguments, "-m", "map@r")
    escapes.assert_none(DAMAGED)


def _valid_lists(suffix: str, folder: Path) -> bytes:
    """Lists of each kind of file, three places for each query."""
    lists = (np.arange(ROWS)[:, None] + np.arange(3)) % ROWS
    path = folder / f"whole{suffix}"
    if suffix == ".npy":
        np.save(path, lists)
    elif suffix == ".npz":
        np.savez(path, neighbors=lists, scores=-np.tile(np.arange(3.0), (ROWS, 1)))
    elif suffix == ".parquet":
        table = pyarrow.table(
            {"query": IDS, "neighbours": [[IDS[i] for i in row] for row in lists]}
        )
        parquet.write_table(table, path)
    elif suffix == ".ivecs":
        path.write_bytes(np.column_stack([np.full(ROWS, 3), lists]).astype("<i4").tobytes())
    elif suffix == ".ibin":
        path.write_bytes(np.array([ROWS, 3], "<u4").tobytes() + lists.astype("<i4").tobytes())
    elif suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            file["neighbors"] = lists
    else:
        lines = [f"{IDS[q]} Q0 {IDS[i]} 1 {-i} tag" for q, row in enumerate(lists) for i in row]
        path.write_text("\n".join(lines))
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".ivecs", ".ibin", ".hdf5", ".run"])
def test_damaged_lists(suffix: str, tmp_path: Path) -> None:
    escapes, draw = Escapes(), random.Random(f"lists {suffix}")
    whole, path = _valid_lists(suffix, tmp_path), tmp_path / f"damaged{suffix}"
    options = {"query_ids": IDS, "named_by": "auto", "metrics": ["map@r"], "confidence": None}

    def judge(of: Path) -> truerank.Result:
        return truerank.evaluate_lists(of, LABELS, **options)

    assert judge(tmp_path / f"whole{suffix}")["map@r"].n == ROWS
    for number in range(LISTS):
        path.write_bytes(damaged(whole, draw))
        escapes.attempt(f"case {number}", lambda: judge(path))
    escapes.assert_none(LISTS)


def test_garbage_under_every_name(tmp_path: Path) -> None:
    escapes = Escapes()
    draw = random.Random("garbage")
    starts = [
        b"",
        b"\x93NUMPY\x01\x00",
        b"PK\x03\x04",
        b"PAR1",
        b"\x80\x02",
        b"\x80\x05",
        b"{",
        b",",
    ]
    suffixes = [".npy", ".npz", ".pt", ".pth", ".safetensors", ".parquet", ".csv", ".tsv", ".task"]
    suffixes += [".fvecs", ".bvecs", ".fbin", ".i8bin", ".hdf5"]
    for suffix in suffixes:
        for number in range(GARBAGE):
            path = tmp_path / f"garbage{suffix}"
            size = draw.choice([0, 1, 7, 64, 500])
            path.write_bytes(draw.choice(starts) + draw.randbytes(size))
            what = f"{suffix}, case {number}"
            escapes.attempt(what, lambda path=path: read(path))
            escapes.attempt(what, lambda path=path: read(path, lone="labels"))
            escapes.attempt(what, lambda path=path: evaluate(path))
            escapes.attempt(what, lambda path=path: truerank.Task.load(path))
            escapes.attempt(what, lambda path=path: truerank.Result.from_json(path))
    escapes.assert_none(len(suffixes) * GARBAGE)


def _as_tensor(array: npt.NDArray[Any]) -> Any:
    try:
        return torch.from_numpy(array.copy())
    except (TypeError, ValueError):  # a dtype or byte order that torch has not
        return [str(item) for item in array.flat]


def _as_columns(arrays: dict[str, npt.NDArray[Any]]) -> dict[str, pyarrow.Array]:
    """Those that fit into one table."""
    columns = {}
    for name, array in arrays.items():
        if array.shape[:1] != (ROWS,):
            continue
        try:
            columns[name] = pyarrow.array(array.tolist())
        except (pyarrow.ArrowException, OverflowError):
            columns[name] = pyarrow.array([str(row) for row in array.tolist()])
    return columns


def test_unexpected_contents(tmp_path: Path) -> None:
    escapes = Escapes()
    draw = random.Random("contents")
    arrays = odd_arrays()
    names = ["embeddings", "x", "labels", "label", "id", "group", "level1", "level2", "other", "Y"]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(LABELS))
    for number in range(CONTENTS):
        columns: dict[str, Any] = {"embeddings": EMBEDDINGS, "labels": np.array(LABELS)}
        for _ in range(draw.randint(1, 3)):
            columns[draw.choice(names)] = next(arrays)
        kind = draw.choice([".npz", ".npz", ".pt", ".parquet"])
        path = tmp_path / f"contents{kind}"
        if kind == ".npz":
            np.savez(path, **columns)
        elif kind == ".pt":
            torch.save({name: _as_tensor(array) for name, array in columns.items()}, path)
        else:
            parquet.write_table(pyarrow.table(_as_columns(columns)), path)
        shown = {name: (str(array.dtype), array.shape) for name, array in columns.items()}
        what = f"{kind}, case {number}: {shown}"
        escapes.command(what, "evaluate", path, "-m", "map@r", "--threads", "1")
        escapes.attempt(what, lambda path=path: evaluate(path))
        if number % 4 == 0:
            options = draw.choice(
                [["--levels", "level1,labels"], ["--junk-label", "1"], ["--labels", str(labels)]]
            )
            escapes.command(f"{what} {options}", "evaluate", path, "-m", "map@r", *options)
    escapes.assert_none(CONTENTS)


def test_tasks_with_wrong_contents(tmp_path: Path) -> None:
    """The zip is whole and the JSON is JSON, but the task in it is none."""
    escapes = Escapes()
    draw = random.Random("tasks")
    arrays_ = odd_arrays()
    whole = tmp_path / "whole.task"
    small_task().save(whole)
    with np.load(whole) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    path = tmp_path / "changed.task"
    for number in range(TASKS):
        changed, columns = header, dict(arrays)
        for _ in range(draw.choice([1, 1, 2])):
            if draw.random() < 0.6:
                changed = changed_inside(changed, draw)
            else:
                name = draw.choice(list(columns))
                if draw.random() < 0.2:
                    del columns[name]
                else:
                    codes = columns[name].astype(np.int64)
                    ours = [codes - 5, codes + 100, codes[:-1], codes * 2**40, codes.astype(float)]
                    columns[name] = draw.choice([*ours, next(arrays_)])
        text = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        with path.open("wb") as file:
            np.savez(file, header=text, **columns)
        what = f"case {number}: {str(changed)[:120]} {[a.shape for a in columns.values()]}"
        escapes.attempt(what, lambda: truerank.Task.load(path).evaluate(EMBEDDINGS, IDS))
    escapes.assert_none(TASKS)


def test_results_with_wrong_contents(tmp_path: Path) -> None:
    escapes = Escapes()
    draw = random.Random("results")
    whole = evaluate(EMBEDDINGS).to_dict()
    path = tmp_path / "result.json"
    for number in range(RESULTS):
        changed = changed_inside(whole, draw)
        path.write_text(json.dumps(changed))
        escapes.attempt(
            f"case {number}: {str(changed)[:200]}",
            lambda: truerank.Result.from_json(path),
        )
    escapes.assert_none(RESULTS)
