"""Thousands of malformed files and arguments: each succeeds or is refused in one sentence.

Nothing but truerank.InputError may come out of the library, nothing but status 0 or 2 with one
line out of the command, and nothing in a file may run. All damage is drawn from fixed seeds; a
test goes through all of its cases and then lists what came out of them that should not have.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
import pickle
import random
import string
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save as save_safetensors
from scipy import sparse

import truerank
from tests.cli.driving import run
from truerank.files import read

ROWS = 12
EMBEDDINGS = np.random.default_rng(0).standard_normal((ROWS, 3)).astype(np.float32)
LABELS = [str(row // 3) for row in range(ROWS)]
IDS = [f"id-{row}" for row in range(ROWS)]
METRICS = ["map@r"]

# How many cases each test goes through.
DAMAGED = 200  # of each of 7 kinds of file
GARBAGE = 40  # of each of 9 suffixes
CONTENTS = 200
TASKS = 250
RESULTS = 200
ARGUMENTS = 800
METRIC_NAMES = 400
COMMANDS = 150


def test_there_are_thousands_of_cases() -> None:
    assert 7 * DAMAGED + 9 * GARBAGE + CONTENTS + TASKS + RESULTS + ARGUMENTS >= 2000


class Escapes:
    """What came out that should not have: one example of each kind of it."""

    def __init__(self) -> None:
        self.cases = 0
        self.found: dict[str, tuple[int, str]] = {}

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        """Run the action, which may succeed or raise InputError with one line."""
        self.cases += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", truerank.TruerankWarning)
                warnings.filterwarnings("ignore", module=r"torch\.")
                action()
        except truerank.InputError as error:
            message = str(error)
            if "\n" in message or not message:
                self.note(f"InputError of several lines, {message[:12]!r}", what)
        except Exception as error:
            ours = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if f"{os.sep}truerank{os.sep}" in frame.filename
            ]
            where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "a test"
            text = " ".join(str(error).split())[:90]
            self.note(f"{type(error).__name__} at {where}", f"{what} ({text})")

    def command(self, what: str, *arguments: object) -> None:
        """Run the command, which may end with status 0, or with 2 and one line."""
        self.cases += 1
        outcome = run(*arguments)
        lines = outcome.err.splitlines()
        notes = [line for line in lines if line.startswith("truerank: note: ")]
        good = outcome.status == 0 and notes == lines
        refused = outcome.status == 2 and outcome.out == "" and len(lines) == 1
        if not (good or (refused and lines[0].startswith("truerank: "))):
            self.note(f"status {outcome.status}, {outcome.err[:160]!r}", what)

    def note(self, kind: str, what: str) -> None:
        count, first = self.found.get(kind, (0, what))
        self.found[kind] = (count + 1, first)

    def assert_none(self, cases: int) -> None:
        assert self.cases >= cases
        assert not self.found, "\n".join(
            [
                f"{len(self.found)} kinds of escape in {self.cases} cases:",
                *(
                    f"{kind}: {count} times, first with {first}"
                    for kind, (count, first) in self.found.items()
                ),
            ]
        )


def evaluate(embeddings: Any, labels: Any = LABELS, **options: Any) -> Any:
    return truerank.evaluate(embeddings, labels, **{"metrics": METRICS, "threads": 1, **options})


# --- files that were whole once


def _saved(save: Callable[[Any], Any]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _task() -> truerank.Task:
    junk = np.zeros((ROWS, ROWS), bool)
    junk[0, 5] = True
    return truerank.Task(LABELS, ids=IDS, groups=[0, 1] * (ROWS // 2), junk=junk)


def _valid(suffix: str, folder: Path) -> bytes:
    """A whole file of each kind, embeddings and labels where it can hold both."""
    columns = {"embeddings": EMBEDDINGS, "labels": np.array(LABELS)}
    if suffix == ".npy":
        return _saved(lambda file: np.save(file, EMBEDDINGS))
    if suffix == ".npz":
        return _saved(lambda file: np.savez(file, **columns))
    if suffix == ".pt":
        tensors = {"embeddings": torch.from_numpy(EMBEDDINGS), "labels": LABELS}
        return _saved(lambda file: torch.save(tensors, file))
    if suffix == ".safetensors":
        content: bytes = save_safetensors(
            {"embeddings": torch.from_numpy(EMBEDDINGS), "labels": torch.arange(ROWS) // 3}
        )
        return content
    if suffix == ".parquet":
        table = pyarrow.table({"embedding": EMBEDDINGS.tolist(), "label": LABELS})
        return _saved(lambda file: parquet.write_table(table, file))
    if suffix == ".csv":
        rows = [f'{label},{row % 2},"{IDS[row]}"' for row, label in enumerate(LABELS)]
        return "\n".join(["label,group,id", *rows, ""]).encode()
    assert suffix == ".task"
    _task().save(folder / "whole.task")
    return (folder / "whole.task").read_bytes()


def _damage(content: bytes, draw: random.Random) -> bytes:
    """Cut, flipped, overwritten, doubled, or with pieces left out."""
    kind = draw.randrange(6)
    damaged = bytearray(content)
    if kind == 0:
        return content[: draw.randrange(len(content))]
    if kind == 1:
        start = draw.randrange(len(content))
        del damaged[start : start + draw.randint(1, 40)]
    elif kind == 2:
        start = draw.randrange(len(content))
        damaged[start:start] = draw.randbytes(draw.randint(1, 20))
    else:
        # Headers are short and lengths sit in them: half of the damage is near an end.
        for _ in range(draw.choice([1, 1, 1, 2, 8, 40])):
            near = draw.choice([len(content), min(160, len(content))])
            place = draw.randrange(near) * draw.choice([1, -1])
            damaged[place] = draw.choice([damaged[place] ^ (1 << draw.randrange(8)), 0, 255])
    return bytes(damaged)


@pytest.mark.parametrize(
    "suffix", [".npy", ".npz", ".pt", ".safetensors", ".parquet", ".csv", ".task"]
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
        path.write_bytes(_damage(whole, draw))
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


# --- whole files with the wrong things in them


def _arrays() -> Iterator[Any]:
    """Arrays of every dtype and many shapes, endlessly, from one seed."""
    draw = random.Random("arrays")
    generator = np.random.default_rng(1)
    dtypes = [
        *("f2", "f4", "f8", ">f4", "g", "c8", "c16", "i1", "u1", "i4", "i8", "u8", "?"),
        *("U3", "S3", "M8[D]", "m8[s]", "V4", "O", [("a", "f4"), ("b", "i2")]),
    ]
    shapes = [
        *((), (0,), (1,), (ROWS,), (ROWS, 0), (0, 3), (ROWS, 1), (ROWS, 3), (ROWS, 3)),
        *((ROWS, ROWS), (ROWS - 1, 3), (ROWS + 1,), (1, ROWS), (2, 2, 2), (ROWS, 3, 1)),
    ]
    while True:
        dtype, shape = np.dtype(draw.choice(dtypes)), draw.choice(shapes)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dtype.kind in "Vm":
                array = np.zeros(shape, dtype)
            elif dtype.kind == "M":
                array = generator.integers(0, 9, shape).astype("i8").astype(dtype)
            else:
                numbers = generator.standard_normal(shape) * draw.choice([1, 3, 1e-300, 1e300, 0])
                array = np.asarray(numbers).astype(dtype)
        if dtype.kind in "fc" and array.size and draw.random() < 0.3:
            special = [np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -0.0]
            with np.errstate(all="ignore"):
                array.flat[draw.randrange(array.size)] = draw.choice(special)
        yield array


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
    arrays = _arrays()
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


JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**70, 3.5, float("nan"), "", "x", [], {}, [[]], [None]),
    *({"a": 1}, [1, "a"], ["a"] * ROWS, [0] * ROWS, [10**6] * ROWS, list(range(-3, ROWS - 3))),
]


def _set_in(value: Any, draw: random.Random) -> Any:
    """A copy of a JSON value in which one thing, at some depth, is gone or another."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        changed = dict(value)
        if draw.random() < 0.3:
            del changed[key]
        else:
            changed[key] = _set_in(value[key], draw)
        return changed
    if isinstance(value, list) and value and draw.random() < 0.5:
        place = draw.randrange(len(value))
        return [*value[:place], _set_in(value[place], draw), *value[place + 1 :]]
    return draw.choice(JUNK)


