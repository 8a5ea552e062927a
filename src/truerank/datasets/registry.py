"""Data sets by name: a name and a folder come in, a Dataset goes out.

Where the folder holds another number of images or classes than was published, or where a class is
both trained on and tested, a warning says so.
"""

from __future__ import annotations

import difflib
import os
import re
import warnings
from dataclasses import replace

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.catalogue import ENTRIES, DatasetEntry
from truerank.errors import InputError, TruerankWarning
from truerank.wording import count

__all__ = ["find", "names", "read"]


def names() -> tuple[str, ...]:
    """The data sets that can be read.

    Examples
    --------
    >>> from truerank import datasets
    >>> "cub-200-2011" in datasets.names()
    True
    """
    return tuple(ENTRIES)


def find(name: str) -> DatasetEntry:
    """The entry of a data set, by its name or another name that it goes by.

    Examples
    --------
    >>> from truerank.datasets.registry import find
    >>> find("CUB200").name
    'cub-200-2011'
    """
    known = {_plain(known): e for e in ENTRIES.values() for known in (e.name, *e.aliases)}
    entry = known.get(_plain(name)) if isinstance(name, str) else None
    if entry is None:
        near = difflib.get_close_matches(_plain(str(name)), known, n=1, cutoff=0.5)
        hint = f"; did you mean {known[near[0]].name!r}?" if near else f": {', '.join(ENTRIES)}."
        raise InputError(f"{name!r} is no data set that truerank reads{hint}")
    return entry


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def read(name: str, root: str | os.PathLike[str] | None = None) -> Dataset:
    """Read a data set from disk.

    Parameters
    ----------
    name : str
        One of `truerank.datasets.names()`.
    root : path
        The folder that holds it, as its page in docs/data describes; for "table" the file. What
        `truerank data get` fetches is read from the cache without one.

    Returns
    -------
    Dataset
        Labels, groups and the standard split; images are decoded when they are asked for.

    Warns
    -----
    TruerankWarning
        If images or classes are fewer or more than published, or if a class of the training set
        occurs in the test set.

    Examples
    --------
    >>> from truerank import datasets
    >>> datasets.read("cub-200-2011", "no-such-folder")
    Traceback (most recent call last):
    truerank.errors.InputError: cub-200-2011 is read from a folder; no-such-folder does not exist.
    """
    entry = find(name)
    if root is None and not entry.fetched:
        raise InputError(
            f"{entry.name} is read from disk: pass the folder that holds it; in a YAML file it is "
            "data.root."
        )
    data = entry.reader(entry.name, root)
    for sentence in _differences(entry, data):
        warnings.warn(sentence, TruerankWarning, stacklevel=2)
    return replace(data, licence=entry.licence, citation=entry.citation)


def _differences(entry: DatasetEntry, data: Dataset) -> list[str]:
    """Sentences about what is not as published."""
    found = []
    for split, (images, classes) in entry.expected.items():
        rows = data.splits.get(split, np.empty(0, np.int64))
        here = len(rows), len(np.unique(data.fine_labels[rows]))
        if here != (images, here[1] if classes is None else classes):
            published = f"{images:,}" + (f" of {classes:,}" if classes is not None else "")
            found.append(
                f"{split} has {count(here[0], 'image')} of {count(here[1], 'class')} where "
                f"{published} were published"
            )
    sentences = []
    if found:
        sentences.append(
            f"{entry.name} is not complete or not the standard one: {'; '.join(found)}. Scores on "
            "it do not compare with published ones."
        )
    if "train" in data.splits:
        trained = np.unique(data.fine_labels[data.splits["train"]])
        for split in ("test", "query", "gallery"):
            if split not in data.splits:
                continue
            shared = np.intersect1d(trained, data.fine_labels[data.splits[split]])
            if shared.size:
                sentences.append(
                    f"{count(shared.size, 'class')} of {entry.name} "
                    f"{'occurs' if shared.size == 1 else 'occur'} in train and in {split}, so that "
                    "the test is not one of unseen classes, as published ones are."
                )
    return sentences
