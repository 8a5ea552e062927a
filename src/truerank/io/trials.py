"""Trial lists of verification (LFW, VoxCeleb, IJB, Kaldi, CSV): pairs of ids, scores, people.

lfw         pairs.txt: "10 300", then "name 1 4" (the same person) or "name 1 other 2" (not)
voxceleb    "1 id1/a.wav id2/b.wav": whether they belong together, then the two ids
ijb         "12,34,1": two templates, then whether they belong together
kaldi       "enrol test target": as ijb, with target and nontarget
wespeaker   "enrol test 0.73 target": two ids, their score, and whether they belong together
csv         a header with the columns left, right, same, perhaps score, left_label, right_label

One more number at the end of a line of voxceleb, ijb or kaldi is the score of the trial. Scores
in a second file are one per line in the order of the list, or joined to it by the pair of ids.
An id names a row exactly or by the name of the file that it is a path to.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array
from truerank._util.cached import cached_property
from truerank._util.errors import InputError, check_choice, shortened
from truerank._util.files import check_readable, read_text
from truerank._util.types import Integers
from truerank.io.reading import is_path, read_labels, read_npy
from truerank.task.labels import MISSING, encode, missing_rows

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


def as_score(path: str | os.PathLike[str], line: int, text: str) -> float:
    """The finite number in a field."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise _refuse(path, line, "the score", f"a finite number, not {shortened(text)}")
    return value


_READERS = {"lfw": _lfw, "voxceleb": _voxceleb, "ijb": _ijb, "kaldi": _kaldi,
            "wespeaker": _wespeaker, "csv": _csv}  # fmt: skip


# Places: which row an id names, exactly or by the name of the file that it is a path to.


@dataclass(frozen=True)
class RowsById:
    """The row of each id; row numbers where there are none."""

    names: list[Any]
    by_row: bool

    @staticmethod
    def of(ids: Any, count: int) -> RowsById:
        """The rows of so many ids.

        Examples
        --------
        >>> RowsById.of(["Ann/Ann_0001.jpg", "Bob/Bob_0001.jpg"], 2).find(["Bob_0001"]).tolist()
        [1]
        """
        if ids is None:
            return RowsById(list(range(count)), by_row=True)
        found = encode((ids,), ("ids",))
        codes = found.codes[0]
        if len(codes) != count:
            raise InputError(f"ids must have one value per row ({count}). Got {len(codes)}.")
        if (codes == MISSING).any():
            raise InputError(f"None or NaN in ids {missing_rows(codes)}; give each row its id.")
        names = [found.values[code] for code in codes.tolist()]
        if len(set(names)) != count:
            raise InputError("ids name a row twice; pass distinct ids.")
        return RowsById(names, by_row=False)

    def find(self, wanted: list[Any]) -> npt.NDArray[np.int64]:
        """The row of each id in a list of trials."""
        found = np.empty(len(wanted), np.int64)
        for number, name in enumerate(wanted):
            row = self._place.get(name) if isinstance(name, Hashable) else None
            if row is None and isinstance(name, str):
                row = self._stem(name)
            if row is None:
                what = "row numbers; pass the ids of the rows" if self.by_row else "ids"
                raise InputError(
                    f"trial {number} names {shortened(name)}, which is not among the {what}."
                )
            found[number] = row
        return found

    def _stem(self, name: str) -> int | None:
        rows = self._stems.get(name, [])
        if len(rows) > 1:
            shown = " and ".join(shortened(self.names[row]) for row in rows[:2])
            raise InputError(f"{shortened(name)} may be {shown}; name them by their whole ids.")
        return rows[0] if rows else None

    @cached_property
    def _place(self) -> dict[Any, int]:
        place = {name: number for number, name in enumerate(self.names)}
        if not any(isinstance(name, str) for name in self.names):  # files of trials hold text
            place |= {str(name): number for name, number in place.items()}
        return place

    @cached_property
    def _stems(self) -> dict[str, list[int]]:
        """The rows of each file name, without its folders and ending."""
        stems: dict[str, list[int]] = {}
        for row, name in enumerate(self.names):
            if isinstance(name, str):
                path = PurePosixPath(name.replace("\\", "/"))
                stems.setdefault(path.stem, []).append(row)
        return stems


# People: who is on each side of a trial, by labels, by columns of the list, or by its ids.


NO_PEOPLE = (
    "the list of trials names no people; pass labels (--labels, a file with the columns id and "
    "label), or columns left_label and right_label in the list"
)
_BEGINNINGS = (r"([^/]*)/", r"([^/-]*)[/-]")
"""The part of an id that may name a person: id1 of id1/a/1.wav, or of id1-a/1.wav."""


def people_by_labels(labels: Any, ids: Any, trials: Trials, rows: int | None) -> Integers:
    """(trials, 2): the number of each side's person, by labels of ids or of so many rows.

    Labels are a file with the columns id and label, a mapping from id to label, or one for each of
    `ids`; without ids one for each row, which the trials name by their numbers.
    """
    if is_path(labels):
        held = read_labels(labels)
        values = list(held.labels.values())[-1] if isinstance(held.labels, dict) else held.labels
        names = ids if held.ids is None else held.ids
    elif isinstance(labels, Mapping):
        names, values = list(labels), list(labels.values())
    else:
        names, values = ids, labels
    given = as_array(values, "labels")
    if names is None and rows is None:
        what = os.fspath(labels) if is_path(labels) else "labels"
        raise InputError(
            f"{what} must say whose label is which, as scores have no rows: pass a file with the "
            "columns id and label, a dictionary {id: label}, or ids as well, one for each label."
        )
    wanted = rows if names is None else len(as_array(names, "ids"))
    if given.shape != (wanted,):
        per = "per row" if names is None else "per id"
        raise InputError(f"labels must have one value {per} ({wanted}). Got shape {given.shape}.")
    place = RowsById.of(names, len(given))
    return number_people(trials, (given[place.find(trials.left)], given[place.find(trials.right)]))


