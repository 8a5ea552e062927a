"""Dataset: images, labels from coarse to fine, exclusion groups and splits, as readers fill it.

Training takes `subset("train")`; evaluation takes `task_arguments()`, the keyword arguments of
`truerank.evaluate`. Images are files that are decoded on demand or an array in memory: row
numbers in, uint8 arrays (height, width, 3) out, whatever the colour mode of the file and the
orientation of the camera.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array
from truerank._util.errors import InputError
from truerank._util.text import count
from truerank._util.types import Array

if TYPE_CHECKING:
    from truerank.competition.task import Task


Rows = npt.NDArray[np.int64]

NUMBERED = re.compile(r"(.*/)?(-?[0-9]{1,18})")
"""A label that is the number of a class, alone ("12") or below a side or a folder ("train/12")."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images with labels, ids, groups and splits.

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
        "train" and "test", or "train", "query" and "gallery"; or "query-LEVEL" and
        "gallery-LEVEL" where a level has a separate test.
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

    @property
    def tests(self) -> tuple[str, ...]:
        """The levels that have a separate test, in the splits query-LEVEL and gallery-LEVEL.

        Only the labels of its level are known of a test's images.
        """
        return tuple(
            level
            for level in self.level_names
            if {f"query-{level}", f"gallery-{level}"} <= set(self.splits)
        )

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
            Rows that are searched among each other, or one of `tests`. By default the data set's
            own protocol: "query" against "gallery" where both exist, else "test", else all rows.

        Returns
        -------
        dict
            labels; for a gallery also gallery_labels; where the data set has them, the ids and
            groups of each side and the junk labels. Labels of several levels are named columns.
        """
        tests = self.tests
        if split is None and tests:
            raise InputError(
                f"{self.name} has a separate test for each of the levels {', '.join(tests)}; name "
                f"one, as in task_arguments({tests[0]!r})."
            )
        if split in tests or (split is None and {"query", "gallery"} <= set(self.splits)):
            end = "" if split is None else f"-{split}"
            query, gallery = self._split(f"query{end}"), self._split(f"gallery{end}")
            arguments = {
                "labels": self._levels(query, split),
                "gallery_labels": self._levels(gallery, split),
            }
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
        from truerank.competition.task import Task

        arguments = self.task_arguments(split)
        names = {"query_ids": "ids", "query_groups": "groups"}
        return Task(**{names.get(name, name): value for name, value in arguments.items()})

    def _levels(self, rows: Rows, level: str | None = None) -> Any:
        """The labels of some rows: all levels by name, or one level's alone."""
        if self.labels.ndim == 1:
            return self.labels[rows]
        columns = dict(zip(self.level_names, self.labels[rows].T, strict=True))
        return columns if level is None else columns[level]

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


# Images of a data set, one at a time: files that are decoded on demand, or an array in memory.
#
# Row numbers come in, uint8 arrays (height, width, 3) go out, whatever the file's colour mode and
# however the camera was held. A file that is no image ends in a sentence with its path.


Image = npt.NDArray[np.uint8]

_ORIENTATION = 0x0112
"""The EXIF tag in which a camera notes how it was held."""


class Images(Sequence[Image]):
    """A sequence of images, by row number only; for a slice see ImageRows."""

    def __getitem__(self, row: Any) -> Any:
        try:
            number = int(row.__index__())
        except (AttributeError, TypeError):
            raise TypeError(f"images are taken one at a time, by an int. Got {row!r}.") from None
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no image {number} among {len(self)}.")
        return self._image(number % len(self))

    def _image(self, row: int) -> Image:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Image]:
        return (self._image(row) for row in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images)"


class ImageFiles(Images):
    """Images on disk; nothing is read before an image is asked for.

    Parameters
    ----------
    paths : sequence of paths, absolute or relative to `root`
    root : path, optional
    """

    def __init__(self, paths: Sequence[Any], root: str | os.PathLike[str] = "") -> None:
        self.root = os.fspath(root)
        # As bytes in one block: half a million paths in 30 MB, and workers share the memory.
        self._paths = np.array([os.fsencode(path) for path in paths], dtype=bytes)

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, row: int) -> str:
        """The path of the image of a row."""
        return os.path.join(self.root, os.fsdecode(self._paths[row]))

    def _image(self, row: int) -> Image:
        return decode(self.path(row))


class ImageArray(Images):
    """Images in memory: uint8 (N, H, W, 3), or (N, H, W) of grey values."""

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        if array.dtype != np.uint8 or array.ndim not in (3, 4) or array.shape[3:] not in ((), (3,)):
            raise InputError(
                "an array of images must be uint8 of shape (N, H, W) or (N, H, W, 3). "
                f"Got {array.dtype} of shape {array.shape} instead."
            )
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def _image(self, row: int) -> Image:
        image: Image = self.array[row]
        if image.ndim == 2:
            image = np.repeat(image[:, :, None], 3, axis=2)
        return image


class ImageRows(Images):
    """Some rows of other images, in the order given."""

    def __init__(self, images: Sequence[Image], rows: Rows) -> None:
        self.images: Sequence[Image] = images
        self.rows = rows
        if isinstance(images, ImageRows):  # rows of rows stay one step away from the images
            self.images = images.images
            self.rows = images.rows[rows]

    def __len__(self) -> int:
        return len(self.rows)

    def _image(self, row: int) -> Image:
        image: Image = self.images[int(self.rows[row])]
        return image


def as_images(images: Any) -> Sequence[Image]:
    """Wrap an array; anything else that has a length and rows is taken as it is."""
    if isinstance(images, np.ndarray):
        return ImageArray(images)
    if not (hasattr(images, "__len__") and hasattr(images, "__getitem__")):
        raise InputError(
            "images must be a sequence of uint8 arrays (height, width, 3), or one array of them. "
            f"Got {type(images).__name__} instead."
        )
    sequence: Sequence[Image] = images
    return sequence


def decode(path: str | os.PathLike[str]) -> Image:
    """Read one image file as RGB and upright; what is transparent becomes white.

    Examples
    --------
    >>> from truerank.datasets.base import decode
    >>> decode("no-such-file.jpg")
    Traceback (most recent call last):
    truerank.InputError: cannot read image no-such-file.jpg: No such file or directory.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise InputError("decoding images needs Pillow: pip install pillow.") from error
    try:
        with PIL.Image.open(path) as file:
            if _orientation(file) == 1:
                return _as_rgb(file)
            return _as_rgb(PIL.ImageOps.exif_transpose(file))
    except Exception as error:  # a damaged file can raise nearly anything inside a decoder
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read image {path}: {error.strerror}.") from error
        if isinstance(error, PIL.UnidentifiedImageError):
            raise InputError(f"{path} is not an image: its format is unknown.") from error
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(f"image {path} cannot be decoded: {reason}.") from error


def _orientation(file: Any) -> int:
    """How the camera was held; metadata that cannot be read says nothing."""
    try:
        return int(file.getexif().get(_ORIENTATION, 1))
    except Exception:
        return 1


def _as_rgb(picture: Any) -> Image:
    import PIL.Image

    if picture.mode == "I" or picture.mode.startswith("I;16"):
        # Sixteen bits, 65535 for white; Pillow's own conversion would cut off above 255.
        deep = np.asarray(picture).astype(np.int64).clip(0, 65535)
        return np.repeat(((deep + 128) // 257).astype(np.uint8)[:, :, None], 3, axis=2)
    if picture.has_transparency_data:
        solid = PIL.Image.new("RGBA", picture.size, "white")
        solid.alpha_composite(picture.convert("RGBA"))
        picture = solid
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    return np.array(picture, np.uint8)
