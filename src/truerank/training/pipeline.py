"""Pipelines: from row numbers to batches of crops on the device.

Small images of one size are all kept on the device as bytes and cut there, a batch at a time; files
are decoded and cut by threads, a few batches ahead. Both give the same crops, whatever the threads.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.datasets.images import ImageArray, ImageRows
from truerank.errors import InputError
from truerank.training.augmentation import Augmentation, cut, cut_one

__all__ = ["Decoded", "Pipeline", "Resident", "open_pipeline"]

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