def test_tasks_with_wrong_contents(tmp_path: Path) -> None:
    """The zip is whole and the JSON is JSON, but the task in it is none."""
    escapes = Escapes()
    draw = random.Random("tasks")
    arrays_ = _arrays()
    whole = tmp_path / "whole.task"
    _task().save(whole)
    with np.load(whole) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    path = tmp_path / "changed.task"
    for number in range(TASKS):
        changed, columns = header, dict(arrays)
        for _ in range(draw.choice([1, 1, 2])):
            if draw.random() < 0.6:
                changed = _set_in(changed, draw)
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
        changed = _set_in(whole, draw)
        path.write_text(json.dumps(changed))
        escapes.attempt(
            f"case {number}: {str(changed)[:200]}",
            lambda: truerank.Result.from_json(path),
        )
    escapes.assert_none(RESULTS)


# --- arguments


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


def _things() -> list[Any]:
    """What no one should pass, and sooner or later someone does."""
    return [
        *(None, True, 0, -1, 3, 2**70, 3.5, float("nan"), float("inf"), 1j, ..., NotImplemented),
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
        *([datetime.date(2020, 1, 1)] * ROWS, [decimal.Decimal(1)] * ROWS, [2**70] * ROWS),
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


PARAMETERS = [
    *("embeddings", "labels", "gallery", "gallery_labels", "query_ids", "gallery_ids"),
    *("query_groups", "gallery_groups", "junk", "junk_labels", "relevance", "distance", "metrics"),
    *("average", "no_mate", "unlabelled", "device", "threads", "confidence"),
]


def _bases() -> list[dict[str, Any]]:
    """Calls that succeed, to be spoilt in one or two arguments."""
    other = EMBEDDINGS[::-1] + np.float32(0.5)
    return [
        {"embeddings": EMBEDDINGS, "labels": LABELS},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "query_ids": IDS, "query_groups": [0, 1] * 6},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "gallery": other, "gallery_labels": LABELS},
        {"embeddings": EMBEDDINGS, "relevance": np.eye(ROWS), "gallery": other},
        {"embeddings": EMBEDDINGS @ EMBEDDINGS.T, "labels": LABELS, "distance": "similarity"},
        {"embeddings": EMBEDDINGS > 0, "labels": LABELS, "distance": "hamming"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "cityblock", "average": "class"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "euclidean", "no_mate": "zero"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "dot", "junk_labels": ["1"]},
    ]


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{type(value).__name__} {getattr(value, 'dtype', '')} {tuple(shape)}"
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text[:60]


