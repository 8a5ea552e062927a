"""Dataset: images, labels from coarse to fine, groups and splits, whatever the files looked like.

Readers (or users) put it together; training takes `subset("train")`, evaluation takes
`task_arguments()`, which are the keyword arguments of `truerank.evaluate`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array
from truerank.datasets.images import Image, ImageRows, as_images
from truerank.errors import InputError
from truerank.wording import count

if TYPE_CHECKING:
    from truerank.organise import Task

__all__ = ["Dataset", "class_numbers"]

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]

NUMBERED = re.compile(r"(.*/)?(-?[0-9]{1,18})")
"""A label that is the number of a class, alone ("12") or below a side or a folder ("train/12")."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N images and what is known about each.

    Attributes
    ----------
    name : str
        What the data set is called.
    images : sequence
        `images[i]` is a uint8 array (H, W, 3). An array (N, H, W) or (N, H, W, 3) will do.
    labels : (N,) or (N, L) array of str or int
        A label for each image, or its labels from coarse to fine.
    level_names : tuple of str
        What each of the L levels is called, "class" for example.
    ids, groups : (N,) array, optional
        Images that share an id never meet. Images with the same label and the same group (camera,
        session, design family) are junk for each other.
    splits : mapping from name to row numbers
        "train" and "test", or "train", "query" and "gallery".
    junk_labels : tuple
        Gallery images with these labels are left out for every query.
    licence, citation : str
        Under which terms the images may be used, and what to cite.

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.datasets import Dataset
    >>> pixels = np.zeros((4, 28, 28), np.uint8)
    >>> data = Dataset("tiny", pixels, ["a", "a", "b", "b"], ("letter",),
    ...                splits={"train": [0, 1], "test": [2, 3]})
    >>> data
    Dataset('tiny', 4 images, letter: 2, train: 2, test: 2)
    >>> data.subset("train").labels.tolist()
    ['a', 'a']
    >>> data.images[0].shape
    (28, 28, 3)
    >>> {name: value.tolist() for name, value in data.task_arguments().items()}
    {'labels': ['b', 'b']}
    """

    name: str
    images: Sequence[Image]
    labels: Array
    level_names: tuple[str, ...]
    ids: Array | None = None
    groups: Array | None = None
    splits: Mapping[str, Rows] = field(default_factory=dict)
    junk_labels: tuple[Any, ...] = ()
    licence: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        images = as_images(self.images)
        rows = len(images)
        labels = as_array(self.labels, "labels")
        level_names = tuple(self.level_names)
        if labels.ndim not in (1, 2) or len(labels) != rows or 0 in labels.shape[1:]:
            raise InputError(
                f"labels of {self.name} must have shape (N,) or (N, L) for N = {rows} images. "
                f"Got shape {labels.shape} instead."
            )
        levels = labels.shape[1] if labels.ndim == 2 else 1
        if len(level_names) != levels or len(set(level_names)) != levels:
            raise InputError(
                f"level_names of {self.name} must be {count(levels, 'different name')}. "
                f"Got {level_names!r} instead."
            )
        for attribute in ("ids", "groups"):
            column = getattr(self, attribute)
            if column is None:
                continue
            column = as_array(column, attribute)
            if column.shape != (rows,):
                raise InputError(
                    f"{attribute} of {self.name} must have one value for each of {rows} images. "
                    f"Got shape {column.shape} instead."
                )
            self._set(attribute, column)
        self._set("images", images)
        self._set("labels", labels)
        self._set("level_names", level_names)
        self._set("junk_labels", tuple(self.junk_labels))
        splits = {name: self._rows(chosen, name) for name, chosen in self.splits.items()}
        self._set("splits", MappingProxyType(splits))

    def _set(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)  # the one moment in which it is not yet frozen

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        columns = [self.labels] if self.labels.ndim == 1 else list(self.labels.T)
        parts = [repr(self.name), count(len(self), "image")]
        for name, column in zip(self.level_names, columns, strict=True):
            parts.append(f"{name}: {len(set(column.tolist())):,}")
        parts += [f"{name}: {len(rows):,}" for name, rows in self.splits.items()]
        return f"Dataset({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The read-only view of the splits does not travel to a worker process; a plain dict does.
        state = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return _rebuild, (state | {"splits": dict(self.splits)},)

    @property
    def fine_labels(self) -> Array:
        """The finest label of each image: what binary metrics and junk go by."""
        return self.labels if self.labels.ndim == 1 else self.labels[:, -1]

    @property
    def class_numbers(self) -> Rows:
        """The class of each image as a number from 0, in the order that splits and folds follow.

        Classes that are numbered are in the order of their numbers, also where the numbers are
        text ("2" before "10"); others are in the order of their names.
        """
        return class_numbers(self.fine_labels)

    def subset(self, split_or_rows: Any) -> Dataset:
        """The rows of a split, or of a list or mask of rows; its splits shrink with it.

        Parameters
        ----------
        split_or_rows : str, row numbers or bool mask

        Returns
        -------
        Dataset
        """
        if isinstance(split_or_rows, str):
            rows = self._split(split_or_rows)
        else:
            rows = self._rows(split_or_rows, "subset")
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        splits = {}
        for name, members in self.splits.items():
            kept = place[members]
            if (kept >= 0).any():
                splits[name] = kept[kept >= 0]
        return replace(
            self,
            images=ImageRows(self.images, rows),
            labels=self.labels[rows],
            ids=None if self.ids is None else self.ids[rows],
            groups=None if self.groups is None else self.groups[rows],
            splits=splits,
        )

    def task_arguments(self, split: str | None = None) -> dict[str, Any]:
        """The arguments of `truerank.evaluate`, less the embeddings.

        Parameters
        ----------
        split : str, optional
            Rows that are searched among each other. By default the data set's own protocol:
            "query" against "gallery" where both exist, else "test", else all rows.

        Returns
        -------
        dict
            labels; for a gallery also gallery_labels; where the data set has them, the ids and
            groups of each side and the junk labels. Labels of several levels are named columns.
        """
        if split is None and {"query", "gallery"} <= set(self.splits):
            query, gallery = self._split("query"), self._split("gallery")
            arguments = {"labels": self._levels(query), "gallery_labels": self._levels(gallery)}
            sides = {"query": query, "gallery": gallery}
        else:
            if split is None and "test" in self.splits:
                split = "test"
            rows = np.arange(len(self)) if split is None else self._split(split)
            arguments = {"labels": self._levels(rows)}
            sides = {"query": rows}
        for side, rows in sides.items():
            if self.ids is not None:
                arguments[f"{side}_ids"] = self.ids[rows]
            if self.groups is not None:
                arguments[f"{side}_groups"] = self.groups[rows]
        if self.junk_labels:
            arguments["junk_labels"] = self.junk_labels
        return arguments

    def task(self, split: str | None = None) -> Task:
        """The `truerank.Task` of these arguments, to save or to hand to submitters."""
        from truerank.organise import Task

        arguments = self.task_arguments(split)
        names = {"query_ids": "ids", "query_groups": "groups"}
        return Task(**{names.get(name, name): value for name, value in arguments.items()})

    def _levels(self, rows: Rows) -> Any:
        if self.labels.ndim == 1:
            return self.labels[rows]
        columns = self.labels[rows].T
        return dict(zip(self.level_names, columns, strict=True))

    def _split(self, name: str) -> Rows:
        if name not in self.splits:
            known = ", ".join(self.splits) or "none"
            raise InputError(f"{self.name} has no split {name!r}; its splits: {known}.")
        return self.splits[name]

    def _rows(self, chosen: Any, name: str) -> Rows:
        """Row numbers, each of them once, from row numbers or a mask."""
        rows = as_array(chosen, name)
        if rows.dtype == bool and rows.shape == (len(self),):
            rows = np.flatnonzero(rows)
        if rows.size == 0 and rows.ndim == 1:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise InputError(
                f"rows of {name!r} must be a list of row numbers or a mask of {len(self)} bools. "
                f"Got {rows.dtype} of shape {rows.shape} instead."
            )
        rows = rows.astype(np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise InputError(
                f"rows of {name!r} must be between 0 and {len(self) - 1}. "
                f"Got {int(rows.min() if rows.min() < 0 else rows.max())} instead."
            )
        if len(np.unique(rows)) < len(rows):
            raise InputError(f"rows of {name!r} name an image twice.")
        return rows


def class_numbers(labels: Any) -> Rows:
    """Number the classes of labels from 0, as `Dataset.class_numbers` does."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    found = [NUMBERED.fullmatch(str(name)) for name in classes.tolist()]
    keys = [(match[1] or "", int(match[2])) for match in found if match is not None]
    if len(keys) < len(classes):
        return codes.ravel()
    place = np.empty(len(classes), np.int64)
    place[sorted(range(len(classes)), key=keys.__getitem__)] = np.arange(len(classes))
    return place[codes.ravel()]


def _rebuild(state: dict[str, Any]) -> Dataset:
    return Dataset(**state)
