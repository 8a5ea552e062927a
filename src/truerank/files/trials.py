"""Trial lists of verification benchmarks: pairs of ids, whether they belong together, and scores.

lfw         pairs.txt: "10 300", then "name 1 4" (the same person) or "name 1 other 2" (not)
voxceleb    "1 id1/a.wav id2/b.wav": whether they belong together, then the two ids
ijb         "12,34,1": two templates, then whether they belong together
kaldi       "enrol test target": as ijb, with target and nontarget
wespeaker   "enrol test 0.73 target": two ids, their score, and whether they belong together
csv         a header with the columns left, right, same and perhaps score, left_label, right_label

A last number more on a line of voxceleb, ijb or kaldi is the score of the trial.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError, check_choice, shortened
from truerank.files.text import check_readable

__all__ = ["LAYOUTS", "Trials", "as_score", "read_trials", "split_rows"]

LAYOUTS = ("auto", "lfw", "voxceleb", "ijb", "kaldi", "wespeaker", "csv")
_SAME = {"1": True, "0": False, "true": True, "false": False, "target": True, "nontarget": False}


@dataclass(frozen=True)
class Trials:
    """Pairs of ids; scores, folds and people where the list gives them."""

    left: list[str]
    right: list[str]
    same: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64] | None = None
    folds: npt.NDArray[np.int64] | None = None
    people: tuple[list[str], list[str]] | None = None
    """Who is on the left and on the right, where the list says so."""

    def __len__(self) -> int:
        return len(self.left)


def read_trials(path: str | os.PathLike[str], layout: str = "auto") -> Trials:
    """Trials from a file in one of the LAYOUTS.

    Examples
    --------
    >>> from pathlib import Path; from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "trials.txt"
    >>> _ = path.write_text("1 ann/1.wav ann/2.wav\\n0 ann/1.wav bob/7.wav\\n")
    >>> read_trials(path).same.tolist()
    [True, False]
    """
    check_choice("layout", layout, LAYOUTS)
    check_readable(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), start=1)]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}).") from error
    rows = split_rows(path, [(n, line) for n, line in lines if line])
    if not rows:
        raise InputError(f"{path} holds no trials.")
    if layout == "auto":
        layout = _guess(path, rows)
    return _READERS[layout](path, rows)


Row = tuple[int, list[str]]


def split_rows(path: str | os.PathLike[str], lines: list[tuple[int, str]]) -> list[Row]:
    """The fields of numbered lines, divided by commas, tabs or blanks."""
    rows = []
    for number, line in lines:
        try:
            rows.append((number, _fields(line)))
        except csv.Error as error:
            raise InputError(f"{path}, line {number} cannot be read ({error}).") from error
    return rows


def _fields(line: str) -> list[str]:
    if "," in line:
        return [field.strip() for field in next(csv.reader([line]))]
    return line.split("\t") if "\t" in line else line.split()


def _guess(path: str | os.PathLike[str], rows: list[Row]) -> str:
    first = [field.lower() for field in rows[0][1]]
    if {"left", "right", "same"} <= set(first):
        return "csv"
    body = [fields for _, fields in rows]
    if _counts(first) is not None:
        return "lfw"
    starts = all(fields[0].lower() in _SAME for fields in body)
    ends = all(len(fields) > 2 and fields[2].lower() in _SAME for fields in body)
    if all(len(fields) == 4 and fields[3].lower() in ("target", "nontarget") for fields in body):
        return "wespeaker"
    if starts != ends:
        return "voxceleb" if starts else "ijb"
    if starts:
        raise InputError(f"{path} can be read as voxceleb or as ijb; say which by the layout.")
    raise InputError(
        f"{path} has none of the layouts {', '.join(LAYOUTS[1:])}: its first line is "
        f"{' '.join(rows[0][1])[:60]!r}."
    )


def _counts(fields: list[str]) -> tuple[int, int] | None:
    """The folds and the pairs of each that the first line of lfw's list names; None without."""
    if len(fields) > 2 or not all(field.isdecimal() and len(field) < 10 for field in fields):
        return None
    numbers = [int(field) for field in fields]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (1, numbers[0])


def _refuse(path: str | os.PathLike[str], line: int, layout: str, expected: str) -> InputError:
    return InputError(f"{path}, line {line}: {layout} expects {expected}.")