def test_every_thing_in_every_argument() -> None:
    """Each parameter once with each thing, in a call that is otherwise fine."""
    escapes = Escapes()
    for parameter in PARAMETERS:
        for thing in _things():  # made anew each time: iterators are used up
            base = next(base for base in [*_bases(), {}] if parameter in base or not base)
            options = {"embeddings": EMBEDDINGS, "labels": LABELS} | base | {parameter: thing}
            if "relevance" in options:
                options.setdefault("gallery", EMBEDDINGS[::-1] + np.float32(0.5))
                options.pop("labels", None)
            escapes.attempt(
                f"{parameter}={_shown(thing)}", lambda options=options: evaluate(**options)
            )
    escapes.assert_none(ARGUMENTS)


def test_random_arrays_in_random_arguments() -> None:
    escapes = Escapes()
    draw = random.Random("arguments")
    arrays = _arrays()
    bases = _bases()
    for _ in range(ARGUMENTS):
        options = dict(draw.choice(bases))
        spoilt = draw.sample(PARAMETERS[:11], draw.choice([1, 1, 2]))
        options |= {parameter: next(arrays) for parameter in spoilt}
        what = ", ".join(f"{name}={_shown(options[name])}" for name in spoilt)
        what += f", distance={options.get('distance')}"
        escapes.attempt(what, lambda options=options: evaluate(**options))
    escapes.assert_none(ARGUMENTS)


