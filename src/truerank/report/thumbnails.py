"""Small pictures of the rows that a page shows, as text that stands in the page itself."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from truerank.errors import InputError
from truerank.extras import install

__all__ = ["ByColumn", "Images", "add_thumbnails", "check_images", "find_pictures"]

SIDE = 72
"""Pixels of the longer side."""
ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")


@dataclass(frozen=True)
class ByColumn:
    """Pictures whose paths are what a result knows of each row: its id, label or group."""

    name: str

    def thumbnail(self, about: Mapping[str, Any]) -> str | None:
        """See Pictures."""
        if self.name not in ("id", "label", "group"):
            raise InputError(
                f"{self.name} is neither a folder nor a column of the result (id, label or group)."
            )
        path = about.get(self.name)
        return _small(Path(path)) if path and Path(path).is_file() else None


Images = str | os.PathLike[str] | Sequence[Any] | ByColumn
"""A folder whose files have the rows' ids as names, or a picture (or its path) for each row."""


class Pictures(Protocol):
    """Where the pictures of one side's rows are."""

    def thumbnail(self, about: Mapping[str, Any]) -> str | None:
        """The small picture of a row as a data URI; None if there is none."""


class _Folder:
    """Files named by the rows' ids, with or without an ending."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def thumbnail(self, about: Mapping[str, Any]) -> str | None:
        """See Pictures; an id that leads out of the folder names no picture."""
        name = about.get("id")
        for ending in ENDINGS if name else ():
            path = (self._path / f"{name}{ending}").resolve()
            if path.is_file() and path.is_relative_to(self._path):
                return _small(path)
        return None


@dataclass(frozen=True)
class _Listed:
    """One picture, or its path, for each row; None for none."""

    images: Sequence[Any]

    def thumbnail(self, about: Mapping[str, Any]) -> str | None:
        """See Pictures."""
        image = self.images[about["row"]]
        return None if image is None else _small(image)


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


def _small(image: Any) -> str | None:
    """A picture, its pixels or its path as a data URI, SIDE pixels at most."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(image, (str, os.PathLike)):
            with Image.open(image) as file:
                picture = file.convert("RGBA" if "A" in file.getbands() else "RGB")
        elif isinstance(image, Image.Image):
            picture = image.convert("RGBA" if "A" in image.getbands() else "RGB")
        else:
            picture = Image.fromarray(np.asarray(image, np.uint8))
            picture = picture.convert("RGB" if picture.mode != "RGBA" else "RGBA")
    except (OSError, UnidentifiedImageError, ValueError, TypeError) as error:
        raise InputError(f"an image cannot be read: {error}.") from error
    picture.thumbnail((SIDE, SIDE))
    out, kind = io.BytesIO(), "PNG" if picture.mode == "RGBA" else "JPEG"
    picture.save(out, kind, **({"quality": 80} if kind == "JPEG" else {"optimize": True}))
    data = base64.b64encode(out.getvalue()).decode()
    return f"data:image/{kind.lower()};base64,{data}"


def check_images() -> None:
    """Refuse pictures where nothing could read them."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise InputError(f"images need Pillow: {install('report')}.") from error


def add_thumbnails(model: dict[str, Any], queries: Pictures, items: Pictures) -> None:
    """Put the pictures of all shown rows into a model's data, each once."""
    ranked = model["ranked"]
    if ranked is None:
        raise InputError(
            "images are shown beside queries, which this result does not hold: write it with "
            "evaluate --report, or leave the images out."
        )
    held: dict[str, str] = {}
    for query in [*ranked["worst"], *ranked["best"]]:
        for side, pictures, rows in (("q", queries, [query]), ("g", items, query["neighbours"])):
            for about in rows:
                key = f"{side}{about['row']}"
                if key not in held:
                    found = pictures.thumbnail(about)
                    if found is not None:
                        held[key] = found
    if not held:
        raise InputError("no image was found for any row shown: file names must be the rows' ids.")
    model["thumbnails"] = held
