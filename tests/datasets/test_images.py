"""Decoding: every kind of file becomes upright RGB, and a bad one a sentence with its path."""

from __future__ import annotations

import os
import pickle
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from truerank._util.errors import InputError
from truerank.datasets.base import ImageArray, ImageFiles, ImageRows, as_images, decode

CORNERS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[9, 9, 9], [0, 0, 0], [255] * 3]])
CORNERS = CORNERS.astype(np.uint8)

# What a viewer must do to the stored pixels for each EXIF orientation.
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: a[::-1].transpose(1, 0, 2),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: a[:, ::-1].transpose(1, 0, 2),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_orientation(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "held.png"
    Image.fromarray(CORNERS).save(path, exif=exif)
    assert np.array_equal(decode(path), UPRIGHT[orientation](CORNERS))


def test_unreadable_metadata_do_not_matter(tmp_path):
    path = tmp_path / "odd.jpg"
    Image.new("RGB", (8, 8), (200, 10, 10)).save(path, exif=b"Exif\0\0nonsense")
    assert decode(path).shape == (8, 8, 3)


def test_jpeg(tmp_path):
    path = tmp_path / "flat.jpg"
    Image.new("RGB", (5, 3), (200, 100, 50)).save(path, quality=100, subsampling=0)
    image = decode(path)
    assert image.shape == (3, 5, 3)
    assert image.dtype == np.uint8
    assert np.abs(image.astype(int) - (200, 100, 50)).max() <= 2


def saved(tmp_path, picture: Image.Image, suffix: str = ".png") -> np.ndarray:
    path = tmp_path / f"picture{suffix}"
    picture.save(path)
    with Image.open(path) as file:
        assert file.mode == picture.mode, "the test must reach the mode it names"
    return decode(path)


def test_grey(tmp_path):
    grey = np.array([[0, 7], [128, 255]], np.uint8)
    assert np.array_equal(saved(tmp_path, Image.fromarray(grey)), np.repeat(grey[..., None], 3, 2))


def test_black_and_white(tmp_path):
    picture = Image.new("1", (2, 1), 1)
    picture.putpixel((0, 0), 0)
    assert saved(tmp_path, picture).tolist() == [[[0] * 3, [255] * 3]]


def test_palette(tmp_path):
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 0])
    picture.putpixel((1, 0), 1)
    assert saved(tmp_path, picture).tolist() == [[[10, 20, 30], [200, 100, 0]]]


def test_a_transparent_palette_colour_becomes_white(tmp_path):
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 0])
    picture.putpixel((1, 0), 1)
    path = tmp_path / "clear.png"
    picture.save(path, transparency=0)
    assert decode(path).tolist() == [[[255, 255, 255], [200, 100, 0]]]


@pytest.mark.parametrize(
    ("mode", "pixel", "expected"),
    [
        ("RGBA", (10, 20, 30, 0), [255, 255, 255]),
        ("RGBA", (10, 20, 30, 255), [10, 20, 30]),
        ("RGBA", (0, 0, 255, 51), [204, 204, 255]),  # a fifth of blue on white
        ("LA", (40, 255), [40, 40, 40]),
        ("LA", (40, 0), [255, 255, 255]),
    ],
)
def test_transparency_is_laid_on_white(tmp_path, mode, pixel, expected):
    assert saved(tmp_path, Image.new(mode, (1, 1), pixel)).tolist() == [[expected]]


@pytest.mark.parametrize("suffix", [".tif", ".jpg"])
def test_cmyk(tmp_path, suffix):
    image = saved(tmp_path, Image.new("CMYK", (8, 8), (0, 255, 255, 0)), suffix)
    assert np.abs(image.astype(int) - (255, 0, 0)).max() <= 3, "magenta and yellow make red"


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    deep = np.array([[0, 128, 129, 257, 32896, 65535]], np.uint16)
    assert saved(tmp_path, Image.fromarray(deep))[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255]


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"cannot read image .*gone\.jpg: No such file"):
        decode(tmp_path / "gone.jpg")


