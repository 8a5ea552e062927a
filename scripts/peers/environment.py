"""Where a tool runs: beside truerank, or in an environment of its own, pinned and built once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"

TORCH = "torch==2.13.0"

# open-metric-learning asks for numpy < 2 and imports omegaconf without asking for it; numba and
# threadpoolctl are for the kit.
APART = {
    "open-metric-learning": (
        *("open-metric-learning==4.0.0", "torchvision==0.28.0", "omegaconf==2.4.0"),
        *("numba", "threadpoolctl"),
    ),
}
"""The requirements of tools that cannot be installed beside the others."""


def interpreter(tool: str, folder: Path, torch: str) -> str:
    """The Python in which a tool runs; torch is installed first and alone: it decides the rest."""
    if tool not in APART:
        return sys.executable
    here = folder / tool
    python = here / "bin" / "python"
    stamp, wanted = here / "installed.txt", "\n".join((torch, *APART[tool]))
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing into {here} ...", file=sys.stderr)
        venv.create(here, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, torch], check=True)
        subprocess.run([*install, torch, *APART[tool]], check=True)
        stamp.write_text(wanted)
    return str(python)


def run(python: str, script: str, *arguments: str) -> Any:
    """The JSON that a script of this folder prints as its last line."""
    done = subprocess.run(
        [python, HERE / script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    return json.loads(done.stdout.splitlines()[-1])
