"""Each group of tools in an environment of its own: pinned, built once, used again if unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

TORCH = "torch==2.13.0"

# The requirements of each environment, and the run_*.py scripts that it serves.
# open-metric-learning asks for numpy < 2 and imports omegaconf without asking for it.
ENVIRONMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "tools": (
        (
            "pytorch-metric-learning==2.9.0",
            "faiss-cpu==1.15.1",
            "torchmetrics==1.9.0",
            "ranx==0.3.21",
            "pytrec_eval-terrier==0.5.11",
            "scikit-learn==1.9.1",
        ),
        (
            "pytorch_metric_learning",
            "torchmetrics",
            "ranx",
            "pytrec_eval",
            "sklearn",
            "first_column_dropped",
        ),
    ),
    "open-metric-learning": (
        ("open-metric-learning==4.0.0", "torchvision==0.28.0", "omegaconf==2.4.0"),
        ("open_metric_learning",),
    ),
}


def build(folder: Path, requirements: tuple[str, ...], torch: str) -> Path:
    """The environment's interpreter. torch is installed first and alone: it decides the rest."""
    python = folder / "bin" / "python"
    stamp, wanted = folder / "installed.txt", "\n".join((torch, *requirements))
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing into {folder} ...", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, torch], check=True, env=isolated())
        subprocess.run([*install, torch, *requirements], check=True, env=isolated())
        stamp.write_text(wanted)
    return python


def run(python: Path | str, script: str, *arguments: str, inherit: bool = False) -> Any:
    """The JSON that a script of this folder prints as its last line."""
    done = subprocess.run(
        [python, HERE / script, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ) if inherit else isolated(),
    )
    return json.loads(done.stdout.splitlines()[-1])


def isolated() -> dict[str, str]:
    """This process's variables but PYTHONPATH, which is no business of the tools."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
