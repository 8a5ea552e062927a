"""One side of an evaluation, of arrays or of files: embeddings, labels, ids and groups.

A file brings along what it holds besides: a CSV of labels its ids and groups, an .npz its labels.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files.alignment import aligned
from truerank.files.reading import Bundle, read, require_embeddings

__all__ = ["is_path", "read_labels", "read_side"]


def is_path(value: Any) -> bool:
    """Whether a value names a file."""
    return isinstance(value, (str, os.PathLike))


def read_side(embeddings: Any, labels: Any = None, levels: list[str] | None = None) -> Bundle:
    """What is known about each row; paths are read, anything else is taken as it is.

    What the labels' file says goes before what the embeddings' file says. Rows of two files are
    matched by their ids, where both have ids.
    """
    rows = Bundle(embeddings)
    if is_path(embeddings):
        rows = read(embeddings, levels=levels if labels is None else None)
        require_embeddings(rows, embeddings)
    if is_path(labels):
        more = read_labels(labels, levels)
        if is_path(embeddings):
            more = aligned(more, Path(labels), rows, Path(embeddings))
        rows.labels = more.labels
        rows.ids = more.ids if more.ids is not None else rows.ids
        rows.groups = more.groups if more.groups is not None else rows.groups
    elif labels is not None:
        rows.labels = labels
    return rows


def read_labels(path: str | os.PathLike[str], levels: list[str] | None = None) -> Bundle:
    """A file of labels, which must hold some."""
    bundle = read(path, lone="labels", levels=levels)
    if bundle.labels is None:
        raise InputError(f"{path} holds no labels: expected a column or array called label.")
    return bundle