def test_everything_as_a_task() -> None:
    escapes = Escapes()
    names = [
        *("labels", "ids", "groups", "gallery_labels", "gallery_ids", "gallery_groups", "junk"),
        *("junk_labels", "relevance", "no_mate", "unlabelled", "leave_one_out"),
    ]
    for name in names:
        for thing in _things():
            options: dict[str, Any] = {"labels": LABELS, "ids": IDS}
            if name.startswith("gallery_"):
                options |= {"gallery_labels": LABELS, "gallery_ids": IDS}
            if name == "relevance":
                options = {"labels": None}
            options[name] = thing
            escapes.attempt(
                f"{name}={_shown(thing)}",
                lambda options=options: truerank.Task(options.pop("labels"), **options),
            )
    arrays = _arrays()
    draw = random.Random("tasks of arrays")
    for _ in range(300):
        options = {"labels": LABELS, "ids": IDS}
        for name in draw.sample(names[:9], draw.choice([1, 2])):
            options[name] = next(arrays)
        what = ", ".join(f"{name}={_shown(value)}" for name, value in options.items())
        escapes.attempt(
            what, lambda options=options: truerank.Task(options.pop("labels"), **options)
        )
    task = truerank.Task(LABELS, ids=IDS)
    for thing in _things():
        escapes.attempt(
            f"submission {_shown(thing)}", lambda thing=thing: task.evaluate(thing, IDS)
        )
    for thing in _things():
        escapes.attempt(
            f"ids {_shown(thing)}", lambda thing=thing: task.evaluate(EMBEDDINGS, thing)
        )
    escapes.assert_none(1000)


def _metric(draw: random.Random) -> str:
    """From plain noise to nearly right."""
    known = ["map", "hit", "precision", "recall", "r_precision", "mrr", "minp", "ndcg", "cmc", "p"]
    parts = [
        *("@", ",", "=", "r", "k", "10", "0", "-1", "1e3", "9" * 30, "9" * 5000, "1.5", "inf"),
        *("divisor", "min", "level", " ", "\t", "\n", "\0", "%", "[", "(", "\\", "é", "\ud800"),
        *("²", "٣", "A", "..", "@@", "==", ",,"),
    ]
    kind = draw.randrange(3)
    if kind == 0:
        return "".join(draw.choices(string.printable, k=draw.randint(0, 12)))
    if kind == 1:
        return draw.choice(known) + "".join(draw.choices(parts, k=draw.randint(0, 5)))
    text = list(draw.choice(["map@r", "hit@10", "map@10,divisor=min", "recall@5", "r_precision"]))
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(text))
        text[place] = draw.choice(["", draw.choice(string.printable), text[place] * 2])
    return "".join(text)


def test_metric_names() -> None:
    escapes = Escapes()
    draw = random.Random("metrics")
    result = evaluate(EMBEDDINGS)
    for number in range(METRIC_NAMES):
        text = _metric(draw)
        escapes.attempt(f"{text!r:.60}", lambda text=text: evaluate(EMBEDDINGS, metrics=[text]))
        escapes.attempt(f"{text!r:.60} in", lambda text=text: text in result)
        if number % 4 == 0:
            escapes.attempt(f"{text!r:.60}", lambda text=text: evaluate(EMBEDDINGS, metrics=text))
    escapes.assert_none(METRIC_NAMES)


