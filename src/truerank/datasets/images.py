"""Images of a data set, one at a time: files that are decoded on demand, or an array in memory.

Row numbers come in, uint8 arrays (height, width, 3) go out, whatever the file's colour mode and
however the camera was held. A file that is no image ends in a sentence with its path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError

__all__ = ["Image", "ImageArray", "ImageFiles", "ImageRows", "Images", "as_images", "decode"]

Image = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]

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
    >>> from truerank.datasets.images import decode
    >>> decode("no-such-file.jpg")
    Traceback (most recent call last):
    truerank.errors.InputError: cannot read image no-such-file.jpg: No such file or directory.
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
