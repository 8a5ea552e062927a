"""Assemble a folder with all that a benchmark needs where nothing can be installed but torch.

    python scripts/benchmark/carry.py carry [--data quickdraw emoji]

Needs pip, xz, strip and the data (truerank data get quickdraw); makes carry/cache,
carry/site.tar.xz and carry/numba.tar.xz (packages for Python 3.12 on Linux, x86-64): about 55 MB,
most of it LLVM, which takes some minutes to press. There, in a checkout:

    mkdir -p build/site && for part in site numba; do tar xf carry/$part.tar.xz -C build/site; done
    PYTHONPATH=src:build/site TRUERANK_CACHE=carry/cache python3 -m truerank benchmark \
        examples/benchmark/quickdraw.yaml -o build/quickdraw --resume --jobs 14 --time-limit 540

and, to go on elsewhere while it still searches, these files of build/quickdraw: config.yaml,
splits.json, study.sqlite, environment.json. A paper is re-run in the same way (`python -m studies
gom -o build/gom --resume ...`).
Under NVIDIA's multi-process service (nvidia-cuda-mps-control -d) the trainings share the GPU
instead of taking turns.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from truerank.datasets.npm import emoji_families_file, quickdraw_file

WITH_DEPENDENCIES = (
    "alembic", "click", "colorlog", "pydantic>=2.7", "pyyaml>=6.0", "rich", "sqlalchemy",
    "threadpoolctl", "tqdm",
)  # fmt: skip
ALONE = ("optuna>=5.0", "pytorch-metric-learning==2.9.0")
COMPILER = ("numba>=0.68", "llvmlite")
FILES = {"quickdraw": quickdraw_file, "emoji": emoji_families_file}
"""Data sets in the cache."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="version of the other machine")
    parser.add_argument("--data", nargs="+", choices=list(FILES), default=["quickdraw"])
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    (options.folder / "cache").mkdir(parents=True)
    for name in options.data:
        shutil.copy(FILES[name](), options.folder / "cache")
    with tempfile.TemporaryDirectory() as name:
        site, compiler = Path(name) / "site", Path(name) / "numba"
        install(site, options.python, *WITH_DEPENDENCIES)
        install(site, options.python, "--no-deps", *ALONE)
        install(compiler, options.python, "--no-deps", *COMPILER)
        for library in compiler.rglob("*.so"):
            subprocess.run(["strip", str(library)], check=True)
        for part in (site, compiler):
            target = options.folder.resolve() / f"{part.name}.tar.xz"
            subprocess.run(["tar", "-cJf", str(target), "-C", str(part), "."], check=True)
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.folder}: {size / 2**20:.1f} MiB")


def install(target: Path, python: str, *packages: str) -> None:
    """Unpack wheels for the other machine into a folder."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--upgrade"]
    pip += ["--target", str(target), "--only-binary", ":all:", "--python-version", python]
    pip += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"]
    subprocess.run([*pip, *packages], check=True)


if __name__ == "__main__":
    main()
