"""Augmentation as geometry: every crop, of training or evaluation, is a box scaled to a square.

Random numbers come in as an array, one row for each image, so that no number of workers and no
device can change them. Boxes are cut by Pillow's bilinear rule, batched as two matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.errors import InputError

__all__ = ["DRAWS", "Augmentation", "cut", "cut_one", "draw"]

Floats = npt.NDArray[np.float64]
ATTEMPTS = 10
DRAWS = 2 * ATTEMPTS + 3
"""Random numbers for one image: area and ratio of each attempt, two of position, one of flip."""


@dataclass(frozen=True)
class Augmentation:
    """What happens to an image, in training and in evaluation.

    Attributes
    ----------
    resize : int
        The short side is scaled to this many pixels first.
    crop : int
        The side of the square that the model sees; at most `resize`.
    scale : (float, float)
        A training crop covers a share of the image's area from this range.
    ratio : (float, float)
        Width over height of the training crop, before it is scaled to a square.
    flip : float
        The probability that a training crop is mirrored.
    """

    resize: int = 256
    crop: int = 227
    scale: tuple[float, float] = (0.16, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def random(
        self, heights: Any, widths: Any, draws: Floats
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Boxes (N, 4) as left, top, right, bottom in pixels, and which crops are mirrored.

        The first of ten attempts that fits inside the image is taken, and else the largest centred
        box of an allowed ratio. Scaling the short side first changes no box, measured in the
        original pixels, so the image is resampled once and not twice.
        """
        height = np.broadcast_to(np.asarray(heights, np.float64)[..., None], (len(draws), 1))
        width = np.broadcast_to(np.asarray(widths, np.float64)[..., None], (len(draws), 1))
        attempts = draws[:, : 2 * ATTEMPTS]
        low, high = self.scale
        area = (low + (high - low) * attempts[:, 0::2]) * height * width
        low, high = np.log(self.ratio)
        ratio = np.exp(low + (high - low) * attempts[:, 1::2])
        wide, tall = np.sqrt(area * ratio), np.sqrt(area / ratio)
        fits = (wide <= width) & (tall <= height)
        # One more attempt, the fallback, which always fits.
        wide = np.hstack([wide, np.minimum(width, height * self.ratio[1])])
        tall = np.hstack([tall, np.minimum(height, width / self.ratio[0])])
        first = np.hstack([fits, np.ones_like(fits[:, :1])]).argmax(axis=1)[:, None]
        wide = np.take_along_axis(wide, first, axis=1)
        tall = np.take_along_axis(tall, first, axis=1)
        place = draws[:, 2 * ATTEMPTS : 2 * ATTEMPTS + 2]
        place = np.where(first == ATTEMPTS, 0.5, place)
        left = place[:, :1] * (width - wide)
        top = place[:, 1:] * (height - tall)
        return np.hstack([left, top, left + wide, top + tall]), draws[:, -1] < self.flip

    def centre(self, heights: Any, widths: Any, count: int) -> Floats:
        """Boxes (N, 4) of the evaluation's crop: the centre of the image scaled to `resize`."""
        height = np.broadcast_to(np.asarray(heights, np.float64), (count,))
        width = np.broadcast_to(np.asarray(widths, np.float64), (count,))
        half = np.minimum(height, width) * (self.crop / self.resize / 2)
        x, y = width / 2, height / 2
        return np.stack([x - half, y - half, x + half, y + half], axis=1)


def draw(seed: int, epoch: int, count: int) -> Floats:
    """The random numbers of an epoch's images: row k depends only on the seed, the epoch and k."""
    # The sampler leaves the counter's last word 0, so that it never draws these numbers.
    counter = np.array([0, 0, 0, 1], np.uint64)
    bits = np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=counter)
    return np.random.Generator(bits).random((count, DRAWS))


def cut(
    images: torch.Tensor, boxes: torch.Tensor, mirrored: torch.Tensor | None, size: int
) -> torch.Tensor:
    """Crops (B, C, size, size), as float32 levels, of images (B, C, H, W).

    Parameters
    ----------
    images : uint8 or float tensor (B, C, H, W)
    boxes : float tensor (B, 4)
        Left, top, right and bottom in pixels.
    mirrored : bool tensor (B,), optional
        The crops to turn around.
    size : int
        The side of the crops.
    """
    left, top, right, bottom = boxes.to(torch.float32).unbind(1)
    columns = _weights(left, right, images.shape[3], size)
    if mirrored is not None:
        columns = torch.where(mirrored[:, None, None], columns.flip(1), columns)
    rows = _weights(top, bottom, images.shape[2], size)
    return rows[:, None] @ images.to(torch.float32) @ columns.transpose(1, 2)[:, None]


def _weights(low: torch.Tensor, high: torch.Tensor, source: int, size: int) -> torch.Tensor:
    """(B, size, source): how much each source pixel counts in each pixel of the crop.

    A triangle around the pixel's centre, as wide as the step between pixels where the crop shrinks
    (which keeps fine lines from flickering) and one source pixel where it grows.
    """
    step = ((high - low) / size)[:, None, None]
    pixels = torch.arange(size, device=low.device)[:, None] + 0.5
    centres = low[:, None, None] + pixels * step
    positions = torch.arange(source, device=low.device) + 0.5
    weights = (1 - (positions - centres).abs() / step.clamp(min=1)).clamp(min=0)
    return weights / weights.sum(dim=2, keepdim=True)


def cut_one(
    image: npt.NDArray[np.uint8], box: Floats, mirrored: bool, size: int
) -> npt.NDArray[np.uint8]:
    """The crop (3, size, size) of one image (H, W, 3) of any size, by Pillow."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("large images need Pillow: pip install pillow.") from error
    # Rounding may push an edge of the box outside by the last bit, which Pillow refuses.
    height, width = image.shape[:2]
    left, top, right, bottom = np.clip(box, 0, [width, height, width, height]).tolist()
    crop = Image.fromarray(image).resize(
        (size, size), Image.Resampling.BILINEAR, box=(left, top, right, bottom)
    )
    if mirrored:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.ascontiguousarray(np.asarray(crop).transpose(2, 0, 1))
