"""A loss, a sampler and a log that look for test rows wherever they can, and write them down.

It knows test labels and ids by a mark that they bear, and test images by their hashes.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from truerank.training.logs import Log
from truerank.training.loop import Trainer
from truerank.training.sampler import Sampler

PARTS = ["sealed", "half"]
"""Of the mark, which stands here in two parts so that it is no finding itself."""


def found(hashes: set[str], size: int) -> list[str]:
    """Test images, labels and ids among everything that this process holds."""
    mark = "-".join(PARTS)
    seen = []
    for thing in [*gc.get_objects(), *frames()]:
        for value in inside(thing):
            kind = type(value)  # isinstance asks some objects questions that they warn about
            if kind is str and mark in value and value != mark:
                seen.append(value)
            elif issubclass(kind, torch.Tensor):
                seen += matches(value.detach().cpu().numpy(), hashes, size, mark)
            elif issubclass(kind, np.ndarray):
                seen += matches(value, hashes, size, mark)
                if type(value.base) is np.ndarray:
                    seen += matches(value.base, hashes, size, mark)
    return seen


def frames() -> list[Any]:
    return [dict(one.frame.f_locals) for one in inspect.stack()]


def inside(thing: Any) -> list[Any]:
    """A thing and what it holds; the attributes of objects are dicts, which gc lists as well."""
    if type(thing) is dict:
        return [thing, *thing.values(), *thing.keys()]
    return [thing, *thing] if type(thing) in (list, tuple, set) else [thing]


def matches(array: np.ndarray, hashes: set[str], size: int, mark: str) -> list[str]:
    if array.dtype.kind == "U":
        return [str(one) for one in np.unique(array) if mark in str(one)]
    if array.dtype != np.uint8 or not array.size or array.size % size or array.size > 10**7:
        return []
    rows = np.ascontiguousarray(array).reshape(-1, size)
    return ["pixels" for row in rows if sha256(row.tobytes()).hexdigest() in hashes]


def look(who: str) -> None:
    """Write down what can be found from here."""
    with open(os.environ["TRUERANK_HASHES"], encoding="utf-8") as file:
        hashes = set(file.read().split())
    seen = found(hashes, 28 * 28)
    with open(os.environ["TRUERANK_FOUND"], "a", encoding="utf-8") as file:
        file.write(json.dumps([who, seen]) + "\n")


class SpyingLog(Log):
    """A log callback that looks after the first iteration."""

    def step(self, iteration: int, total: int) -> None:
        if iteration == 1:
            look("log")


def plant() -> None:
    """Put eyes into the sampler, and a log into the first training, of this process."""
    deal, fit = Sampler.batch, Trainer.fit

    def spying_batch(sampler: Sampler) -> Any:
        Sampler.batch = deal  # type: ignore[method-assign]
        look("sampler")
        return deal(sampler)

    def spied_on(trainer: Trainer) -> Trainer:
        Trainer.fit = fit  # type: ignore[method-assign]
        trainer.logs.append(SpyingLog())
        return fit(trainer)

    Sampler.batch = spying_batch  # type: ignore[method-assign]
    Trainer.fit = spied_on  # type: ignore[method-assign]
    os.environ["TRUERANK_PLANTED"] = "yes"


class Spy(torch.nn.Module):
    """A loss with eyes."""

    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        self.margin = margin
        self.looked = False
        if "TRUERANK_PLANTED" not in os.environ:
            plant()

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if not self.looked:
            self.looked = True
            look("loss")
        similar = embeddings @ embeddings.T
        same = labels[:, None] == labels
        return (similar * ~same).mean() - (similar * same).mean() * self.margin
