"""The loss of a run: from names in the configuration to a module, and labels as it takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from truerank import losses
from truerank.errors import InputError
from truerank.losses.base import Loss
from truerank.training.config import LossConfig

__all__ = ["build", "path_codes", "takes_paths"]

Codes = npt.NDArray[np.int64]


def path_codes(labels: npt.NDArray[Any]) -> Codes:
    """(N, L) integers from 0, level by level: equal where the paths down to that level are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.training.objective import path_codes
    >>> path_codes(np.array([["a", "x"], ["b", "x"], ["a", "y"]])).tolist()
    [[0, 0], [1, 2], [0, 1]]
    """
    columns = labels.reshape(len(labels), -1).T
    codes = np.zeros(len(labels), np.int64)
    levels = []
    for column in columns:
        _, inner = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (int(inner.max()) + 1) + inner, return_inverse=True)
        levels.append(codes)
    return np.stack(levels, axis=1)


def build(config: LossConfig, codes: Codes, dimensions: int) -> nn.Module:
    """The configured loss for classes with these path codes and embeddings of so many dimensions.

    What the configuration leaves out and the data know is filled in: the number of classes, of each
    level where the loss is summed over the levels, their paths, and the number of dimensions.
    """
    known = [losses.entry(name) for name in (config.name, *(part.name for part in config.plus))]
    for entry in known:
        if entry.labels == "path" and codes.shape[1] < 2:
            raise InputError(f"{entry.name} needs labels of several levels; these have one.")
    sizes = (codes.max(axis=0) + 1).tolist()
    filled = {
        "num_classes": sizes[-1],
        "embedding_size": dimensions,
        "hierarchy": np.unique(codes, axis=0),
    }
    try:
        if config.every_level and "num_classes" in known[0].needs:
            loss = losses.sum_over_levels(
                [_one(known[0], config.parameters, filled | {"num_classes": n}) for n in sizes]
            )
        else:
            loss = _one(known[0], config.parameters, filled)
            if config.every_level:
                loss = losses.sum_over_levels(loss)
        if config.miner is not None:
            chosen = losses.miner(config.miner, **config.miner_parameters)
            loss = losses.with_miner(loss, chosen)
        for entry, part in zip(known[1:], config.plus, strict=True):
            loss = loss + part.weight * _one(entry, part.parameters, filled)
    except ImportError as error:
        raise InputError(f"{error}.") from error
    built: nn.Module = loss
    return built


def _one(entry: losses.LossEntry, parameters: Mapping[str, Any], filled: Mapping[str, Any]) -> Any:
    missing = {name: filled[name] for name in entry.needs if name not in parameters}
    return losses.get(entry.name, **missing, **parameters)


def takes_paths(loss: nn.Module) -> bool:
    """Whether a loss wants labels (N, L), as all of truerank's do, or (N,), as others do."""
    return isinstance(loss, Loss)
