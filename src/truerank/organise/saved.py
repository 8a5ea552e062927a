"""A task in a file that the organiser keeps: labels, rules and salt.

The file is a zip of plain arrays and JSON (numpy's .npz): codes of labels, ids and groups, the
values they stand for, the pairs of the masks, and the salt. Reading it runs no code.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_plain
from truerank.digest import SALT_BYTES
from truerank.errors import InputError
from truerank.files import atomic_path, check_readable, read_archive
from truerank.labels import MISSING
from truerank.pairs import Mask, PairList
from truerank.storage import TooLargeError
from truerank.task import TaskRules

__all__ = ["is_task", "load_task", "plain_values", "save_task"]

FORMAT = "truerank-task"
FORMAT_VERSION = 1
Made = TypeVar("Made", bound=TaskRules)


def save_task(task: TaskRules, salt: bytes, path: str | os.PathLike[str]) -> None:
    """Write a task and its salt."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "digest": task.digest,
        "salt": salt.hex(),
        "leave_one_out": task.leave_one_out,
        "no_mate": task.no_mate,
        "unlabelled": task.unlabelled,
        "junk_labels": plain_values(task.junk_labels, "junk_labels"),
        "levels": [] if task.levels is None else task.levels.names,
        "masks": {},
    }
    levels = [] if task.levels is None else task.levels.columns
    columns = {f"level{number}": level for number, level in enumerate(levels)}
    for name, encoded in (("ids", task.id_names), ("groups", task.group_names)):
        if encoded is not None:
            columns[name] = encoded
    for name, encoded in columns.items():
        header[f"{name}_values"] = plain_values(encoded.values, name)
        for side, codes in enumerate(encoded.codes):
            arrays[f"{name}_{side}"] = codes
    for name, mask in task.masks.items():
        header["masks"][name] = list(mask.shape)
        rows = np.arange(task.queries)
        pairs = mask.pairs(rows, None)
        arrays[f"{name}_query"], arrays[f"{name}_item"] = pairs.query, pairs.item
        arrays[f"{name}_grade"] = mask.grades(rows, None)
    header["check"] = _check(header)
    text = json.dumps(header).encode()
    with atomic_path(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, header=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]


def _check(header: dict[str, Any]) -> str:
    """A hash of the header, options included."""
    rest = {key: value for key, value in header.items() if key != "check"}
    return blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16).hexdigest()


def plain_values(values: Iterable[Any], what: str) -> list[Any]:
    """Text and numbers as JSON can hold them; anything else is refused."""
    plain = [as_plain(value) for value in values]
    for value in plain:
        if not isinstance(value, (str, int, float, bool)):
            raise InputError(
                f"a saved task holds text and numbers; {what} holds {value!r} "
                f"({type(value).__name__}): convert to str first."
            )
    return plain


def is_task(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like what save_task wrote."""
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def load_task(path: str | os.PathLike[str], make: Callable[..., Made]) -> tuple[Made, bytes | None]:
    """Read a task, check that it is the one that was saved, and give it with its salt.

    Files from before there were salts have none.
    """
    arrays, header = _read(path)
    try:
        task = make(**_arguments(arrays, header))
        salt = None if header.get("salt") is None else bytes.fromhex(header["salt"])
    except InputError as error:
        raise InputError(f"{path} is not a truerank task: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is a damaged truerank task ({error}).") from error
    whole = salt is None or len(salt) == SALT_BYTES
    if task.digest != header.get("digest") or header.get("check") != _check(header) or not whole:
        raise InputError(f"{path} was changed after it was saved: its digest does not match.")
    return task, salt


def _arguments(arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]) -> dict[str, Any]:
    """What the task was made of."""
    sides = range(1 if header["leave_one_out"] else 2)

    def column(name: str, side: int) -> list[Any]:
        values = header[f"{name}_values"]
        codes = arrays[f"{name}_{side}"].tolist()
        return [None if code == MISSING else values[code] for code in codes]

    def labels(side: int) -> Any:
        return {
            name: column(f"level{number}", side) for number, name in enumerate(header["levels"])
        }

    arguments: dict[str, Any] = {"labels": None}
    for side in sides:
        if header["levels"]:
            arguments["labels" if side == 0 else "gallery_labels"] = labels(side)
        for name in ("ids", "groups"):
            if f"{name}_values" in header:
                arguments[name if side == 0 else f"gallery_{name}"] = column(name, side)
    for name, shape in header["masks"].items():
        pairs = PairList(arrays[f"{name}_query"], arrays[f"{name}_item"])
        grade = arrays[f"{name}_grade"]
        arguments[name] = Mask.of_pairs(name, (shape[0], shape[1]), pairs, grade)
    rules = ("junk_labels", "no_mate", "unlabelled", "leave_one_out")
    return arguments | {name: header[name] for name in rules}


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    check_readable(path)
    try:
        arrays = read_archive(path)
        header = json.loads(arrays.pop("header").tobytes())
    except (MemoryError, TooLargeError):
        raise
    except Exception as error:  # whatever a malformed archive makes numpy, zlib or json say
        raise InputError(f"{path} is not a truerank task ({error}).") from error
    if not isinstance(header, dict):
        raise InputError(f"{path} is not a truerank task.")
    if header.get("format") != FORMAT or header.get("version") != FORMAT_VERSION:
        raise InputError(f"{path} is not a truerank task of version {FORMAT_VERSION}.")
    return arrays, header
