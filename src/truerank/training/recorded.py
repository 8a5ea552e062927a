"""A model's passes recorded once and replayed as CUDA graphs: a small network in, the same one out.

A small network keeps a GPU waiting for Python, which launches some hundred short kernels for each
batch. Recorded, its forward and its backward pass are one launch each. Loss and optimiser are not
recorded: a loss may look at its numbers and decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from truerank.training.config import Config
from truerank.training.embedder import Embedder

__all__ = ["RECORDED_TRUNKS", "recorded", "training_pass"]

RECORDED_TRUNKS = ("convnet", "frozen")
"""Trunks whose passes are short and the same for every batch of one shape."""


class _Passes(nn.Module):
    """A stand-in, so that the model itself keeps its own forward for evaluation and copies."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.model(batch)
        return made


def training_pass(
    model: Embedder, batch: torch.Tensor, config: Config, precision: torch.dtype
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What turns batches like this one into embeddings in training: recorded where that pays.

    That is on a GPU, for a small network of ours that trains as a whole in float32: larger ones and
    lower precisions keep the GPU busy as they are.
    """
    records = batch.is_cuda and precision is torch.float32 and config.schedule.frozen_trunk == 0
    if not records or config.model.trunk not in RECORDED_TRUNKS:
        return model
    return recorded(model, batch)


def recorded(model: nn.Module, batch: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What calls a model in training mode, as it is now, on batches of the shape of this one.

    The weights stay where they are: an optimiser and `load_state_dict` change what is replayed.
    Recording runs the model a few times; statistics that this changes are put back.
    """
    before = [buffer.clone() for buffer in model.buffers()]
    sample = torch.zeros_like(batch, memory_format=torch.contiguous_format)
    replayed: Any = torch.cuda.make_graphed_callables(_Passes(model), (sample,))
    with torch.no_grad():
        for buffer, kept in zip(model.buffers(), before, strict=True):
            buffer.copy_(kept)
    passes: Callable[[torch.Tensor], torch.Tensor] = replayed
    return passes
