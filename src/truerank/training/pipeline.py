"""Pipelines from row numbers to batches of crops on the device, and augmentation.

Small images of one size are all kept on the device as bytes and cropped there; files are
decoded and cropped by threads, a few batches ahead. Both give the same crops. Every crop, of
training or evaluation, is a box scaled to a square. Random numbers come in as an array, one row
per image, so that the number of workers and the device do not change them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank._util.errors import InputError
from truerank.datasets.base import ImageArray, ImageRows

Image = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MOST_RESIDENT = 8 * 2**30
"""Bytes of images that may be kept on the device without being asked to."""
CUT_AT_ONCE = 2**24
"""Numbers that a GPU holds while it cuts several batches of small images with one launch."""
AHEAD = 3
"""Batches that are decoded before they are needed."""


class Pipeline(ABC):
    """Crops of images by row number."""

    @abstractmethod
    def batches(
        self, chunks: Sequence[Rows], draws: Floats | None = None
    ) -> Generator[torch.Tensor, None, None]:
        """Float tensors (B, 3, crop, crop) with levels from 0 to 255, one for each chunk of rows.

        With `draws`, one row of random numbers for each image of all chunks, crops are those of
        training; without, those of evaluation.
        """


class Resident(Pipeline):
    """All images as one tensor of bytes on the device."""

    def __init__(
        self, images: Sequence[Image], augmentation: Augmentation, device: torch.device
    ) -> None:
        self.augmentation = augmentation
        self.device = device
        array = _as_array(images)
        if array.ndim == 3:
            array = array[..., None]
        if not array.flags.writeable:  # a file in memory, which torch will not share
            array = array.copy()
        self.pixels = torch.from_numpy(array).permute(0, 3, 1, 2).contiguous().to(device)

    def batches(
        self, chunks: Sequence[Rows], draws: Floats | None = None
    ) -> Generator[torch.Tensor, None, None]:
        """See Pipeline. What the crops need is moved to the device once for all chunks."""
        if not chunks:
            return
        rows = np.concatenate(chunks)
        height, width = self.pixels.shape[2:]
        mirrored: Any = None
        if draws is None:
            boxes = self.augmentation.centre(height, width, len(rows))
        else:
            boxes, flips = self.augmentation.random(height, width, draws)
            mirrored = torch.from_numpy(flips).to(self.device)
        places = torch.from_numpy(rows).to(self.device)
        corners = torch.from_numpy(boxes.astype(np.float32)).to(self.device)
        start = 0
        for some in self._in_turn(chunks):
            sizes = [len(chunk) for chunk in some]
            part = slice(start, start + sum(sizes))
            crops = cut(
                self.pixels[places[part]],
                corners[part],
                None if mirrored is None else mirrored[part],
                self.augmentation.crop,
            )
            yield from crops.expand(-1, 3, -1, -1).split(sizes)
            start = part.stop

    def _in_turn(self, chunks: Sequence[Rows]) -> Iterator[Sequence[Rows]]:
        """Chunks that are cut together: one, or as many as keep a GPU busy for a while."""
        at_once = 1
        if self.device.type == "cuda":
            channels, height, width = self.pixels.shape[1:]
            crop = self.augmentation.crop
            numbers = (channels + 1) * (height + crop) * (width + crop)
            at_once = max(1, CUT_AT_ONCE // (numbers * max(map(len, chunks))))
        for first in range(0, len(chunks), at_once):
            yield chunks[first : first + at_once]


class Decoded(Pipeline):
    """Images that are read one by one, by threads that keep a few batches ahead."""

    def __init__(
        self,
        images: Sequence[Image],
        augmentation: Augmentation,
        device: torch.device,
        *,
        workers: int | None = None,
    ) -> None:
        self.images = images
        self.augmentation = augmentation
        self.device = device
        self.workers = workers or min(16, os.cpu_count() or 1)

    def batches(
        self, chunks: Sequence[Rows], draws: Floats | None = None
    ) -> Generator[torch.Tensor, None, None]:
        """See Pipeline. An image that cannot be read ends it with that image's sentence."""
        waiting: deque[list[Future[Image]]] = deque()
        numbers = iter(range(sum(map(len, chunks))))
        with ThreadPoolExecutor(self.workers, thread_name_prefix="truerank-images") as pool:
            try:
                for chunk in chunks:
                    tasks = []
                    for row in chunk.tolist():
                        number = next(numbers)
                        own = None if draws is None else draws[number : number + 1]
                        tasks.append(pool.submit(self._crop, row, own))
                    waiting.append(tasks)
                    if len(waiting) > AHEAD:
                        yield self._collect(waiting.popleft())
                while waiting:
                    yield self._collect(waiting.popleft())
            finally:  # after an error or an early end, the images ahead need no decoding
                pool.shutdown(wait=True, cancel_futures=True)

    def _crop(self, row: int, draws: Floats | None) -> Image:
        image = self.images[row]
        height, width = image.shape[:2]
        mirrored = False
        if draws is None:
            boxes = self.augmentation.centre(height, width, 1)
        else:
            boxes, flips = self.augmentation.random(height, width, draws)
            mirrored = bool(flips[0])
        return cut_one(image, boxes[0], mirrored, self.augmentation.crop)

    def _collect(self, tasks: list[Future[Image]]) -> torch.Tensor:
        crops = torch.from_numpy(np.stack([task.result() for task in tasks]))
        if self.device.type == "cuda":
            crops = crops.pin_memory().to(self.device, non_blocking=True)
        return crops.to(self.device, torch.float32)


def open_pipeline(
    images: Sequence[Image],
    augmentation: Augmentation,
    device: torch.device,
    *,
    kind: str = "auto",
    workers: int | None = None,
) -> Pipeline:
    """The pipeline that suits the images: resident if they are an array that is not too large."""
    if kind == "auto":
        base = images.images if isinstance(images, ImageRows) else images
        size = len(images) * base.array[0].nbytes if isinstance(base, ImageArray) else None
        kind = "resident" if size is not None and size <= MOST_RESIDENT else "decoded"
    if kind == "resident":
        return Resident(images, augmentation, device)
    return Decoded(images, augmentation, device, workers=workers)


def _as_array(images: Sequence[Image]) -> Image:
    """All images in one array (N, H, W) or (N, H, W, 3)."""
    if isinstance(images, ImageArray):
        return images.array
    if isinstance(images, ImageRows) and isinstance(images.images, ImageArray):
        rows: Image = images.images.array[images.rows]
        return rows
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        decoded = list(pool.map(images.__getitem__, range(len(images))))
    shapes = {image.shape for image in decoded}
    if len(shapes) != 1:
        raise InputError(
            f"images of {len(shapes)} different sizes cannot be kept on the device together; "
            "set training.pipeline to decoded."
        )
    return np.stack(decoded)


# Augmentation as geometry: every crop, of training or evaluation, is a box scaled to a square.
#
# Random numbers come in as an array, one row for each image, so that no number of workers and no
# device can change them. Boxes are cut by Pillow's bilinear rule, batched as two matrix products.


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
    square : bool
        Evaluation scales both sides to `resize`, not only the short one.
    """

    resize: int = 256
    crop: int = 227
    scale: tuple[float, float] = (0.16, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    square: bool = False

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
        sides = np.stack([width, height], axis=1)
        kept = sides if self.square else np.minimum(height, width)[:, None]
        half = kept * (self.crop / self.resize / 2)
        return np.hstack([sides / 2 - half, sides / 2 + half])


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
