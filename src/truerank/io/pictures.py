"""Pictures of rows: in a folder by the rows' ids, one per row, or by a column of paths."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from truerank._util.errors import InputError
from truerank._util.installed import install

ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")


class Pictures(Protocol):
    """Where the pictures of one side's rows are."""

    def picture(self, about: Mapping[str, Any]) -> Any | None:
        """Return the picture of a row (Pillow's, RGB or RGBA) by its `row` and `id`, if any."""


@dataclass(frozen=True)
class ByColumn:
    """Pictures whose paths are what a result knows of each row: its id, label or group."""

    name: str

    def picture(self, about: Mapping[str, Any]) -> Any | None:
        """See Pictures."""
        if self.name not in ("id", "label", "group"):
            raise InputError(
                f"{self.name} is neither a folder nor a column of the result (id, label or group)."
            )
        path = about.get(self.name)
        return open_picture(Path(path)) if path and Path(path).is_file() else None


Images = str | os.PathLike[str] | Sequence[Any] | ByColumn
"""A folder whose files have the rows' ids as names, or a picture (or its path) for each row."""


@dataclass(frozen=True)
class _Folder:
    """Files named by the rows' ids, with or without an ending."""

    path: Path

    def picture(self, about: Mapping[str, Any]) -> Any | None:
        """See Pictures; an id that leads out of the folder names no picture."""
        folder, name = self.path.resolve(), about.get("id")
        for ending in () if name is None or name == "" else ENDINGS:
            path = (folder / f"{name}{ending}").resolve()
            if path.is_file() and path.is_relative_to(folder):
                return open_picture(path)
        return None


@dataclass(frozen=True)
class _Listed:
    """One picture, or its path, for each row; None for none."""

    images: Sequence[Any]

    def picture(self, about: Mapping[str, Any]) -> Any | None:
        """See Pictures."""
        image = self.images[about["row"]]
        return None if image is None else open_picture(image)


def find_pictures(images: Images, rows: int, side: str) -> Pictures:
    """The pictures of a side's rows; refused if there are more or fewer than rows."""
    if isinstance(images, ByColumn):
        return images
    if isinstance(images, (str, os.PathLike)):
        if not Path(images).is_dir():
            raise InputError(f"{images} is no folder of images.")
        return _Folder(Path(images))
    if len(images) != rows:
        raise InputError(
            f"images must be one for each of {rows} rows of the {side}, or a folder. "
            f"Got {len(images)}."
        )
    return _Listed(images)


def open_picture(image: Any) -> Any:
    """A picture, its pixels or the file at its path as a new picture of Pillow's."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(image, (str, os.PathLike)):
            with Image.open(image) as file:
                return file.convert("RGBA" if "A" in file.getbands() else "RGB")
        if isinstance(image, Image.Image):
            return image.convert("RGBA" if "A" in image.getbands() else "RGB")
        picture = Image.fromarray(np.asarray(image, np.uint8))
        return picture.convert("RGB" if picture.mode != "RGBA" else "RGBA")
    except (OSError, UnidentifiedImageError, ValueError, TypeError) as error:
        raise InputError(f"an image cannot be read: {error}.") from error


def check_images() -> None:
    """Refuse pictures where nothing could read them."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise InputError(f"images need Pillow: {install('report')}.") from error
