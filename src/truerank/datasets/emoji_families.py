"""Emoji as eight design families draw them, 48 x 48 pixels, from npm packages of SVG icons.

Icons of one name in several families are drawings of one emoji. Its category and subcategory come
from emoji-datasource, by the code points that the families give for the name.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.datasets.base import Dataset
from truerank.datasets.cache import cached_file, read_cached
from truerank.datasets.images import ImageArray
from truerank.datasets.npm import Package, read_member
from truerank.errors import InputError

__all__ = [
    "FAMILIES",
    "PACKAGES",
    "build_emoji_families",
    "check_renderer",
    "emoji_families_file",
    "read_emoji_families",
]

Progress = Callable[[int, int], None]

FAMILIES = (
    "noto",
    "noto-v1",
    "twemoji",
    "openmoji",
    "fluent-emoji-flat",
    "emojione",
    "emojione-v1",
    "fxemoji",
)
NAMES = "emoji-datasource"
PACKAGES = (
    Package(
        "@iconify-json/noto",
        "1.2.9",
        "sha512-DQiuXENbun41ch+XPSV55H9FaWKpHTyz46YIKtSaKYD4fIDDzL1tR6H4np/T38jfrTAeI3rcKF0mqHYeZVAuaw==",
    ),
    Package(
        "@iconify-json/noto-v1",
        "1.2.5",
        "sha512-/DsVMius69Q0fRS53z7QK1TROSuar606jiIx+laXtdsYGMXpf6LtHBx6CGfoo3UHHb/XpBsw+1L1x3eyPqMuVA==",
    ),
    Package(
        "@iconify-json/twemoji",
        "1.2.5",
        "sha512-uKpuIEV0v6K5BW3Mjdyl+XKFVAbbcPxAgifKvEMtZoUZB5+YiY5zaMm2uNNCxyXzAWU9yNLlj41WU6/mvgALsw==",
    ),
    Package(
        "@iconify-json/openmoji",
        "1.2.29",
        "sha512-vXdhkqcXVSO6suy+m9LbcUM3OdVyuNOtpV8/als/WqfkQIRxevL5Geb/g+6GH/Qwnq1OqksEmaDGTCmZ5nFKJQ==",
    ),
    Package(
        "@iconify-json/fluent-emoji-flat",
        "1.2.6",
        "sha512-RY47RgPb47fYUiyrA64sIOL0+UU02s29sXpNBbIQRBUlPlfNFTKUmZDERGuxDs/7yNGWqQYvuaSYM1M4fRXlUw==",
    ),
    Package(
        "@iconify-json/emojione",
        "1.2.3",
        "sha512-T9+T3HIbJNLKKsmxYKlaYhvnHYkz/HNYTV7SHCXVZPfeUi4FqskY70YeN8yYAZT8cCv7w5vJxS4Q1m8zb9CMMg==",
    ),
    Package(
        "@iconify-json/emojione-v1",
        "1.2.3",
        "sha512-UjI2VQEXVtGlPBvQuxEizro7QCgBcJDOYwKUupquvvZ8UV4xOlvm45IU82JYWegiAWLerY79gFLMZ26U6Ms+ww==",
    ),
    Package(
        "@iconify-json/fxemoji",
        "1.2.2",
        "sha512-UAasRaxzFUKfIGSmLwnoarsssA4LX0VLLuEmplIqM6ZNQqIQRtav8tZ4H1neTlBreXuMQyAifr5jP4kn78DpiQ==",
    ),
    Package(
        NAMES,
        "16.0.0",
        "sha512-/qHKqK5Nr3+8zhgO6kHmF43Fm5C8HNn0AaFRIpgw8HF3+uF0Vfc8jgLI1ZQS5ba1vBzksS8NBCjHejwLb2D/Sg==",
    ),
)
RELEASE = "1"
"""The data set's release, raised with any package and any change to what is made of them."""

SIDE = 48
FAMILIES_NEEDED = 4
TEST_ONE_IN = 4
LEVELS = ("category", "subcategory", "emoji")

#: Icons whose name is that of an emoji but which show something else (found by looking at them):
#: a pig, a crane, a piano, and the window of a program.
MISNAMED = {
    ("fxemoji", "boar"),
    ("fxemoji", "construction"),
    ("fxemoji", "keyboard"),
    ("fxemoji", "window"),
    ("emojione-v1", "window"),
}


def emoji_families_file() -> Path:
    """The file of the emoji families in the cache."""
    return cached_file("emoji", RELEASE)


