"""Pictures of rows: where they are found, how small they are, and what is refused."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import truerank
from tests.report.pages import leave_one_out, open_set
from tests.report.test_page import page_of

OPEN = open_set()
"""Held here: a result keeps no rows alive."""


@pytest.fixture(scope="module")
def result() -> truerank.Result:
    return truerank.evaluate(**OPEN, metrics=["map@r"], confidence=None)


def folder_of(path: Path, arguments: dict[str, Any]) -> Path:
    """A picture for each row, whose colour is its number."""
    path.mkdir()
    for side in ("query_ids", "gallery_ids"):
        for number, name in enumerate(arguments[side]):
            Image.new("RGB", (200, 100), (number, 0, 0)).save(path / f"{name}.png")
    return path


def _picture(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_files_are_found_by_id(result: truerank.Result, tmp_path: Path) -> None:
    images = folder_of(tmp_path / "images", OPEN)
    result.to_html(tmp_path / "page.html", images=images)
    data = page_of(tmp_path / "page.html")[1]
    ranked = data["models"][0]["ranked"]
    queries = [query for end in ("worst", "best") for query in ranked[end]]
    shown = {f"q{query['row']}" for query in queries}
    shown |= {f"g{query['first']['row']}" for query in queries}
    assert shown <= set(data["thumbnails"])
    name, uri = next(iter(data["thumbnails"].items()))
    assert uri.startswith("data:image/webp;base64,")
    picture = _picture(uri)
    assert picture.size == (96, 48)
    assert abs(picture.getpixel((5, 5))[0] - int(name[1:])) < 8


def test_pictures_may_be_given_one_by_one(result: truerank.Result, tmp_path: Path) -> None:
    queries = np.zeros((90, 8, 8, 3), np.uint8)
    items = [Image.new("RGBA", (8, 8))] * 160
    result.to_html(tmp_path / "page.html", images=list(queries), gallery_images=items)
    held = page_of(tmp_path / "page.html")[1]["thumbnails"]
    kinds = {name[0]: _picture(uri).mode for name, uri in held.items()}
    assert kinds == {"q": "RGB", "g": "RGBA"}
    with pytest.raises(truerank.InputError, match="without gallery_images"):
        result.to_html(tmp_path / "page.html", images=list(queries))
    with pytest.raises(truerank.InputError, match="one for each of 90 rows"):
        result.to_html(tmp_path / "page.html", images=list(queries[:3]), gallery_images=items)


def test_what_is_no_picture_is_refused(result: truerank.Result, tmp_path: Path) -> None:
    with pytest.raises(truerank.InputError, match="is no folder of images"):
        result.to_html(tmp_path / "page.html", images=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(truerank.InputError, match="no image was found"):
        result.to_html(tmp_path / "page.html", images=tmp_path / "empty")
    for name in (f"q{number}.png" for number in range(90)):
        (tmp_path / "empty" / name).write_bytes(b"nothing to see")
    with pytest.raises(truerank.InputError, match="an image cannot be read"):
        result.to_html(tmp_path / "page.html", images=tmp_path / "empty")


def test_an_id_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    (tmp_path / "images").mkdir()
    arguments = leave_one_out()
    ids = [f"{'../secret' if n == 0 else n}" for n in range(len(arguments["labels"]))]
    result = truerank.evaluate(**arguments, query_ids=ids, metrics=["map@r"], confidence=None)
    with pytest.raises(truerank.InputError, match="no image was found"):
        result.to_html(tmp_path / "page.html", images=tmp_path / "images")


def test_the_makers_of_the_images_are_named(result: truerank.Result, tmp_path: Path) -> None:
    result.to_html(tmp_path / "page.html", credits="Photographs by <A & B>")
    assert "<p>Photographs by &lt;A &amp; B&gt;</p>" in (tmp_path / "page.html").read_text()
