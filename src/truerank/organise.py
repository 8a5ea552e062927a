"""Task: the rules of an evaluation that organisers keep, in a file, and submissions aligned by id.

The file is a zip of plain arrays and JSON (numpy's .npz): codes of labels, ids and groups, the
values they stand for, and the pairs of the masks. Reading it runs no code.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_matrix, as_plain
from truerank.errors import InputError
from truerank.evaluation import evaluate_task
from truerank.files import atomic_path, check_readable, read_archive
from truerank.labels import MISSING, Encoded, encode, missing_rows
from truerank.pairs import Mask, PairList
from truerank.result import Result
from truerank.space import catalogue
from truerank.storage import take
from truerank.task import TaskRules

__all__ = ["Task"]

FORMAT = "truerank-task"
FORMAT_VERSION = 1


class Task(TaskRules):
    __doc__ = TaskRules.__doc__

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the task, hidden labels included, to one file that holds no code."""
        _save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Task:
        """Read what save wrote; the digest is checked."""
        return _load(path)

    def evaluate(self, embeddings: Any, ids: Any = None, **options: Any) -> Result:
        """Score a submission.

        Parameters
        ----------
        embeddings : (N, d)
            One row for each id of the task, in any order.
        ids : (N,)
            Whose embedding each row is. Missing, extra and repeated ids are refused. A task
            without ids takes its rows in order, a separate gallery's as `gallery=`.
        **options
            gallery, distance, metrics, average, device, threads, confidence, seed, units, progress,
            checkpoint as in evaluate.

        Examples
        --------
        >>> from truerank import Task
        >>> task = Task(["cat", "cat", "dog", "dog"], ids=["a", "b", "c", "d"])
        >>> submission = [[1.0, 0], [0, 1], [0, 2], [2, 0]]
        >>> task.evaluate(submission, ids=["d", "a", "b", "c"])["hit@1"].value
        1.0
        """
        return _evaluate(self, embeddings, ids, **options)


