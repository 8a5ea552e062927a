"""The data sets of the studies: from `truerank data get`, or from files of the user."""

from __future__ import annotations

import io

import numpy as np

from truerank import datasets
from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageArray
from truerank.errors import InputError
from truerank.files import read_archive
from truerank.reproduce.request import Request

__all__ = ["emoji", "grocery", "quickdraw"]

GROCERY_SIDE = 64


def emoji(request: Request) -> Dataset:
    """The emoji families: category, subcategory, emoji; the design family is the camera."""
    return datasets.read("emoji", request.file("emoji"))


def quickdraw(request: Request) -> Dataset:
    """QuickDraw-345."""
    return datasets.read("quickdraw", request.file("quickdraw"))


def grocery(request: Request) -> Dataset:
    """The Grocery Store data set from an .npz of JPEGs.

    Arrays: `jpeg` (bytes one after the other) and `offsets` (image i is jpeg[offsets[i] :
    offsets[i + 1]]), `levels` (images, 3), coarse to fine.
    """
    path = request.file("grocery")
    if path is None:
        raise InputError("the photographs of the grocery store are needed: --data grocery=FILE.")
    try:
        import PIL.Image
    except ImportError as error:
        raise InputError("reading photographs needs Pillow: pip install pillow.") from error
    if not path.is_file():
        raise InputError(f"{path} is no file; it should be an .npz with photographs.")
    try:
        arrays = read_archive(path)
        jpeg, offsets, levels = arrays["jpeg"], arrays["offsets"], arrays["levels"]
        images = np.empty((len(offsets) - 1, GROCERY_SIDE, GROCERY_SIDE, 3), np.uint8)
        for row in range(len(images)):
            data = jpeg[offsets[row] : offsets[row + 1]].tobytes()
            with PIL.Image.open(io.BytesIO(data)) as picture:
                side = min(picture.size)
                left, top = (picture.width - side) // 2, (picture.height - side) // 2
                square = picture.convert("RGB").crop((left, top, left + side, top + side))
                images[row] = np.asarray(square.resize((GROCERY_SIDE, GROCERY_SIDE)))
    except InputError:
        raise
    except Exception as error:  # whatever zipfile, numpy or Pillow say of a damaged file
        raise InputError(
            f"{path} cannot be read as photographs: an .npz with jpeg, offsets and levels."
        ) from error
    return Dataset("grocery", ImageArray(images), levels, ("coarse", "middle", "fine"))
