"""What the models of a comparison are called: what tells their files apart."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from truerank.errors import InputError, shortened

__all__ = ["name_models"]

Parts = tuple[str, ...]
"""The folders on the way to a file, and its name without the ending."""


def name_models(results: Sequence[Any], names: Iterable[str] | None = None) -> list[str]:
    """The names that are given, or else what tells the files apart, or numbers.

    Examples
    --------
    >>> name_models(["runs/a/result.json", "runs/b/result.json"])
    ['a', 'b']
    >>> name_models([["a/seed0.json", "a/seed1.json"], "baseline.json"])
    ['a', 'baseline']
    """
    if names is not None:
        try:
            given = [str(name) for name in names]
        except (TypeError, ValueError):  # no list of names, or none that Python writes out
            given = []
        if len(given) != len(results) or len(set(given)) < len(given):
            raise InputError(
                f"names must be {len(results)} distinct names, one for each model. "
                f"Got {shortened(names)}."
            )
        return given
    places = [_places(result) for result in results]
    told = iter(_told_apart(_of_models([place for place in places if place is not None])))
    found = [
        f"model {number}" if place is None else next(told) for number, place in enumerate(places, 1)
    ]
    times = Counter(found)
    return [
        name if times[name] == 1 else f"{name} ({number})" for number, name in enumerate(found, 1)
    ]


def _places(result: Any) -> list[Parts] | None:
    """Where the files of a model's runs are; None if it has none."""
    runs = list(result) if isinstance(result, (list, tuple)) else [result]
    if not runs or not all(isinstance(run, (str, os.PathLike)) for run in runs):
        return None
    paths = [Path(os.path.abspath(run)) for run in runs]
    return sorted({(*path.parent.parts, path.stem) for path in paths})


def _of_models(places: list[list[Parts]]) -> list[Parts]:
    """One place for each model: what those of its runs have in common.

    That is their folder, if no other model has a file there; otherwise also what the names begin
    with, "a" for a-seed0 and a-seed1.
    """
    folders = [_shared(runs) for runs in places]
    found = []
    for number, (runs, folder) in enumerate(zip(places, folders, strict=True)):
        others = folders[:number] + folders[number + 1 :]
        if len(runs) > 1 and any(other[: len(folder)] == folder for other in others):
            first, last = (run[len(folder)] for run in (runs[0], runs[-1]))
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
            start = "".join(letter for letter, _ in alike).rstrip("-_. ")
            folder += (start,) if start else ()
        found.append(folder)
    return found


def _told_apart(places: list[Parts]) -> list[str]:
    """The last part of each, if these differ; otherwise what is left without the common ends."""
    last = [place[-1] for place in places]
    if len(set(last)) == len(last):
        return last
    start = len(_shared(places))
    end = len(_shared([place[::-1] for place in places]))
    return ["/".join(place[start : len(place) - end]) or place[-1] for place in places]


def _shared(places: list[Parts]) -> Parts:
    """What all begin with."""
    found: list[str] = []
    for parts in zip(*places, strict=False):
        if len(set(parts)) > 1:
            break
        found.append(parts[0])
    return tuple(found)