def _lfw(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    left, right, same = [], [], []
    people: tuple[list[str], list[str]] = ([], [])
    folds, per_fold = 0, 0
    counts = _counts(rows[0][1])
    if counts is not None:
        folds, per_fold = counts
        rows = rows[1:]
    for line, fields in rows:
        try:
            if len(fields) == 3:
                name, other = fields[0], fields[0]
                one, two = int(fields[1]), int(fields[2])
            else:
                name, other = fields[0], fields[2]
                one, two = int(fields[1]), int(fields[3])
        except (IndexError, ValueError):
            raise _refuse(path, line, "lfw", "name n m, or name n other m") from None
        left.append(f"{name}_{one:04d}")
        right.append(f"{other}_{two:04d}")
        same.append(len(fields) == 3)
        people[0].append(name)
        people[1].append(other)
    if folds and len(left) != 2 * folds * per_fold:
        raise InputError(
            f"{path} begins with {folds} x {per_fold} pairs of either kind, which makes "
            f"{2 * folds * per_fold:,}, but holds {len(left):,}."
        )
    fold = np.arange(len(left)) // (2 * per_fold) if folds > 1 else None
    return Trials(left, right, np.array(same, bool), None, fold, people)


def _listed(
    path: str | os.PathLike[str], rows: list[Row], layout: str, flag: int, expected: str
) -> Trials:
    left, right, same, scores = [], [], [], []
    for line, fields in rows:
        if len(fields) not in (3, 4) or fields[flag].lower() not in _SAME:
            raise _refuse(path, line, layout, expected)
        ids = [field for place, field in enumerate(fields[:3]) if place != flag]
        left.append(ids[0])
        right.append(ids[1])
        same.append(_SAME[fields[flag].lower()])
        if len(fields) == 4:
            scores.append(as_score(path, line, fields[3]))
    if scores and len(scores) != len(left):
        raise InputError(f"{path}: {len(scores)} of {len(left)} trials have a score; all or none.")
    return Trials(left, right, np.array(same, bool), np.array(scores) if scores else None)


def _voxceleb(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    return _listed(path, rows, "voxceleb", 0, "0 or 1, two ids, and perhaps a score")


def _ijb(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    return _listed(path, rows, "ijb", 2, "two templates, 0 or 1, and perhaps a score")


def _kaldi(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    return _listed(path, rows, "kaldi", 2, "two ids, target or nontarget, and perhaps a score")


def _wespeaker(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    expected = "two ids, a score, and target or nontarget"
    for line, fields in rows:
        if len(fields) != 4:
            raise _refuse(path, line, "wespeaker", expected)
    ordered = [(line, [*fields[:2], fields[3], fields[2]]) for line, fields in rows]
    return _listed(path, ordered, "wespeaker", 2, expected)


def _csv(path: str | os.PathLike[str], rows: list[Row]) -> Trials:
    header = [field.lower() for field in rows[0][1]]
    if not {"left", "right", "same"} <= set(header):
        raise InputError(f"{path} needs a header with the columns left, right and same.")
    wanted = ["left", "right", "same", *(["score"] if "score" in header else [])]
    ordered = []
    for line, fields in rows[1:]:
        if len(fields) != len(header):
            raise _refuse(path, line, "csv", f"{len(header)} fields")
        ordered.append((line, [fields[header.index(name)] for name in wanted]))
    trials = _listed(path, ordered, "csv", 2, "0 or 1 in the column same")
    named = [name for name in ("left_label", "right_label") if name in header]
    if len(named) == 1:
        other = "right_label" if named == ["left_label"] else "left_label"
        raise InputError(f"{path} has the column {named[0]} but no {other}; people need both.")
    if not named:
        return trials
    left, right = ([fields[header.index(name)] for _, fields in rows[1:]] for name in named)
    return replace(trials, people=(left, right))


_READERS = {"lfw": _lfw, "voxceleb": _voxceleb, "ijb": _ijb, "kaldi": _kaldi,
            "wespeaker": _wespeaker, "csv": _csv}  # fmt: skip


def as_score(path: str | os.PathLike[str], line: int, text: str) -> float:
    """The finite number in a field."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise _refuse(path, line, "the score", f"a finite number, not {shortened(text)}")
    return value