def _save(task: TaskRules, path: str | os.PathLike[str]) -> None:
    """Write a task."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "digest": task.digest,
        "leave_one_out": task.leave_one_out,
        "no_mate": task.no_mate,
        "unlabelled": task.unlabelled,
        "junk_labels": _plain_values(task.junk_labels, "junk_labels"),
        "levels": [] if task.levels is None else task.levels.names,
        "masks": {},
    }
    levels = [] if task.levels is None else task.levels.columns
    columns = {f"level{number}": level for number, level in enumerate(levels)}
    for name, encoded in (("ids", task.id_names), ("groups", task.group_names)):
        if encoded is not None:
            columns[name] = encoded
    for name, encoded in columns.items():
        header[f"{name}_values"] = _plain_values(encoded.values, name)
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


def _plain_values(values: Iterable[Any], what: str) -> list[Any]:
    plain = [as_plain(value) for value in values]
    for value in plain:
        if not isinstance(value, (str, int, float, bool)):
            raise InputError(
                f"a saved task holds text and numbers; {what} holds {value!r} "
                f"({type(value).__name__}): convert to str first."
            )
    return plain


def _load(path: str | os.PathLike[str]) -> Task:
    """Read a task and check that it is the one that was saved."""
    arrays, header = _read(path)
    try:
        task = _rebuild(arrays, header)
    except InputError as error:
        raise InputError(f"{path} is not a truerank task: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is a damaged truerank task ({error}).") from error
    if task.digest != header.get("digest") or header.get("check") != _check(header):
        raise InputError(f"{path} was changed after it was saved: its digest does not match.")
    return task


def _rebuild(arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]) -> Task:
    sides = range(1 if header["leave_one_out"] else 2)

    def column(name: str, side: int) -> list[Any]:
        values = header[f"{name}_values"]
        codes = arrays[f"{name}_{side}"].tolist()
        return [None if code == MISSING else values[code] for code in codes]

    def labels(side: int) -> Any:
        return {
            name: column(f"level{number}", side) for number, name in enumerate(header["levels"])
        }

    arguments: dict[str, Any] = {}
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
    return Task(
        arguments.pop("labels", None),
        **arguments,
        junk_labels=header["junk_labels"],
        no_mate=header["no_mate"],
        unlabelled=header["unlabelled"],
        leave_one_out=header["leave_one_out"],
    )


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    check_readable(path)
    try:
        arrays = read_archive(path)
        header = json.loads(arrays.pop("header").tobytes())
    except Exception as error:  # whatever a malformed archive makes numpy, zlib or json say
        raise InputError(f"{path} is not a truerank task ({error}).") from error
    if not isinstance(header, dict):
        raise InputError(f"{path} is not a truerank task.")
    if header.get("format") != FORMAT or header.get("version") != FORMAT_VERSION:
        raise InputError(f"{path} is not a truerank task of version {FORMAT_VERSION}.")
    return arrays, header


def _evaluate(
    task: TaskRules, embeddings: Any, ids: Any, *, gallery: Any = None, **options: Any
) -> Result:
    """Align a submission to the task and score it."""
    rows = as_matrix(embeddings, "embeddings")
    given = options.get("distance") in catalogue.names(given=True)
    known = task.id_names
    if known is None:
        if ids is not None:
            raise InputError("this task has no ids, so its rows are taken in order; leave ids out.")
        items = None if gallery is None else as_matrix(gallery, "gallery")
        separate = not (task.leave_one_out or given)
        if (items is not None) != separate:
            need = "needs gallery= as well" if separate else "takes no gallery"
            raise InputError(f"this task {need}.")
        return evaluate_task(task, rows, items, **options)
    if ids is None:
        raise InputError("this task aligns submissions by id; pass ids=, one for each row.")
    if gallery is not None:
        raise InputError("a submission to a task with ids is one array; leave gallery out.")
    place = _align(known, ids, len(rows))
    own, other = place[known.codes[0]], place[known.codes[-1]]
    if given:
        if rows.shape[1] != len(rows):
            raise InputError(
                f"a matrix submitted with ids must be square, one row and one column for each id. "
                f"Got {rows.shape}."
            )
        return evaluate_task(task, rows[np.ix_(own, other)], None, **options)
    items = None if task.leave_one_out else take(rows, other)
    return evaluate_task(task, take(rows, own), items, **options)


def _align(known: Encoded, ids: Any, count: int) -> npt.NDArray[np.int64]:
    """For each id of the task the row of the submission that carries it."""
    wanted = known.values
    for codes in known.codes:
        if len(np.unique(codes)) < len(codes):
            raise InputError(
                "this task repeats ids, so one embedding for each id cannot be told apart; "
                "organisers need distinct ids."
            )
    submitted = encode((ids, wanted), ("ids", "the task's ids"))
    rows, targets = submitted.codes
    if len(rows) != count:
        raise InputError(f"ids must have one value a row ({count}). Got {len(rows)}.")
    if (rows == MISSING).any():
        raise InputError(f"None or NaN in ids {missing_rows(rows)}; give each row its id.")
    names = submitted.values
    repeated = [names[code] for code, times in Counter(rows.tolist()).items() if times > 1]
    missing = [names[code] for code in np.setdiff1d(targets, rows)]
    extra = [names[code] for code in np.setdiff1d(rows, targets)]
    problems = [
        f"{len(found)} {what} ({', '.join(map(repr, found[:3]))}{', ...' * (len(found) > 3)})"
        for what, found in (("repeated", repeated), ("missing", missing), ("unknown", extra))
        if found
    ]
    if problems:
        raise InputError(
            f"the submission's ids do not match the task's {len(wanted)}: {'; '.join(problems)}."
        )
    place = np.empty(len(names), np.int64)
    place[rows] = np.arange(count)
    result: npt.NDArray[np.int64] = place[targets]
    return result
