"""Optimisers by name, and the learning rate as a function of the iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from truerank.training.config import ModelOptimiserConfig, OptimiserConfig, ScheduleConfig
    from truerank.training.embedder import Embedder

__all__ = ["load_optimiser", "make_optimiser", "model_optimiser", "plateau", "rate"]


def model_optimiser(model: Embedder, config: ModelOptimiserConfig) -> torch.optim.Optimizer:
    """The optimiser of a model; the head has a rate of its own where the configuration says so."""
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
    values: Sequence[float] = (),
) -> float:
    """The share of the learning rate in an iteration, counted from 0: warm-up, then the schedule.

    `epoch` is the number of epochs that are done, `values` the validation metric after each.

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
    return (1 + math.cos(math.pi * (iteration - config.warmup) / (total - config.warmup))) / 2


def plateau(values: Sequence[float], patience: int) -> int:
    """How often a metric has not risen for `patience` epochs, counted anew after each time.

    Examples
    --------
    >>> from truerank.training.optimisers import plateau
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
