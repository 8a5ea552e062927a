"""Loss, optimisers and learning rate of a training, from the names in its configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from truerank._util.errors import InputError
from truerank.losses.base import Loss
from truerank.losses.registry import LossEntry, get, miner, sum_over_levels, with_miner
from truerank.losses.registry import entry as registry_entry
from truerank.training.config import LossConfig

if TYPE_CHECKING:
    from truerank.training.config import ModelOptimiserConfig, OptimiserConfig, ScheduleConfig
    from truerank.training.trunks import Embedder


# The loss of a run: from names in the configuration to a module, and labels as it takes them.


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
    known = [registry_entry(name) for name in (config.name, *(part.name for part in config.plus))]
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
            loss = sum_over_levels(
                [_one(known[0], config.parameters, filled | {"num_classes": n}) for n in sizes]
            )
        else:
            loss = _one(known[0], config.parameters, filled)
            if config.every_level:
                loss = sum_over_levels(loss)
        if config.miner is not None:
            chosen = miner(config.miner, **config.miner_parameters)
            loss = with_miner(loss, chosen)
        for entry, part in zip(known[1:], config.plus, strict=True):
            loss = loss + part.weight * _one(entry, part.parameters, filled)
    except ImportError as error:
        raise InputError(f"{error}.") from error
    built: nn.Module = loss
    return built


def _one(entry: LossEntry, parameters: Mapping[str, Any], filled: Mapping[str, Any]) -> Any:
    missing = {name: filled[name] for name in entry.needs if name not in parameters}
    return get(entry.name, **missing, **parameters)


def takes_paths(loss: nn.Module) -> bool:
    """Whether a loss wants labels (N, L), as all of truerank's do, or (N,), as others do."""
    return isinstance(loss, Loss)


# Optimisers by name, and the learning rate as a function of the iteration.


def model_optimiser(model: Embedder, config: ModelOptimiserConfig) -> torch.optim.Optimizer:
    """The optimiser of a model; the head has a separate rate where the configuration says so."""
    if config.head_lr is None:
        return make_optimiser(model.parameters(), config)
    head = [parameter for name, parameter in model.named_parameters() if name.startswith("linear.")]
    groups: list[dict[str, Any]] = [
        {"params": list(model.trunk.parameters())},
        {"params": head, "lr": config.head_lr},
    ]
    return make_optimiser(groups, config)


def make_optimiser(
    parameters: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]], config: OptimiserConfig
) -> torch.optim.Optimizer:
    """The configured optimiser: RMSprop, SGD, Adam or AdamW; the first two take the momentum."""
    chosen: Any = list(parameters)
    if config.name == "rmsprop":
        return torch.optim.RMSprop(
            chosen, lr=config.lr, weight_decay=config.weight_decay, momentum=config.momentum,
            capturable=_on_gpu(chosen),
        )  # fmt: skip
    if config.name == "sgd":
        return torch.optim.SGD(
            chosen, lr=config.lr, weight_decay=config.weight_decay, momentum=config.momentum,
            nesterov=config.nesterov,
        )  # fmt: skip
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    on_gpu = _on_gpu(chosen)
    return kind(
        chosen, lr=config.lr, weight_decay=config.weight_decay, fused=on_gpu, capturable=on_gpu
    )


def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load a state, of another kind of device as well: how steps are launched stays its own."""
    own: list[dict[str, Any]] = [
        {name: group[name] for name in ("fused", "capturable") if name in group}
        for group in optimiser.param_groups
    ]
    optimiser.load_state_dict(state)
    for group, kept in zip(optimiser.param_groups, own, strict=True):
        group.update(kept)


def _on_gpu(chosen: Sequence[Any]) -> bool:
    """Whether the parameters are on a GPU, where one launch can update them all."""
    some = chosen[0]["params"][0] if isinstance(chosen[0], dict) else chosen[0]
    return bool(some.is_cuda)


def rate(
    config: ScheduleConfig,
    iteration: int,
    total: int,
    *,
    epoch: int = 0,
    begun: int = 0,
    values: Sequence[float] = (),
) -> float:
    """The share of the learning rate in an iteration, counted from 0: warm-up, then the schedule.

    `epoch` is the number of epochs that are done, in `begun` iterations, and `values` is the
    validation metric after each.

    Examples
    --------
    >>> from truerank.training.config import ScheduleConfig
    >>> schedule = ScheduleConfig(name="cosine", warmup=2)
    >>> [round(rate(schedule, iteration, 6), 3) for iteration in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    if iteration < config.warmup:
        return (iteration + 1) / config.warmup
    if config.name == "constant":
        return 1.0
    if config.name == "step":
        return config.factor ** (epoch // config.every)
    if config.name == "plateau":
        return config.factor ** plateau(values, config.every)
    done = begun if config.by == "epoch" else iteration
    done = max(done - config.warmup, 0)
    return (1 + math.cos(math.pi * done / (total - config.warmup))) / 2


def plateau(values: Sequence[float], patience: int) -> int:
    """How often a metric has not risen for `patience` epochs, counted anew after each time.

    Examples
    --------
    >>> from truerank.training.objective import plateau
    >>> plateau([0.1, 0.2, 0.2, 0.1, 0.2, 0.1], 2)
    2
    """
    best, waited, found = -math.inf, 0, 0
    for value in values:
        waited = 0 if value > best else waited + 1
        best = max(best, value)
        if waited == patience:
            found, waited = found + 1, 0
    return found
