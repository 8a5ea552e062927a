"""Steps recorded once and replayed as CUDA graphs: what would be launched in, one launch out.

A small network keeps a GPU waiting for Python, which launches some hundred short kernels for each
batch. Recorded, a whole step is one launch: forward pass, loss, backward pass and update. A loss
that looks at its numbers and decides cannot be recorded; then the two passes of the network are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from truerank.losses.base import Loss
from truerank.training.config import Config
from truerank.training.embedder import Embedder

__all__ = [
    "RECORDED_TRUNKS",
    "Update",
    "WholeStep",
    "graph",
    "recorded",
    "records_steps",
    "training_pass",
]

Update = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Crops and labels in, the loss out; the weights are changed."""
Record = Callable[[Callable[[], None], Callable[[], None]], Callable[[], None]]
"""What is to be done, and what takes back that it was done, in; what does it again out."""

RECORDED_TRUNKS = ("convnet", "frozen")
"""Trunks whose passes are short and the same for every batch of one shape."""
WARM_UP = 3
"""Steps before a recording, in which libraries choose their kernels."""


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


def records_steps(
    batch: torch.Tensor, loss: nn.Module, config: Config, precision: torch.dtype
) -> bool:
    """Whether whole steps are recorded: a small network on a GPU, a loss that reads nothing back.

    A recording holds the learning rates, which therefore have to stay.
    """
    schedule = config.schedule
    stays = schedule.name == "constant" and schedule.warmup == 0 and schedule.frozen_trunk == 0
    small = config.model.trunk in RECORDED_TRUNKS and precision is torch.float32
    return (
        batch.is_cuda
        and stays
        and small
        and isinstance(loss, Loss)
        and loss.is_recordable(len(batch))
    )


class WholeStep:
    """An update of the weights, recorded with its first batch and replayed with all others.

    Parameters
    ----------
    update : callable
        One step as it would be without a recording.
    crops, labels : tensors
        A batch; all others have its shape.
    modules : sequence of torch modules
        Whose weights and statistics the update changes.
    optimisers : sequence of torch optimisers
    record : callable
        What records.
    """

    def __init__(
        self,
        update: Update,
        crops: torch.Tensor,
        labels: torch.Tensor,
        modules: Sequence[nn.Module],
        optimisers: Sequence[torch.optim.Optimizer],
        record: Record | None = None,
    ) -> None:
        self._crops = crops.clone(memory_format=torch.contiguous_format)
        self._labels = labels.clone()
        self._loss = torch.zeros((), device=crops.device)
        before = _State(modules, optimisers)
        self._replay = (record or graph)(lambda: self._once(update), before.restore)

    def _once(self, update: Update) -> None:
        self._loss.copy_(update(self._crops, self._labels).detach())

    def __call__(self, crops: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch, before its update; the next call overwrites it."""
        self._crops.copy_(crops)
        self._labels.copy_(labels)
        self._replay()
        return self._loss


def graph(once: Callable[[], None], undo: Callable[[], None]) -> Callable[[], None]:
    """Record as a CUDA graph what is done once; in the end nothing has been done."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            once()
    torch.cuda.current_stream().wait_stream(beside)
    undo()
    made = torch.cuda.CUDAGraph()
    # threads that load images may use the GPU meanwhile
    with torch.cuda.graph(made, capture_error_mode="thread_local"):
        once()
    replay: Callable[[], None] = made.replay
    return replay


class _State:
    """Weights, statistics and what optimisers remember, as they are now."""

    def __init__(
        self, modules: Sequence[nn.Module], optimisers: Sequence[torch.optim.Optimizer]
    ) -> None:
        self._optimisers = optimisers
        self._tensors = [
            (tensor, tensor.detach().clone())
            for module in modules
            for tensor in (*module.parameters(), *module.buffers())
        ]
        self._remembered = {
            id(value): value.clone()
            for optimiser in optimisers
            for state in optimiser.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        }

    def restore(self) -> None:
        """Put everything back where it is; what an optimiser has since begun begins at 0."""
        with torch.no_grad():
            for tensor, kept in self._tensors:
                tensor.copy_(kept)
            for optimiser in self._optimisers:
                optimiser.zero_grad()
                for state in optimiser.state.values():
                    for value in state.values():
                        if isinstance(value, torch.Tensor):
                            value.copy_(self._remembered.get(id(value), torch.zeros_like(value)))