def build_emoji_families(
    tarballs: Mapping[str, Path], progress: Progress | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of the data set: images, families and labels (category, subcategory, emoji)."""
    icons, characters = {}, {}
    for family in FAMILIES:
        with tarfile.open(tarballs[f"@iconify-json/{family}"]) as archive:
            icons[family] = json.loads(read_member(archive, "icons.json"))
            characters[family] = json.loads(read_member(archive, "chars.json") or b"{}")
    with tarfile.open(tarballs[NAMES]) as archive:
        entries = json.loads(read_member(archive, "emoji.json"))
    topics = _topics(entries, characters)
    drawings = [
        (family, name)
        for family in FAMILIES
        for name in sorted(icons[family]["icons"])
        if name in topics and (family, name) not in MISNAMED
    ]
    names, designs = np.unique([name for _, name in drawings], return_counts=True)
    enough = set(names[designs >= FAMILIES_NEEDED].tolist())
    drawings = [drawing for drawing in drawings if drawing[1] in enough]
    images = np.empty((len(drawings), SIDE, SIDE, 3), np.uint8)
    for row, (family, name) in enumerate(drawings):
        images[row] = _render(_svg(icons[family], name))
        if progress:
            progress(row + 1, len(drawings))
    return {
        "images": images,
        "families": np.array([family for family, _ in drawings]),
        "labels": np.array([(*topics[name], name) for _, name in drawings]),
    }


def _topics(
    entries: list[dict[str, Any]], characters: dict[str, dict[str, str]]
) -> dict[str, tuple[str, str]]:
    """Category and subcategory of each icon name that stands for an emoji without a skin tone."""
    by_code = {
        _code(entry["unified"]): (entry["category"], entry["subcategory"])
        for entry in entries
        if entry["category"] != "Component"
    }
    topics: dict[str, tuple[str, str]] = {}
    for names in characters.values():
        for code, name in names.items():
            if _code(code) in by_code:
                topics.setdefault(name, by_code[_code(code)])
    return topics


def _code(code_points: str) -> str:
    """Code points without variation selectors, which say how to draw and not what."""
    return "-".join(part for part in code_points.lower().split("-") if part != "fe0f")


def _svg(icons: dict[str, Any], name: str) -> str:
    icon = icons["icons"][name]
    left, top = icon.get("left", 0), icon.get("top", 0)
    width = icon.get("width", icons.get("width", 16))
    height = icon.get("height", icons.get("height", 16))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{SIDE}" height="{SIDE}" viewBox="{left} {top} {width} {height}">'
        f"{icon['body']}</svg>"
    )


def check_renderer() -> None:
    """Refuse to begin where the packages that draw icons are missing."""
    try:
        import PIL.Image  # noqa: F401
        import resvg_py  # noqa: F401
    except ImportError as error:
        raise InputError(
            "drawing the emoji needs resvg-py and Pillow: pip install pillow resvg-py."
        ) from error


def _render(svg: str) -> npt.NDArray[np.uint8]:
    """The pixels of an icon, drawn on white."""
    import PIL.Image
    import resvg_py

    png = resvg_py.svg_to_bytes(svg_string=svg, background="#ffffff", skip_system_fonts=True)
    with PIL.Image.open(io.BytesIO(bytes(png))) as picture:
        return np.array(picture.convert("RGB"), np.uint8)


def read_emoji_families(name: str, root: str | os.PathLike[str] | None) -> Dataset:
    """The fetched data set; of the emoji in alphabetical order, every fourth is for the test."""
    file = emoji_families_file() if root is None else Path(root)
    arrays = read_cached("emoji", file, _is_right)
    families, labels = arrays["families"], arrays["labels"]
    _, number = np.unique(labels[:, -1], return_inverse=True)
    is_test = number % TEST_ONE_IN == TEST_ONE_IN - 1
    return Dataset(
        name,
        ImageArray(arrays["images"]),
        labels,
        LEVELS,
        ids=np.array([f"{f}/{n}" for f, n in zip(families, labels[:, -1], strict=True)]),
        groups=families,
        splits={"train": ~is_test, "test": is_test},
    )


def _is_right(arrays: dict[str, npt.NDArray[Any]]) -> bool:
    images, families, labels = arrays["images"], arrays["families"], arrays["labels"]
    return (
        images.dtype == np.uint8
        and images.shape == (len(families), SIDE, SIDE, 3)
        and labels.shape == (len(families), len(LEVELS))
    )