def test_folder(tmp_path):
    with pytest.raises(InputError, match=r"cannot read image .*: Is a directory\."):
        decode(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNX\r\n\x1a\n"])
def test_not_an_image(tmp_path, content):
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.jpg is not an image: its format is unknown\."):
        decode(path)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_cut_off_file(tmp_path, suffix):
    path = tmp_path / f"cut{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=rf"^image .*cut\{suffix} cannot be decoded: .+\.$"):
        decode(path)


@pytest.fixture(scope="module")
def sound_files(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    noise = np.random.default_rng(1).integers(0, 256, (12, 9, 3), np.uint8)
    for suffix in ("jpg", "png", "webp", "gif", "bmp", "tif"):
        Image.fromarray(noise).save(folder / f"noise.{suffix}")
    return {path.suffix: path.read_bytes() for path in folder.iterdir()}


@given(data=st.data())
def test_a_damaged_file_is_an_image_or_an_input_error(data, sound_files, tmp_path_factory):
    suffix = data.draw(st.sampled_from(sorted(sound_files)))
    content = bytearray(sound_files[suffix])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own, about odd sizes and metadata
        try:
            image = decode(path)
        except InputError as error:
            complaint = str(error)
        else:
            assert image.dtype == np.uint8
            assert image.shape[2:] == (3,)
            return
    assert str(path) in complaint


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match="needs Pillow: pip install pillow"):
        decode("any.jpg")


def test_files_are_read_when_asked_for(tmp_path):
    Image.fromarray(CORNERS).save(tmp_path / "b.png")
    images = ImageFiles(["gone.png", "b.png"], tmp_path)
    assert len(images) == 2
    assert np.array_equal(images[1], CORNERS)
    assert np.array_equal(images[-1], CORNERS)
    assert np.array_equal(images[np.int64(1)], CORNERS)
    assert images.path(1) == str(tmp_path / "b.png")
    with pytest.raises(InputError, match=r"gone\.png"):
        images[0]
    with pytest.raises(IndexError, match="no image 2 among 2"):
        images[2]
    with pytest.raises(TypeError, match="by an int"):
        images[0:1]
    assert np.array_equal(pickle.loads(pickle.dumps(images))[1], CORNERS)


def test_paths_need_not_be_ascii(tmp_path):
    for name in ("Vögel/ø.png", os.fsdecode(b"raw-\xff.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(CORNERS).save(tmp_path / name)
        assert np.array_equal(ImageFiles([name], tmp_path)[0], CORNERS)
        assert ImageFiles([tmp_path / name]).path(0) == str(tmp_path / name)


def test_arrays():
    colour = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    assert [np.array_equal(a, b) for a, b in zip(as_images(colour), colour, strict=True)] == [1, 1]
    grey = as_images(colour[..., 0])
    assert grey[1].shape == (3, 4, 3)
    assert all(np.array_equal(grey[1][..., c], colour[1, ..., 0]) for c in range(3))


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3, 4)), np.zeros((2, 3, 4, 4), np.uint8), np.zeros((3, 4), np.uint8)],
)
def test_other_arrays_are_refused(array):
    with pytest.raises(InputError, match=r"uint8 of shape \(N, H, W\) or \(N, H, W, 3\)"):
        as_images(array)


def test_what_has_no_rows_is_refused():
    with pytest.raises(InputError, match="must be a sequence of uint8 arrays"):
        as_images(iter([]))


def test_rows_of_rows():
    images = ImageArray(np.arange(10, dtype=np.uint8).reshape(10, 1, 1))
    some = ImageRows(ImageRows(images, np.array([8, 3, 5])), np.array([2, 0]))
    assert [int(image[0, 0, 0]) for image in some] == [5, 8]
    assert some.images is images
