"""Crops: Pillow is the oracle of resampling, a histogram of areas the oracle of random boxes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from truerank._util.errors import InputError
from truerank.datasets.base import ImageArray
from truerank.training.pipeline import (
    Augmentation,
    Decoded,
    Resident,
    cut,
    cut_one,
    draw,
    open_pipeline,
)

CPU = torch.device("cpu")


def noise(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    shape = (count, height, width, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@given(
    height=st.integers(4, 40),
    width=st.integers(4, 40),
    size=st.integers(2, 48),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_crop_is_what_pillow_cuts(height: int, width: int, size: int, seed: int) -> None:
    images = noise(2, height, width, seed)
    boxes, mirrored = Augmentation().random(height, width, draw(seed, 0, 2))
    crops = cut(
        torch.from_numpy(images).permute(0, 3, 1, 2),
        torch.from_numpy(boxes),
        torch.from_numpy(mirrored),
        size,
    )
    for image, box, turned, crop in zip(images, boxes, mirrored, crops, strict=True):
        inside = tuple(box.clip(0, [width, height, width, height]).tolist())
        expected = Image.fromarray(image).resize(
            (size, size), Image.Resampling.BILINEAR, box=inside
        )
        if turned:
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        # Pillow rounds to whole levels after each of its two passes.
        difference = crop.permute(1, 2, 0).numpy() - np.asarray(expected, float)
        assert np.abs(difference).max() < 1.2


def test_a_whole_image_at_its_own_size_is_left_alone() -> None:
    images = torch.from_numpy(noise(3, 9, 9)).permute(0, 3, 1, 2)
    boxes = torch.tensor([[0.0, 0, 9, 9]]).expand(3, 4)
    assert torch.equal(cut(images, boxes, None, 9), images.float())
    turned = cut(images, boxes, torch.tensor([True, False, True]), 9)
    assert torch.equal(turned[0], images[0].flip(2).float())
    assert torch.equal(turned[1], images[1].float())


@given(
    height=st.integers(1, 500),
    width=st.integers(1, 500),
    low=st.floats(0.01, 1),
    seed=st.integers(0, 100),
)
def test_random_boxes_keep_their_promises(height: int, width: int, low: float, seed: int) -> None:
    augmentation = Augmentation(scale=(low, 1.0), ratio=(0.5, 2.0))
    boxes, _ = augmentation.random(height, width, draw(seed, 1, 50))
    left, top, right, bottom = boxes.T
    tiny = 1e-9 * max(height, width)
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (right <= width + tiny).all()
    assert (bottom <= height + tiny).all()
    share = (right - left) * (bottom - top) / (height * width)
    ratio = (right - left) / (bottom - top)
    # A long image may admit no box of that area; then the largest of an allowed ratio is taken.
    fallback = (right - left >= width - tiny) | (bottom - top >= height - tiny)
    assert ((share >= low - 1e-9) | fallback).all()
    assert (share <= 1 + 1e-9).all()
    assert ((ratio >= 0.5 - 1e-9) & (ratio <= 2 + 1e-9)).all()


def test_areas_and_flips_are_spread_as_asked() -> None:
    augmentation = Augmentation(scale=(0.2, 0.5), ratio=(1.0, 1.0), flip=0.25)
    boxes, mirrored = augmentation.random(10, 10, draw(0, 0, 20_000))
    share = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / 100
    counts, _ = np.histogram(share, bins=10, range=(0.2, 0.5))
    assert counts.sum() == 20_000
    assert np.abs(counts - 2000).max() < 200  # 4.7 standard deviations
    assert abs(mirrored.mean() - 0.25) < 0.015


def test_an_image_of_an_impossible_ratio_gets_the_largest_centred_box() -> None:
    boxes, _ = Augmentation(scale=(1.0, 1.0)).random(100, 10, draw(0, 0, 3))
    np.testing.assert_allclose(boxes, [[0, 50 - 10 / 1.5, 10, 50 + 10 / 1.5]] * 3)


def test_the_centre_crop_is_the_papers() -> None:
    """Short side to 256, centre 227: of 512 x 1024 pixels, 454 in the middle."""
    boxes = Augmentation().centre(512, 1024, 2)
    np.testing.assert_allclose(boxes, [[512 - 227, 256 - 227, 512 + 227, 256 + 227]] * 2)


def test_a_square_resize_ignores_the_ratio_of_the_sides() -> None:
    """Pillow is the oracle: both sides to 64, then the middle 48 of each."""
    augmentation = Augmentation(resize=64, crop=48, square=True)
    boxes = augmentation.centre(512, 1024, 2)
    np.testing.assert_allclose(boxes, [[128, 64, 896, 448]] * 2)
    image = noise(1, 160, 100)[0]
    resized = Image.fromarray(image).resize((64, 64), Image.Resampling.BILINEAR)
    wanted = np.asarray(resized.crop((8, 8, 56, 56)), float).transpose(2, 0, 1)
    found = cut_one(image, augmentation.centre(160, 100, 1)[0], False, 48).astype(float)
    inner = (slice(None), slice(2, -2), slice(2, -2))  # the resized image's edge has neighbours
    assert np.abs(found[inner] - wanted[inner]).max() <= 2
    plain = Augmentation(resize=64, crop=48)
    assert not np.allclose(plain.centre(512, 1024, 2), boxes)
    np.testing.assert_array_equal(plain.centre(70, 70, 1), augmentation.centre(70, 70, 1))


def test_draws_belong_to_seed_epoch_and_position() -> None:
    few, many = draw(3, 5, 10), draw(3, 5, 1000)
    np.testing.assert_array_equal(few, many[:10])
    assert not np.array_equal(few, draw(3, 6, 10))
    assert not np.array_equal(few, draw(4, 5, 10))


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("training", [True, False])
def test_both_pipelines_give_the_same_crops(workers: int, training: bool) -> None:
    images = noise(20, 33, 27)
    augmentation = Augmentation(resize=32, crop=28)
    chunks = [np.array(rows) for rows in ([3, 3, 7], [19], [0, 1, 2, 4, 5])]
    draws = draw(0, 0, 9) if training else None
    resident = list(Resident(ImageArray(images), augmentation, CPU).batches(chunks, draws))
    decoded = list(
        Decoded(ImageArray(images), augmentation, CPU, workers=workers).batches(chunks, draws)
    )
    assert [len(crops) for crops in resident] == [3, 1, 5]
    for one, other in zip(resident, decoded, strict=True):
        assert one.shape[1:] == other.shape[1:] == (3, 28, 28)
        assert (one - other).abs().max() < 1.2
    if training:
        assert not torch.equal(resident[0][0], resident[0][1])  # one image, two augmentations
    else:
        assert torch.equal(resident[0][0], resident[0][1])


def test_grey_images_become_three_equal_channels() -> None:
    grey = ImageArray(noise(4, 8, 8)[..., 0])
    (crops,) = Resident(grey, Augmentation(resize=8, crop=8), CPU).batches([np.arange(4)])
    assert crops.shape == (4, 3, 8, 8)
    assert torch.equal(crops[:, 0], torch.from_numpy(grey.array).float())
    assert torch.equal(crops[:, 0], crops[:, 2])


class Sizes:
    """Images that are no array, of one size or of two."""

    def __init__(self, *sides: int) -> None:
        self.sides = sides

    def __len__(self) -> int:
        return len(self.sides)

    def __getitem__(self, row: int) -> np.ndarray:
        return noise(1, self.sides[row], self.sides[row], row)[0]


def test_arrays_are_kept_on_the_device_and_others_are_decoded() -> None:
    augmentation = Augmentation(resize=8, crop=8)
    assert isinstance(open_pipeline(ImageArray(noise(2, 8, 8)), augmentation, CPU), Resident)
    assert isinstance(open_pipeline(Sizes(8, 8), augmentation, CPU), Decoded)
    forced = open_pipeline(Sizes(8, 8), augmentation, CPU, kind="resident")
    assert isinstance(forced, Resident)
    assert forced.pixels.shape == (2, 3, 8, 8)
    with pytest.raises(InputError, match=r"2 different sizes .* set training.pipeline to decoded"):
        open_pipeline(Sizes(8, 9), augmentation, CPU, kind="resident")


def test_an_image_that_cannot_be_read_ends_the_stream_with_its_sentence() -> None:
    class Damaged(Sizes):
        def __getitem__(self, row: int) -> np.ndarray:
            if row == 5:
                raise InputError("cat.jpg is a damaged image: truncated.")
            return super().__getitem__(row)

    pipeline = Decoded(Damaged(*[8] * 9), Augmentation(resize=8, crop=8), CPU, workers=2)
    batches = pipeline.batches([np.array([row]) for row in range(9)])
    for _ in range(5):
        next(batches)
    with pytest.raises(InputError, match=r"cat\.jpg is a damaged image"):
        next(batches)


def test_a_box_on_the_edge_is_not_refused_for_its_last_bit() -> None:
    image = noise(1, 7, 7)[0]
    beyond = np.array([-1e-15, 0.0, np.nextafter(7.0, 8), 7.0])
    np.testing.assert_array_equal(
        cut_one(image, beyond, False, 7), cut_one(image, np.array([0.0, 0, 7, 7]), False, 7)
    )
