"""Scores of trials: one for each trial in the order of the list, or joined to it by the pair.

one a line     "0.73", or a .npy of one dimension
by the pair    "enrol test 0.73" (Kaldi), or "enrol test 0.73 target" (WeSpeaker), in any order
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError, shortened
from truerank.files.reading import read_npy
from truerank.files.text import check_readable, read_text
from truerank.files.trials import Trials, as_score, split_rows

__all__ = ["read_scores"]

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