def number_people(trials: Trials, sides: tuple[Any, Any]) -> Integers:
    """(trials, 2): the number of each side's person; the trials must agree with who they are."""
    found = _codes(sides)
    wrong = np.flatnonzero((found[:, 0] == found[:, 1]) != trials.same)
    if len(wrong):
        number = int(wrong[0])
        said = "one person" if trials.same[number] else "two people"
        raise InputError(
            f"trial {number} is of {said}, but the labels of {trials.left[number]!r} and "
            f"{trials.right[number]!r} say otherwise."
        )
    return found


def people_by_ids(trials: Trials) -> Integers | None:
    """(trials, 2): people by the part of their ids before the first / or -; None where an id has no
    such part, or where these disagree with the trials."""
    if not all(isinstance(name, str) for side in (trials.left, trials.right) for name in side):
        return None
    ids = {*trials.left, *trials.right}
    for beginning in _BEGINNINGS:
        found = {name: re.match(beginning, name) for name in ids}
        person = {name: match[1] for name, match in found.items() if match is not None}
        if len(person) < len(ids):
            continue
        number = {name: code for code, name in enumerate(sorted(set(person.values())))}
        place = {name: number[one] for name, one in person.items()}
        sides = [
            np.fromiter((place[name] for name in side), np.int64, len(side))
            for side in (trials.left, trials.right)
        ]
        if np.array_equal(sides[0] == sides[1], trials.same):
            return np.stack(sides, axis=1)
    return None


def _codes(sides: tuple[Any, Any]) -> Integers:
    return np.stack(encode(sides, ("labels", "labels")).codes, axis=1)


# Scores of trials: one for each trial in the order of the list, or joined to it by the pair.


Pair = tuple[str, str]
_TABLES = (".txt", ".csv", ".tsv")
_ARRAYS = (".npz", ".pt", ".pth", ".safetensors", ".parquet", ".pq", ".h5", ".hdf5", ".json",
           ".fvecs", ".bvecs", ".fbin", ".u8bin", ".i8bin")  # fmt: skip


def read_scores(path: str | os.PathLike[str], trials: Trials) -> npt.NDArray[Any] | None:
    """The score of each trial; None if the file holds something else, such as embeddings."""
    ending = Path(path).suffix.lower()
    if ending in _ARRAYS or re.search(r"\.(h5|hdf5):", os.fspath(path), re.IGNORECASE):
        return None
    check_readable(path)
    if ending == ".npy":
        array = read_npy(path)
        return array if array.ndim == 1 else None
    if ending not in _TABLES and b"\x00" in _start(path):
        return None
    lines = read_text(path).splitlines()
    rows = [(n, line.strip()) for n, line in enumerate(lines, start=1) if line.strip()]
    if rows and len(re.split(r"[,\s]+", rows[0][1])) == 1:
        return _one_a_line(path, rows)
    return _by_pair(path, split_rows(path, rows), trials)


def _start(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(4096)


def _one_a_line(
    path: str | os.PathLike[str], rows: list[tuple[int, str]]
) -> npt.NDArray[np.float64]:
    numbers = []
    for line, text in rows:
        try:
            numbers.append(float(text))
        except ValueError:
            if line == 1:  # a header
                continue
            raise InputError(f"{path}, line {line}: expected one number, a score.") from None
    return np.array(numbers)


def _by_pair(
    path: str | os.PathLike[str], rows: list[tuple[int, list[str]]], trials: Trials
) -> npt.NDArray[np.float64] | None:
    """Scores by the pair of ids; None if the first line holds no pair with its score."""
    wanted = [
        (str(left), str(right)) for left, right in zip(trials.left, trials.right, strict=True)
    ]
    pairs = set(wanted)
    if rows and rows[0][1][-1].lower() == "score":
        rows = rows[1:]
    if not rows or not _names_a_pair(rows[0][1], pairs):
        return None
    found: dict[Pair, tuple[float, int]] = {}
    for line, fields in rows:
        if len(fields) not in (3, 4):
            raise InputError(f"{path}, line {line}: expected two ids and a score.")
        pair, score = (fields[0], fields[1]), as_score(path, line, fields[2])
        before = found.setdefault(pair, (score, line))
        if before[0] != score:
            raise InputError(
                f"{path}, line {line}: {' and '.join(map(shortened, pair))} have another score in "
                f"line {before[1]}; keep one."
            )
    missing = [number for number, pair in enumerate(wanted) if pair not in found]
    if missing:
        left, right = wanted[missing[0]]
        hint = ""
        if (right, left) in found:
            hint = "; it has that of the two exchanged: write the ids as the trials do"
        raise InputError(
            f"{path} has no score for {len(missing):,} of {len(wanted):,} trials; the first is "
            f"trial {missing[0]}, of {shortened(left)} and {shortened(right)}{hint}."
        )
    return np.array([found[pair][0] for pair in wanted])


def _names_a_pair(fields: list[str], pairs: set[Pair]) -> bool:
    """Whether a line is a pair with its score, and not a row of three or four numbers."""
    if len(fields) not in (3, 4) or not _is_number(fields[2]):
        return False
    return (fields[0], fields[1]) in pairs or not all(map(_is_number, fields[:2]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