def test_command_lines(tmp_path: Path) -> None:
    """Options in any number and order, with values that belong elsewhere."""
    escapes = Escapes()
    draw = random.Random("commands")
    np.save(tmp_path / "x.npy", EMBEDDINGS)
    np.savez(tmp_path / "x.npz", embeddings=EMBEDDINGS, labels=LABELS, ids=IDS)
    (tmp_path / "y.csv").write_text("\n".join(LABELS))
    _task().save(tmp_path / "t.task")
    files = [str(tmp_path / name) for name in ("x.npy", "x.npz", "y.csv", "t.task", "nowhere", "")]
    options = [
        *("--labels", "--gallery", "--gallery-labels", "--levels", "--task", "--junk-label"),
        *("--distance", "-m", "--average", "--no-mate", "--unlabelled", "--device", "--threads"),
        *("--format", "--nothing", "-x", "--", "-"),
    ]
    words = ["1", "0", "-1", "a", "", "a,b", "cosine", "class", "zero", "json", "all", "hit@1", "é"]
    for _ in range(COMMANDS):
        arguments = ["evaluate", draw.choice(files)]
        if draw.random() < 0.5:
            arguments += ["--labels", files[2]]
        for _ in range(draw.randint(0, 3)):
            arguments += [draw.choice(options), draw.choice([*files, *words])]
        escapes.command(" ".join(arguments), *arguments)
    escapes.assert_none(COMMANDS)


# --- files that would run code


class Malicious:
    """Unpickled, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.marker),))


def _poisoned(marker: Path) -> dict[str, bytes]:
    """Files of every kind that hold a pickle, by the name they go under."""
    bomb = Malicious(marker)
    objects = np.array([[bomb, bomb]], object)
    array = _saved(lambda file: np.save(file, objects, allow_pickle=True))
    files = {
        "objects.npy": array,
        "header.npy": array[: array.index(b"\n") + 1] + pickle.dumps(bomb),
        "objects.npz": _saved(lambda file: np.savez(file, embeddings=objects)),
        "labels.npz": _saved(lambda file: np.savez(file, embeddings=EMBEDDINGS, labels=objects)),
        "header.task": _saved(lambda file: np.savez(file, header=objects)),
        "codes.task": _saved(lambda file: np.savez(file, header=np.zeros(2, "u1"), a=objects)),
        "object.pt": _saved(lambda file: torch.save(bomb, file)),
        "dict.pt": _saved(lambda file: torch.save({"embeddings": bomb}, file)),
        "key.pt": _saved(lambda file: torch.save({"x": torch.ones(2, 2), "more": [bomb]}, file)),
        "legacy.pt": _saved(
            lambda file: torch.save(bomb, file, _use_new_zipfile_serialization=False)
        ),
        "legacy.pth": _saved(
            lambda file: torch.save([bomb], file, _use_new_zipfile_serialization=False)
        ),
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        plain = pickle.dumps(bomb, protocol)
        for suffix in ("npy", "npz", "pt", "pth", "safetensors", "parquet", "csv", "task", "pkl"):
            files[f"pickle{protocol}.{suffix}"] = plain
    for name in ("member.npz", "member.pt", "member.task"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for member in ("embeddings.npy", "header.npy", "archive/data.pkl", "data.pkl"):
                archive.writestr(member, pickle.dumps(bomb, 2))
        files[name] = buffer.getvalue()
    return files


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    escapes = Escapes()
    marker = tmp_path / "marker"
    folder = tmp_path / "files"
    folder.mkdir()
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(LABELS))
    np.save(tmp_path / "whole.npy", EMBEDDINGS)
    poisoned = _poisoned(marker)
    for name, content in poisoned.items():
        path = folder / name
        path.write_bytes(content)
        for action in (
            lambda path=path: evaluate(path),
            lambda path=path: read(path, lone="labels"),
            lambda path=path: truerank.Task.load(path),
            lambda path=path: truerank.Result.from_json(path),
        ):
            escapes.attempt(name, action)
            assert not marker.exists(), f"{name} ran its code"
        escapes.command(name, "evaluate", path, "--labels", labels)
        escapes.command(name, "evaluate", tmp_path / "whole.npy", "--labels", path)
        escapes.command(name, "evaluate", tmp_path / "whole.npy", "--task", path)
        assert not marker.exists(), f"{name} ran its code"
    # The bait is live: unpickling it does make the folder.
    pickle.loads(poisoned["pickle2.pkl"])
    assert marker.exists()
    escapes.assert_none(4 * len(poisoned))
