"""People: who is on each side of a trial, by labels, by columns of the list, or by its ids."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array
from truerank.errors import InputError
from truerank.files.places import Places
from truerank.files.sides import is_path, read_labels
from truerank.files.trials import Trials
from truerank.labels import encode

__all__ = ["NO_PEOPLE", "number_people", "people_by_ids", "people_by_labels"]

Integers = npt.NDArray[np.int64]
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
        per = "a row" if names is None else "an id"
        raise InputError(f"labels must have one value {per} ({wanted}). Got shape {given.shape}.")
    place = Places.of(names, len(given))
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
