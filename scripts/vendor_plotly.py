"""Put plotly.js's cartesian bundle, which draws the charts of a page, into the package.

The bundle and its licence come from npm's registry, in the version below; the archive must have the
digest below, which is the registry's own for that version.

    python scripts/vendor_plotly.py [ARCHIVE]
"""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path

VERSION = "4.1.1"
INTEGRITY = (
    "sha512-o8GrFeusncwBIxbBynRJpY4pkgVB6caM+JLpwrLYbbsO7dZ8FJ+SVN2Fr+L7kiG"
    "/Z6w4P5O0Jus/Qr5EefHVeg=="
)
NAME = "plotly.js-cartesian-dist-min"
ARCHIVE = f"https://registry.npmjs.org/{NAME}/-/{NAME}-{VERSION}.tgz"
ASSETS = Path(__file__).parents[1] / "src" / "truerank" / "report" / "assets"
TAKEN = {
    "package/plotly-cartesian.min.js": "plotly-cartesian.min.js",
    "package/LICENSE": "plotly-cartesian.LICENSE",
}


def read_archive(path: Path | None) -> bytes:
    """The archive, from a file or from the registry; refused unless it is the one named above."""
    if path is None:
        with urllib.request.urlopen(ARCHIVE, timeout=60) as answer:
            data: bytes = answer.read()
    else:
        data = path.read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(f"{path or ARCHIVE} has the digest {found}, not {INTEGRITY}.")
    return data


def main() -> None:
    """Write the bundle and its licence."""
    data = read_archive(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member, name in TAKEN.items():
            file = archive.extractfile(member)
            assert file is not None
            (ASSETS / name).write_bytes(file.read())
            print(f"{ASSETS / name}: plotly.js {VERSION}")


if __name__ == "__main__":
    main()
