"""Rows of two files matched by id: embeddings in one, what is known about them in the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from truerank.errors import InputError
from truerank.files.reading import Bundle

__all__ = ["aligned"]


def aligned(more: Bundle, path: Path, rows: Bundle, rows_path: Path) -> Bundle:
    """`more` in the order of `rows`, where both have ids; as it is where one has none."""
    if more.ids is None or rows.ids is None:
        return more
    theirs, ours = _texts(more.ids), _texts(rows.ids)
    if theirs == ours:
        return more
    place = {name: number for number, name in enumerate(theirs)}
    way_out = "leave the ids out of one of the two files to match their rows by position"
    if len(place) < len(theirs):
        twice = next(name for number, name in enumerate(theirs) if place[name] != number)
        raise InputError(
            f"{path} has the id {twice!r} twice, so its rows cannot be put in the order of "
            f"{rows_path}; {way_out}."
        )
    missing = [name for name in ours if name not in place]
    if missing:
        raise InputError(f"{path} has no row for the id {missing[0]!r} of {rows_path}; {way_out}.")
    order = [place[name] for name in ours]
    labels = more.labels
    if isinstance(labels, dict):
        labels = {name: _taken(column, order) for name, column in labels.items()}
    else:
        labels = _taken(labels, order)
    groups = None if more.groups is None else _taken(more.groups, order)
    return replace(more, labels=labels, groups=groups, ids=_taken(more.ids, order))


def _texts(ids: Any) -> list[str]:
    return [str(name) for name in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def _taken(column: Any, order: list[int]) -> Any:
    if isinstance(column, list):
        return [column[place] for place in order]
    return column[np.array(order, np.int64)]
