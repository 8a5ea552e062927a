"""A benchmark that ends in seconds: 32 classes of 6 real drawings, two losses, two folds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import truerank

CLASSES, EACH = 32, 6
SOURCE = Path(truerank.__file__).parents[1]


def write_drawings(path: Path, mark: str = "") -> Path:
    """A small file in the layout of QuickDraw's; names of the test half may bear a mark."""
    with np.load(Path(__file__).parents[1] / "training" / "sketches.npz") as arrays:
        images = arrays["images"].reshape(-1, 20, 28, 28)[:CLASSES, :EACH]
        names = arrays["names"][:CLASSES].tolist()
    marked = [name + mark * (number >= CLASSES // 2) for number, name in enumerate(names)]
    np.savez(path, images=images, names=np.array(marked))
    return path


def settings(root: Path, **sections: Any) -> dict[str, Any]:
    """The configuration, with fields of some sections replaced."""
    config: dict[str, Any] = {
        "data": {"name": "quickdraw", "root": str(root)},
        "protocol": {"preset": "smoke"},
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 8},
            "augmentation": {"resize": 16, "crop": 16, "scale": [0.5, 1.0]},
            "batch": 8,
            "training": {"epochs": 2, "iterations": 2, "device": "cpu"},
        },
        "methods": ["contrastive", "arcface"],
    }
    for name, fields in sections.items():
        config[name] = {**config[name], **fields} if isinstance(fields, dict) else fields
    return config


def write_config(folder: Path, **sections: Any) -> Path:
    """A YAML file with the configuration, and the drawings beside it."""
    root = write_drawings(folder / "drawings.npz")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings(root, **sections)))
    return path


def start(config: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start `truerank benchmark` in a process of its own."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "truerank", "benchmark", str(config), "-o", str(out), *options],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
